"""Saving and loading the tiny policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent_r1_trainer.tiny_policy.architecture import TinyArchitecture, build_model
from agent_r1_trainer.tiny_policy.cloning import CloningConfig, Report, clone
from agent_r1_trainer.tiny_policy.language import environment_words
from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["CHECKPOINT", "load_tiny_policy", "make_tiny_policy", "save_tiny_policy"]

CHECKPOINT = Path(__file__).parent / "checkpoint"
"""The shipped checkpoint, which `python -m agent_r1_trainer.tiny_policy` makes."""


def make_tiny_policy(
    config: CloningConfig, architecture: TinyArchitecture | None = None, report: Report | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Build and clone a tiny policy; two to three minutes of one core with the default settings.

    Args:
        config: Settings of the cloning; its seed also decides the initial weights.
        architecture: Sizes of the model; None takes those of the shipped one.
        report: Told phase, step and loss after every step.

    Returns:
        The model, in evaluation mode, and its tokenizer.
    """
    tokenizer = build_tokenizer(environment_words())
    model = build_model(architecture or TinyArchitecture(), tokenizer, seed=config.seed)
    clone(model, tokenizer, config, report)
    return model, tokenizer


def save_tiny_policy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write model and tokenizer in the transformers format."""
    model.save_pretrained(folder)
    tokenizer.backend_tokenizer.no_padding()  # a leftover of the last batch, which would be saved too
    tokenizer.save_pretrained(folder)


def load_tiny_policy(folder: Path = CHECKPOINT) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a tiny policy, the shipped one by default, in float32 and evaluation mode."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(folder)
