"""Budgets of memory, in tokens, in bytes or by what is free, and the tokens that they come to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["Budget", "free_memory"]

_BYTES = re.compile(r"(\d+(?:\.\d+)?) ?(B|KiB|MiB|GiB|TiB)")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be computed, or kept, at once.

    Attributes:
        tokens: So many tokens; None where the budget is one of memory.
        memory: So many bytes; None where it is one of tokens, or a share of what is free.
    """

    tokens: int | None = None
    memory: int | None = None

    @classmethod
    def read(cls, name: str, value: int | str) -> Budget:
        """Read a setting: a number of tokens, a size such as "12GiB", or "auto".

        Args:
            name: Of the setting.
            value: Its value.

        Raises:
            ValueError: It is none of these.

        Example:
            >>> Budget.read("micro_batch_tokens", "1.5GiB").memory
            1610612736
        """
        if value == "auto":
            return cls()
        if isinstance(value, int):
            return cls(tokens=value)
        size = _BYTES.fullmatch(value)
        if size is None or float(size[1]) == 0:
            raise ValueError(f"{name} must be a number of tokens, a size such as '12GiB', or 'auto', got {value!r}")
        return cls(memory=int(float(size[1]) * 1024 ** _UNITS.index(size[2])))

    def in_tokens(self, bytes_a_token: float, free: float) -> int:
        """The most tokens, at least one.

        Args:
            bytes_a_token: Memory that one takes.
            free: Bytes for a budget that names no size.
        """
        if self.tokens is not None:
            return self.tokens
        return max(int((free if self.memory is None else self.memory) / max(bytes_a_token, 1.0)), 1)


def free_memory(device: torch.device) -> int:
    """Bytes that this process may still use on a device; on a GPU with what torch holds there for later."""
    if device.type == "cuda":
        import torch

        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + held
    import psutil

    return psutil.virtual_memory().available
