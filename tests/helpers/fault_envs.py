"""Environments that are slow, raise, hang or die, where and as often as they are told."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from agent_r1_trainer.seeds import derive_seed
from tests.helpers.cues import CueEnv

RELEASE = threading.Event()
"""Ends the hanging of threads; a test sets it when it has seen enough."""


class DelayedEnv(CueEnv):
    """Takes a time that is different from call to call and follows from nothing that a trajectory holds."""

    longest = 0.004

    def _wait(self) -> None:
        time.sleep(int.from_bytes(os.urandom(2), "little") / 65536 * self.longest)

    def reset(self, *, seed=None, options=None):
        self._wait()
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._wait()
        return super().step(action)


class FaultyEnv(CueEnv):
    """Fails in a share of its episodes, in reset or in a turn, and leaves a file for each fault.

    Args:
        folder: For the files.
        share: Of the episodes, by their seeds.
        kinds: Of faults: "raise", "hang", or "die", which takes the process along in a process of its own.
        once: Whether an episode fails the first time only.
        own_process: Whether the environment has a process of its own.
    """

    def __init__(
        self,
        folder: str,
        share: float = 0.2,
        kinds: tuple[str, ...] = ("raise", "hang", "die"),
        once: bool = True,
        own_process: bool = False,
    ) -> None:
        super().__init__()
        self.folder, self.share, self.kinds, self.once, self.own_process = Path(folder), share, kinds, once, own_process
        self.fault: tuple[str, int] | None = None
        self.turn = 0
        self.note("built")

    def note(self, what: str) -> None:
        name = f"{what}-{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
        (self.folder / name).touch()

    def reset(self, *, seed=None, options=None):
        assert seed is not None
        self.turn, self.fault, self.name = 0, None, f"{seed}-{(options or {}).get('task')}"
        if derive_seed(seed, "fault") % 1000 < 1000 * self.share:
            kind = self.kinds[derive_seed(seed, "kind") % len(self.kinds)]
            self.fault = kind, derive_seed(seed, "turn") % 3
        self.perhaps()
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.turn += 1
        self.perhaps()
        return super().step(action)

    def perhaps(self) -> None:
        if self.fault is None or self.fault[1] != self.turn:
            return
        kind = self.fault[0]
        try:
            (self.folder / f"fault-{kind}-{self.name}").touch(exist_ok=False)
        except FileExistsError:
            if self.once:
                return
        if kind == "raise":
            raise ConnectionError("the server of the environment is gone")
        if kind == "hang":
            RELEASE.wait()
        elif self.own_process:
            os._exit(7)
        else:
            sys.exit("an environment that ends its program")

    def close(self):
        self.note("closed")


def notes(folder: Any, what: str) -> int:
    """How many files of a kind there are."""
    return len(list(Path(folder).glob(f"{what}-*")))


class BoundEnv(CueEnv):
    """May only be used in the thread that built it."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def reset(self, *, seed=None, options=None):
        assert threading.get_ident() == self.thread
        return super().reset(seed=seed, options=options)

    def step(self, action):
        assert threading.get_ident() == self.thread
        return super().step(action)

    def close(self):
        assert threading.get_ident() == self.thread


class MeetingEnv(CueEnv):
    """Takes its first step together with a number of others, or fails after a while."""

    meeting = threading.Barrier(32, timeout=60)

    def __init__(self) -> None:
        super().__init__(turns=2)

    def step(self, action):
        self.meeting.wait()
        return super().step(action)


class ExitingEnv(CueEnv):
    """Ends its program in every reset, and then takes its time to close."""

    begun = False

    def reset(self, *, seed=None, options=None):
        self.begun = True
        sys.exit("an environment that ends its program")

    def close(self):
        if self.begun:
            RELEASE.wait()


class BadlyClosedEnv(CueEnv):
    """Raises in its first step, and then cannot be closed."""

    how = "raise"

    def step(self, action):
        self.failed = True
        raise ConnectionError("the server is gone")

    def close(self):
        if not hasattr(self, "failed"):
            return
        if self.how == "hang":
            RELEASE.wait()
        elif self.how == "exit":
            sys.exit("not like this")
        raise OSError("the port is still open")


class HangingCloseEnv(BadlyClosedEnv):
    """Never comes back from that."""

    how = "hang"


class ExitingCloseEnv(BadlyClosedEnv):
    """Ends its program in that."""

    how = "exit"


class AloneEnv(CueEnv):
    """Says that two of its kind must not work in one process at the same time."""

    metadata = {"thread_safe": False}


class StartingEnv(CueEnv):
    """Starts a program that would run for ten minutes, writes down its process and its own, and hangs or dies."""

    def __init__(self, file: str, dies: bool = False) -> None:
        super().__init__()
        self.file, self.dies = file, dies

    def reset(self, *, seed=None, options=None):
        program = subprocess.Popen(["sleep", "600"])
        Path(self.file + ".new").write_text(f"{os.getpid()} {program.pid}")
        os.replace(self.file + ".new", self.file)
        if self.dies:
            os._exit(3)
        time.sleep(600)
