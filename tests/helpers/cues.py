"""Environments that speak a dozen words. Nothing heavy is imported here: processes of their own play them."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.spaces import Text

from agent_r1_envs.spaces import Messages

WORDS = ["<pad>", "<end>", "<unk>", "user", "left", "right", "assistant", "wait", "a", "b", "done", "again"]


def side(reply: str) -> str:
    """The cue that a reply follows, empty for none."""
    first = (reply.split() or [""])[0]
    return ("left", "right")[WORDS.index(first) % 2] if first in WORDS else ""


class Panel:
    """What the trainer reads of a `TaskSet`."""

    def __init__(self, count: int) -> None:
        self.ids = tuple(f"task-{i}" for i in range(count))

    def __len__(self) -> int:
        return len(self.ids)


class CueEnv(gymnasium.Env[list[dict[str, Any]], str]):
    """Each turn shows a cue, and the reply's first word must be on its side. A wrong one ends the episode, five win it.

    Words at even places of the vocabulary are on the left, the others on the right, so a random policy scores.
    """

    def __init__(self, tasks: int = 8, turns: int = 5, scale: float = 1.0) -> None:
        self.tasks = Panel(tasks)
        self.turns, self.scale = turns, scale
        self.observation_space, self.action_space = Messages(), Text(4096)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.task = int((options or {}).get("task", 0))
        self.messages: list[dict[str, Any]] = []
        self.right = 0
        self._show()
        return list(self.messages), self._info()

    def _show(self) -> None:
        self.cue = ("left", "right")[int(self.np_random.integers(2))]
        self.messages.append({"role": "user", "content": self.cue})

    def _info(self) -> dict[str, Any]:
        return {
            "task_id": self.tasks.ids[self.task],
            "success": self.right == self.turns,
            "score": self.right / self.turns,
            "reward_info": {"right": float(self.right)},
        }

    def step(self, action):
        self.messages.append({"role": "assistant", "content": action})
        right = side(action) == self.cue
        self.right += right
        over = not right or self.right == self.turns
        self._show()
        return list(self.messages), self.scale * float(right), over, False, self._info()


class StallEnv(CueEnv):
    """Waiting costs nothing; any other reply is an answer, which ends the episode and is right one time in five."""

    def step(self, action):
        self.messages.append({"role": "assistant", "content": action})
        over = action.split()[:1] != ["wait"]
        self.right = self.turns if over and self.np_random.random() < 0.2 else 0
        self._show()
        return list(self.messages), float(bool(self.right)), over, False, self._info()
