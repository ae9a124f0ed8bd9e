"""State that wrappers give to snapshots."""

from __future__ import annotations

from typing import Any


class WrapperState:
    """Base of frozen state objects; a deep copy is the object itself.

    What they hold is never changed, so snapshots cost no copying, and messages keep the identity by which a prompt is
    seen to extend the one before.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> WrapperState:
        return self
