"""What may change when a run goes on, and what would make another run of it.

A checkpoint says what it was written with. Whatever decides which episodes are played and what is learned from them is
refused when it has changed: the first half of the run would answer another question than the second. What only decides
how fast, how long, with which learning rate or how well watched it is trained is applied, and said in the log.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import EnvSpec

from agent_r1_envs.services.secrecy import without_secrets

if TYPE_CHECKING:
    from torch import nn

    from agent_r1_trainer.environments.factory import EnvArgument, Panel
    from agent_r1_trainer.environments.mixture import MixtureEntry
    from agent_r1_trainer.steppo_config import StepPOConfig
    from agent_r1_trainer.trainer.models import Models

__all__ = [
    "Difference",
    "check_resumed",
    "compare_settings",
    "config_settings",
    "differences",
    "environment_settings",
    "is_applied",
    "panel_settings",
    "plain",
    "start_of",
]

logger = logging.getLogger(__name__)

_APPLIED = frozenset(
    "env_workers max_env_workers env_timeout env_retries env_failure "
    "rollout_concurrency generation_batch_rows generation_batch_tokens generation_cache_tokens micro_batch_tokens "
    "activation_offloading merge_steps max_skipped_updates max_masked_ratio critic_learning_rate critic_max_grad_norm "
    "vllm_mode vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout vllm_request_timeout "
    "vllm_retries vllm_sync_mode vllm_sync_dir vllm_group_port vllm_tensor_parallel_size "
    "vllm_gpu_memory_utilization vllm_max_model_length vllm_enable_sleep_mode vllm_model_impl max_logp_difference "
    "eval_env_kwargs eval_episodes eval_num_generations eval_temperature eval_greedy entropy_steps log_completions "
    "num_completions_to_print".split()
)
"""Fields of `StepPOConfig` itself that a resumed run takes from now; those of `TrainingArguments` are all such but:"""
_FIXED = frozenset("seed optim optim_args optim_target_modules".split())
_ADAPTIVE = frozenset({"reduce_lr_on_plateau", "greedy"})  # their learning rate is a state, which a new one would lose
_RATES = frozenset("learning_rate critic_learning_rate lr_scheduler_type lr_scheduler_kwargs".split())
_NOWHERE = frozenset(
    "output_dir logging_dir run_name project trackio_space_id hub_model_id hub_token push_to_hub_token local_rank "
    "resume_from_checkpoint overwrite_output_dir remove_unused_columns model_init_kwargs".split()
)
"""Fields that say nothing of how the run is trained, or that may hold a secret."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that was another one.

    Attributes:
        name: Where it is, as `env_kwargs.top_k`.
        there: What a checkpoint or a folder was made with; None where it was not set.
        now: What was asked for.
    """

    name: str
    there: Any
    now: Any

    def __str__(self) -> str:
        """Name both values."""
        return f"{self.name}: {_short(self.there)} there, {_short(self.now)} now"


def differences(there: Any, now: Any, name: str = "", *, common: bool = False) -> Iterator[Difference]:
    """What differs between two values of JSON data, mappings key by key.

    Args:
        there: The old value.
        now: The new one.
        name: Of the value.
        common: Look only at what both mappings have; else what is missing counts as None.
    """
    if isinstance(there, Mapping) and isinstance(now, Mapping):
        for key in sorted({*there} & {*now} if common else {*there, *now}):
            yield from differences(there.get(key), now.get(key), f"{name}.{key}" if name else key, common=common)
    elif there != now or isinstance(there, bool) != isinstance(now, bool):
        yield Difference(name, there, now)


def is_applied(name: str) -> bool:
    """Whether a run may go on with another value of a field of `StepPOConfig`."""
    return name in _APPLIED if name in _own_fields() else name not in _FIXED


def compare_settings(
    there: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Compare what a checkpoint was written with and what there is now.

    A setting that only one of them knows belongs to another version of this package and says nothing.

    Args:
        there: Settings by name, JSON data.
        now: The same.

    Returns:
        What makes another run, and what can be applied.
    """
    there, now = without_secrets(there), without_secrets(now)
    found = [
        difference
        for name in sorted({*there} & {*now} - _NOWHERE)
        # Adapters of another version of PEFT have other fields; other arguments of an environment do differ.
        for difference in differences(there[name], now[name], name, common=name == "adapters")
    ]
    adaptive = not _ADAPTIVE.isdisjoint({there.get("lr_scheduler_type"), now.get("lr_scheduler_type")})
    fixed = tuple(difference for difference in found if not _may_change(difference.name.split("."), adaptive))
    return fixed, tuple(d for d in found if d not in fixed)


