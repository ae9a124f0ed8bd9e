"""Two training processes, the environments of one of which are slow: nobody hangs, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.helpers.cues import CueEnv
from tests.helpers.training import make_trainer, measured, weights

ROOT = Path(__file__).parents[2]
RUN = {"rollout_batch_size": 8, "max_steps": 8, "logging_steps": 4}  # two rollouts
WORKERS = {"env_workers": "threads", "env_timeout": 60.0}


class SlowEnv(CueEnv):
    """Takes its time in every step."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def step(self, action):
        time.sleep(self.seconds)
        return super().step(action)


def worker(folder: Path) -> None:
    rank = int(os.environ["RANK"])
    for name, seconds in (("fast", 0.0), ("slow", 0.2 * rank)):
        trainer = make_trainer(folder / name, env=partial(SlowEnv, seconds), **RUN, **WORKERS)
        trainer.train()
        played = trainer.flow.progress.done, trainer.flow.times.environment
        torch.save((weights(trainer), measured(trainer), played), folder / f"{name}-{rank}.pt")


@pytest.mark.slow
def test_a_rank_with_slow_environments_is_waited_for_and_changes_nothing(tmp_path):
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
    command = [
        *launch, "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", __file__, str(tmp_path)
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'wrappers'}"}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    runs = {
        (name, rank): torch.load(tmp_path / f"{name}-{rank}.pt", weights_only=False)
        for name in ("fast", "slow")
        for rank in range(2)
    }
    found, log, _ = runs["slow", 0]
    rows = [row for row in log if "masked_ratio" in row]
    assert len(rows) == 2 and all(row["masked_ratio"] == row["rollout/timeouts"] == 0 for row in rows)
    for other, logged, (played, _) in runs.values():
        assert all(torch.equal(value, other[name]) for name, value in found.items()) and played == 4
        assert logged == log
    assert runs["slow", 1][2][1] > 0.2


if __name__ == "__main__":
    worker(Path(sys.argv[1]))
