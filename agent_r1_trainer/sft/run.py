"""The warm start: fine-tuning that can be interrupted, and a model that reinforcement learning starts from.

Its folder says what it was made of, so that no folder ever mixes two.
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PrinterCallback, TrainerCallback, TrainerState
from trl import SFTConfig, SFTTrainer

from agent_r1_envs.files import sha256, write_json
from agent_r1_trainer._compat import is_peft_model
from agent_r1_trainer.demos.file import read_rows
from agent_r1_trainer.files import read_manifest, refuse_another, run_lock
from agent_r1_trainer.learning.distributed import held_by_main
from agent_r1_trainer.packing import merge_obstacle
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.sft.data import Encoded, Limits, encode_demonstrations
from agent_r1_trainer.sft.settings import check_names, make_sft_config
from agent_r1_trainer.trainer.checkpointing import BoundaryCallback, last_whole_checkpoint
from agent_r1_trainer.trainer.models import check_trainable_weights, load_model, stop_token_ids
from agent_r1_trainer.trainer.resuming import differences

__all__ = ["WarmStartStopped", "claim_folder", "digest", "warm_start"]

logger = logging.getLogger(__name__)


_FILE = "warm_start.json"


def claim_folder(folder: Path, manifest: Mapping[str, Any], *, write: bool) -> None:
    """Make `folder` the home of a warm start with this manifest, or check that it is.

    Args:
        folder: Made when missing.
        manifest: What decides the result; whatever is no JSON counts by its text.
        write: Whether this process is the one that writes.

    Raises:
        ManifestError: The folder holds checkpoints or the model of another warm start.
    """
    path = folder / _FILE
    wanted = json.loads(json.dumps(manifest, default=_plain))
    way_out = "choose another folder or remove it"
    found = read_manifest(path, way_out)
    if found is not None and ((folder / "model").exists() or any(folder.glob("checkpoint-*"))):
        refuse_another(folder, "a warm start", differences(found, wanted), way_out)
    if write:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, wanted)


def digest(data: str | os.PathLike[str] | Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 (hex) of a file, or of rows.

    Raises:
        OSError: The file cannot be read.
    """
    if isinstance(data, (str, os.PathLike)):
        return sha256(Path(data))
    found = hashlib.sha256()
    for row in data:
        found.update(json.dumps(row, sort_keys=True, default=_plain).encode())
    return found.hexdigest()


def _plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


class WarmStartStopped(RuntimeError):
    """A SIGTERM stopped the fine-tuning at a checkpoint; the same call goes on from there."""


def warm_start(
    model: str | nn.Module,
    data: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    output_dir: str | os.PathLike[str],
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    peft_config: Any | None = None,
    context: ContextSettings | None = None,
    limits: Limits | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    **sft_config: Any,
) -> Path:
    """Fine-tune a policy on demonstrations with TRL's `SFTTrainer`, and save it.

    The loss is the mean cross-entropy over the tokens of the expert's replies and the ends of their turns. Prompts are
    composed as in reinforcement learning, so that both see the same ids. Turns of a history that only grows are one
    sequence, and `per_device_train_batch_size` counts sequences.

    A call that was interrupted goes on from its last checkpoint when it is repeated; a finished one is not repeated.

    Args:
        model: Name or path for `from_pretrained`, or a causal language model, which is trained in place.
        data: A file that `agent-r1 demos` wrote, or its rows.
        output_dir: Folder for checkpoints and, as `model`, the result.
        tokenizer: Of the model; None loads the one of its name.
        peft_config: Adapters to train instead of all weights. They are merged into the weights at the end, so that
            reinforcement learning can begin with fresh ones, and its reference is the warm-started policy.
        context: How reinforcement learning shows the policy its context. It is saved beside the weights.
        limits: Longest prompt and reply of reinforcement learning; longer demonstrations are left out, not cut.
        callbacks: Of the trainer.
        **sft_config: Fields of `trl.SFTConfig`; other defaults than TRL's are in `make_sft_config`.

    Returns:
        The folder of the model.

    Raises:
        ValueError: A setting that cannot work, or a folder that holds another warm start.
        DemoError: Data that cannot be read or trained on.
        WarmStartStopped: A SIGTERM came, and there is a checkpoint.
        LockError: Another warm start is in the folder.
    """
    init = sft_config.pop("model_init_kwargs", None) or {}
    check_names(sft_config, "warm_start")
    _check_adapters(model, peft_config, init)
    if tokenizer is None and not isinstance(model, str):
        raise ValueError("tokenizer is needed: the model was given as an object")
    args = make_sft_config(str(output_dir), sft_config)
    context, limits = context or ContextSettings(), replace(limits or Limits(), sequence=args.max_length)
    folder, rows = Path(output_dir), data if isinstance(data, (str, os.PathLike)) else [dict(row) for row in data]
    manifest = {
        "model": model if isinstance(model, str) else str(getattr(model.config, "_name_or_path", "")),
        "data": digest(rows),
        "peft": None if peft_config is None else peft_config.to_dict(),
        "context": asdict(context),
        "limits": asdict(limits),
        "settings": {**sft_config, "model_init_kwargs": init},
    }
    with held_by_main(PartialState(), run_lock(folder)):
        claim_folder(folder, manifest, write=args.process_index == 0)
        if not (folder / "model").exists():
            policy: Any = model
            if isinstance(model, str):
                tokenizer = tokenizer or AutoTokenizer.from_pretrained(model)
                policy = load_model(model, init)
            assert tokenizer is not None  # as was checked
            if peft_config is None:
                check_trainable_weights(policy)
            encoded = encode_demonstrations(
                read_rows(Path(rows)) if isinstance(rows, (str, os.PathLike)) else rows,
                tokenizer,
                stop_ids=_usual_first(
                    stop_token_ids(
                        policy,
                        tokenizer,
                        more=context.stop_token_ids,
                        chat_template_kwargs=context.chat_template_kwargs,
                    ),
                    tokenizer.eos_token_id,
                ),
                context=context,
                limits=replace(limits, sequence=_shorter(args.max_length, _window(policy))),
                merge=merge_obstacle(policy.config, policy) is None and not getattr(peft_config, "lora_dropout", 0.0),
            )
            for reason, count in encoded.left_out.items():
                logger.warning("%d of the demonstrated turns are not trained on: %s", count, reason)
            _train(policy, args, encoded, tokenizer, peft_config, callbacks, context)
    return folder / "model"


