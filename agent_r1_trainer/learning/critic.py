"""A critic of its own: a copy of the policy with a linear head, an optimizer and a learning-rate schedule."""

from __future__ import annotations

import copy
import json
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agent_r1_trainer._compat import base_causal_lm, find_trunk
from agent_r1_trainer.credit import Level
from agent_r1_trainer.learning.scoring import ValueHead, read_rows, read_values
from agent_r1_trainer.learning.value_scale import SCALE_ONLY, Units, ValueScales
from agent_r1_trainer.packing import MicroBatch

__all__ = [
    "CRITIC_WEIGHTS",
    "VALUE_HEAD_WEIGHTS",
    "CriticModel",
    "SeparateCritic",
    "fit_rows",
    "load_critic",
    "keeping_settings",
    "load_saved_critic",
    "save_critic",
]

CRITIC_WEIGHTS = "critic.safetensors"
"""File of a separate critic's trainable weights, beside those of the policy."""
VALUE_HEAD_WEIGHTS = "value_head.safetensors"
"""File of the value head on the policy's trunk."""
_OPTIMIZER = "critic_optimizer.pt"
_GIVEN = ("initial_lr", "weight_decay", "betas", "eps", "momentum")  # some optimizers keep state beside these
_UNITS = "value_scales"

logger = logging.getLogger(__name__)


class CriticModel(nn.Module):
    """A trunk and a value head.

    Args:
        policy: What the trunk is copied from; adapters are copied with it, and trained alone if they are in the policy.
        rows: Rows of the head, one for each environment of a mixture.
        offload: Keep activations in the CPU's memory until the backward pass.
    """

    def __init__(self, policy: nn.Module, rows: int = 1, *, offload: bool = False) -> None:
        super().__init__()
        self.offload = offload
        inner = base_causal_lm(copy.deepcopy(policy))
        trunk = find_trunk(inner)
        self.trunk = inner.get_submodule(trunk.name)
        self.head = ValueHead(trunk.width, rows).to(inner.device)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, rows: Tensor, columns: Tensor, heads: Tensor | None = None
    ) -> Tensor:
        """Values [n] at positions (rows, columns) of a right-padded batch [B, L], by rows `heads` [n] of the head."""
        hidden = read_rows(self.trunk, self.trunk.config, input_ids, attention_mask, offload=self.offload)
        return read_values(self.head, hidden, rows, columns, heads)


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

    def load(self, folder: Path, scales: ValueScales) -> None:
        """Read the weights and their units, and what `save` wrote.

        Raises:
            FileNotFoundError: If the checkpoint has no critic.
        """
        load_critic(self.model, folder / CRITIC_WEIGHTS, scales, resume=True)
        state: dict[str, Any] = torch.load(folder / _OPTIMIZER, map_location="cpu", weights_only=True)
        with keeping_settings(self.optimizer, self.scheduler):
            self.optimizer.load_state_dict(state["optimizer"])
            self.scheduler.load_state_dict(state["scheduler"])
        fit_rows(self.optimizer, self.model.head)


@contextmanager
def keeping_settings(optimizer: torch.optim.Optimizer, scheduler: Any) -> Iterator[None]:
    """Load the state of optimizer and schedule in the block, and keep what they were made with.

    Their states hold the old learning rates and decays as well, which would otherwise come back with them.

    Args:
        optimizer: Before anything was loaded.
        scheduler: Of the optimizer.
    """
    own = [{name: group[name] for name in _GIVEN if name in group} for group in optimizer.param_groups]
    rates = list(getattr(scheduler, "base_lrs", ()))
    yield
    for group, values in zip(optimizer.param_groups, own, strict=True):
        group.update(values)
    if not rates:  # a schedule that follows a metric
        return
    shares = getattr(scheduler, "lr_lambdas", None)
    before = scheduler.base_lrs
    scheduler.base_lrs = rates
    for index, (group, rate) in enumerate(zip(optimizer.param_groups, rates, strict=True)):
        if shares is not None:  # a new length of the run has changed its share, too
            group["lr"] = rate * shares[index](scheduler.last_epoch)
        elif before[index] != rate:
            group["lr"] *= rate / before[index] if before[index] else 0.0
    scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]


def load_saved_critic(
    folder: Path, critic: CriticModel | None, value_head: ValueHead | None, scales: ValueScales | None
) -> None:
    """Start a new run's critic from the one that an earlier run saved beside its policy, if it is of the same kind.

    It says the values that it said there, whatever the rewards are here. One of other parameters (adapters then, none
    now) is left alone, with a warning.

    Args:
        folder: What the policy was loaded from; a name on a hub is no folder and has nothing to load.
        critic: The new run's separate critic, or None.
        value_head: Its value head, or None.
        scales: The units of that critic.
    """
    for module, name in ((critic, CRITIC_WEIGHTS), (value_head, VALUE_HEAD_WEIGHTS)):
        path = folder / name
        if module is None or scales is None or not path.is_file():
            continue
        try:
            fresh = load_critic(module, path, scales, resume=False)
        except KeyError as error:
            logger.warning("%s does not fit this run's critic, which starts afresh: %s", path, error)
            continue
        logger.info("the critic goes on from %s", path)
        if fresh:
            logger.warning(
                "%s has no row for %s: the value of these environments is learned afresh", path, ", ".join(fresh)
            )


