"""The default tokenizer of the lexical indexes."""

from __future__ import annotations

import re
from collections.abc import Callable

Tokenizer = Callable[[str], list[str]]

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    r"""Split a text into its lower-cased word characters (``\w+`` over Unicode), in order, repetitions kept.

    Nothing is stemmed and no stop word is dropped: BM25's inverse document frequency already makes them cheap.

    >>> words("The Café's 3rd menu")
    ['the', 'café', 's', '3rd', 'menu']
    """
    return _WORD.findall(text.lower())


def tokenizer_name(tokenizer: Tokenizer) -> str:
    """Name a tokenizer as ``module:qualname``, the form in which a saved index remembers it."""
    return f"{tokenizer.__module__}:{getattr(tokenizer, '__qualname__', type(tokenizer).__qualname__)}"
