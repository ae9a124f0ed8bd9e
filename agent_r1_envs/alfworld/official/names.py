"""The names that ids get: ``apple_bar__plus_00_dot_34_bar_...`` is shown as ``apple 2``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

__all__ = ["kind_of", "names_of"]

_BAR: Final = "_bar_"


def names_of(ids: Iterable[str]) -> dict[str, str]:
    """Return the name of each id, in the order of the ids.

    The things of a kind are numbered downwards in the order of their ids, so that lists read "cabinet 3, cabinet 2".
    An id without coordinates is a name already and gets a space at its end, as alfworld has it.
    """
    ordered = sorted(ids)
    kinds = {thing: _kind(thing) for thing in ordered if _BAR in thing}
    left = Counter(kinds.values())
    names = {}
    for thing in ordered:
        kind = kinds.get(thing)
        if kind is None:
            names[thing] = f"{thing} "
        else:
            names[thing] = f"{kind} {left[kind]}"
            left[kind] -= 1
    return names


def kind_of(name: str) -> str:
    """Return the kind in a name: ``"apple"`` of ``"apple 2"``."""
    return name.rpartition(" ")[0] or name


def _kind(thing: str) -> str:
    """Return what the part before the coordinates says; a sink's basin has its kind at the end of its id."""
    return thing.split(_BAR, 1)[0] + ("basin" if "basin" in thing else "")
