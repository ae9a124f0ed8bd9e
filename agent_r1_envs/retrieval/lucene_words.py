r"""Words as Lucene's English analysis makes them: ``StandardTokenizer``, possessives, lower case, stop words, stems.

The tokenizer follows the word boundaries of Unicode Standard Annex 29 as Lucene's grammar writes them down. Of scripts,
Latin and its like, Katakana, single Han and Hiragana characters, and runs of South-East Asian letters are told apart;
the quotation marks inside Hebrew words are not. Emoji are words too: they make a document longer, which changes scores.
"""

from __future__ import annotations

import re
from typing import Final

import regex

from agent_r1_envs.retrieval.lucene_emoji import emoji
from agent_r1_envs.retrieval.lucene_stem import PorterStemmer

STOP_WORDS: Final = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)
_LONGEST: Final = 255  # a longer token is cut into pieces of this many characters
_REMEMBERED: Final = 1 << 18

# What joins two letters, or two digits, into one word.
_BETWEEN_LETTERS: Final = r"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A"
_BETWEEN_DIGITS: Final = (
    r"'.,;\u037E\u0589\u060C\u060D\u066C\u07F8\u2018\u2019\u2024\u2044"
    r"\uFE10\uFE14\uFE50\uFE52\uFE54\uFF07\uFF0C\uFF0E\uFF1B"
)

# ASCII texts are the rule, and the class-less pattern takes a third of the time of the general one.
_ASCII: Final = re.compile(r"_*[A-Za-z0-9](?:[A-Za-z0-9_]|(?<=[A-Za-z])['.:](?=[A-Za-z])|(?<=[0-9])[.,;'](?=[0-9]))*")


def _general() -> regex.Pattern[str]:
    extended = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"
    letter = r"[[\p{WB=ALetter}\p{WB=Hebrew_Letter}]--[\p{LB=SA}]]"
    digit = r"[\p{WB=Numeric}[\p{Block=Halfwidth_And_Fullwidth_Forms}&&\p{Nd}]]"
    joiner = r"\p{WB=ExtendNumLet}"
    word = (
        rf"(?:{joiner}{extended})*(?:{letter}|{digit}){extended}"
        rf"(?:(?:{letter}|{digit}|{joiner}){extended}"
        rf"|(?<={letter}{extended})[{_BETWEEN_LETTERS}]{extended}(?={letter})"
        rf"|(?<={digit}{extended})[{_BETWEEN_DIGITS}]{extended}(?={digit}))*"
    )
    katakana = rf"(?:\p{{WB=Katakana}}{extended})+"
    single = rf"[\p{{Script=Han}}\p{{Script=Hiragana}}]{extended}"
    south_east_asian = rf"(?:\p{{LB=SA}}{extended})+"
    return regex.compile("|".join((emoji(), word, katakana, single, south_east_asian)), regex.VERSION1)


class LuceneEnglish:
    """The analyser of an index and of its queries; it remembers the words that it has seen.

    >>> LuceneEnglish()("The women's running shoes, 8.5 wide")
    ['women', 'run', 'shoe', '8.5', 'wide']
    """

    def __init__(self) -> None:
        self._pattern = _general()
        self._stem = PorterStemmer().stem
        self._terms: dict[str, str] = {}

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text in order, stop words left out."""
        terms = []
        known = self._terms
        for token in (_ASCII if text.isascii() else self._pattern).findall(text):
            term = known.get(token)
            if term is None:
                term = self._remember(token)
            if term:
                terms.append(term)
            elif len(token) > _LONGEST:
                terms.extend(filter(None, map(self._term, _pieces(token))))
        return terms

    def _remember(self, token: str) -> str:
        if len(token) > _LONGEST:
            return ""
        if len(self._terms) >= _REMEMBERED:
            self._terms.clear()
        return self._terms.setdefault(token, self._term(token))

    def _term(self, token: str) -> str:
        """Return the term of a token, empty for a stop word."""
        if len(token) >= 2 and token[-2] in "'\u2019\uff07" and token[-1] in "sS":
            token = token[:-2]
        word = token.lower()
        return "" if word in STOP_WORDS else self._stem(word)


def _pieces(token: str) -> list[str]:
    return [token[start : start + _LONGEST] for start in range(0, len(token), _LONGEST)]
