"""Episodes in a file, one JSON line each."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from agent_r1_wrappers.stack import WrapperState

RESET_KEYS = ("task_id", "split", "dataset", "instruction")
STEP_KEYS = ("action", "invalid_action", "calls")
END_KEYS = ("success", "score", "reward_info")


@dataclass(frozen=True)
class RecordState(WrapperState):
    """The state of a :class:`RecordTrajectory`: the episode so far and the last observation."""

    episode: dict[str, Any] | None
    last: Any


class RecordTrajectory(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Appends each episode to ``folder/trajectories-<host>-<process id>.jsonl`` when it ends.

    An episode is one line, written by one append, so that a crash leaves whole lines and at most the running episode is
    lost; :func:`read_trajectories` skips a line that a full disk cut short. The file is opened for each episode and
    named after the process that writes, so forked workers and several envs in one process do not disturb each other.

    A line holds ``env_id``, ``seed``, what ``info`` says of the task, ``first_observation``, ``turns`` (``reply``,
    ``observation``, ``reward``, and ``action``, ``invalid_action``, ``calls`` where ``info`` has them), ``return``,
    ``success``, ``score``, ``reward_info`` and ``end``: ``terminated``, ``truncated``, or ``abandoned`` by ``reset`` or
    ``close``. Of chat messages a turn holds only the new ones, with ``"extends": true``, where they extend the turn
    before.

    Args:
        env: Any env. Put this wrapper on the outside.
        folder: Where the files go; made when the first episode ends.

    Attributes:
        path: The file of this process.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], folder: str | os.PathLike[str]) -> None:
        RecordConstructorArgs.__init__(self, folder=os.fspath(folder))
        gymnasium.Wrapper.__init__(self, env)
        self._folder = Path(folder)
        self._episode: dict[str, Any] | None = None
        self._last: Any = None

    @property
    def path(self) -> Path:
        """The file of this process."""
        return self._folder / f"trajectories-{socket.gethostname()}-{os.getpid()}.jsonl"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; one that was running is written as abandoned."""
        self._write("abandoned")
        observation, info = self.env.reset(seed=seed, options=options)
        self._last = None
        self._episode = {
            "env_id": self.spec.id if self.spec else type(self.unwrapped).__name__,
            **({} if seed is None else {"seed": seed}),
            **_selected(info, RESET_KEYS),
            "first_observation": self._observed(observation)["observation"],
            "turns": [],
            "return": 0.0,
            **_selected(info, END_KEYS),
        }
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Pass the reply on and note it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._episode is not None:
            self._episode["turns"].append(
                {
                    "reply": action,
                    **_selected(info, STEP_KEYS),
                    **self._observed(observation),
                    "reward": float(reward),
                }
            )
            self._episode["return"] += float(reward)
            self._episode.update(_selected(info, END_KEYS))
            if terminated or truncated:
                self._write("terminated" if terminated else "truncated")
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Write an episode that was running as abandoned, and close the env."""
        self._write("abandoned")
        super().close()

    def get_wrapper_state(self) -> RecordState:
        """Return the episode so far, for a snapshot."""
        return RecordState(_fork(self._episode), self._last)

    def set_wrapper_state(self, state: RecordState) -> None:
        """Go back to an episode that :meth:`get_wrapper_state` returned; the running one is not written."""
        self._episode = _fork(state.episode)
        self._last = state.last

    def _observed(self, observation: Any) -> dict[str, Any]:
        before, self._last = self._last, observation
        if isinstance(observation, list) and isinstance(before, list) and len(observation) > len(before) > 0:
            if all(new is old for new, old in zip(observation, before, strict=False)):
                return {"observation": observation[len(before) :], "extends": True}
        return {"observation": observation}

    def _write(self, end: str) -> None:
        episode, self._episode = self._episode, None
        if episode is None or (end == "abandoned" and not episode["turns"]):
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps({**episode, "end": end}, default=_as_json) + "\n"  # ASCII: any string can be written
        _append(self.path, line.encode())


def read_trajectories(folder: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the episodes in a folder, file by file, without lines that were cut short.

    Args:
        folder: What :class:`RecordTrajectory` was given.
    """
    for path in sorted(Path(folder).glob("trajectories-*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue


def _append(path: Path, data: bytes) -> None:
    """Append whole lines in one write, after what a crash may have left of another one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if os.fstat(descriptor).st_size:
            os.lseek(descriptor, -1, os.SEEK_END)
            if os.read(descriptor, 1) != b"\n":
                data = b"\n" + data
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def _fork(episode: dict[str, Any] | None) -> dict[str, Any] | None:
    """Copy what later turns would change."""
    return None if episode is None else {**episode, "turns": list(episode["turns"])}


def _selected(info: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: info[key] for key in keys if key in info}


def _as_json(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value.tolist() if isinstance(value, np.ndarray) else repr(value)
