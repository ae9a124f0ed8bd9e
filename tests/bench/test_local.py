"""The hf: agent: a small model with random weights, saved and loaded as any other."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from agent_r1_trainer.bench.episode import read_log
from agent_r1_trainer.bench.run import BenchRun
from agent_r1_trainer.bench.settings import BenchSettings, parse_agent
from agent_r1_trainer.commands.bench import bench_command
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.tiny_policy import TinyArchitecture, build_model
from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import environment_words
from agent_r1_trainer.tiny_policy.loading import save_tiny_policy
from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer

HOTPOT = "AgentR1/HotpotQA-v0"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer(environment_words())
    save_tiny_policy(build_model(TinyArchitecture(), tokenizer, seed=0), tokenizer, folder)
    ContextSettings(recipe="native").save(folder)
    return folder


def bench(
    model: Path | str, out: Path, concurrency: int, episodes: int = 6, max_tokens: int = 12, kind: str = "hf"
) -> int:
    return bench_command(
        env=HOTPOT,
        agent=f"{kind}:{model}",
        out=out,
        split="test",
        episodes=episodes,
        seed=0,
        concurrency=concurrency,
        env_kwargs="{}",
        max_turns=None,
        recipe=None,
        sampling={"temperature": 1.0, "max_tokens": max_tokens},
        transport={},
    )


def test_batches_and_interruptions_change_nothing(model: Path, tmp_path: Path) -> None:
    assert bench(model, tmp_path / "one", 1) == 0
    assert bench(model, tmp_path / "parts", 2, episodes=3) == bench(model, tmp_path / "parts", 3) == 0
    one, parts = (
        [{**record.to_json(), "seconds": 0} for record in read_log(tmp_path / name / "episodes.jsonl")]
        for name in ("one", "parts")
    )
    assert len(one) == 6 and one == parts
    assert all(record["turns"] >= 1 and record["steps"][0]["action"] for record in one)
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["sampling"]["recipe"] == "native"  # as the model was trained, with no word of the user's


def test_a_reply_that_leaves_no_room_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(model, tmp_path, 1, max_tokens=10**6) == 2
    assert "--max-tokens 1000000 leaves no room" in capsys.readouterr().err


def test_sampling_of_a_local_model_and_what_it_read_and_wrote(model: Path, tmp_path: Path) -> None:
    settings = BenchSettings(
        env=HOTPOT,
        agent=parse_agent(f"hf:{model}"),
        episodes=2,
        sampling={"temperature": 1.0, "top_k": 1, "max_tokens": 8},
    )
    run = BenchRun(settings, tmp_path / "sampled")
    summary = run.run()
    used = [step.usage or {} for record in run.records for step in record.steps]
    assert summary.failed == 0 and all(0 < turn["completion_tokens"] <= 8 < turn["prompt_tokens"] for turn in used)
    assert summary.usage == {name: sum(turn[name] for turn in used) for name in used[0]}
    greedy = BenchSettings(**{**vars(settings), "sampling": {**settings.sampling, "temperature": 0.0, "top_k": 0}})
    same = BenchRun(greedy, tmp_path / "greedy")
    same.run()
    assert [[step.action for step in r.steps] for r in run.records] == [
        [step.action for step in r.steps] for r in same.records
    ], "the most likely token alone is kept"


def test_the_python_interface_has_the_defaults_of_the_command(model: Path) -> None:
    settings = BenchSettings(env=HOTPOT, agent=parse_agent(f"hf:{model}"))
    assert settings.sampling == {"recipe": "native", "temperature": 0.0, "max_tokens": 1024}


def test_other_weights_are_another_run(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "model"
    shutil.copytree(model, copy)
    assert bench(copy, tmp_path / "run", 2, episodes=2) == 0
    weights = copy / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert bench(copy, tmp_path / "run", 2, episodes=3) == 2
    assert "model_hash" in capsys.readouterr().err


def test_context_settings_round_trip(tmp_path: Path) -> None:
    settings = ContextSettings("native", "strip", {"enable_thinking": False})
    settings.save(tmp_path)
    assert ContextSettings.load(tmp_path) == settings
    assert ContextSettings.load("org/model-on-a-hub") == ContextSettings()
    (tmp_path / "agent_r1_context.json").write_text('{"colour": 1}')
    with pytest.raises(ValueError, match="agent_r1_context.json"):
        ContextSettings.load(tmp_path)


def test_a_missing_folder_is_called_one(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(model, tmp_path / "done" / "model")
    (tmp_path / "file").touch()
    for name, said in (
        ("runs/none", "there is no folder runs/none; a model is"),
        ("/no/such/model", "there is no folder /no/such/model"),
        ("./x", "there is no folder ./x"),
        ("~/x", f"there is no folder {tmp_path}/x"),
        ("runs/a/model", "there is no folder runs/a/model"),
        ("./file", "./file is a file"),
        ("done", "done holds no model (no config.json); there is one in done/model"),
        ("nosuch", "there is no folder nosuch, and no model of that name was found: We couldn't connect"),
        ("some/model", "there is no folder some/model, and no model of that name was found: "),
    ):
        assert bench(name, tmp_path / "out", 1) == 2
        error = capsys.readouterr().err.strip()
        assert said in error and "\n" not in error, (name, error)
    assert bench("~/done/model", tmp_path / "out", 1) == 0


def test_a_missing_vllm_is_said_before_a_model_is_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)  # as where it is not installed
    assert bench("nowhere", tmp_path / "out", 1, kind="vllm") == 2
    error = capsys.readouterr().err
    assert "need vLLM: pip install 'agent-r1[vllm]'" in error and "nowhere" not in error
