"""Packing: from trajectories to forward passes in which every token is computed once.

``merge_units`` -> ``plan_minibatches`` (global, by steps) -> ``micro_batches`` (local, by tokens) -> ``collate``.
"""

from agent_r1_trainer.packing.batches import MicroBatch, collate, filler
from agent_r1_trainer.packing.exactness import merge_obstacle
from agent_r1_trainer.packing.layout import Layout
from agent_r1_trainer.packing.plan import micro_batches, plan_minibatches
from agent_r1_trainer.packing.stats import PackingStats, packing_stats
from agent_r1_trainer.packing.units import Unit, continues, merge_units

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
    "packing_stats",
    "plan_minibatches",
]
