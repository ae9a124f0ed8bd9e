"""The dataset of a trainer that makes its own data: the numbers of its optimizer steps."""

from __future__ import annotations

from torch.utils.data import Dataset

__all__ = ["StepNumbers", "only"]


class StepNumbers(Dataset[dict[str, int]]):
    """Numbers the optimizer steps of an epoch: one item is one step, and the step decides what is trained on.

    Args:
        count: Steps of an epoch.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"step": index}


def only(batch: list[dict[str, int]]) -> dict[str, int]:
    """The single item of a batch."""
    return batch[0]
