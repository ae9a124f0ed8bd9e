"""Algorithms by name: the settings that make `StepPOTrainer` run each of them.

An algorithm here is an estimator of advantages, a level of the policy ratio, a clip, a weighting of steps, where a KL
enters, and how many episodes of a task it compares. What belongs to the task or to the machine (model, environment,
batch size, learning rates, the weight `beta` of the KL) is left alone, so that all can be run on the same terms:

    >>> from agent_r1_trainer.algorithms import ALGORITHMS, algorithm_settings
    >>> ALGORITHMS["gspo"].settings["epsilon"], ALGORITHMS["gspo"].papers
    (0.0003, ('2507.18071',))
    >>> given = {"learning_rate": 1e-6, "num_generations": 16}
    >>> algorithm_settings("grpo", given)["num_generations"]
    16

Sources, by the arXiv numbers in the table:

* StepPO, published as CAPO since the paper's fifth version, and its baselines (2604.18401): the training scripts of
  the authors' repository. They run GSPO's ratio; the one of CAPO's text is not in them. Every one of them, critic or
  not, averages over steps (`loss_aggregation="step_mean"`); `recipes/published/` says so where an algorithm by itself
  does otherwise, with their clip and gamma, for the recipes of the tasks.
* PPO (1707.06347): the clip of 0.2, and GAE over the tokens that the model wrote.
* GRPO (2402.03300): the mean over outputs of the mean over their tokens. The output of an agent is what it wrote in its
  trajectory: `trajectory_mean`. Runs under this name differ in just that; `docs/algorithms.md` lists them. Dr. GRPO
  (2503.20783) divides neither by the length nor by the standard deviation, but by a constant: `token_sum`, which takes
  the longest reply times the limit of turns for it.
* RLOO (2402.14740): the whole trajectory is one action, whose gradient is the sum over its tokens, hence `token_mean`
  and not the length-normalised ratio; the KL is in the reward. The clip matters from the second update of a rollout on.
* REINFORCE++ (2501.03262): one episode a task and k1 in the reward; with baseline, groups and k2 in the loss.
* GiGPO (2505.10978): gamma 0.95, groups of 8 and k3 in the loss, from its authors' scripts; steps weigh alike, as in
  StepPO's runs of it.
* GSPO (2507.18071, section 5.1): 3e-4 and 4e-4, without KL. The ratio is taken per reply.
* PSPO (2601.10029): step GAE on process rewards, a reply being one action. The clip is that of the authors' published
  runs on paper search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agent_r1_envs.names import did_you_mean

__all__ = ["ALGORITHMS", "Algorithm", "algorithm_settings", "fill_in", "find_algorithm", "without_other_algorithm"]

_CLIP = {"epsilon": 0.2, "epsilon_high": None}
_SMALL_CLIP = {"epsilon": 3e-4, "epsilon_high": 4e-4}
_KL_LOSS = {"kl_in": "loss", "kl_estimator": "k3"}
_KL_REWARD = {"kl_in": "reward", "kl_estimator": "k1"}

# The second of each pair refines the first: whoever sets the first has not asked for an algorithm's second.
_PAIRS = (
    ("epsilon", "epsilon_high"),
    ("kl_in", "kl_estimator"),
    ("kl_estimator", "kl_in"),
    ("advantage_estimator", "advantage_kwargs"),
)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm.

    Attributes:
        name: Its key.
        title: Its name in print.
        papers: arXiv numbers, where it comes from first.
        settings: Fields of `StepPOConfig`. One that is absent has the default of `StepPOConfig`.
    """

    name: str
    title: str
    papers: tuple[str, ...]
    settings: Mapping[str, Any]


def _entry(
    name: str,
    title: str,
    papers: tuple[str, ...],
    estimator: str,
    level: str,
    aggregation: str,
    *parts: Mapping[str, Any],
    group: int = 1,
    **more: Any,
) -> Algorithm:
    settings = {
        "advantage_estimator": estimator,
        "importance_sampling_level": level,
        "loss_aggregation": aggregation,
        "num_generations": group,
        **{key: value for part in parts for key, value in part.items()},
        **more,
    }
    return Algorithm(name, title, papers, MappingProxyType(settings))


_STD = {"advantage_kwargs": {"normalize_std": True}}
_NO_STD = {"advantage_kwargs": {"normalize_std": False}}
_GIGPO = {"advantage_kwargs": {"step_weight": 1.0, "normalize_std": True}}
_CRITIC = {"critic": "separate"}

