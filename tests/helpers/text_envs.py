"""Two small text envs without tools: one of this project, one that knows nothing of it."""

import string
from typing import Any

import gymnasium
from gymnasium.spaces import Text

from agent_r1_envs.core import AgentEnv, Outcome, Score
from agent_r1_envs.tasks import TaskSet

ROOMS = "Texts/Rooms-v0"
PARROT = "Texts/Parrot-v0"
PLACES = ("hall", "kitchen", "cellar", "garden")


class RoomsEnv(AgentEnv[str]):
    """Walk to a room with ``go to <room>``; the whole action is one command, and bad ones get "Nothing happens."."""

    def __init__(self, **kwargs: Any) -> None:
        goals = PLACES[1:]
        super().__init__(TaskSet(goals, dataset="synthetic", split="test", ids=goals), **kwargs)
        self.place = PLACES[0]

    def _begin(self) -> str:
        self.place = PLACES[0]
        return f"You are in the hall. Your task is to: {self._instruction()}"

    def _act(self, action: str) -> Outcome:
        if action not in self._actions():
            return self._refuse(f"there is no command {action[:20]!r}")
        self.place = action.removeprefix("go to ")
        won = self.place == self.task
        info = {"admissible_actions": self._actions()}
        return Outcome(f"You are in the {self.place}.", reward=float(won), terminated=won, info=info)

    def _refuse(self, reason: str) -> Outcome:
        return Outcome("Nothing happens.", invalid=reason, info={"admissible_actions": self._actions()})

    def _actions(self) -> list[str]:
        return [f"go to {place}" for place in PLACES if place != self.place]

    def _score(self) -> Score:
        won = self.place == self.task
        return Score(won, float(won), {"there": float(won)})

    def _instruction(self) -> str:
        return f"go to the {self.task}."

    def _reset_info(self) -> dict[str, Any]:
        return {"admissible_actions": self._actions()}

    def _get_world(self) -> str:
        return self.place

    def _set_world(self, world: str) -> None:
        self.place = world

    def expert_action(self) -> str:
        return f"go to {self.task}"


class ParrotEnv(gymnasium.Env[str, str]):
    """Repeats actions in upper case, three times, and then it is over."""

    def __init__(self) -> None:
        self.observation_space = Text(300, min_length=0, charset=string.printable)
        self.action_space = Text(300, min_length=0, charset=string.printable)
        self.heard: list[str] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.heard = []
        return "Say something.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.heard.append(action)
        kept = "".join(character for character in action[:250] if character in string.printable)
        return f"It says: {kept.upper()}", float(len(self.heard)), len(self.heard) == 3, False, {}


def register_text_envs() -> None:
    """Register both envs, once a process."""
    if ROOMS not in gymnasium.registry:
        gymnasium.register(ROOMS, entry_point="tests.helpers.text_envs:RoomsEnv", max_episode_steps=4)
        gymnasium.register(PARROT, entry_point="tests.helpers.text_envs:ParrotEnv")


register_text_envs()
