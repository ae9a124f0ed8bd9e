"""Text that is safe to show: valid UTF-8, no stray control characters, bounded length."""

import re

__all__ = ["REPLACEMENT", "clean", "cut", "echo", "is_unicode", "mend"]

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ECHO_LENGTH = 200
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

_SURROGATE = re.compile("[\ud800-\udfff]")
# C0 and C1 controls and DEL, but for tab, line feed and carriage return.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_LINE_SPACE = re.compile("[\t\n\r\u2028\u2029]+")


def is_unicode(text: str) -> bool:
    """Tell whether ``text`` can be encoded as UTF-8, that is, whether it holds no lone surrogate."""
    return text.isascii() or _SURROGATE.search(text) is None


def mend(text: str) -> str:
    """Replace halves of surrogate pairs, and nothing else, so that ``text`` can be encoded as UTF-8."""
    return _SURROGATE.sub(REPLACEMENT, text)


def cut(text: str, length: int) -> str:
    """Return ``text`` in at most ``length`` characters; an ellipsis marks what was left out."""
    if len(text) <= length:
        return text
    return text[: max(length - 1, 0)] + ELLIPSIS[:length]


def clean(text: str, max_length: int | None = None) -> str:
    """Make a whole observation safe: surrogates and control characters are replaced, line breaks and tabs stay.

    Args:
        text: Any string.
        max_length: The most characters to return; None keeps them all.

    Returns:
        A string that can be encoded as UTF-8.
    """
    if max_length is not None:
        text = cut(text, max_length)
    return _CONTROL.sub(REPLACEMENT, text)


def echo(text: str) -> str:
    """Quote what somebody wrote, inside a message: one line, at most 200 characters, nothing unprintable."""
    return _CONTROL.sub(REPLACEMENT, _LINE_SPACE.sub(" ", cut(text, ECHO_LENGTH)))
