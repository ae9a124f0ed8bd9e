"""A critic of its own: a copy of the policy with a linear head, an optimizer and a learning-rate schedule."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agent_r1_trainer._compat import base_causal_lm
from agent_r1_trainer.credit import Level
from agent_r1_trainer.packing import MicroBatch
from agent_r1_trainer.scoring import ValueHead, read_values

__all__ = ["CriticModel", "SeparateCritic", "load_trainable", "save_trainable"]

_WEIGHTS = "critic.safetensors"
_OPTIMIZER = "critic_optimizer.pt"


class CriticModel(nn.Module):
    """A trunk and a value head.

    Args:
        policy: What the trunk is copied from; adapters are copied with it, and trained alone if they are in the policy.
    """

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.trunk = base_causal_lm(copy.deepcopy(policy)).base_model
        inner = base_causal_lm(policy)
        self.head = ValueHead(inner.config.get_text_config().hidden_size).to(inner.device)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Values [n] at the positions (rows, columns) of a right-padded batch [B, L]."""
        hidden = self.trunk(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        return read_values(self.head, hidden, rows, columns)


class SeparateCritic:
    """Owns the critic's model, its optimizer and its schedule.

    Args:
        model: The critic, not yet wrapped.
        accelerator: Wraps model and optimizer (once, together).
        optimizer: Over the critic's trainable parameters.
        scheduler: Learning-rate schedule of the optimizer, advanced at every optimizer step of the trainer.
    """

    def __init__(
        self,
        model: CriticModel,
        accelerator: Accelerator,
        optimizer: torch.optim.Optimizer,
        scheduler: torch.optim.lr_scheduler.LRScheduler,
    ) -> None:
        self.model = model
        self.wrapped, self.optimizer = accelerator.prepare(model, optimizer)
        self.scheduler = scheduler

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The trainable parameters."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def values(self, batch: MicroBatch, *, wrapped: bool, level: Level = "step") -> Tensor:
        """Values [S], or [M] at level "token"; through the distributed wrapper if they will be differentiated."""
        model = self.wrapped if wrapped else self.model
        return model(batch.input_ids, batch.attention_mask, *batch.value_positions(level))

    def step(self) -> None:
        """Apply the gradients (parameters without one stand still), clear them and advance the schedule."""
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)

    def save(self, folder: Path) -> None:
        """Write weights, optimizer and schedule into a checkpoint."""
        save_trainable(self.model, folder / _WEIGHTS)
        torch.save(
            {"optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict()}, folder / _OPTIMIZER
        )

    def load(self, folder: Path) -> None:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: If the checkpoint has no critic.
        """
        load_trainable(self.model, folder / _WEIGHTS)
        state: dict[str, Any] = torch.load(folder / _OPTIMIZER, map_location="cpu", weights_only=True)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])


def save_trainable(module: nn.Module, path: Path) -> None:
    """Write the trainable parameters of a module as safetensors."""
    tensors = {name: p.detach().cpu().contiguous() for name, p in module.named_parameters() if p.requires_grad}
    save_file(tensors, path)


def load_trainable(module: nn.Module, path: Path) -> None:
    """Read what `save_trainable` wrote into a module of the same shape.

    Raises:
        FileNotFoundError: If there is no such file.
        KeyError: If the file lacks a trainable parameter.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: was the checkpoint saved with another `critic` setting?")
    tensors = load_file(path)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(tensors[name])
