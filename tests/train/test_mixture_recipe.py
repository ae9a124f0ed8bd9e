"""All embedded environments in one run of the command, from the shipped recipe with fewer episodes."""

import json
from pathlib import Path

import pytest
import yaml

import agent_r1_trainer
from agent_r1_trainer.train import train_command

RECIPE = Path(agent_r1_trainer.__file__).parent / "recipes" / "mixture_cpu.yaml"
NAMES = {"hotpotqa": 3, "alfworld": 1, "webshop": 1, "papers": 1}
SHORT = {"max_steps": 8, "rollout_batch_size": 12, "eval_steps": 8, "eval_episodes": 2, "save_steps": 8}


def test_two_rollouts_train_on_all_embedded_environments(tmp_path, capsys):
    settings = yaml.safe_load(RECIPE.read_text(encoding="utf-8")) | SHORT
    for entry in settings["envs"].values():
        entry["max_turns"] = 2
    config, out = tmp_path / "short.yaml", tmp_path / "run"
    config.write_text(yaml.safe_dump({**settings, "exam": {"episodes": 2}}, sort_keys=False), encoding="utf-8")
    status = train_command(config=config, preset=None, seed=0, out=out)
    printed = capsys.readouterr()
    assert status == 0, printed.err

    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    training = [row for row in rows if "success" in row]
    assert len(training) == 2
    for row in training:
        for name, weight in NAMES.items():
            assert row[f"{name}/masked_ratio"] == 0.0 and row[f"{name}/steps"] >= 2 * weight
            assert {f"{name}/success", f"{name}/reward", f"{name}/invalid_ratio"} <= set(row)
        shares = {name: weight / 6 for name, weight in NAMES.items()}
        assert row["reward"] == pytest.approx(sum(share * row[f"{name}/reward"] for name, share in shares.items()))
    evaluations = [row for row in rows if "eval_success" in row]
    assert [row["step"] for row in evaluations] == [0, 8]
    for row in evaluations:
        for metric in ("success", "pass@1", "pass@2"):
            assert row[f"eval_{metric}"] == pytest.approx(sum(row[f"eval_{name}_{metric}"] for name in NAMES) / 4)

    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert [result["env"] for result in report["exam"]] == [*NAMES] * 5
    assert all(len(result["tasks"]) == 2 for result in report["exam"])
    assert all(f"2 tasks of {name}" in printed.out for name in NAMES)