def save_critic(module: CriticModel | ValueHead, path: Path, scales: ValueScales) -> None:
    """Write the trainable parameters of a critic, and the units that it predicts in, as safetensors."""
    tensors = {name: p.detach().cpu().contiguous() for name, p in module.named_parameters() if p.requires_grad}
    save_file(tensors, path, metadata={_UNITS: json.dumps(scales.state_dict())})


def load_critic(module: CriticModel | ValueHead, path: Path, scales: ValueScales, *, resume: bool) -> list[str]:
    """Read what `save_critic` wrote; a critic that the file does not fit is left as it is.

    Each environment takes the row of its name. A file with a single row, of a run on one environment, serves all.

    Args:
        module: The critic.
        path: The file. One that was written before units were saved with the weights is read as what it was: values
            that were divided by the scale in the checkpoint's state.
        scales: The units of the critic.
        resume: The same run goes on, with its moments.

    Returns:
        The environments that have no row in the file: theirs are as they were.

    Raises:
        FileNotFoundError: If there is no such file.
        KeyError: If the file lacks a trainable parameter, or has it in another shape, or no row at all that is needed;
            with `resume`, if it lacks any of the rows.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: was the checkpoint saved with another `critic` setting?")
    tensors = load_file(path)
    trainable = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    head = module if isinstance(module, ValueHead) else module.head
    in_head = {id(parameter) for parameter in head.parameters()}
    for name, parameter in trainable.items():
        first = 1 if id(parameter) in in_head else 0  # the number of rows may differ
        if name not in tensors or tensors[name].shape[first:] != parameter.shape[first:]:
            found = "lacks it" if name not in tensors else f"has {list(tensors[name].shape)}"
            raise KeyError(f"{name} {list(parameter.shape)}: the file {found}")
    [count] = {len(tensors[name]) for name, parameter in trainable.items() if id(parameter) in in_head}
    states = _saved_units(path)
    places = {env: (0 if count == 1 else row, state) for row, (env, state) in enumerate(states.items())}
    if count == 1 and len(places) == 1:
        [only] = places.values()
        places = dict.fromkeys(scales.rows, only)
    missing = [env for env in scales.rows if env not in places]
    if missing and (resume or len(missing) == len(scales.rows)):
        raise KeyError(f"its rows are those of {', '.join(map(repr, places))}, none of {', '.join(map(repr, missing))}")
    with torch.no_grad():
        for name, parameter in trainable.items():
            if id(parameter) not in in_head:
                parameter.copy_(tensors[name])
                continue
            for env, row in scales.rows.items():
                if env in places:
                    parameter[row] = tensors[name][places[env][0]]
    for env in scales.rows:
        if env in places:
            scales.load_row(env, places[env][1], resume=resume)
    return missing


def fit_rows(optimizer: torch.optim.Optimizer, head: ValueHead) -> None:
    """Give every row of the head the optimizer state of the single row that all environments once shared."""
    for parameter in head.parameters():
        state = optimizer.state.get(parameter, {})
        for name, value in state.items():
            if isinstance(value, Tensor) and value.dim() == parameter.dim() and value.shape != parameter.shape:
                state[name] = value[:1].expand_as(parameter).clone()


def _saved_units(path: Path) -> dict[str, dict[str, Any]]:
    """The state of `ValueScales` that was saved with a critic, an entry a row."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
    if _UNITS in metadata:
        return json.loads(metadata[_UNITS])
    # Written before: one row for all environments, whose values had been divided by a scale, of a separate critic by
    # default 1. The scale lies in a checkpoint, and nowhere if the critic was saved alone.
    state = path.with_name("steppo_state.json")
    nothing = {"count": 0, "mean": 0.0, "m2": 0.0}
    if not state.is_file():
        units = Units() if path.name == CRITIC_WEIGHTS else SCALE_ONLY
        if units is SCALE_ONLY:
            logger.warning("%s does not say what its values were divided by: they are taken to fit this run", path)
        return {"": {**nothing, "units": [units.mean, units.scale]}}
    scalers = json.loads(state.read_text(encoding="utf-8")).get("scalers")
    if not scalers:
        return {"": {**nothing, "units": [0.0, 1.0]}}
    return {env: {**moments, "units": [0.0, _divisor(moments)]} for env, moments in scalers.items()}


def _divisor(moments: Mapping[str, float]) -> float:
    """What rewards were divided by before critics predicted in units of their own."""
    size = abs(moments["mean"])
    std = math.sqrt(moments["m2"] / moments["count"]) if moments["count"] else 0.0
    return std if std > 1e-6 * size else size or 1.0
