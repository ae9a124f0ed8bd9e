"""A critic of its own: a copy of the policy with a linear head, an optimizer and a learning-rate schedule."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agent_r1_trainer._compat import base_causal_lm, find_trunk
from agent_r1_trainer.credit import Level
from agent_r1_trainer.packing import MicroBatch
from agent_r1_trainer.resuming import keeping_settings
from agent_r1_trainer.scoring import ValueHead, read_values

__all__ = [
    "CRITIC_WEIGHTS",
    "VALUE_HEAD_WEIGHTS",
    "CriticModel",
    "SeparateCritic",
    "load_saved_critic",
    "load_trainable",
    "save_trainable",
]

CRITIC_WEIGHTS = "critic.safetensors"
"""File of a separate critic's trainable weights, beside those of the policy."""
VALUE_HEAD_WEIGHTS = "value_head.safetensors"
"""File of the value head on the policy's trunk."""
_OPTIMIZER = "critic_optimizer.pt"

logger = logging.getLogger(__name__)


class CriticModel(nn.Module):
    """A trunk and a value head.

    Args:
        policy: What the trunk is copied from; adapters are copied with it, and trained alone if they are in the policy.
    """

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        inner = base_causal_lm(copy.deepcopy(policy))
        trunk = find_trunk(inner)
        self.trunk = inner.get_submodule(trunk.name)
        self.head = ValueHead(trunk.width).to(inner.device)

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
        """Write optimizer and schedule into a checkpoint; the weights are saved with the policy's."""
        torch.save(
            {"optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict()}, folder / _OPTIMIZER
        )

    def load(self, folder: Path) -> None:
        """Read the weights, and what `save` wrote.

        Raises:
            FileNotFoundError: If the checkpoint has no critic.
        """
        load_trainable(self.model, folder / CRITIC_WEIGHTS)
        state: dict[str, Any] = torch.load(folder / _OPTIMIZER, map_location="cpu", weights_only=True)
        with keeping_settings(self.optimizer, self.scheduler):
            self.optimizer.load_state_dict(state["optimizer"])
            self.scheduler.load_state_dict(state["scheduler"])


def load_saved_critic(folder: Path, critic: CriticModel | None, value_head: nn.Module | None) -> None:
    """Start a new run's critic from the one that an earlier run saved beside its policy, if it is of the same kind.

    Its values are in the units of that run's reward scale. One of other parameters (adapters then, none now) is left
    alone, with a warning.

    Args:
        folder: What the policy was loaded from; a name on a hub is no folder and has nothing to load.
        critic: The new run's separate critic, or None.
        value_head: Its value head, or None.
    """
    for module, name in ((critic, CRITIC_WEIGHTS), (value_head, VALUE_HEAD_WEIGHTS)):
        path = folder / name
        if module is None or not path.is_file():
            continue
        try:
            load_trainable(module, path)
        except KeyError as error:
            logger.warning("%s does not fit this run's critic, which starts afresh: %s", path, error)
        else:
            logger.info("the critic goes on from %s", path)


def save_trainable(module: nn.Module, path: Path) -> None:
    """Write the trainable parameters of a module as safetensors."""
    tensors = {name: p.detach().cpu().contiguous() for name, p in module.named_parameters() if p.requires_grad}
    save_file(tensors, path)


def load_trainable(module: nn.Module, path: Path) -> None:
    """Read what `save_trainable` wrote into a module of the same shape; one that does not fit is left as it is.

    Raises:
        FileNotFoundError: If there is no such file.
        KeyError: If the file lacks a trainable parameter, or has it in another shape.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: was the checkpoint saved with another `critic` setting?")
    tensors = load_file(path)
    trainable = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    for name, parameter in trainable.items():
        if name not in tensors or tensors[name].shape != parameter.shape:
            found = "lacks it" if name not in tensors else f"has {list(tensors[name].shape)}"
            raise KeyError(f"{name} {list(parameter.shape)}: the file {found}")
    with torch.no_grad():
        for name, parameter in trainable.items():
            parameter.copy_(tensors[name])
