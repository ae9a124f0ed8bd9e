"""Settings that `StepPOTrainer` refuses, with the reason and what to do instead."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from agent_r1_trainer import credit
from agent_r1_trainer._compat import BaseConfig, reporting_fault
from agent_r1_trainer.environments.factory import RECIPES
from agent_r1_trainer.losses import Aggregation, LossConfig, check_loss_estimator

if TYPE_CHECKING:
    from transformers import TrainingArguments

    from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["check_config", "check_credit", "check_reporting", "check_schedule", "loss_config", "options"]

_DEFAULT_SAVE_STEPS = 500

# What a field of such a type holds, as Python sees it and in words.
_KINDS: dict[type, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
}

# Name of a field of TrainingArguments, the values it may have, and why no other.
_INHERITED = (
    (
        "gradient_accumulation_steps",
        (1,),
        "an optimizer step already sums as many micro-batches as micro_batch_tokens makes necessary; to accumulate "
        "over more episodes raise rollout_batch_size or lower num_minibatches",
    ),
    ("per_device_train_batch_size", (8,), "set rollout_batch_size (episodes) and micro_batch_tokens (memory) instead"),
    ("per_device_eval_batch_size", (8,), "set eval_episodes instead"),
    (
        "auto_find_batch_size",
        (False,),
        "a rollout cannot be restarted with another batch size; lower micro_batch_tokens",
    ),
    (
        "ignore_data_skip",
        (False,),
        "the tasks of a rollout follow from the step, so a resumed run must skip to its step",
    ),
    ("include_num_input_tokens_seen", ("no", False), "there are no input batches to count; see the metric num_tokens"),
    ("label_smoothing_factor", (0, 0.0), "there are no labels to smooth"),
    ("neftune_noise_alpha", (None,), "noise in the embeddings makes the policy ratios meaningless"),
    ("deepspeed", (None,), "DeepSpeed is not supported yet; use `accelerate launch` with plain data parallelism"),
    ("torch_compile", (False,), "it is not supported yet"),
    ("fp16", (False,), "loss scaling would hide which updates are skipped; use bf16"),
    ("ddp_static_graph", (None, False), "the number of micro-batches changes from step to step"),
    ("use_liger_kernel", (False,), "it replaces the forward pass that scores replies"),
    ("enable_jit_checkpoint", (False,), "a SIGTERM always saves, once the updates of the rollout are done"),
    ("dataloader_num_workers", (0,), "there is nothing to load"),
)


def check_config(config: StepPOConfig) -> None:
    """Refuse settings that are out of range, contradict each other or would be ignored.

    Raises:
        ValueError: The setting's name, why it is refused and what to do instead.
    """
    for name, allowed, reason in _INHERITED:
        value = getattr(config, name)
        if value not in allowed:
            raise ValueError(f"{name}={value!r} is not supported: {reason}")
    if config.fsdp:
        raise ValueError("fsdp is not supported yet; use `accelerate launch` with plain data parallelism")
    _check_kinds(config)
    _check_sizes(config)
    _check_ranges(config)
    credit.get(config.advantage_estimator)
    loss_config(config)
    check_schedule(config)


def check_reporting(config: TrainingArguments) -> None:
    """Refuse to report where nobody is: transformers would say so once the model is loaded.

    Raises:
        ValueError: The name in `report_to`, and the package that it needs.
    """
    for name in config.report_to or ():
        fault = reporting_fault(name)
        if fault is not None:
            raise ValueError(f"report_to={name!r} cannot work: {fault}")


def loss_config(config: StepPOConfig) -> LossConfig:
    """The part of the settings that the loss reads."""
    in_loss = config.kl_in == "loss"
    if config.beta and in_loss:
        check_loss_estimator(config.kl_estimator)
    if config.beta and not in_loss and config.kl_estimator != "k1":
        raise ValueError(
            "kl_in='reward' takes kl_estimator='k1' (its sum over a reply is the log-ratio), "
            f"got {config.kl_estimator!r}"
        )
    return LossConfig(
        ratio_level=config.importance_sampling_level,
        epsilon_low=config.epsilon,
        epsilon_high=config.epsilon if config.epsilon_high is None else config.epsilon_high,
        dual_clip=config.dual_clip,
        beta=config.beta if in_loss else 0.0,
        kl_estimator="k3" if config.kl_estimator == "k1" else config.kl_estimator,
        entropy_coef=config.entropy_coef,
        value_clip=config.value_clip,
    )


def options(value: dict[str, Any] | str | None) -> dict[str, Any]:
    """A field of arguments as a dict; transformers has parsed JSON strings by the time that it is read.

    Raises:
        TypeError: If it is a string still, that is, no JSON object.
    """
    if isinstance(value, str):
        raise TypeError(f'expected a JSON object such as \'{{"split": "train"}}\', got the string {value!r}')
    return dict(value or {})


def check_schedule(config: StepPOConfig) -> None:
    """Check that the run ends and saves where a rollout's updates end.

    A checkpoint between two updates of the same rollout would have to hold the rollout. So checkpoints lie at multiples
    of `updates_per_rollout`; the default of `save_steps` is rounded up to one, another value is refused if it is none.

    Raises:
        ValueError: `max_steps`, `save_steps`, or with `load_best_model_at_end` `eval_steps`, is no multiple.
    """
    unit = config.updates_per_rollout
    if config.save_steps == _DEFAULT_SAVE_STEPS:
        config.save_steps = -(-_DEFAULT_SAVE_STEPS // unit) * unit
    checked = {"max_steps": config.max_steps if config.max_steps > 0 else None}
    if str(getattr(config.save_strategy, "value", config.save_strategy)) == "steps" and config.save_steps >= 1:
        checked["save_steps"] = int(config.save_steps)
    best = str(getattr(config.save_strategy, "value", config.save_strategy)) == "best"
    if (config.load_best_model_at_end or best) and config.eval_steps is not None and config.eval_steps >= 1:
        checked["eval_steps"] = int(config.eval_steps)
    for name, value in checked.items():
        if value is not None and value % unit:
            lower, upper = value // unit * unit, -(-value // unit) * unit
            nearest = f"{lower} or {upper}" if lower else f"{upper}"
            raise ValueError(
                f"{name}={value} must be a multiple of num_ppo_epochs * num_minibatches = {unit}, the optimizer steps "
                f"after each rollout; take {nearest}"
            )


def _check_kinds(config: StepPOConfig) -> None:
    """Refuse values of another kind than their field's before any is compared: NaN would pass, "false" be true."""
    for name, (kind, optional) in _own_kinds(type(config)).items():
        value, (cls, words) = getattr(config, name), _KINDS[kind]
        if value is None and optional:
            continue
        if not isinstance(value, cls) or (kind is not bool and isinstance(value, bool)) or value != value:
            raise ValueError(f"{name} must be {words}{' or None' if optional else ''}, got {value!r}")


