"""How much memory a run will take on each GPU, before anything is loaded.

A plan holds what memory depends on. Weights, gradients and the optimizer's state follow from numbers of parameters,
keys and values from the shape of the model; what a pass allocates is traced (`train.tracing`). All in bytes.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent_r1_trainer.model_folders import loading_errors
from agent_r1_trainer.tiny_policy import CHECKPOINTS

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from agent_r1_trainer.train.settings import TrainSettings

__all__ = ["Estimate", "Plan", "advise", "estimate", "keys_values", "make_plan", "parse_memory", "read_config"]

SLOTS = 1.6
"""Most tokens that the caches of a rollout have memory for, for each that is live."""
RESERVE = 0.05
"""Share of a GPU that fragments and the driver's context take."""
_STATE = {"adamw": 8, "adam": 8, "adamw_8bit": 2, "paged_adamw_8bit": 2, "adafactor": 0, "sgd": 0, "rmsprop": 4}
_TOKENS = {True: 16384, False: 4096}
"""Of a micro-batch, on a GPU and on a CPU, where the settings name no number."""
_UNITS = {"": 1, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run's memory depends on, beside its model.

    Attributes:
        micro_batch_tokens: Most tokens of a pass.
        length: Tokens of the longest sequence.
        episodes: Played at a time on each GPU.
        critic: Of which kind, if any.
        reference: There is a frozen copy of the policy.
        checkpointing: Activations are computed again in the backward pass.
        bf16: Passes are computed under autocast.
        optim: The optimizer, by transformers' name.
        lora: Arguments of `peft.LoraConfig`, or None.
        weight_bytes: Of each weight that is not trained; trained ones have four.
        generates: This process keeps keys and values of a rollout.
    """

    micro_batch_tokens: int
    length: int
    episodes: int
    critic: Literal["none", "value_head", "separate"] = "value_head"
    reference: bool = False
    checkpointing: bool = False
    bf16: bool = False
    optim: str = "adamw_torch"
    lora: Mapping[str, Any] | None = None
    weight_bytes: int = 4
    generates: bool = True


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes, by what takes them.

    Attributes:
        weights: Of the policy.
        reference: Of its frozen copy.
        critic: Weights of a separate critic.
        gradients: Of all that is trained.
        optimizer: Its state.
        activations: Of the trunk, at the peak of an update.
        head: What the head of the language model adds to that peak.
        keys_values: Of a rollout, while there are no gradients.
    """

    weights: int
    reference: int
    critic: int
    gradients: int
    optimizer: int
    activations: int
    head: int
    keys_values: int

    @property
    def always(self) -> int:
        """What stays from the first update on."""
        return self.weights + self.reference + self.critic + self.optimizer

    @property
    def update(self) -> int:
        """At the peak of an update of several micro-batches: gradients of the earlier ones are there."""
        return self.always + self.gradients + self.activations + self.head

    @property
    def rollout(self) -> int:
        """At the peak of a rollout."""
        return self.always + self.keys_values

    @property
    def peak(self) -> int:
        """The larger of both."""
        return max(self.update, self.rollout)


def read_config(model: str) -> PretrainedConfig:
    """The configuration of a model; its weights need not be there.

    Args:
        model: Name of a shipped policy, a folder or a name as `from_pretrained` takes it, or a `config.json`.

    Raises:
        OSError: There is none.
    """
    from transformers import AutoConfig

    path = Path(CHECKPOINTS.get(model, model))
    if path.name == "config.json":
        path = path.parent
    if (path.is_absolute() or path.is_dir()) and not (path / "config.json").is_file():
        raise OSError(f"there is no config.json in {path}; --estimate reads that of a full model")
    try:
        with loading_errors(str(path)):
            return AutoConfig.from_pretrained(str(path))
    except OSError as error:
        raise OSError(f"a folder with the model's config.json is enough, but {error}") from error


def make_plan(settings: TrainSettings, config: PretrainedConfig, *, gpu: bool) -> Plan:
    """What memory depends on, from a file of settings.

    Args:
        settings: The run.
        config: Of its model.
        gpu: Take the defaults that hold on a GPU, wherever this runs.

    Raises:
        ValueError: A setting that cannot work.
    """
    from agent_r1_trainer.steppo_config import StepPOConfig, options

    said = settings.training
    budget = said.get("micro_batch_tokens")  # a size or "auto" is what is free, which nobody knows here
    args = StepPOConfig(**{**said, "bf16": False, "use_cpu": True, "activation_offloading": False})  # as a CPU can
    window = getattr(config.get_text_config(), "max_position_embeddings", None) or math.inf
    given = str(options(args.model_init_kwargs).get("dtype", options(args.model_init_kwargs).get("torch_dtype", "")))
    checkpointing = said.get("activation_checkpointing", said.get("gradient_checkpointing"))
    bf16 = gpu if said.get("bf16") is None else said["bf16"]
    return Plan(
        micro_batch_tokens=budget if isinstance(budget, int) else _TOKENS[gpu],
        length=int(min(args.max_prompt_length + args.max_completion_length, window)),
        episodes=args.rollout_batch_size,
        critic=args.critic if args.uses_critic else "none",
        reference=bool(args.beta) and settings.peft is None,
        checkpointing=gpu if checkpointing is None else checkpointing,
        bf16=bf16,
        optim=str(getattr(args.optim, "value", args.optim)),
        lora=settings.peft,
        weight_bytes=2 if "16" in given or (gpu and bf16) else 4,
        generates=not said.get("use_vllm"),
    )


def estimate(config: PretrainedConfig, plan: Plan, *, rows: int | None = None, replies: int | None = None) -> Estimate:
    """Estimate a run's memory.

    With P parameters, T of them trained: weights ``4 T + weight_bytes (P - T)``, gradients ``4 T``, the optimizer's
    state ``8 T`` for AdamW in fp32. A separate critic has the trunk once more. Keys and values: see `keys_values`.

    Args:
        config: Of the model.
        plan: The run.
        rows: Sequences of a micro-batch; None takes as many of the longest as fit.
        replies: Tokens of it that the policy sampled; None takes all, which is a bound.
    """
    from agent_r1_trainer.train.tracing import Pass, count_parameters, trace_pass

    lora = None if plan.lora is None else dict(plan.lora)
    total, trained, untied = count_parameters(config, lora)
    separate = plan.critic == "separate"
    critic_total = total - untied if separate else 0
    critic_trained = (trained if lora is not None else critic_total) if separate else 0
    both = trained + critic_trained
    width = config.get_text_config().hidden_size + 1 if plan.critic != "none" else 0  # the value head
    rows = max(plan.micro_batch_tokens // plan.length, 1) if rows is None else rows
    tokens = rows * (plan.length - 1) if replies is None else replies
    shape = Pass(
        rows, plan.length, tokens, plan.bf16, plan.checkpointing, plan.critic == "value_head", lora is not None
    )
    whole = trace_pass(config, shape)
    trunk = min(trace_pass(config, dataclasses.replace(shape, replies=1)), whole)
    return Estimate(
        weights=4 * trained + plan.weight_bytes * (total - trained),
        reference=plan.weight_bytes * total if plan.reference else 0,
        critic=4 * critic_trained + plan.weight_bytes * (critic_total - critic_trained) + 4 * width,
        gradients=4 * (both + width),
        optimizer=_state_bytes(plan.optim) * (both + width),
        activations=trunk,
        head=whole - trunk,
        keys_values=keys_values(config, plan.episodes * plan.length, 2 if plan.bf16 else 4) if plan.generates else 0,
    )


def keys_values(config: PretrainedConfig, tokens: int, itemsize: int) -> int:
    """Bytes of keys and values: ``2 x layers x key-value heads x head width x itemsize`` a token, `SLOTS` tokens each.

    Args:
        config: Of the model.
        tokens: That are live.
        itemsize: Bytes of a number.
    """
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return int(SLOTS * tokens) * 2 * text.num_hidden_layers * heads * size * itemsize


def advise(config: PretrainedConfig, plan: Plan, memory: int) -> list[tuple[str, Estimate]]:
    """Changes that make a run fit, each on top of those before; empty if it fits. The last may not be enough.

    Args:
        config: Of the model.
        plan: The run.
        memory: Of a GPU, in bytes.
    """
    limit = memory * (1.0 - RESERVE)
    now = estimate(config, plan)
    steps: list[tuple[str, Estimate]] = []
    for say, changed in _changes(plan):
        if now.peak <= limit:
            break
        plan_then = dataclasses.replace(plan, **changed)
        then = estimate(config, plan_then)
        if _excess(then, limit) < 0.98 * _excess(now, limit):
            plan, now = plan_then, then
            steps.append((say, then))
    return steps


def _excess(found: Estimate, limit: float) -> float:
    """Bytes above a limit, at the peak of an update and at that of a rollout together."""
    return max(found.update - limit, 0.0) + max(found.rollout - limit, 0.0)


def _changes(plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    changes: list[tuple[str, dict[str, Any]]] = []
    if not plan.bf16:
        changes.append(("bf16: true", {"bf16": True}))
    if not plan.checkpointing:
        changes.append(("activation_checkpointing: true", {"checkpointing": True}))
    fewer = [plan.micro_batch_tokens // part for part in (2, 4, 8) if plan.micro_batch_tokens // part >= plan.length]
    changes += [(f"micro_batch_tokens: {tokens}", {"micro_batch_tokens": tokens}) for tokens in fewer]
    episodes = [plan.episodes // part for part in (2, 4, 8) if plan.generates and plan.episodes % part == 0]
    changes += [(f"rollout_batch_size: {count} (or as many GPUs more)", {"episodes": count}) for count in episodes]
    if plan.critic == "separate":
        changes.append(("critic: value_head", {"critic": "value_head"}))
    if plan.lora is None:
        lora = {"r": 32, "target_modules": "all-linear"}
        changes.append(("peft: {r: 32, target_modules: all-linear}", {"lora": lora, "reference": False}))
    if plan.weight_bytes > 2:
        changes.append(("model_init_kwargs: {dtype: bfloat16}, with peft", {"weight_bytes": 2}))
    return changes


def _state_bytes(optim: str) -> int:
    """Bytes of an optimizer's state for each parameter that is trained."""
    names = sorted(_STATE, key=len, reverse=True)
    return next((_STATE[name] for name in names if optim.startswith(name)), 8)


def parse_memory(text: str) -> int:
    """Read a size such as `80GiB`, `24 GB` or `500MiB`.

    Raises:
        ValueError: It is none, or has no unit.

    >>> parse_memory("80GiB"), parse_memory("1.5 GB")
    (85899345920, 1500000000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)\s*", text, re.IGNORECASE)
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"a size of memory is a number with a unit, such as 80GiB, got {text!r}")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[(found[2] or "").upper()])
