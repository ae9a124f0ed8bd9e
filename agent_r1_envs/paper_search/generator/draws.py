"""Random choices made of ``random()`` alone, the one method that Python promises never to change."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def below(rng: Random, n: int) -> int:
    """Draw an integer in ``[0, n)``."""
    return int(rng.random() * n)


def pick(rng: Random, items: Sequence[T]) -> T:
    """Draw one item."""
    return items[int(rng.random() * len(items))]


def sample(rng: Random, items: Sequence[T], most: int) -> list[T]:
    """Draw up to ``most`` distinct items, in the order in which they are drawn."""
    left = list(items)
    return [left.pop(int(rng.random() * len(left))) for _ in range(min(most, len(left)))]


def shuffled(rng: Random, items: Sequence[T]) -> list[T]:
    """Return the items in a random order."""
    return sample(rng, items, len(items))
