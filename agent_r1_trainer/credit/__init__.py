"""Credit assignment: which step earned how much.

`CreditBatch` in, `Credit` out; estimators are pure float64 functions, found by name (`get`). To add one, write a
function ``(batch, *, gamma, lam, ...) -> Credit`` and decorate it with ``@register("name", needs_values=...)``: an
example is at `EstimatorRegistry.register`.
"""

from agent_r1_trainer.credit.batch import Credit, CreditBatch, anchor_numbers
from agent_r1_trainer.credit.bootstrap import Bootstrap, bootstraps, final_values, value_queries
from agent_r1_trainer.credit.calibration import Calibration, calibrate
from agent_r1_trainer.credit.gigpo import gigpo
from agent_r1_trainer.credit.groups import GroupStatistics, group_statistics
from agent_r1_trainer.credit.grpo import grpo
from agent_r1_trainer.credit.moments import Moments
from agent_r1_trainer.credit.recursion import discounted_sums, gae
from agent_r1_trainer.credit.registry import ESTIMATORS, Estimator, EstimatorRegistry, Level, get, names, register
from agent_r1_trainer.credit.reinforce_pp import reinforce_pp, reinforce_pp_baseline
from agent_r1_trainer.credit.rloo import rloo
from agent_r1_trainer.credit.step_gae import step_advantages, step_gae
from agent_r1_trainer.credit.token_gae import token_gae
from agent_r1_trainer.credit.whitening import whiten

__all__ = [
    "ESTIMATORS",
    "Bootstrap",
    "Calibration",
    "Credit",
    "CreditBatch",
    "Estimator",
    "EstimatorRegistry",
    "GroupStatistics",
    "Level",
    "Moments",
    "anchor_numbers",
    "bootstraps",
    "calibrate",
    "discounted_sums",
    "final_values",
    "gae",
    "get",
    "gigpo",
    "group_statistics",
    "grpo",
    "names",
    "register",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "rloo",
    "step_advantages",
    "step_gae",
    "token_gae",
    "value_queries",
    "whiten",
]
