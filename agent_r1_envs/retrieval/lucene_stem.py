"""The stemmer of Lucene's ``PorterStemFilter``: Snowball's Porter stemmer and the three rules in which they differ.

Lucene runs Martin Porter's own later program. Against the algorithm as published, which Snowball keeps, that program

* writes ``-ble`` for ``-bli`` (Snowball: only for ``-abli``): *horribly* becomes *horribl*,
* writes ``-log`` for ``-logi``: *technology* becomes *technolog*,
* halves any double consonant but l, s, z before *-ed* and *-ing* (Snowball: only bb dd ff gg mm nn pp rr tt):
  *trekking* becomes *trek*.

A word that meets one of them is rewritten so that Snowball's remaining steps give Lucene's result.
"""

from __future__ import annotations

import re
from typing import Final

import regex
import snowballstemmer

# A vowel, and a vowel with a consonant after it (Porter's m > 0); y counts as a vowel after a consonant.
_VOWEL: Final = re.compile(r"[aeiou]|(?<=[^aeiou])y")
_MEASURED: Final = re.compile(r"[aeiou][^aeiou]|(?<=[^aeiou])y[^aeiou]")
_BLI_OR_LOGI: Final = re.compile(r"(bl|log)(?:ies|[iy](?:ed|ing)?s?)$")
# Of y in a row every other one is a vowel.
_DOUBLED: Final = regex.compile(
    r"(?:([^abdefgilmnoprstuyz])(?=\1)|(?<=(?:[^aeiouy]|(?:^|[aeiou])y)(?:yy)*)y(?=y)).(?:ed|ing)s?$"
)


class PorterStemmer:
    """Stems lower-cased words as Lucene does.

    >>> stem = PorterStemmer().stem
    >>> stem("technologies"), stem("trekking"), stem("comfortably")
    ('technolog', 'trek', 'comfort')
    """

    def __init__(self) -> None:
        self._snowball = snowballstemmer.stemmer("porter")

    def stem(self, word: str) -> str:
        """Return the stem of a word."""
        if len(word) < 3:
            return word
        if ending := _BLI_OR_LOGI.search(word):
            base = word[: ending.start()]
            if _MEASURED.search(base):
                return base + "log" if ending[1] == "log" else self._snowball.stemWord(base + "ble")
        elif (ending := _DOUBLED.search(word)) and _VOWEL.search(word, 0, ending.start() + 1):
            return self.stem(word[: ending.start() + 1])
        stem: str = self._snowball.stemWord(word)
        return stem
