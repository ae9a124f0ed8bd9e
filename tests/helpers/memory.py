"""How much memory tensors take at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Counts the bytes of the tensors that are made within the block, those of before left out.

    What an operation needs inside itself is not seen.

    Attributes:
        live: Bytes now.
        peak: The most at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self._note((args, dict(kwargs or {})), count=False)
        result = func(*args, **(kwargs or {}))
        self._note(result, count=True)
        return result

    def _note(self, values: Any, *, count: bool) -> None:
        for value in tree_leaves(values):
            if isinstance(value, Tensor) and id(storage := value.untyped_storage()) not in self._known:
                size = storage.nbytes() if count else 0
                self._known.add(id(storage))
                self.live += size
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self._remove, id(storage), size)

    def _remove(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size