def _own_kinds(config: type[StepPOConfig]) -> dict[str, tuple[type, bool]]:
    """Which field, beyond those of transformers, holds what, and whether None as well."""
    found: dict[str, tuple[type, bool]] = {}
    for name, hint in get_type_hints(config).items():
        kinds = set(get_args(hint) or (hint,))
        kind = next((kind for kind in _KINDS if kinds - {type(None)} == {kind}), None)
        if kind is not None and name not in BaseConfig.__dataclass_fields__:
            found[name] = kind, type(None) in kinds
    return found


def _check_sizes(config: StepPOConfig) -> None:
    for name in (
        "rollout_batch_size",
        "num_generations",
        "eval_num_generations",
        "max_prompt_length",
        "max_completion_length",
        "generation_batch_rows",
        "generation_batch_tokens",
        "num_ppo_epochs",
        "num_minibatches",
        "micro_batch_tokens",
        "max_skipped_updates",
    ):
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(config, name)}")
    for name in ("max_turns", "rollout_concurrency", "eval_episodes"):
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1 or None, got {value}")
    ids = config.stop_token_ids
    if ids is not None and not (isinstance(ids, (list, tuple)) and all(type(token) is int for token in ids)):
        raise ValueError(f"stop_token_ids must be a list of token ids or None, got {ids!r}")
    strings = config.stop_strings
    if strings is not None and not (
        isinstance(strings, (list, tuple)) and all(isinstance(s, str) and s for s in strings)
    ):
        raise ValueError(f"stop_strings must be a list of strings, none of them empty, or None, got {strings!r}")
    if config.rollout_batch_size % config.num_generations:
        raise ValueError(
            f"rollout_batch_size={config.rollout_batch_size} must be a multiple of num_generations="
            f"{config.num_generations}: a rollout holds whole groups"
        )


