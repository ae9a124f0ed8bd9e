"""A short demo through the command line's own entry, interrupted and resumed runs included."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from agent_r1_trainer.files import run_lock
from agent_r1_trainer.train import train_command
from agent_r1_trainer.train.recipes import find_recipe

SHORT = {
    "max_steps": 8,
    "eval_steps": 4,
    "eval_episodes": 8,
    "save_steps": 4,
    "rollout_batch_size": 16,
    "exam": {"env_kwargs": {"split": "test", "top_k": 2, "max_calls": 1}, "episodes": 24},
}


@pytest.fixture
def config(tmp_path):
    """The demo with fewer episodes."""
    settings = {**yaml.safe_load(find_recipe("demo").read_text(encoding="utf-8")), **SHORT}
    path = tmp_path / "short.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def rows_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def figures(folder):
    """All metrics but those of time."""
    return [
        {
            name: value
            for name, value in row.items()
            if "time" not in name and not name.startswith("rollout/") and "second" not in name
        }
        for row in rows_of(folder)
    ]


def test_a_short_demo_leaves_everything(config, tmp_path, capsys):
    out = tmp_path / "run"
    assert train_command(config=config, preset=None, seed=1, out=out) == 0
    printed = capsys.readouterr().out
    assert printed.count("held-out success") == 2 and "gain" in printed and "T = 0.3" in printed

    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert (report["updates"], report["episodes"]) == (8, 32)
    taken = [(result["policy"], result["temperature"]) for result in report["exam"]]
    assert taken == [("untrained", 1.0), ("untrained", 0.0), ("untrained", 0.3), ("trained", 1.0), ("trained", 0.0)]
    assert len({tuple(result["tasks"]) for result in report["exam"]}) == 1
    assert len(report["exam"][0]["tasks"]) == 24

    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((out / "trajectories").glob("*.jsonl"))) == 5
    assert (out / "model" / "model.safetensors").exists()
    rows = rows_of(out)
    assert [row["step"] for row in rows if "eval_success" in row] == [0, 4, 8]
    assert [row["step"] for row in rows if "success" in row] == [4, 8]

    # The same command shows a complete run, and another seed does not write over it.
    before = (out / "metrics.jsonl").read_bytes()
    assert train_command(config=config, preset=None, seed=1, out=out) == 0
    assert "complete" in capsys.readouterr().out
    assert train_command(config=config, preset=None, seed=2, out=out) == 2
    assert "other settings" in capsys.readouterr().err
    assert (out / "metrics.jsonl").read_bytes() == before


def test_another_algorithm_by_name(config, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    short = {**yaml.safe_load(config.read_text(encoding="utf-8")), "max_steps": 4, "exam": None, "eval_strategy": "no"}
    short["output_dir"] = None  # the same as no such line
    config.write_text(yaml.safe_dump(short), encoding="utf-8")
    assert train_command(config=str(config), preset=None, seed=3, out=None, algorithm="rloo") == 0
    run = tmp_path / "runs" / "short-rloo-3"
    assert "metrics.jsonl, curve.png, model/, report.json" in capsys.readouterr().out
    assert not (run / "trajectories").exists()
    settings = json.loads((run / "settings.json").read_text(encoding="utf-8"))
    assert (settings["algorithm"], settings["training"]["num_generations"]) == ("rloo", 8)
    assert [row["step"] for row in rows_of(run) if "success" in row] == [4]
    assert train_command(config=str(config), preset=None, seed=3, out=None, algorithm="rlo") == 2
    assert "did you mean rloo" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupted_run_is_readable_and_goes_on_to_the_same_end(config, tmp_path, capsys):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert train_command(config=config, preset=None, seed=0, out=whole) == 0

    code = (
        "from pathlib import Path; from agent_r1_trainer.train import train_command; "
        f"raise SystemExit(train_command(config=Path({str(config)!r}), preset=None, seed=0, out=Path({str(broken)!r})))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not (broken / "checkpoint-4" / "trainer_state.json").exists() and time.monotonic() < deadline:
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert "Stopped" in said
    assert not (broken / "report.json").exists()
    assert rows_of(broken)

    capsys.readouterr()
    assert train_command(config=config, preset=None, seed=0, out=broken) == 0
    assert "Going on from" in capsys.readouterr().out
    assert figures(broken)[:-1] == figures(whole)[:-1]  # the last line sums up the time since the start
    exams = [json.loads((folder / "report.json").read_text(encoding="utf-8"))["exam"] for folder in (whole, broken)]
    assert exams[0] == exams[1]


@pytest.mark.slow
def test_a_run_that_stopped_in_its_last_exam_trains_no_further(config, tmp_path, capsys):
    out = tmp_path / "run"
    assert train_command(config=config, preset=None, seed=0, out=out) == 0
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    before = figures(out)
    (out / "report.json").unlink()
    assert train_command(config=config, preset=None, seed=0, out=out) == 0
    again = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert (again["updates"], again["exam"]) == (report["updates"], report["exam"])
    assert figures(out) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": None, "preset": None}, "pass --config, with a file or the name of a recipe"),
        ({"config": None, "preset": "dmo"}, "no preset 'dmo'; there are demo"),
    ],
)
def test_mistakes_are_said_in_words(arguments, message, capsys):
    assert train_command(**arguments, seed=None, out=None) == 2
    assert message in capsys.readouterr().err


def test_a_setting_that_cannot_work_is_said_in_words(config, tmp_path, capsys):
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    config.write_text(yaml.safe_dump({**settings, "epsilon": -1.0}), encoding="utf-8")
    assert train_command(config=config, preset=None, seed=0, out=tmp_path / "run") == 2
    assert "epsilon" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_goes_on_longer_and_with_another_learning_rate(config, tmp_path, capsys, caplog):
    out = tmp_path / "run"
    settings = {
        **yaml.safe_load(config.read_text(encoding="utf-8")),
        "exam": None,
        "eval_strategy": "no",
        "max_steps": 4,
    }
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    assert train_command(config=config, preset=None, seed=0, out=out) == 0
    (out / "report.json").unlink()
    config.write_text(yaml.safe_dump({**settings, "max_steps": 8, "learning_rate": 1e-4}), encoding="utf-8")
    assert train_command(config=config, preset=None, seed=0, out=out) == 0
    assert "learning_rate: 0.0005 there, 0.0001 now" in capsys.readouterr().out
    assert [row["learning_rate"] for row in rows_of(out) if "learning_rate" in row] == pytest.approx([1.25e-4, 1.25e-5])
    config.write_text(yaml.safe_dump({**settings, "gamma": 0.9, "max_steps": 16}), encoding="utf-8")
    assert train_command(config=config, preset=None, seed=0, out=out) == 2
    said = capsys.readouterr().err
    assert "complete run with other settings" in said and "gamma: 1.0 there, 0.9 now" in said


def test_two_runs_in_a_folder_are_refused(config, tmp_path, capsys):
    with run_lock(tmp_path / "run"):
        assert train_command(config=config, preset=None, seed=0, out=tmp_path / "run") == 2
    assert f"is in use by process {os.getpid()}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_model_that_is_not_there_is_said_at_once(config, tmp_path, capsys):
    settings = {**yaml.safe_load(config.read_text(encoding="utf-8")), "model": str(tmp_path / "none")}
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    assert train_command(config=config, preset=None, seed=1, out=tmp_path / "run") == 2
    assert f"there is no folder {tmp_path / 'none'}" in capsys.readouterr().err
