"""Two processes with ragged numbers of steps against one process on the same data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.trajectory import StopReason
from tests.helpers.training import CueEnv, StallEnv, make_trainer, measured, weights

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
RUN = {"max_steps": 12, "logging_steps": 1, "rollout_batch_size": 10, "lam": 0.95, "eval_env": CueEnv, "eval_steps": 4}
RUN |= {"eval_strategy": "steps", "eval_episodes": 5, "micro_batch_tokens": 64, "max_completion_length": 3}
VARIANTS = {
    "value head": {},
    "separate critic": {"critic": "separate", "beta": 0.05, "target_kl": 0.02, "num_generations": 5},
    # Groups of two: with five episodes on each rank, one of them lies on both.
    "critic over tokens, filtered": {
        "advantage_estimator": "token_gae",
        "num_generations": 2,
        "filter_zero_variance_groups": True,
        "mask_truncated_completions": True,
    },
    "budgets of memory": {"micro_batch_tokens": "400KiB", "generation_batch_tokens": "20KiB"},
    "states compared": {"advantage_estimator": "gigpo", "num_generations": 2, "loss_aggregation": "token_mean"},
    "mixture": {
        "env": {"cue": CueEnv, "stall": MixtureEntry(StallEnv, max_turns=4, weight=0.5)},
        "eval_env": {"cue": CueEnv, "stall": MixtureEntry(StallEnv, max_turns=4)},
        "task_sampler": "agent_r1_trainer.curriculum:MediumDifficulty",
        "num_generations": 2,
        "eval_num_generations": 2,
    },
}


def run(folder: Path, name: str):
    """Train, and keep the number of steps that this rank collected in each rollout."""
    trainer = make_trainer(folder, **{**RUN, **VARIANTS[name]}, save_strategy="steps", save_steps=4)
    counts = []
    collect = trainer.flow.run

    def spy(*args, **kwargs):
        found = collect(*args, **kwargs)
        counts.append(sum(map(len, found)))
        return found

    trainer.flow.run = spy
    trainer.train()
    return trainer, counts


def failing_rank(folder: Path):
    """A rank none of whose episodes can be used: it must still take part in every update."""
    trainer = make_trainer(folder, max_steps=4, rollout_batch_size=4)
    if trainer.accelerator.process_index == 1:
        collect = trainer.flow.run

        def broken(*args, **kwargs):
            found = collect(*args, **kwargs)
            for trajectory in found:
                trajectory.masked, trajectory.stop = True, StopReason.FAILED
            return found

        trainer.flow.run = broken
    trainer.train()
    return trainer


def worker(folder: Path) -> None:
    """What each of the two processes does."""
    for name in VARIANTS:
        trainer, counts = run(folder / name, name)
        saved = {"weights": weights(trainer), "log": measured(trainer), "counts": counts}
        torch.save(saved, folder / f"{name}-{trainer.accelerator.process_index}.pt")
        resumed = make_trainer(folder / name, **{**RUN, **VARIANTS[name]}, save_strategy="steps", save_steps=4)
        resumed.train(resume_from_checkpoint=str(folder / name / "checkpoint-8"))
        torch.save(weights(resumed), folder / f"{name}-resumed-{trainer.accelerator.process_index}.pt")
    half = failing_rank(folder / "half")
    torch.save(weights(half), folder / f"half-{half.accelerator.process_index}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    code = (
        f"from pathlib import Path; from tests.learning.test_distributed import worker; worker(Path({str(folder)!r}))"
    )
    script = folder / "worker.py"
    script.write_text(code)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
    launch += ["--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", str(script)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(launch, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return folder


@pytest.mark.parametrize("name", VARIANTS)
def test_two_processes_compute_what_one_does(name, two, tmp_path):
    alone, counts = run(tmp_path, name)
    ranks = [torch.load(two / f"{name}-{rank}.pt", weights_only=False) for rank in range(2)]
    assert [sum(pair) for pair in zip(ranks[0]["counts"], ranks[1]["counts"], strict=True)] == counts
    assert any(a != b for a, b in zip(ranks[0]["counts"], ranks[1]["counts"], strict=True))  # ragged
    for key, value in weights(alone).items():
        assert torch.equal(ranks[0]["weights"][key], ranks[1]["weights"][key]), key
        torch.testing.assert_close(ranks[0]["weights"][key], value, atol=2e-5, rtol=2e-4)
    if name == "mixture":
        assert {"cue/reward", "stall/reward"} <= {key for entry in measured(alone) for key in entry}
        assert {"eval_cue_pass@2", "eval_stall_success"} <= {key for entry in measured(alone) for key in entry}
    skip = ("padding", "max", "grad_norm")
    for mine, theirs in zip(measured(alone), ranks[0]["log"], strict=True):
        for key in mine:
            if not any(word in key for word in skip):
                assert theirs[key] == pytest.approx(mine[key], abs=2e-4, rel=1e-3), (mine["step"], key)
    assert max(e["log_ratio/first_max"] for e in ranks[0]["log"] if "log_ratio/first_max" in e) < 1e-6


@pytest.mark.parametrize("name", VARIANTS)
def test_two_processes_resume_bit_equal(name, two):
    for rank in range(2):
        whole = torch.load(two / f"{name}-{rank}.pt", weights_only=False)["weights"]
        resumed = torch.load(two / f"{name}-resumed-{rank}.pt")
        assert all(torch.equal(whole[key], resumed[key]) for key in whole)


def test_a_rank_without_data_takes_part(two):
    first, second = (torch.load(two / f"half-{rank}.pt") for rank in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)
