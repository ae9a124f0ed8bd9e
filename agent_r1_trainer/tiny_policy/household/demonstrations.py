"""Demonstrations for cloning: the explorer in the rooms that it meets by chance, and a fidgety, forgetful one.

A demonstration is played in the real environment, in training households of other seeds than the embedded panel, and
the policy's vocabulary is every word of that environment. The demonstrator knows only what the texts have shown, so
that whatever it does can be learnt from them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import gymnasium
from agent_r1_wrappers import recipes

from agent_r1_envs.alfworld.generator.vocabulary import OBJECTS, RECEPTACLES

__all__ = [
    "ENV_ID",
    "ENV_KWARGS",
    "FIDGETY",
    "STEADY",
    "Habits",
    "demonstrate",
    "environment_words",
    "make_env",
    "stream_demonstrations",
    "teach",
]

# What the game says beside the names of things; the text of the command `help`, which nobody is shown, is not in it.
_TEXTS: Final = (
    "-= Welcome to TextWorld ALFRED =- You are in the middle of a room Looking quickly around you see nothing "
    "Your task is put some on clean it and hot heat cool find two them look at under examine with "
    "arrive The closed open In On facing Next pick up from move close using turn slice slices sliced "
    "This normal cold There s special about carrying not anything Nothing happens"
)
_COMMANDS: Final = "go to take from move open close examine use clean heat cool slice with look inventory"


def environment_words() -> tuple[str, ...]:
    """Return the names of all things and the words of the game's own sentences, sorted."""
    things = {kind.lower() for kind in (*OBJECTS, *RECEPTACLES)}
    return tuple(sorted({*things, *_TEXTS.split(), *_COMMANDS.split()}))


ENV_ID: Final = "AgentR1/ALFWorld-v0"
ENV_KWARGS: Final[dict[str, Any]] = {"difficulty": "easy"}
"""The variant that the household policy is cloned in."""
MAX_TURNS: Final = 16

_FIRST_SEED: Final = 1000
_GAMES: Final = 1_000_000
_TREATMENTS: Final = ("clean", "heat", "cool")


@dataclass(frozen=True, slots=True)
class Habits:
    """How often a demonstrator does not do what the explorer would do.

    Attributes:
        stray: Probability of any command that is, or was, possible. It leads to states that the explorer would not be
            in by itself, and to the answer "Nothing happens."; it is not to be imitated: its message has the weight 0.
        put_back: Probability of putting back what was just taken.
        forget: Probability of carrying a thing to its place when it is about to be cleaned, heated or cooled.
    """

    stray: float = 0.0
    put_back: float = 0.0
    forget: float = 0.0


STEADY: Final = Habits(stray=0.15)
"""Teaches the skills: what to do in whatever state."""
FIDGETY: Final = Habits(put_back=0.75, forget=0.75)
"""Mostly does not keep what it has in hand, and forgets what it came for."""


def make_env(split: str = "train", **kwargs: Any) -> gymnasium.Env:
    """Build the household policy's environment: a reply is a command, observations are the whole conversation."""
    import agent_r1_envs  # noqa: F401  (registers the id)

    arguments = {**ENV_KWARGS, "expert": "explorer", **kwargs}
    env = gymnasium.make(ENV_ID, split=split, max_episode_steps=MAX_TURNS, disable_env_checker=True, **arguments)
    return recipes.native(env)


def teach(phase: Literal["expert", "habits"], seed: int) -> Iterator[list[dict[str, Any]]]:
    """Give the demonstrations of a phase of cloning."""
    return stream_demonstrations(seed=seed, habits=STEADY if phase == "expert" else FIDGETY)


def stream_demonstrations(*, seed: int, habits: Habits = STEADY) -> Iterator[list[dict[str, Any]]]:
    """Play training households for ever, each once.

    Args:
        seed: Decides the households and the errors; different seeds share no household.
        habits: Of the demonstrator.

    Yields:
        Conversations as chat messages; the last one is the last reply. A reply with the weight 0 is none to imitate.
    """
    rng = random.Random(f"household demonstrations {seed}")
    env = make_env(games=_GAMES, games_seed=_FIRST_SEED + seed)
    try:
        for task in itertools.cycle(range(_GAMES)):
            yield demonstrate(env, task, habits, rng)
    finally:
        env.close()


def demonstrate(env: gymnasium.Env, task: int, habits: Habits, rng: random.Random) -> list[dict[str, Any]]:
    """Play one task and return the conversation up to the last reply."""
    messages, info = env.reset(options={"task": task})
    demonstrator = _Demonstrator(habits, info["instruction"].rstrip(".").split()[-1], rng)
    weights: list[int] = []
    while True:
        reply, weight = demonstrator.choose(env.unwrapped.expert_action(), info["admissible_actions"])  # type: ignore[attr-defined]
        weights.append(weight)
        said = [*messages, {"role": "assistant", "content": reply}]
        messages, _, terminated, truncated, info = env.step(reply)
        if terminated or truncated:
            break
    replies = iter(weights)
    return [{**m, "weight": next(replies)} if m["role"] == "assistant" else m for m in said]


class _Demonstrator:
    """Chooses commands through one episode.

    Args:
        habits: What it does.
        goal: The kind of receptacle that the task names last.
        rng: Decides when.
    """

    def __init__(self, habits: Habits, goal: str, rng: random.Random) -> None:
        self._habits = habits
        self._goal = goal
        self._rng = rng
        self._last = ""
        self._forgotten = ""
        self._known: dict[str, None] = {}

    def choose(self, expert: str | None, possible: Sequence[str]) -> tuple[str, int]:
        """Return a command and its weight."""
        self._known.update(dict.fromkeys(possible))
        if expert is None or self._rng.random() < self._habits.stray:
            self._forgotten = ""
            self._last = self._rng.choice(list(self._known))
            return self._last, 0
        self._last = self._put_back(possible) or self._carry_on(expert, possible) or expert
        return self._last, 1

    def _put_back(self, possible: Sequence[str]) -> str | None:
        """Return the command that undoes a ``take``, if the habit wants it."""
        verb, _, rest = self._last.partition(" ")
        back = f"move {rest.replace(' from ', ' to ')}"
        return back if verb == "take" and back in possible and self._rng.random() < self._habits.put_back else None

    def _carry_on(self, expert: str, possible: Sequence[str]) -> str | None:
        """Return the next command on the way of a forgotten thing to its goal, if one was forgotten."""
        verb, _, rest = expert.partition(" ")
        if verb in _TREATMENTS and self._rng.random() < self._habits.forget:
            self._forgotten = rest.partition(" with ")[0]
        if not self._forgotten:
            return None
        for command in (f"move {self._forgotten} to {self._goal} ", f"open {self._goal} ", f"go to {self._goal} "):
            found = next((other for other in possible if other.startswith(command)), None)
            if found is not None:
                if command.startswith("move"):
                    self._forgotten = ""
                return found
        self._forgotten = ""
        return None
