"""Every word that the tiny policy of HotpotQA meets in its environment."""

from __future__ import annotations

from typing import Final

from agent_r1_envs.hotpotqa.generator import vocabulary

__all__ = ["environment_words"]

# What the environment says beside the encyclopedia's text: questions and results, and the beginning of its complaints.
# The ends of those (JSON, what was echoed) are rare and read as unknown words.
_ENVIRONMENT: Final = (
    "Question Search then answer seen No passage matches Answer Error the query is empty "
    "Invalid action this is not a call Write one line at most or closing missing there text after"
)


def environment_words() -> tuple[str, ...]:
    """Return the words of the encyclopedia and those of the environment's own sentences, sorted."""
    return tuple(sorted({*vocabulary(), *_ENVIRONMENT.split()}))