_TABLE = (
    _entry("steppo", "StepPO", ("2604.18401",), "step_gae", "sequence", "step_mean", _CLIP, _KL_LOSS, _CRITIC),
    _entry("token_ppo", "PPO", ("1707.06347",), "token_gae", "token", "token_mean", _CLIP, _KL_LOSS, _CRITIC),
    _entry("grpo", "GRPO", ("2402.03300",), "grpo", "token", "trajectory_mean", _CLIP, _KL_LOSS, _STD, group=8),
    _entry("dr_grpo", "Dr. GRPO", ("2503.20783",), "grpo", "token", "token_sum", _CLIP, _KL_LOSS, _NO_STD, group=8),
    _entry("rloo", "RLOO", ("2402.14740",), "rloo", "token", "token_mean", _CLIP, _KL_REWARD, group=8),
    _entry("reinforce_pp", "REINFORCE++", ("2501.03262",), "reinforce_pp", "token", "token_mean", _CLIP, _KL_REWARD),
    _entry(
        "reinforce_pp_baseline",
        "REINFORCE++ with baseline",
        ("2501.03262",),
        "reinforce_pp_baseline",
        "token",
        "token_mean",
        _CLIP,
        group=8,
        kl_in="loss",
        kl_estimator="k2",
    ),
    _entry(
        "gigpo",
        "GiGPO",
        ("2505.10978",),
        "gigpo",
        "token",
        "step_mean",
        _CLIP,
        _KL_LOSS,
        _GIGPO,
        group=8,
        gamma=0.95,
        step_anchor="state",
    ),
    _entry("pspo", "PSPO", ("2601.10029",), "step_gae", "sequence", "step_mean", _SMALL_CLIP, _KL_LOSS, _CRITIC),
    _entry("gspo", "GSPO", ("2507.18071",), "grpo", "sequence", "step_mean", _SMALL_CLIP, _KL_LOSS, _STD, group=8),
)

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType({algorithm.name: algorithm for algorithm in _TABLE})
"""The algorithms by name, read only."""

_DEFINING = frozenset(
    ("advantage_estimator", "advantage_kwargs", "importance_sampling_level", "loss_aggregation", "num_generations")
    + ("epsilon", "epsilon_high", "kl_in", "kl_estimator", "loss_divisor")
)
_OF_A_CRITIC = frozenset(
    ("critic", "critic_learning_rate", "critic_max_grad_norm", "critic_warmup_steps")
    + ("vf_coef", "value_clip", "value_grad_to_trunk")
)


def find_algorithm(name: Any) -> Algorithm:
    """Look an algorithm up.

    Raises:
        ValueError: There is none of that name; the nearest are named.
    """
    found = ALGORITHMS.get(name) if isinstance(name, str) else None
    if found is None:
        hint = did_you_mean(str(name), ALGORITHMS.keys(), otherwise=f"there are {', '.join(ALGORITHMS)}")
        raise ValueError(f"there is no algorithm {name!r}{hint}")
    return found


def algorithm_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given`, with what it leaves open filled in by the algorithm.

    Who gives one half of a pair (`epsilon` and `epsilon_high`, `kl_in` and `kl_estimator`, `advantage_estimator` and
    `advantage_kwargs`) gets the other half from the defaults, not from the algorithm, which chose its halves together.

    Args:
        name: Of the algorithm.
        given: Fields of `StepPOConfig`.

    Returns:
        Fields of `StepPOConfig`, those of `given` first.

    Raises:
        ValueError: There is no such algorithm.
    """
    return fill_in(given, find_algorithm(name).settings)


def fill_in(given: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given`, with what it leaves open taken from `settings`, halves of pairs as in `algorithm_settings`."""
    refined = {second for first, second in _PAIRS if first in given}
    own = {k: v for k, v in settings.items() if k not in given and k not in refined}
    return {**given, **{k: dict(v) if isinstance(v, Mapping) else v for k, v in own.items()}}


def without_other_algorithm(name: str, given: Mapping[str, Any], former: str | None = None) -> dict[str, Any]:
    """Return `given` without what was meant for another algorithm than the one that is wanted now.

    What defines an algorithm goes, and for one without a critic the settings of a critic. The rest stays.

    Args:
        name: Of the algorithm that is wanted.
        given: Fields of `StepPOConfig`, other keys beside them.
        former: The algorithm that `given` was written for, as far as it is known.

    Raises:
        ValueError: There is no such algorithm.
    """
    wanted = find_algorithm(name).settings
    gone = _DEFINING.union(wanted, find_algorithm(former).settings if former else ())
    gone = gone - _OF_A_CRITIC if "critic" in wanted else gone | _OF_A_CRITIC
    return {key: value for key, value in given.items() if key not in gone}
