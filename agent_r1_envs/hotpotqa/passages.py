"""How search results are shown, numbered, each once, within a budget of characters; and the sentences found in them."""

import re
from collections.abc import Sequence

from agent_r1_envs.retrieval import Passage
from agent_r1_envs.text import cut

NOTHING = "No passage matches."
# A cut below this many characters would leave nothing worth reading.
SHORTEST = 40
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+")


def show(hits: Sequence[Passage], shown: list[Passage], *, passage_chars: int, budget: int) -> str:
    """Write the hits of one search, one a line, and add the new ones to ``shown``.

    A passage keeps its number for the whole episode. One that was shown already is named, not repeated.

    Args:
        hits: The passages, best first.
        shown: The passages shown so far; passage ``n`` has index ``n - 1``.
        passage_chars: The most characters of one passage.
        budget: The most characters of all lines; the longest passages are cut to fit.

    Returns:
        The lines, ``[n] Title: text`` or ``[n] Title (seen)``.
    """
    if not hits:
        return NOTHING
    numbers = {_key(passage): number for number, passage in enumerate(shown, start=1)}
    heads: list[tuple[str, str]] = []
    for passage in hits:
        number = numbers.get(_key(passage))
        title = " ".join(passage.title.split())
        if number is not None:
            heads.append((f"[{number}] {title} (seen)".replace("  ", " "), ""))
            continue
        shown.append(passage)
        numbers[_key(passage)] = len(shown)
        text = " ".join(passage.text.split())
        heads.append((f"[{len(shown)}] {title}: " if title else f"[{len(shown)}] ", text))
    room = budget - sum(len(head) + 1 for head, _ in heads)
    each = max(min(passage_chars, _even_cut([len(text) for _, text in heads], room)), SHORTEST)
    return "\n".join(head + cut(text, each) for head, text in heads)


def find_sentences(passages: Sequence[Passage], string: str) -> list[tuple[int, str]]:
    """Return the sentences that hold ``string``, upper and lower case alike, with the number of their passage."""
    wanted = string.lower()
    return [
        (number, " ".join(sentence.split()))
        for number, passage in enumerate(passages, start=1)
        for sentence in _BETWEEN_SENTENCES.split(passage.text)
        if wanted in sentence.lower()
    ]


def _even_cut(lengths: Sequence[int], room: int) -> int:
    """Return the largest limit under which texts of these lengths fit: what short ones leave is for the long ones."""
    limit = room
    for done, length in enumerate(sorted(lengths)):
        limit = room // (len(lengths) - done)
        if length > limit:
            return limit
        room -= length
    return limit


def _key(passage: Passage) -> tuple[str, str]:
    return passage.title, passage.text
