"""Making, saving and loading tiny policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_r1_trainer.tiny_policy.architecture import TinyArchitecture, build_model
from agent_r1_trainer.tiny_policy.cloning import CloningConfig, Report, clone
from agent_r1_trainer.tiny_policy.subjects import SUBJECTS, Subject
from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["CHECKPOINT", "CHECKPOINTS", "load_tiny_policy", "make_tiny_policy", "save_tiny_policy"]

CHECKPOINTS: Final = {subject.model: subject.checkpoint for subject in SUBJECTS.values()}
"""The shipped checkpoints, by the name that a run's setting `model` takes: `tiny` and `tiny-household`."""

CHECKPOINT: Final = CHECKPOINTS["tiny"]
"""The shipped checkpoint for HotpotQA, which `python -m agent_r1_trainer.tiny_policy hotpotqa` makes."""


def make_tiny_policy(
    config: CloningConfig | None = None,
    architecture: TinyArchitecture | None = None,
    report: Report | None = None,
    *,
    subject: Subject = SUBJECTS["hotpotqa"],
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Build and clone a tiny policy; two to four minutes of one core with the default settings.

    Args:
        config: Settings of the cloning; its seed also decides the initial weights. None takes those of the subject.
        architecture: Sizes of the model; None takes those of the subject.
        report: Told phase, step and loss after every step.
        subject: What it is made for.

    Returns:
        The model, in evaluation mode, and its tokenizer.
    """
    config = config or subject.cloning
    tokenizer = build_tokenizer(subject.words(), subject.commands)
    model = build_model(architecture or subject.architecture, tokenizer, seed=config.seed)
    clone(model, tokenizer, config, subject.teach, report)
    return model, tokenizer


def save_tiny_policy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write model and tokenizer in the transformers format."""
    model.save_pretrained(folder)
    tokenizer.backend_tokenizer.no_padding()  # a leftover of the last batch, which would be saved too
    tokenizer.save_pretrained(folder)


def load_tiny_policy(folder: Path = CHECKPOINT) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a tiny policy, the shipped one for HotpotQA by default, in float32 and evaluation mode."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(folder)
