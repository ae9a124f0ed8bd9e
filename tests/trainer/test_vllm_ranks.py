"""Two training processes that ask the same servers: ragged shares, and a rank without any episode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.helpers.fake_vllm import FakeVLLM, serving
from tests.helpers.training import make_model, make_tokenizer, make_trainer, weights

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
RUN = {"num_ppo_epochs": 1, "num_minibatches": 1, "max_steps": 4, "importance_sampling_correction": "none"}
EPISODES = (1, 3)


def train(folder: Path, episodes: int, **settings):
    trainer = make_trainer(folder, **RUN, rollout_batch_size=episodes, logging_steps=1, **settings)
    trainer.train()
    return trainer


def worker(folder: Path, urls: str) -> None:
    for episodes in EPISODES:
        vllm = {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": urls, "vllm_sync_mode": "disk"}
        trainer = train(folder / f"run-{episodes}", episodes, **vllm)
        rank = trainer.accelerator.process_index
        logs = [{k: v for k, v in e.items() if k.startswith(("vllm/a", "sampling"))} for e in trainer.state.log_history]
        torch.save({"weights": weights(trainer), "logs": logs}, folder / f"{episodes}-{rank}.pt")


def test_ranks_ask_for_their_own_episodes_and_none_waits(tmp_path):
    fakes = [FakeVLLM(lambda: make_model(seed=5), make_tokenizer()) for _ in range(2)]
    with serving(*fakes):
        launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
        command = [
            *launch,
            "--master-port=0",
            "--rdzv-backend=c10d",
            "--rdzv-endpoint=127.0.0.1:0",
            __file__,
            str(tmp_path),
            ",".join(fake.url for fake in fakes),
        ]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "wrappers")])}
        done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
    assert all(fake.answered for fake in fakes)
    for episodes in EPISODES:
        alone = weights(train(tmp_path / f"alone-{episodes}", episodes))
        first, second = (torch.load(tmp_path / f"{episodes}-{rank}.pt") for rank in range(2))
        logged = [entry for entry in first["logs"] if "sampling/logp_difference/max" in entry]
        assert len(logged) == 4 and max(entry["sampling/logp_difference/max"] for entry in logged) < 1e-4
        for name, tensor in first["weights"].items():
            assert torch.equal(tensor, second["weights"][name]), name
            torch.testing.assert_close(tensor, alone[name], atol=1e-4, rtol=1e-3)


if __name__ == "__main__":
    worker(Path(sys.argv[1]), sys.argv[2])
