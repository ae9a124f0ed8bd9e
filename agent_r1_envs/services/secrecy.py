"""What is secret in addresses and settings, and the forms in which these may be shown, written down and compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["hide", "public_address", "query_secrets", "without_secrets"]

_HIDDEN: Final = "[hidden]"
_SHORTEST: Final = 6  # a shorter one is no secret, and would be found in ordinary words
_NAME: Final = re.compile(r"key|token|secret|sig|pass|auth|cred", re.IGNORECASE)
_LOGIN: Final = re.compile(r"(?<=://)[^/?#]*@")
_ADDRESS: Final = re.compile(r"\S*://\S*")


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a message without keys that a service has said back."""
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, _HIDDEN)
    return text


def public_address(url: str) -> str:
    """Return an address without the name and password in it, and without values that are keys.

    >>> public_address("http://name:word@host/v1?api-version=2&api-key=abc")
    'http://host/v1?api-version=2&api-key=[hidden]'
    """
    shown = _LOGIN.sub("", url)
    for secret in query_secrets(shown):
        shown = shown.replace(f"={secret}", f"={_HIDDEN}")
    return shown


def query_secrets(url: str) -> list[str]:
    """Return the values of an address's query that are keys, by their names."""
    query = url.partition("#")[0].partition("?")[2]
    pairs = [pair.partition("=") for pair in query.split("&")]
    return [value for name, _, value in pairs if value and _NAME.search(name)]


def without_secrets(value: Any) -> Any:
    """Return settings without the values of ``headers``, and with addresses as they may be shown.

    So a key stands in no record of a run, and a run may go on with another one.

    >>> without_secrets({"url": "http://name:word@host", "headers": {"Authorization": "Bearer abc"}, "k": 3})
    {'url': 'http://host', 'headers': {'Authorization': '[hidden]'}, 'k': 3}
    """
    if isinstance(value, Mapping):
        return {name: _headers(item) if name == "headers" else without_secrets(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(without_secrets, value))
    return _ADDRESS.sub(lambda found: public_address(found.group()), value) if isinstance(value, str) else value


def _headers(value: Any) -> Any:
    return dict.fromkeys(value, _HIDDEN) if isinstance(value, Mapping) else value
