"""Fuzzy equality of short texts: the ``token_set_ratio(a, b) > 85`` of the fuzz library that the original pins.

That library (0.19, without its speed-up) compares with difflib, whose ratio is never above the one that rapidfuzz
computes in a microsecond. So rapidfuzz turns down nearly all pairs, and difflib decides on the few that are left.
"""

import re
from difflib import SequenceMatcher
from typing import Final

from rapidfuzz import fuzz

__all__ = ["THRESHOLD", "matches", "process", "token_set_ratio"]

THRESHOLD: Final = 85
"""Scores above this are matches."""

# Scores are rounded to whole numbers, halves to even: what is below cannot become 86. The rest is for float errors.
_HOPELESS: Final = THRESHOLD + 0.5 - 1e-6
_NON_WORD: Final = re.compile(r"\W")
_LATIN_1: Final = dict.fromkeys(range(128, 256))


def process(text: str) -> str:
    """Drop the characters U+0080 to U+00FF, put a space for all but word characters, lower the case, and strip."""
    if not text.isascii():
        text = text.translate(_LATIN_1)
    return _NON_WORD.sub(" ", text).lower().strip()


def token_set_ratio(first: str, second: str) -> int:
    """Return how alike two processed texts are as sets of words, from 0 to 100.

    Example:
        >>> token_set_ratio("x large", "xx large"), token_set_ratio("grey", "gray")
        (93, 75)
    """
    if not first or not second:
        return 0
    words, others = set(first.split()), set(second.split())
    common = " ".join(sorted(words & others))
    left = f"{common} {' '.join(sorted(words - others))}".strip()
    right = f"{common} {' '.join(sorted(others - words))}".strip()
    return max(_ratio(common, left), _ratio(common, right), _ratio(left, right))


def matches(first: str, second: str) -> bool:
    """Tell whether two processed texts count as the same."""
    if first == second:
        return bool(first)
    if fuzz.token_set_ratio(first, second) < _HOPELESS:
        return False
    return token_set_ratio(first, second) > THRESHOLD


def _ratio(first: str, second: str) -> int:
    if first == second:
        return 100
    if not first or not second:
        return 0
    return round(100 * SequenceMatcher(None, first, second).ratio())
