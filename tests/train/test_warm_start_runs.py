"""`agent-r1 train` with a warm start: killed in it, gone on with, and the model that training begins from."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.sft.settings import WarmStartSettings
from agent_r1_trainer.train import train_command
from agent_r1_trainer.train.recipes import find_recipe, load_recipe
from agent_r1_trainer.train.settings import read_settings

RECIPES = find_recipe("demo").parent
SHORT: dict[str, Any] = {
    "max_steps": 4,
    "eval_strategy": "no",
    "eval_env_kwargs": None,
    "save_steps": 4,
    "rollout_batch_size": 16,
    "exam": {"env_kwargs": {"split": "test", "top_k": 2, "max_calls": 1}, "episodes": 12},
}
WARM: dict[str, Any] = {"episodes": 16, "max_steps": 12, "save_steps": 1, "learning_rate": 5e-4}


def write(path: Path, **settings: Any) -> Path:
    recipe = load_recipe(find_recipe("demo_warm"))
    path.write_text(yaml.safe_dump({**recipe, **SHORT, **settings}), encoding="utf-8")
    return path


def model_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


@pytest.mark.slow
def test_a_run_killed_in_its_warm_start_goes_on_to_the_same_end(tmp_path: Path, capsys: Any) -> None:
    config = write(tmp_path / "c.yaml", warm_start=WARM)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert train_command(config=config, preset=None, seed=0, out=whole) == 0
    printed = capsys.readouterr().out
    assert "demonstrations: 16 episodes, 16 solved, 48 turns" in printed
    assert "warm start: 12 updates, loss 0." in printed and printed.count("warm start ┃") == 2

    code = (
        "from pathlib import Path; from agent_r1_trainer.train import train_command; "
        f"train_command(config=Path({str(config)!r}), preset=None, seed=0, out=Path({str(broken)!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        deadline = time.monotonic() + 240
        while not (broken / "warm_start" / "checkpoint-2").exists() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    finally:
        process.kill()
    assert not (broken / "warm_start" / "model").exists()
    assert train_command(config=config, preset=None, seed=0, out=broken) == 0
    for folder in ("warm_start", "."):
        pair = [model_of(run / folder) for run in (whole, broken)]
        assert all(torch.equal(tensor, pair[1][name]) for name, tensor in pair[0].items())
    rows = [json.loads(line) for line in (broken / "warm_start" / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == list(range(1, 13))
    exams = [json.loads((run / "report.json").read_text(encoding="utf-8"))["exam"] for run in (whole, broken)]
    assert exams[0] == exams[1]
    assert ContextSettings.load(broken / "warm_start" / "model") == ContextSettings("native")

    capsys.readouterr()
    (broken / "report.json").unlink()  # gone on with once more: the warm start is not repeated
    assert train_command(config=config, preset=None, seed=0, out=broken) == 0
    assert "warm start:" not in capsys.readouterr().out


def test_a_file_of_demonstrations_and_adapters(tmp_path: Path, capsys: Any) -> None:
    from agent_r1_trainer.demos import DemoRun, DemoSettings

    kwargs = {"split": "train", "top_k": 2, "max_calls": 1}
    DemoRun(DemoSettings("AgentR1/HotpotQA-v0", kwargs, 8, "native"), tmp_path / "d.jsonl").run()
    warm = {"data": str(tmp_path / "d.jsonl"), "max_steps": 2, "save_strategy": "no"}
    config = write(tmp_path / "c.yaml", warm_start=warm, peft={"r": 4}, exam=None)
    assert train_command(config=config, preset=None, seed=0, out=tmp_path / "run") == 0
    assert not list((tmp_path / "run" / "warm_start").glob("*.jsonl.*"))
    base = json.loads((tmp_path / "run" / "model" / "adapter_config.json").read_text(encoding="utf-8"))
    assert base["base_model_name_or_path"] == str(tmp_path / "run" / "warm_start" / "model")


def test_settings_of_reinforcement_learning_are_checked_first(tmp_path: Path, capsys: Any) -> None:
    for wrong, message in (({"epsilon": -1.0}, "epsilon"), ({"warm_start": {"data": "nowhere.jsonl"}}, "nowhere")):
        config = write(tmp_path / "c.yaml", **{"warm_start": WARM, **wrong})
        assert train_command(config=config, preset=None, seed=0, out=tmp_path / "run") == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "run" / "warm_start").exists()


def test_demonstrations_of_a_mixture_come_from_a_file(tmp_path: Path) -> None:
    import dataclasses

    from rich.console import Console

    from agent_r1_trainer.train.folder import RunFolder
    from agent_r1_trainer.train.warm import WarmStart

    settings = read_settings(write(tmp_path / "c.yaml", warm_start=WARM))
    mixed = dataclasses.replace(
        settings, env="", training={**settings.training, "output_dir": str(tmp_path / "run"), "seed": 0}
    )
    with pytest.raises(ValueError, match="For a mixture write a file for each with `agent-r1 demos`"):
        WarmStart(mixed, RunFolder(tmp_path / "run", {}), Console()).run("tiny")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (3, "warm_start must hold settings of its own, got 3"),
        ({}, "warm_start takes either `data: FILE` or `episodes: N`"),
        ({"data": "x", "episodes": 3}, "takes either"),
        ({"data": 3}, "data must be the path of a file, got 3"),
        ({"episodes": 0}, "episodes must be a number above 0, got 0"),
        ({"episodes": 3, "learning_rte": 1.0}, "warm_start: there is no setting 'learning_rte'; did you mean"),
        ({"episodes": 3, "output_dir": "x"}, "output_dir cannot be set: it is the folder of the warm start"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=".*") as error:
        read_settings(write(tmp_path / "c.yaml", warm_start=values))
    assert message in str(error.value)


@pytest.mark.parametrize("recipe", ["alfworld_warm.yaml", "demo_warm.yaml"])
def test_recipes_with_a_warm_start(recipe: str) -> None:
    warm = read_settings(RECIPES / recipe).warm_start
    assert isinstance(warm, WarmStartSettings) and warm.episodes and warm.sft["learning_rate"] > 0
