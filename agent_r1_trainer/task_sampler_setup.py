"""The task sampler that the settings ask for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from agent_r1_trainer.curriculum.epochs import TaskCursor
from agent_r1_trainer.curriculum.sampler import TaskSampler

if TYPE_CHECKING:
    from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["load_factory", "make_task_sampler"]


def make_task_sampler(
    config: StepPOConfig,
    panels: Mapping[str, int | None],
    weights: Mapping[str, float],
    given: TaskSampler | None = None,
) -> TaskSampler:
    """Return the sampler that was given, that of the settings, or a walk through the panels.

    Args:
        config: The settings.
        panels: Size of each environment's panel, None without one.
        weights: Of the environments.
        given: The trainer's argument.

    Raises:
        ValueError: Two samplers, an unknown one, or an empty panel.
        TypeError: What was given, or what the factory returned, is no sampler.
    """
    for name, size in panels.items():
        if size == 0:
            raise ValueError(f"the panel of tasks of the environment{f' {name!r}' if name else ''} is empty")
    if given is not None and config.task_sampler is not None:
        raise ValueError(f"pass either task_sampler or the setting task_sampler={config.task_sampler!r}, not both")
    sampler = given
    if sampler is None:
        factory = TaskCursor if config.task_sampler is None else load_factory(config.task_sampler)
        sampler = factory(panels=panels, groups=config.groups_per_rollout, seed=config.seed, weights=weights)
    if not isinstance(sampler, TaskSampler):
        raise TypeError(
            f"a task sampler needs assignments, observe, state_dict and load_state_dict, got {type(sampler).__name__}"
        )
    return sampler


def load_factory(name: str) -> Callable[..., TaskSampler]:
    """Find the factory that a setting names as `module:factory`.

    It is called with `panels` (size of each environment's panel, None without one), `groups` (tasks of a rollout),
    `seed` and `weights` (of each environment), all by name.

    Raises:
        ValueError: There is no such thing.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"task_sampler must be 'module:factory', got {name!r}")
    try:
        return cast(Callable[..., TaskSampler], getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot load task_sampler={name!r}: {error}") from error
