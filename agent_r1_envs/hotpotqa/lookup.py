"""Finding the sentences of the shown passages that hold a string, one after the other."""

import re
from collections.abc import Sequence

from agent_r1_envs.retrieval import Passage

_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+")


def find_sentences(passages: Sequence[Passage], string: str) -> list[tuple[int, str]]:
    """Return the sentences that hold ``string``, upper and lower case alike, with the number of their passage."""
    wanted = string.lower()
    return [
        (number, " ".join(sentence.split()))
        for number, passage in enumerate(passages, start=1)
        for sentence in _BETWEEN_SENTENCES.split(passage.text)
        if wanted in sentence.lower()
    ]
