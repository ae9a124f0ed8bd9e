"""Sets of small numbers as the bits of an int: compact, immutable, and compared in one instruction."""

from collections.abc import Iterable, Iterator

__all__ = ["bit_set", "members"]


def bit_set(numbers: Iterable[int]) -> int:
    """Return the int whose bits are set at ``numbers``."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def members(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, in ascending order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
