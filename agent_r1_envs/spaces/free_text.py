"""A space of arbitrary text."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Text

from agent_r1_envs.text import is_unicode

__all__ = ["FreeText"]

# What `sample` draws from: printable ASCII, and enough else to find code that takes text for ASCII.
SAMPLE_ALPHABET = "".join(map(chr, range(32, 127))) + "\n\t\u00e9\u00df\u03b1\u042f\u05d0\u6f22\u3042\u20ac\U0001f642"
SAMPLE_LENGTH = 64


class FreeText(Text):
    """Every string of at most ``max_length`` characters that can be encoded as UTF-8.

    It is a :class:`gymnasium.spaces.Text`, because other libraries convert spaces by class, but it has no fixed
    character set: membership asks only for length and encoding, and there is no flattened form.

    Args:
        max_length: The most characters of a member, at least 0.
        seed: Seed of :meth:`sample`.

    Example:
        >>> space = FreeText(100)
        >>> "Grüße, 世界" in space, "x" * 101 in space, chr(0xD800) in space
        (True, False, False)
    """

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=SAMPLE_ALPHABET, seed=seed)

    def contains(self, x: Any) -> bool:
        """Tell whether ``x`` is a string within the length that can be encoded as UTF-8."""
        return isinstance(x, str) and len(x) <= self.max_length and is_unicode(x)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Draw a short string, of at most 64 characters of a fixed alphabet.

        Raises:
            ValueError: If a mask or a probability is given: there is no character set that it could refer to.
        """
        if mask is not None or probability is not None:
            raise ValueError("FreeText has no character set, so it takes neither a mask nor a probability")
        length = int(self.np_random.integers(0, min(self.max_length, SAMPLE_LENGTH) + 1))
        positions = self.np_random.integers(0, len(SAMPLE_ALPHABET), size=length)
        return "".join(SAMPLE_ALPHABET[position] for position in positions)

    @property
    def is_np_flattenable(self) -> bool:
        """Always False: text of free length has no array of fixed size; tokenise it instead."""
        return False

    def __eq__(self, other: object, /) -> bool:
        return type(other) is type(self) and isinstance(other, FreeText) and other.max_length == self.max_length

    def __repr__(self) -> str:
        return f"FreeText({self.max_length})"
