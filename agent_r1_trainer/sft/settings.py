"""What a warm start is told, and the `SFTConfig` that comes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_r1_envs.names import did_you_mean

if TYPE_CHECKING:
    from trl import SFTConfig

__all__ = ["WarmStartSettings", "check_names", "make_sft_config", "parse_warm_start"]

_FIXED = {
    "output_dir": "it is the folder of the warm start",
    "resume_from_checkpoint": "a warm start resumes by itself",
    "completion_only_loss": "the loss is on the expert's replies only",
    "assistant_only_loss": "the loss is on the expert's replies only",
    "chat_template_path": "the model must keep the template that reinforcement learning uses",
    "eos_token": "the model must keep the tokenizer that reinforcement learning uses",
    "truncation_mode": "nothing is cut; demonstrations above `max_length` are left out",
    "dataset_text_field": "the data are chat messages",
    "dataset_kwargs": "the data come in as ids",
    "eval_strategy": "the exam and the evaluation of reinforcement learning measure the policy",
    "load_best_model_at_end": "nothing is evaluated",
}


@dataclass(frozen=True, slots=True)
class WarmStartSettings:
    """The key `warm_start` of a run.

    Attributes:
        data: A file of demonstrations; None makes them in the environment of training.
        episodes: How many to make then.
        only_successful: Whether those whose task was not solved are left out then.
        sft: Fields of `trl.SFTConfig`.
    """

    data: str | None = None
    episodes: int | None = None
    only_successful: bool = True
    sft: dict[str, Any] = field(default_factory=dict)


def parse_warm_start(values: Any, source: str) -> WarmStartSettings:
    """Sort the keys of the mapping `warm_start`.

    Raises:
        ValueError: It is no mapping, has neither or both of `data` and `episodes`, or a key that nobody knows.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{source}: warm_start must hold settings of its own, got {values!r}")
    own = {f.name for f in dataclasses.fields(WarmStartSettings)} - {"sft"}
    check_names(values, f"{source}: warm_start", own)
    mine = {name: value for name, value in values.items() if name in own}
    settings = WarmStartSettings(**mine, sft={name: value for name, value in values.items() if name not in own})
    if (settings.data is None) == (settings.episodes is None):
        raise ValueError(
            f"{source}: warm_start takes either `data: FILE` or `episodes: N`, how many demonstrations to make "
            "(null takes away the one that an extended file has)"
        )
    if settings.data is not None and not isinstance(settings.data, str):
        raise ValueError(f"{source}: warm_start: data must be the path of a file, got {settings.data!r}")
    if settings.episodes is not None and (type(settings.episodes) is not int or settings.episodes < 1):
        raise ValueError(f"{source}: warm_start: episodes must be a number above 0, got {settings.episodes!r}")
    return settings


def check_names(values: Mapping[str, Any], source: str, own: set[str] | None = None) -> None:
    """Refuse names that are neither fields of `SFTConfig` nor in `own`, and those that a warm start decides itself.

    Raises:
        ValueError: There is such a name.
    """
    from trl import SFTConfig

    known = (own or set()) | {f.name for f in dataclasses.fields(SFTConfig) if f.init} - _FIXED.keys()
    for name in values:
        if name in _FIXED:
            raise ValueError(f"{source}: {name} cannot be set: {_FIXED[name]}")
        if name not in known:
            raise ValueError(f"{source}: there is no setting {name!r}{did_you_mean(str(name), sorted(known))}")


def make_sft_config(output_dir: str, values: Mapping[str, Any]) -> SFTConfig:
    """Make an `SFTConfig` with defaults for this machine: on a CPU neither bf16 nor activation checkpointing.

    Nothing is cut (`max_length=None`), nobody is reported to (`report_to="none"`), and a fifth of the steps lies
    between two checkpoints, unless `values` say otherwise.

    Raises:
        ValueError: A field out of its range.
    """
    import torch
    from trl import SFTConfig

    from agent_r1_trainer.steppo_config import check_reporting

    on_cpu = values.get("use_cpu", False) or not torch.cuda.is_available()
    names = ("activation_checkpointing", "gradient_checkpointing")  # the older name is that of older releases
    known = [name for name in names if name in {f.name for f in dataclasses.fields(SFTConfig)}]
    machine: dict[str, Any] = {"bf16": False} if on_cpu else {}
    if not any(name in values for name in names):
        machine[known[0]] = not on_cpu
    defaults = {
        "max_length": None,
        "report_to": "none",
        "save_steps": 0.2,
        "save_total_limit": 2,
        "disable_tqdm": True,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "completion_only_loss": True,
    }
    config = SFTConfig(output_dir, **{**defaults, **machine, **values})
    check_reporting(config)
    return config
