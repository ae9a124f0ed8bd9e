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
    [2, 1, 3, 2, 4]
    """
    if not len(anchors):
        return np.zeros(0, dtype=np.int64)
    names, numbers = np.unique(np.asarray(anchors, dtype=str), return_inverse=True)
    unknown = np.flatnonzero(np.asarray([not anchor for anchor in anchors]))
    numbers = numbers.astype(np.int64)
    numbers[unknown] = names.size + np.arange(unknown.size)
    return numbers
