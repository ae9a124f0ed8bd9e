"""The models of a run: the policy, its reference and its critic, and the tokenizer."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from agent_r1_trainer._compat import base_causal_lm, create_model_from_path, disable_dropout_in_model, is_peft_model
from agent_r1_trainer.learning.critic import CriticModel, load_saved_critic
from agent_r1_trainer.learning.scoring import Reference, attach_scoring
from agent_r1_trainer.learning.value_scale import ValueScales
from agent_r1_trainer.model_folders import loading_errors
from agent_r1_trainer.packing import merge_obstacle
from agent_r1_trainer.prompts import ChatRenderer, closing_ids
from agent_r1_trainer.steppo_config import options
from agent_r1_trainer.trainer.precision import frozen_dtype, store_frozen

if TYPE_CHECKING:
    from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["Models", "build_models", "check_trainable_weights", "load_model", "prompt_limit", "stop_token_ids"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Models:
    """What a run computes with.

    Attributes:
        policy: Scores and generates; has a value head unless the critic is separate or the estimator needs none.
        tokenizer: Of the policy.
        critic: The separate critic's model, or None.
        reference: The policy at the start, or None without a KL.
        merge: Whether steps may be merged into sequences.
        scales: The units of the critic or value head, or None without one.
    """

    policy: nn.Module
    tokenizer: PreTrainedTokenizerBase
    critic: CriticModel | None
    reference: Reference | None
    merge: bool
    scales: ValueScales | None


def build_models(
    model: str | nn.Module,
    config: StepPOConfig,
    tokenizer: PreTrainedTokenizerBase | None = None,
    peft_config: Any | None = None,
    envs: Sequence[str] = ("",),
) -> Models:
    """Load or take over the policy and derive the other models from it.

    Args:
        model: A name or path for `from_pretrained` (the value head or critic that a run saved beside the weights is
            loaded too), or a causal language model, possibly with PEFT adapters.
        config: The settings.
        tokenizer: None loads the one of the model's name.
        peft_config: Adapters to add. The policy without them is the reference, so that no copy is needed.
        envs: The environments that are trained on, by name: each has a row of the value head or critic.

    Raises:
        ValueError: PEFT is asked for twice, or of a kind that changes the prompt; or a model that cannot be trained.
    """
    if isinstance(model, str):
        name = model
        policy: nn.Module = load_model(model, options(config.model_init_kwargs))
    else:
        name, policy = str(getattr(model.config, "_name_or_path", "")), model
    if tokenizer is None:
        if not name:
            raise ValueError("processing_class is needed: the model has no name to load a tokenizer by")
        tokenizer = AutoTokenizer.from_pretrained(name)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    had_adapters = is_peft_model(policy)
    if peft_config is not None:
        policy = _add_adapters(policy, peft_config)
    for adapter in getattr(policy, "peft_config", {}).values():
        if getattr(adapter, "is_prompt_learning", False):
            raise ValueError("PEFT methods that learn a prompt are not supported: prompts are exact token ids")
    if getattr(base_causal_lm(policy), "is_quantized", False) and not is_peft_model(policy):
        raise ValueError("quantised weights cannot be trained: add adapters (peft_config, in a recipe `peft`)")
    check_trainable_weights(policy)
    disable_dropout(policy)
    dtype = frozen_dtype(config.device.type, bf16=bool(config.bf16))
    if is_peft_model(policy):
        store_frozen(policy, dtype, "policy under its adapters")

    needs_values = config.uses_critic
    scales = ValueScales(envs) if needs_values else None
    separate = needs_values and config.critic == "separate"
    critic = CriticModel(policy, len(envs), offload=config.activation_offloading) if separate else None
    frozen = copy.deepcopy(policy) if config.beta and (had_adapters or peft_config is None) else None
    rows = len(envs) if needs_values and critic is None else 0
    offload = config.activation_offloading
    attach_scoring(policy, temperature=config.temperature, value_head=rows, offload=offload)
    if isinstance(model, str):
        load_saved_critic(Path(model), critic, getattr(base_causal_lm(policy), "value_head", None), scales)
    if frozen is not None:
        attach_scoring(frozen, temperature=config.temperature)
        store_frozen(frozen.requires_grad_(False), dtype, "reference")
    obstacle = merge_obstacle(base_causal_lm(policy).config, policy)
    if config.merge_steps and obstacle is not None:
        logger.warning("every step is computed as a sequence of its own, because of the model: %s", obstacle)
    limit = prompt_limit(policy, config)
    if limit < config.max_prompt_length:
        logger.warning(
            "prompts may have %d tokens, not max_prompt_length=%d: the model's context, less a reply of "
            "max_completion_length=%d, holds no more",
            limit,
            config.max_prompt_length,
            config.max_completion_length,
        )
    return Models(
        policy=policy,
        tokenizer=tokenizer,
        critic=critic,
        reference=Reference(policy, frozen) if config.beta else None,
        merge=config.merge_steps and obstacle is None,
        scales=scales,
    )


def load_model(name: str, init: Mapping[str, Any]) -> PreTrainedModel:
    """Load a causal language model, in float32 unless `init` says otherwise.

    Args:
        name: Name or path.
        init: Arguments of `from_pretrained`. `torch_dtype`, the older name of `dtype`, is obeyed too. A mapping as
            `quantization_config` holds the arguments of transformers' `BitsAndBytesConfig` (QLoRA).

    Raises:
        OSError: There is no such model.
        ImportError: `quantization_config` without the package bitsandbytes.
    """
    given = dict(init)
    if given.get("quantization_config") is not None:
        given["quantization_config"] = _quantization(given["quantization_config"])
    older = given.pop("torch_dtype", "float32")
    with loading_errors(name):
        return create_model_from_path(name, **{"dtype": older, **given})


def _quantization(value: Any) -> Any:
    if find_spec("bitsandbytes") is None:
        raise ImportError(
            "quantization_config in model_init_kwargs needs the package bitsandbytes (pip install bitsandbytes): "
            "leave it out, and adapters are trained on weights of 16 or 32 bits"
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(**value) if isinstance(value, Mapping) else value


def check_trainable_weights(model: nn.Module) -> None:
    """Refuse trainable weights of 16 bits: a step of a usual learning rate is smaller than what they can tell apart.

    A bfloat16 number has 8 significant bits, so that 1 + 1e-6 is 1. At a learning rate of 1e-6 most weights would never
    move, without a word. Frozen ones may have any type.

    Args:
        model: With adapters, if there are any.

    Raises:
        ValueError: Which weights they are, and what to do.
    """
    trainable = {name: parameter.dtype for name, parameter in model.named_parameters() if parameter.requires_grad}
    small = {name: dtype for name, dtype in trainable.items() if dtype.is_floating_point and dtype.itemsize < 4}
    if not small:
        return
    names = ", ".join(list(small)[:3]) + (", ..." if len(small) > 3 else "")
    types = " and ".join(sorted({str(dtype).removeprefix("torch.") for dtype in small.values()}))
    raise ValueError(
        f"{len(small)} of the model's {len(trainable)} trainable parameters are {types} ({names}), which rounds most "
        "updates away. Train float32 weights: leave the dtype out of model_init_kwargs, or call .float() on a model or "
        "an adapter of your own; bf16=True still computes in bfloat16. Or train adapters of float32 on the frozen "
        "weights (peft_config, in a recipe `peft`)"
    )


def disable_dropout(model: nn.Module) -> None:
    """Turn every kind of dropout off, adapters' and attention's too: with it old and new log-probabilities differ."""
    disable_dropout_in_model(model)
    for module in model.modules():
        for name, value in vars(module).items():
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)


def prompt_limit(policy: nn.Module, config: StepPOConfig) -> int:
    """Longest prompt that leaves room for a reply in the model's context window.

    Raises:
        ValueError: If a reply of `max_completion_length` leaves no room for a prompt.
    """
    window = getattr(base_causal_lm(policy).config.get_text_config(), "max_position_embeddings", None)
    if window is None:
        return config.max_prompt_length
    if window <= config.max_completion_length:
        raise ValueError(
            f"max_completion_length={config.max_completion_length} leaves no room for a prompt in the model's context "
            f"of {window} tokens"
        )
    return min(config.max_prompt_length, window - config.max_completion_length)


def stop_token_ids(
    policy: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    *,
    more: Sequence[int] = (),
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> tuple[int, ...]:
    """Tokens that end a reply, ascending.

    They are the tokenizer's end token, those of the model's generation settings, and the one with which the chat
    template closes an assistant's turn. Base models often declare another end token than the template's; without it a
    reply would run on into a turn of the user's that the policy invents.

    Args:
        policy: The model.
        tokenizer: Of the policy.
        more: Further ones that were asked for.
        chat_template_kwargs: Of the chat template.

    Raises:
        ValueError: If there is none: every reply would run to its limit. Or one of `more` is no token.
    """
    declared = getattr(getattr(base_causal_lm(policy), "generation_config", None), "eos_token_id", None)
    ids = set(declared if isinstance(declared, list) else [declared]) | {tokenizer.eos_token_id, *more}
    ids.discard(None)
    beyond = [token for token in more if not 0 <= token < len(tokenizer)]
    if beyond:
        raise ValueError(f"stop_token_ids: {beyond} are no ids of the tokenizer, which has {len(tokenizer)} tokens")
    closing = closing_ids(ChatRenderer(tokenizer, chat_template_kwargs))
    if closing and not ids.intersection(closing):
        logger.warning(
            "replies also end with %r, with which the chat template closes an assistant's turn: neither the tokenizer "
            "nor the model's generation_config declares it as an end token",
            tokenizer.decode(closing[:1]),
        )
        ids.add(closing[0])
    if not ids:
        raise ValueError(
            "neither the tokenizer nor the model's generation_config nor the chat template has an end-of-turn token: "
            "set stop_token_ids"
        )
    return tuple(sorted(ids))


def _add_adapters(policy: nn.Module, peft_config: Any) -> nn.Module:
    try:
        from peft import get_peft_model
    except ImportError as error:
        raise ImportError("peft_config needs the package peft: pip install peft") from error
    if is_peft_model(policy):
        raise ValueError("the model already has PEFT adapters: pass either those or peft_config, not both")
    return get_peft_model(policy, peft_config)
