"""Which steps saw the same state."""

from collections.abc import Sequence

import numpy as np

from agent_r1_trainer.credit.arrays import Integers

__all__ = ["anchor_numbers"]


def anchor_numbers(anchors: Sequence[str]) -> Integers:
    """Number the anchors of steps, for `CreditBatch.anchors`.

    Equal strings get equal numbers. An empty one means that nobody said which state it was: such a step gets a number
    of its own, so that it is compared with no other.

    Args:
        anchors: `Step.anchor` of the steps of all ranks, in the order of the batch.

    Returns:
        [N] int64.

    >>> anchor_numbers(["kitchen", "hall", "", "kitchen", ""]).tolist()
    [0, 1, -1, 0, -2]
    """
    # A table and no array of strings: that would drop zeros at their ends, and be as wide as the longest of them.
    numbers: dict[str, int] = {}
    unknown = -1
    result = np.empty(len(anchors), dtype=np.int64)
    for index, anchor in enumerate(anchors):
        if anchor:
            result[index] = numbers.setdefault(anchor, len(numbers))
        else:
            result[index] = unknown
            unknown -= 1
    return result
