"""A hash of plain data that depends on its content alone, never on identity, order of a mapping, or the process."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from typing import Any

__all__ = ["digest"]


def digest(data: Any) -> str:
    """Return 32 hexadecimal digits, equal for equal data.

    Mappings and sets are read in the order of their keys' and members' own hashes, dataclasses by their fields.
    Anything that is not plain data (an array) is pickled.

    >>> digest({"a": 1, "b": [2, 3]}) == digest({"b": [2, 3], "a": 1})
    True
    >>> digest([1, 2]) == digest([2, 1])
    False
    """
    return _hash(data).hex()


def _hash(data: Any) -> bytes:
    if data is None or isinstance(data, (bool, int, float, str, bytes, Enum)):
        return _of(type(data).__name__.encode(), repr(data).encode("utf-8", "surrogatepass"))
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        fields = ((field.name, getattr(data, field.name)) for field in dataclasses.fields(data))
        return _of(type(data).__name__.encode(), *(_hash(pair) for pair in fields))
    if isinstance(data, Mapping):
        return _of(b"mapping", *sorted(_hash(key) + _hash(value) for key, value in data.items()))
    if isinstance(data, Set):
        return _of(b"set", *sorted(map(_hash, data)))
    if isinstance(data, Sequence):
        return _of(b"sequence", *map(_hash, data))
    return _of(b"pickle", pickle.dumps(data))


def _of(*parts: bytes) -> bytes:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(len(part).to_bytes(8, "big") + part)
    return sha.digest()[:16]
