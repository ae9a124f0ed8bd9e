"""Environments in processes of their own: nothing of them outlives its time, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

from agent_r1_trainer.flows import Assignment, AsyncEnvLoop
from agent_r1_trainer.flows.player import PlayerSetup, RemotePlayer, WorkerDiedError, _context
from agent_r1_trainer.generation import SamplingParams
from tests.helpers.cues import CueEnv
from tests.helpers.fault_envs import StartingEnv
from tests.helpers.training import ScriptedGenerator, make_tokenizer, make_trainer

ROOT = Path(__file__).parents[2]


def running(pid: int) -> bool:
    """Whether a process is there and does something; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int]) -> bool:
    until = time.monotonic() + 30
    while any(map(running, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(running, pids))


@pytest.mark.parametrize(
    ("dies", "error"),
    [
        (False, "TimeoutError: reset() took more than env_timeout=2 s"),
        (True, "WorkerDiedError: the environment's process ended with code 3 in begin"),
    ],
)
def test_what_an_environment_has_started_ends_with_it(dies, error, tmp_path):
    file = tmp_path / "pids"
    flow = AsyncEnvLoop(
        partial(StartingEnv, str(file), dies),
        make_tokenizer(),
        max_prompt_length=50,
        env_workers="processes",
        env_timeout=2.0,
    )
    generator = ScriptedGenerator(make_tokenizer(), lambda prompt: "a <end>")
    [trajectory] = flow.run([Assignment(0, 1)], generator, SamplingParams(4, (1,)))
    assert trajectory.masked and trajectory.error == error
    pids = [int(pid) for pid in file.read_text().split()]
    assert len(pids) == 2 and gone(pids)
    flow.close()


SCRIPT = """
import sys
from functools import partial
from agent_r1_trainer.flows import Assignment, AsyncEnvLoop
from agent_r1_trainer.generation import SamplingParams
from tests.helpers.fault_envs import StartingEnv

if __name__ == "__main__":
    from tests.helpers.training import make_tokenizer
    flow = AsyncEnvLoop(
        partial(StartingEnv, sys.argv[1]), make_tokenizer(), max_prompt_length=50, env_workers="processes"
    )
    flow.run([Assignment(0, 1)], None, SamplingParams(4, (1,)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_environments_end_with_the_program_however_it_ends(how, tmp_path):
    script, file = tmp_path / "script.py", tmp_path / "pids"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'wrappers'}"}
    program = subprocess.Popen(
        [sys.executable, str(script), str(file)], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 300
    while not file.exists() and program.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    pids = [int(pid) for pid in file.read_text().split()]
    assert all(map(running, pids))
    program.send_signal(how)
    program.wait(25)
    assert gone(pids)


def player(factory: object = CueEnv) -> RemotePlayer:
    setup = PlayerSetup({"": factory}, make_tokenizer(), {"": ""}, (), {"max_prompt_length": 50})
    return RemotePlayer(bytes(ForkingPickler.dumps(setup)))


def test_a_process_that_ends_while_it_builds_is_asked_whether_a_script_began_anew():
    remote = player(partial(os._exit, 1))
    with pytest.raises(WorkerDiedError, match=r'ended with code 1 in prepare .*belongs under `if __name__ == "__main'):
        remote.prepare("")
    remote.close()


def test_no_trainer_is_made_where_a_process_reads_the_script_again(tmp_path, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(RuntimeError, match=r'belongs under `if __name__ == "__main__":`'):
        make_trainer(tmp_path)


def test_a_process_that_is_killed_from_outside_is_named_by_its_signal():
    remote = player()
    remote.prepare("")
    pid = remote._process.pid
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match=r"ended by SIGKILL in begin"):
        remote.begin(Assignment(0, 1), SamplingParams(4, (1,)), 0)
    assert gone([pid])
    remote.close()


def test_a_player_that_was_killed_starts_nothing():
    remote = player()
    remote.kill()
    with pytest.raises(WorkerDiedError, match="was killed"):
        remote.prepare("")
    remote.close()


def test_a_setup_that_cannot_be_read_there_is_said():
    remote = RemotePlayer(b"nothing that was pickled")
    with pytest.raises(WorkerDiedError, match="UnpicklingError"):
        remote.prepare("")
    remote.close()


def test_whoever_kills_a_player_does_not_wait_for_its_process_to_start(monkeypatch):
    kind, starting, go = _context([]).Process, threading.Event(), threading.Event()
    start = kind.start

    def start_late(process):
        starting.set()
        assert go.wait(60)
        start(process)

    monkeypatch.setattr(kind, "start", start_late)
    remote, raised = player(), []

    def prepare():
        try:
            remote.prepare("")
        except WorkerDiedError as error:
            raised.append(str(error))

    preparing, killing = threading.Thread(target=prepare), threading.Thread(target=remote.kill)
    preparing.start()
    assert starting.wait(60)
    killing.start()
    killing.join(20)
    waited = killing.is_alive()
    go.set()
    preparing.join(60)
    assert not waited and len(raised) == 1 and "SIGKILL" in raised[0]
    remote.close()
    assert not multiprocessing.active_children()


LIGHT = """
import os
import sys
from functools import partial
from pathlib import Path

from agent_r1_trainer.environments.factory import EnvFactory
from agent_r1_trainer.flows import Assignment, AsyncEnvLoop
from agent_r1_trainer.generation import Generation, SamplingParams


def make_env(folder):
    before = set(sys.modules)
    env = EnvFactory("AgentR1/HotpotQA-v0", recipe="native")()
    own = {name.partition(".")[0] for name in set(sys.modules) - before}
    Path(folder, str(os.getpid())).write_text(f"{'torch' in sys.modules} {'agent_r1_envs' in own}")
    return env


class Stops:
    def generate(self, prompts, sampling, seeds):
        return [Generation([2], [-0.5], "stop") for _ in prompts]


def main():
    import torch
    from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer

    flow = AsyncEnvLoop(
        partial(make_env, sys.argv[1]), build_tokenizer(["river"]), max_prompt_length=4096, env_workers="processes"
    )
    flow.run([Assignment(i, 1) for i in range(2)], Stops(), SamplingParams(4, (2,)))
    flow.close()


if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_a_process_imports_nothing_of_training_and_its_environment_not_by_itself(tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "seen"
    script.write_text(LIGHT)
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'wrappers'}"}
    program = subprocess.Popen([sys.executable, str(script), str(folder)], cwd=ROOT, env=environment)
    assert program.wait(300) == 0
    seen = {int(file.name): file.read_text() for file in folder.iterdir()}
    assert seen.pop(program.pid) == "True True"
    assert list(seen.values()) == ["False False"] * 2
