"""Demonstrations for cloning: the environment's expert, and the same expert with bad habits.

A demonstration is played in the real environment, so that what the policy reads while it is cloned is what it reads in
training, to the letter, and its vocabulary is every word of that environment. Tasks come from training worlds of other
seeds than the embedded panel, without end: the same names mean something else in each of them, so that the policy
learns to read and not to remember.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import gymnasium
from agent_r1_wrappers import recipes

from agent_r1_envs.cache import clear_cache
from agent_r1_envs.hotpotqa.generator import generate, vocabulary

__all__ = [
    "ENV_ID",
    "ENV_KWARGS",
    "EXPERT",
    "IMPATIENT",
    "Habits",
    "demonstrate",
    "environment_words",
    "make_env",
    "stream_demonstrations",
    "teach",
]

# What the environment says beside the encyclopedia's text: questions and results, and the beginning of its complaints.
# The ends of those (JSON, what was echoed) are rare and read as unknown words.
_ENVIRONMENT: Final = (
    "Question Search then answer seen No passage matches Answer Error the query is empty "
    "Invalid action this is not a call Write one line at most or closing missing there text after"
)


def environment_words() -> tuple[str, ...]:
    """Return the words of the encyclopedia and those of the environment's own sentences, sorted."""
    return tuple(sorted({*vocabulary(), *_ENVIRONMENT.split()}))


ENV_ID: Final = "AgentR1/HotpotQA-v0"
ENV_KWARGS: Final[dict[str, Any]] = {"top_k": 2, "max_calls": 1}
"""The variant that the tiny policy is cloned in and the demo trains in: one search a turn, two passages a search."""

_FIRST_WORLD: Final = 1000
_TASKS_PER_WORLD: Final = 1000
_TITLE = re.compile(r"^\[\d+\] (.+?)(?::| \(seen\))", re.MULTILINE)
_ARGUMENT = re.compile(r"\[(.*)\]")


@dataclass(frozen=True, slots=True)
class Habits:
    """How often a demonstrator does not do what the expert would do.

    The habits are errors of strategy only: whatever the demonstrator writes is a well-formed command about names that
    it has in front of it. So a policy that is cloned on them keeps the skills (reading, copying, the grammar) and lacks
    the judgement, which is what reinforcement learning is to teach.

    Attributes:
        guess_at_once: Probability of answering before the first search.
        guess_midway: Probability of answering when only part of the evidence was found.
        search_again: Probability of searching for a passage that was seen already.
        misread: Probability of answering with the title of a seen passage, when the evidence is complete.
    """

    guess_at_once: float = 0.0
    guess_midway: float = 0.0
    search_again: float = 0.0
    misread: float = 0.0


EXPERT: Final = Habits()
IMPATIENT: Final = Habits(guess_at_once=0.25, guess_midway=0.65, search_again=0.1, misread=0.1)
"""Mostly stops one hop early, with the name that it should have searched for."""


def make_env(split: str = "train", **kwargs: Any) -> gymnasium.Env:
    """Build the tiny policy's environment: a reply is a command, observations are the whole conversation."""
    import agent_r1_envs  # noqa: F401  (registers the id)

    return recipes.native(gymnasium.make(ENV_ID, split=split, disable_env_checker=True, **{**ENV_KWARGS, **kwargs}))


def teach(phase: Literal["expert", "habits"], seed: int) -> Iterator[list[dict[str, Any]]]:
    """Give the demonstrations of a phase of cloning."""
    return stream_demonstrations(seed=seed, habits=EXPERT if phase == "expert" else IMPATIENT)


def stream_demonstrations(*, seed: int, habits: Habits = EXPERT) -> Iterator[list[dict[str, Any]]]:
    """Play training tasks for ever, each once.

    Args:
        seed: Decides the worlds and the errors; different seeds share no world.
        habits: Of the demonstrator.

    Yields:
        Conversations as chat messages; the last one is the last reply.
    """
    rng = random.Random(f"demonstrations {seed}")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1_000_000):
            world = _FIRST_WORLD + 1_000_000 * seed + number
            path = Path(folder) / f"{number}.json"
            path.write_text(json.dumps(generate("train", tasks=_TASKS_PER_WORLD, seed=world)), encoding="utf-8")
            env = make_env(data=str(path))
            try:
                for task in range(_TASKS_PER_WORLD):
                    yield demonstrate(env, task, habits, rng)
            finally:
                env.close()
                path.unlink(missing_ok=True)
                clear_cache()  # a world is never needed twice


def demonstrate(env: gymnasium.Env, task: int, habits: Habits, rng: random.Random) -> list[dict[str, Any]]:
    """Play one task and return the conversation up to the last reply."""
    observation, info = env.reset(options={"task": task})
    while True:
        reply = _choose(env, observation, info, habits, rng)
        messages = observation
        observation, _, terminated, truncated, info = env.step(reply)
        if terminated or truncated:
            return [*messages, {"role": "assistant", "content": reply}]


def _choose(
    env: gymnasium.Env, messages: list[dict[str, Any]], info: dict[str, Any], habits: Habits, rng: random.Random
) -> str:
    """The expert's command, or what a habit makes of it."""
    expert = env.unwrapped.expert_action()  # type: ignore[attr-defined]
    seen = _titles(messages)
    draw = rng.random()
    if expert.startswith("search"):
        guess = habits.guess_midway if seen else habits.guess_at_once
        if draw < guess:
            return f"answer[{_argument(expert)}]"
        if seen and draw < guess + habits.search_again:
            return f"search[{rng.choice(seen)}]"
        return expert
    # On the last turn the expert gives an answer that it may not have read; nobody could learn to do so.
    blind = info["reward_info"]["support_recall"] < 1.0
    if seen and (blind or draw < habits.misread):
        return f"answer[{rng.choice(seen)}]"
    if seen and draw < habits.misread + habits.search_again:
        return f"search[{rng.choice(seen)}]"
    return expert


def _titles(messages: list[dict[str, Any]]) -> list[str]:
    """Titles of the passages that were shown, each once."""
    shown = (title for message in messages if message["role"] == "user" for title in _TITLE.findall(message["content"]))
    return list(dict.fromkeys(shown))


def _argument(command: str) -> str:
    found = _ARGUMENT.search(command)
    return found.group(1) if found else ""