def check_credit(config: StepPOConfig) -> None:
    """Refuse options that the estimator does not take, and settings with which it would teach nothing.

    Call it once JSON strings have been parsed.

    Raises:
        ValueError: The options, and those that there are; or the setting, and what to do instead.
    """
    estimator = credit.get(config.advantage_estimator)
    kwargs = options(config.advantage_kwargs)
    try:
        estimator.check(kwargs)
    except (TypeError, ValueError) as error:
        raise ValueError(f"advantage_kwargs={kwargs!r} does not fit: {error}") from error
    if config.critic_warmup_steps and not estimator.needs_values:
        raise ValueError(
            f"critic_warmup_steps={config.critic_warmup_steps} would keep the policy still for nothing: "
            f"{config.advantage_estimator!r} has no critic. Set it to 0"
        )
    if config.num_generations == 1 and estimator.needs_groups:
        raise ValueError(
            f"num_generations=1 leaves {config.advantage_estimator!r} nothing to compare an episode with: every "
            "advantage would be 0. Set it to 2 or more, such as 8"
        )


def _check_ranges(config: StepPOConfig) -> None:
    if not 0 < config.temperature < math.inf:
        raise ValueError(
            f"temperature must be positive in training (greedy replies explore nothing), got {config.temperature}"
        )
    for name in ("gamma", "lam", "max_masked_ratio"):
        if not 0.0 <= getattr(config, name) <= 1.0:
            raise ValueError(f"{name} must be in [0, 1], got {getattr(config, name)}")
    at_least_0 = (
        "beta",
        "vf_coef",
        "entropy_coef",
        "eval_temperature",
        "critic_warmup_steps",
        "generation_cache_tokens",
    )
    for name in at_least_0:
        value = getattr(config, name)
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a number of at least 0, got {value}")
    if config.critic_max_grad_norm is not None and config.critic_max_grad_norm < 0:
        raise ValueError(f"critic_max_grad_norm must not be negative (or None), got {config.critic_max_grad_norm}")
    for name in ("target_kl", "critic_learning_rate"):
        value = getattr(config, name)
        if value is not None and value <= 0:
            raise ValueError(f"{name} must be positive or None, got {value}")
    for name in ("learning_rate", "critic_learning_rate"):
        value = getattr(config, name)
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a number of at least 0, got {value}")
    if config.eval_num_generations > 1 and config.eval_temperature == 0:
        raise ValueError(
            f"eval_num_generations={config.eval_num_generations} with eval_temperature=0 plays the same greedy episode "
            "again and again, so that pass@k says nothing: evaluate at a temperature above 0"
        )
    if config.loss_divisor is not None:
        if not 0 < config.loss_divisor < math.inf:
            raise ValueError(f"loss_divisor must be a positive number or None, got {config.loss_divisor}")
        if config.loss_aggregation != "token_sum":
            raise ValueError(
                f"loss_divisor={config.loss_divisor} has no meaning with loss_aggregation={config.loss_aggregation!r}, "
                "which divides by what the batch holds: leave it out, or set loss_aggregation='token_sum'"
            )
    if config.importance_sampling_cap < 1:
        raise ValueError(f"importance_sampling_cap must be at least 1, got {config.importance_sampling_cap}")
    for name, allowed in (
        ("bootstrap", ("auto", "none", "value")),
        ("critic", ("value_head", "separate")),
        ("value_grad_to_trunk", ("full", "detach")),
        ("history_thinking", ("keep", "strip")),
        ("recipe", RECIPES),
        ("step_anchor", ("state", "observation")),
        ("whitening_scope", ("environment", "batch")),
        ("kl_in", ("loss", "reward")),
        ("kl_estimator", ("k1", "k2", "k3")),
        ("importance_sampling_correction", ("none", "token", "sequence")),
        ("loss_aggregation", get_args(Aggregation)),
    ):
        if getattr(config, name) not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(config, name)!r}")
