"""When two names mean one paper, and when a paper is later than a date.

arXiv ids come with and without a version, a prefix or an address; all of them name one paper. Dates come as a day, a
month or a year; they are compared as precisely as both sides are known.
"""

import re
from typing import Final

_PREFIX: Final = re.compile(
    r"(?:https?://)?(?:www\.)?arxiv\.org/(?:abs|pdf)/|(?:doi:)?10\.48550/arxiv\.|arxiv:\s*", re.I
)
_NEW: Final = re.compile(r"([0-9]{4}\.[0-9]{4,5})(?:v[0-9]+)?(?:\.pdf)?", re.I)
_OLD: Final = re.compile(r"([a-z][a-z-]*)(?:\.[a-z]{2})?/([0-9]{7})(?:v[0-9]+)?(?:\.pdf)?", re.I)
_WRAPPING: Final = "[](){}<>\"'` \t\r\n"
_DAY: Final = 8
_FIRST_CENTURY_OF_ARXIV: Final = 91


def paper_key(text: str) -> str:
    """Return the one name of a paper: an arXiv id without version and prefix, or any other id as it stands.

    >>> paper_key("arXiv:2501.10120v2"), paper_key("math.GT/0309136v1"), paper_key(" [10.2139/ssrn.2250500] ")
    ('2501.10120', 'math/0309136', '10.2139/ssrn.2250500')
    """
    plain = text.strip(_WRAPPING)
    prefix = _PREFIX.match(plain)
    bare = plain[prefix.end() :] if prefix else plain
    new = _NEW.fullmatch(bare)
    if new:
        return new[1]
    old = _OLD.fullmatch(bare)
    return f"{old[1].lower()}/{old[2]}" if old else plain


def is_arxiv(key: str) -> bool:
    """Tell whether a key that :func:`paper_key` returned is an arXiv id."""
    return bool(_NEW.fullmatch(key) or _OLD.fullmatch(key))


def arxiv_month(key: str) -> str:
    """Return the month of an arXiv id as ``YYYYMM``, or ``""`` for another id.

    >>> arxiv_month("2501.10120"), arxiv_month("cs/9905014")
    ('202501', '199905')
    """
    if not is_arxiv(key):
        return ""
    digits = key.rpartition("/")[2][:4]
    century = "19" if "/" in key and int(digits[:2]) >= _FIRST_CENTURY_OF_ARXIV else "20"
    return century + digits if 1 <= int(digits[2:]) <= 12 else ""


def date_digits(text: object) -> str:
    """Return a date in digits, ``YYYY``, ``YYYYMM`` or ``YYYYMMDD``; ``""`` for what is no date.

    >>> date_digits("2025-06-03"), date_digits(1950), date_digits("June")
    ('20250603', '1950', '')
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        return ""
    digits = re.sub(r"[-/. ]|T.*", "", str(text))
    return digits if re.fullmatch(r"[0-9]{4}(?:[0-9]{2}){0,2}", digits) else ""


def earliest(date: str) -> int:
    """Return a date as a number ``YYYYMMDD``, unknown parts as zeros; 0 for no date."""
    return int(date.ljust(_DAY, "0")) if date else 0


def last_allowed(cutoff: str) -> int:
    """Return the number up to which :func:`earliest` is not later than ``cutoff``; everything is, without one.

    >>> earliest("202303") <= last_allowed("20230325"), earliest("202304") <= last_allowed("20230325")
    (True, False)
    """
    return int(cutoff.ljust(_DAY, "9")) if cutoff else 99_999_999
