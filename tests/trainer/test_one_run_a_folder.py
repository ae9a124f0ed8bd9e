"""Two trainers do not write into one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import TrainerCallback

from agent_r1_trainer.files import LockError, run_lock
from tests.helpers.training import make_trainer

ROOT = Path(__file__).parents[2]


class Try(TrainerCallback):
    """Starts another run in the middle of one."""

    def __init__(self, trainer) -> None:
        self.trainer, self.error = trainer, None

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 1:
            with pytest.raises(LockError) as caught:
                self.trainer.train()
            self.error = str(caught.value)


def test_a_second_trainer_in_the_folder_is_refused_and_a_second_run_is_not(tmp_path):
    other = make_trainer(tmp_path, max_steps=4)
    attempt = Try(other)
    trainer = make_trainer(tmp_path, max_steps=4, callbacks=[attempt])
    trainer.train()
    assert f"{tmp_path} is in use by process {os.getpid()} (this one), since" in attempt.error
    attempt.error = None
    trainer.train()
    assert attempt.error is not None
    other.train()
    assert not list(tmp_path.glob("*.lock"))


def test_a_run_that_fails_gives_the_folder_back(tmp_path):
    class Fail(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_trainer(tmp_path, max_steps=4, callbacks=[Fail()]).train()
    with run_lock(tmp_path):
        pass


WORKER = """
import sys
from agent_r1_trainer.learning.distributed import held_by_main, together
from agent_r1_trainer.files import LockError, run_lock
from tests.helpers.training import make_trainer
trainer = make_trainer(sys.argv[1], max_steps=4)
rank = trainer.accelerator.process_index
try:
    trainer.train()
except LockError as error:
    print(f"rank {rank}: {error}", flush=True)
try:
    with held_by_main(trainer.accelerator, run_lock(sys.argv[0] + "/folder")):
        print("held", flush=True)
except (LockError, OSError) as error:
    print(f"rank {rank}, no folder: {error}", flush=True)

class Mute(Exception):
    def __str__(self):
        raise ValueError

def fail():
    if rank == 1:
        raise Mute

try:
    together(trainer.accelerator, fail)
except Exception as error:
    print(f"rank {rank}, no words: {type(error).__name__} {error if rank == 0 else ''}", flush=True)
trainer.accelerator.wait_for_everyone()
trainer.accelerator.end_training()
"""


@pytest.mark.slow
def test_all_ranks_fail(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
    launch += [
        "--master-port=0",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        str(script),
        str(tmp_path / "r"),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "wrappers")])}
    with run_lock(tmp_path / "r"):
        ended = subprocess.run(launch, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    for rank in (0, 1):
        assert f"rank {rank}: {tmp_path / 'r'} is in use by process {os.getpid()}, since" in ended.stdout
        assert re.search(rf"rank {rank}, no folder: .*{script}", ended.stdout) and "held" not in ended.stdout
    assert "rank 0, no words: RuntimeError process 1 failed: Mute: " in ended.stdout
    assert "rank 1, no words: Mute" in ended.stdout
