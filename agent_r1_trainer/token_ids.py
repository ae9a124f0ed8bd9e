"""Token ids of prompts that grow."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["TokenIds"]

_TYPE = "i"  # four bytes


class TokenIds(Sequence[int]):
    """Token ids that nobody changes; a sequence that extends another shares the memory of its beginning.

    The prompts of an episode mostly grow: each is the last one, the reply to it, and something new. Kept one by one
    they would take the square of the episode's length. So they are beginnings of one array, to which `extended` adds.

    It reads like a list: it is equal to a list of the same ids, and slices and sums are lists.

    Args:
        ids: Each must fit into 32 bits.

    >>> prompt = TokenIds([5, 6])
    >>> longer = prompt.extended([7, 8])
    >>> list(prompt), longer[1:], longer.starts_with(prompt), prompt + [9]
    ([5, 6], [6, 7, 8], True, [5, 6, 9])
    """

    __slots__ = ("_array", "_count")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._array = array(_TYPE, ids)
        self._count = len(self._array)

    @classmethod
    def _beginning(cls, ids: array[int], count: int) -> TokenIds:
        made = cls.__new__(cls)
        made._array, made._count = ids, count
        return made

    def extended(self, more: Iterable[int]) -> TokenIds:
        """These ids and more, which cost only what is added; where others were added before, all are copied."""
        if self._count < len(self._array):
            return TokenIds([*self, *more])
        try:
            self._array.extend(array(_TYPE, more))
        except BufferError:  # somebody looks at the memory, as `np.asarray` does
            return TokenIds([*self, *more])
        return self._beginning(self._array, len(self._array))

    def grown_to(self, ids: Sequence[int]) -> TokenIds:
        """Some ids, sharing memory with these where they begin with them."""
        if isinstance(ids, TokenIds) and ids._array is self._array:
            return ids
        made = TokenIds(ids)
        return self.extended(made._array[self._count :]) if made.starts_with(self) else made

    def shares(self, other: Sequence[int]) -> bool:
        """Whether both are beginnings of one array, so that the shorter begins the longer."""
        return isinstance(other, TokenIds) and other._array is self._array

    def starts_with(self, other: Sequence[int]) -> bool:
        """Whether these ids begin with others; of ids that share memory it is known without a look."""
        if len(other) > self._count:
            return False
        return self.shares(other) or self._array[: len(other)] == TokenIds(other)._exact()

    def common_prefix(self, other: TokenIds) -> int:
        """Length of the longest beginning that both have."""
        count = min(self._count, other._count)
        if self.shares(other):
            return count
        differ = np.flatnonzero(np.asarray(self)[:count] != np.asarray(other)[:count])
        return int(differ[0]) if len(differ) else count

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """A copy, [n] int64 unless told otherwise."""
        return np.frombuffer(self._array, dtype=np.intc, count=self._count).astype(np.int64 if dtype is None else dtype)

    def tobytes(self) -> bytes:
        """The ids as the machine keeps them, equally many bytes each."""
        return self._exact().tobytes()

    def _exact(self) -> array[int]:
        return self._array if len(self._array) == self._count else self._array[: self._count]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return iter(self._exact().tolist())

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            begin, end, step = index.indices(self._count)
            if step == 1:
                return self._array[begin:end].tolist()
            return [self._array[at] for at in range(begin, end, step)]
        return self._array[range(self._count)[index]]

    def __add__(self, more: Sequence[int]) -> list[int]:
        return [*self, *more]

    def __radd__(self, before: Sequence[int]) -> list[int]:
        return [*before, *self]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TokenIds):
            return self._count == other._count and self.starts_with(other)
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenIds._beginning, (self._array, self._count)

    def __repr__(self) -> str:
        return f"TokenIds({list(self)})"
