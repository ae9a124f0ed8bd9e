"""Credit assignment: which step earned how much.

`CreditBatch` in, `Credit` out; estimators are pure float64 functions, found by name (`get`). To add one, write a
function ``(batch, *, gamma, lam, ...) -> Credit`` and decorate it with ``@register("name", needs_values=...)``: an
example is at `EstimatorRegistry.register`.
"""

from agent_r1_trainer.credit.anchors import anchor_numbers
from agent_r1_trainer.credit.batch import Credit, CreditBatch
from agent_r1_trainer.credit.bootstrap import Bootstrap, bootstraps, final_values, value_queries
from agent_r1_trainer.credit.registry import ESTIMATORS, Estimator, EstimatorRegistry, Level, get, names, register
from agent_r1_trainer.credit.scaling import Moments, RewardScaler
from agent_r1_trainer.credit.step_gae import step_advantages, step_gae
from agent_r1_trainer.credit.whitening import whiten

__all__ = [
    "ESTIMATORS",
    "Bootstrap",
    "Credit",
    "CreditBatch",
    "Estimator",
    "EstimatorRegistry",
    "Level",
    "Moments",
    "RewardScaler",
    "anchor_numbers",
    "bootstraps",
    "final_values",
    "get",
    "names",
    "register",
    "step_advantages",
    "step_gae",
    "value_queries",
    "whiten",
]
