"""Every word that the tiny policy can meet in its environment."""

from __future__ import annotations

from typing import Final

from agent_r1_envs.hotpotqa.generator import vocabulary
from agent_r1_trainer.tiny_policy.demonstrations import make_env
from agent_r1_trainer.tiny_policy.tokenizer import split_words

__all__ = ["environment_words"]

# What makes the environment say the fixed sentences of its own: nothing found, found before, and each sort of error.
_PROBES: Final = (
    "search[yes]",
    "search[{title}]\nsearch[{title}]",
    "search[{title}]",
    "search[{title}]",
    "search[]",
    "answer[]",
    "",
    "yes",
    "search[yes",
    "search[yes] no",
    "yes[no]",
    '{"name": "yes"',
    '{"name": "search"}',
)


def environment_words() -> tuple[str, ...]:
    """Return the words of the encyclopedia and those of the environment's own sentences, sorted."""
    env = make_env().unwrapped
    words = set(vocabulary())
    try:
        observation, info = env.reset(options={"task": 0})
        words.update(split_words(observation))
        title = env.task.paragraphs[0].title  # type: ignore[attr-defined]
        for probe in _PROBES:
            observation, *_ = env.step(probe.replace("{title}", title))
            words.update(split_words(observation))
    finally:
        env.close()
    return tuple(sorted(words))
