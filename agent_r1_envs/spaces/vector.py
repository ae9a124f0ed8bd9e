"""How text and chat travel between the processes of an ``AsyncVectorEnv``.

``AsyncVectorEnv`` calls ``read_from_shared_memory`` once, in its constructor, and hands out ``deepcopy`` of what it got
ever after. For arrays that works, because they are views of the shared memory; a tuple of strings would stay the empty
one for ever. So :class:`LiveSequence` is a view as well: it decodes the memory when it is looked at, and its deep copy
is a plain tuple, the same that ``SyncVectorEnv`` returns.

Each sub-environment has a slot of fixed size: eight bytes that hold the length, then the text in UTF-8.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from copy import deepcopy
from ctypes import c_uint8
from typing import Any, NoReturn, TypeVar, overload

import numpy as np
from gymnasium.spaces import Tuple
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import (
    batch_differing_spaces,
    create_empty_array,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

from agent_r1_envs.spaces.free_text import FreeText
from agent_r1_envs.spaces.messages import Message, Messages, decode_messages, encode_messages

__all__ = ["LiveSequence"]

T = TypeVar("T")

LENGTH_BYTES = 8
UTF8_BYTES = 4  # the most bytes of one character


class LiveSequence(Sequence[T]):
    """The current values of all slots, decoded at each look; a deep copy is a tuple of what they hold now."""

    def __init__(self, memory: Any, slots: int, decode: Callable[[str], T]) -> None:
        self._slots = _as_slots(memory, slots)
        self._decode = decode

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        slot = self._slots[index]
        length = int(slot[:LENGTH_BYTES].view(np.uint64)[0])
        return self._decode(slot[LENGTH_BYTES : LENGTH_BYTES + length].tobytes().decode("utf-8"))

    def __len__(self) -> int:
        return len(self._slots)

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[T, ...]:
        return tuple(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, list, LiveSequence)) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))


def _slot_bytes(space: FreeText | Messages) -> int:
    size = LENGTH_BYTES + UTF8_BYTES * space.max_length
    return size + -size % LENGTH_BYTES  # keeps the lengths aligned


def _as_slots(memory: Any, slots: int) -> np.ndarray:
    """View the shared bytes as an array of shape (slots, bytes of a slot)."""
    return np.frombuffer(memory, dtype=np.uint8).reshape(slots, -1)


@create_shared_memory.register(FreeText)
@create_shared_memory.register(Messages)
def _create(space: FreeText | Messages, n: int = 1, ctx: Any = multiprocessing) -> Any:
    # Without a lock: a worker writes before it answers through its pipe, and the parent reads after the answer.
    return ctx.RawArray(c_uint8, n * _slot_bytes(space))


@read_from_shared_memory.register(FreeText)
def _read_text(space: FreeText, shared_memory: Any, n: int = 1) -> LiveSequence[str]:
    return LiveSequence(shared_memory, n, str)


@read_from_shared_memory.register(Messages)
def _read_messages(space: Messages, shared_memory: Any, n: int = 1) -> LiveSequence[list[Message]]:
    return LiveSequence(shared_memory, n, decode_messages)


@write_to_shared_memory.register(FreeText)
def _write_text(space: FreeText, index: int, value: str, shared_memory: Any) -> None:
    _write(space, index, value, shared_memory)


@write_to_shared_memory.register(Messages)
def _write_messages(space: Messages, index: int, value: list[Message], shared_memory: Any) -> None:
    _write(space, index, encode_messages(value), shared_memory)


def _write(space: FreeText | Messages, index: int, text: str, shared_memory: Any) -> None:
    data = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
    size = _slot_bytes(space)
    if len(data) > size - LENGTH_BYTES:
        raise ValueError(f"an observation of {len(text)} characters does not fit {space}")
    slot = np.frombuffer(shared_memory, dtype=np.uint8)[index * size : (index + 1) * size]
    slot[:LENGTH_BYTES].view(np.uint64)[0] = len(data)
    slot[LENGTH_BYTES : LENGTH_BYTES + len(data)] = data


@create_empty_array.register(Messages)
def _empty_messages(space: Messages, n: int = 1, fn: Any = np.zeros) -> tuple[list[Message], ...]:
    return tuple([] for _ in range(n))


def _batch_differing(spaces: Sequence[FreeText | Messages]) -> Tuple:
    return Tuple([deepcopy(space) for space in spaces], seed=deepcopy(spaces[0].np_random))


def _not_flattenable(space: FreeText | Messages, *args: Any) -> NoReturn:
    raise ValueError(f"{space} cannot be flattened: its members have no array of fixed size; tokenise them instead")


def _register(dispatcher: Any, handler: Callable[..., Any]) -> None:
    for space in (FreeText, Messages):
        dispatcher.register(space, handler)


_register(batch_differing_spaces, _batch_differing)
for _dispatcher in (flatdim, flatten, flatten_space, unflatten):
    _register(_dispatcher, _not_flattenable)
