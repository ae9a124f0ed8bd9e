"""Packing: from trajectories to forward passes in which every token is computed once.

``merge_units`` -> ``plan_minibatches`` (global, by steps) -> ``micro_batches`` (local, by tokens) -> ``collate``.
"""

from agent_r1_trainer.packing.batches import MicroBatch, collate, filler, micro_batches, plan_minibatches
from agent_r1_trainer.packing.exactness import merge_obstacle, needs_padding_mask, reads_rows_end_to_end
from agent_r1_trainer.packing.units import Layout, PackingStats, Unit, continues, merge_units, packing_stats

__all__ = [
    "Layout",
    "MicroBatch",
    "PackingStats",
    "Unit",
    "collate",
    "continues",
    "filler",
    "merge_obstacle",
    "merge_units",
    "micro_batches",
    "needs_padding_mask",
    "packing_stats",
    "plan_minibatches",
    "reads_rows_end_to_end",
]