def _train(
    model: nn.Module,
    args: SFTConfig,
    encoded: Encoded,
    tokenizer: PreTrainedTokenizerBase,
    peft_config: Any | None,
    callbacks: Sequence[TrainerCallback],
    context: ContextSettings,
) -> None:
    """Train from the last checkpoint, if there is one, and save the model."""
    trainer = SFTTrainer(
        model,
        args,
        train_dataset=Dataset.from_dict({"input_ids": encoded.input_ids, "labels": encoded.labels}),
        processing_class=tokenizer,
        peft_config=peft_config,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)  # it prints raw dictionaries
    boundary = BoundaryCallback(trainer.accelerator, 1)
    trainer.add_callback(boundary)
    checkpoint = last_whole_checkpoint(args.output_dir)
    reached = None if checkpoint is None else TrainerState.load_from_json(f"{checkpoint}/trainer_state.json")
    if checkpoint is not None and reached is not None and reached.global_step >= reached.max_steps:
        trainer._load_from_checkpoint(checkpoint)  # stopped while it was saving: transformers would take one more step
    else:
        try:
            trainer.train(resume_from_checkpoint=checkpoint)
        finally:
            boundary.release()
        if trainer.state.global_step < trainer.state.max_steps:
            raise WarmStartStopped(f"stopped at a checkpoint in {args.output_dir}")
    _save(trainer, tokenizer, context, Path(args.output_dir))
    del trainer
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _save(trainer: SFTTrainer, tokenizer: PreTrainedTokenizerBase, context: ContextSettings, folder: Path) -> None:
    """Save the model in one step, so that nobody finds half of it, and remove the checkpoints."""
    scratch, main = folder / "model.tmp", trainer.is_world_process_zero()
    if main:
        shutil.rmtree(scratch, ignore_errors=True)
    policy = trainer.accelerator.unwrap_model(trainer.model)
    if not is_peft_model(policy):
        trainer.save_model(str(scratch))
    elif main:
        policy.merge_and_unload().save_pretrained(scratch)
    if main:
        tokenizer.save_pretrained(scratch)
        context.save(scratch)
        os.replace(scratch, folder / "model")
        for checkpoint in folder.glob("checkpoint-*"):
            shutil.rmtree(checkpoint, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()


def _check_adapters(model: str | nn.Module, peft_config: Any | None, init: Mapping[str, Any]) -> None:
    """Refuse adapters that cannot become part of the weights.

    Raises:
        ValueError: There are such adapters.
    """
    if not isinstance(model, str) and is_peft_model(model):
        raise ValueError(
            "the model has PEFT adapters already: merge them (merge_and_unload()), or pass the model without them and "
            "a peft_config"
        )
    if peft_config is None:
        return
    if getattr(peft_config, "is_prompt_learning", False):
        raise ValueError("PEFT methods that learn a prompt cannot be merged into the weights; use LoRA")
    if any(name in init for name in ("quantization_config", "load_in_4bit", "load_in_8bit")):
        raise ValueError(
            "a warm start merges its adapters into the weights, which rounds in a quantised model: load the model "
            "without quantisation, or make the warm start apart and set `model` to it"
        )


def _window(policy: Any) -> int | None:
    """Longest sequence of the model."""
    return getattr(policy.config.get_text_config(), "max_position_embeddings", None)


def _shorter(*lengths: int | None) -> int | None:
    return min((length for length in lengths if length is not None), default=None)


def _usual_first(stop_ids: Sequence[int], usual: int | None) -> list[int]:
    return sorted(stop_ids, key=lambda token: token != usual)