def check_resumed(checkpoint: str, there: Mapping[str, Any] | None, now: Mapping[str, Any], *, say: bool) -> None:
    """Refuse a checkpoint of another run, and say which new settings are applied.

    Args:
        checkpoint: Its path.
        there: What it was written with; None if it does not say.
        now: What there is now.
        say: Whether this process writes to the log.

    Raises:
        ValueError: What makes another run, with both values.
    """
    if there is None:
        if say:
            logger.warning("%s does not say what it was written with: the settings could not be compared", checkpoint)
        return
    fixed, applied = compare_settings(there, json.loads(json.dumps(now)))
    if fixed:
        raise ValueError(
            f"{checkpoint} was written with other settings, and to go on with these would make another run of it:"
            + "".join(f"\n  {difference}" for difference in fixed)
            + "\nTake what it was written with; or begin a new run from its weights, with the checkpoint as `model` "
            "and another output_dir"
        )
    if applied and say:
        logger.warning("going on from %s with new settings: %s", checkpoint, "; ".join(map(str, applied)))


def config_settings(config: StepPOConfig) -> dict[str, Any]:
    """The fields of a config as JSON data, defaults that depend on others filled in."""
    values = {field.name: getattr(config, field.name) for field in fields(config) if field.init}
    values |= {
        "critic_learning_rate": config.critic_lr,
        "critic_max_grad_norm": config.critic_clip,
        "epsilon_high": config.upper_epsilon,
    }
    for name in ("env_kwargs", "advantage_kwargs", "chat_template_kwargs"):
        values[name] = values[name] or {}
    return plain({name: value for name, value in values.items() if name not in _NOWHERE})


def environment_settings(entries: Mapping[str, MixtureEntry]) -> dict[str, Any]:
    """What is trained on, as JSON data: `env` for a single environment, `envs` for those of a mixture."""
    if set(entries) <= {""}:
        return {"env": _source(entries[""].env) if entries else None, "envs": {}}
    envs = {}
    for name, entry in entries.items():
        if entry.weight > 0:
            settings = {field.name: plain(getattr(entry, field.name)) for field in fields(entry)}
            envs[name] = {**settings, "env": _source(entry.env)}
    return {"env": None, "envs": envs}


def panel_settings(panels: Mapping[str, int | None], tasks: Mapping[str, Panel | None]) -> dict[str, Any]:
    """The tasks of each environment, as JSON data; those of a single one without its empty name.

    Args:
        panels: Their number.
        tasks: More of them, where a flow knows it.
    """
    found = {}
    for name, count in panels.items():
        panel = tasks.get(name)
        more = {} if panel is None else {"dataset": panel.dataset, "split": panel.split, "hash": panel.digest}
        found[name] = {"count": count, **more}
    return found[""] if set(found) == {""} else found


def start_of(models: Models) -> str | None:
    """A hash of the weights that a run starts from and needs to the end: its reference, or what adapters adapt.

    It reads the beginning of every tensor and rounds to bfloat16, so that it costs nothing and does not depend on how
    the weights were loaded. None where the checkpoint replaces all weights.
    """
    reference = None if models.reference is None else models.reference.copy
    kept = [p for p in models.policy.parameters() if not p.requires_grad]
    return _hash(list(reference.parameters()) if reference is not None else kept)


def plain(value: Any) -> Any:
    """Make JSON data of what an argument may hold; whatever is no data counts by its name."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=str)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(item) for item in value]
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, functools.partial):
        return [plain(value.func), plain(value.args), plain(value.keywords)]
    if type(value).__module__ == "torch":  # a dtype, a device
        return str(value)
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return plain(value.tolist())
    if hasattr(value, "__fspath__"):
        return str(value)
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


def _source(env: EnvArgument) -> Any:
    if not isinstance(env, EnvSpec):
        return plain(env)
    return {"id": env.id, "kwargs": plain(env.kwargs), "max_episode_steps": env.max_episode_steps}


def _may_change(path: Sequence[str], adaptive: bool) -> bool:
    if path[0] == "envs":
        return "eval_kwargs" in path[2:3]
    return is_applied(path[0]) and not (adaptive and path[0] in _RATES)


@functools.cache
def _own_fields() -> frozenset[str]:
    """What `StepPOConfig` adds to the arguments of transformers, and what a trainer is given beside it."""
    from agent_r1_trainer._compat import BaseConfig
    from agent_r1_trainer.steppo_config import StepPOConfig

    own = {field.name for field in fields(StepPOConfig)} - {field.name for field in fields(BaseConfig)}
    return frozenset(own | set("model env envs tasks flow start adapters peft chat_template warm_start".split()))


def _hash(parameters: Sequence[nn.Parameter]) -> str | None:
    import torch

    digest, any_left = hashlib.sha256(), False
    for parameter in parameters:
        if parameter.is_floating_point():  # quantised weights say nothing that could be compared
            any_left = True
            part = parameter.detach().flatten()[:64].to(torch.bfloat16).float().cpu()
            digest.update(part.numpy().tobytes())
    return digest.hexdigest()[:16] if any_left else None


def _short(value: Any) -> str:
    text = json.dumps(without_secrets(value), ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "..."
