"""What `agent-r1 train --estimate` says: a run's memory, and what to change where it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from agent_r1_trainer.commands.options import USER_ERRORS
from agent_r1_trainer.extras import explain_missing

if TYPE_CHECKING:
    from agent_r1_trainer.train.estimate import Estimate

__all__ = ["estimate_command"]

_ROWS = {
    "weights": "weights",
    "reference": "weights of the reference",
    "critic": "weights of the critic",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "head": "head of the language model",
    "keys_values": "keys and values",
}


def estimate_command(
    *, config: str | None, algorithm: str | None, overrides: Sequence[str], gpu_memory: str | None
) -> int:
    """Print how much memory a run takes on each GPU.

    Args:
        config: The file of settings, or the name of a recipe.
        algorithm: Instead of the file's.
        overrides: Further settings, as for training.
        gpu_memory: Size of a GPU; None takes that of the one that is there, if any.

    Returns:
        0 if it fits or there is nothing to fit, 1 if it does not, 2 for settings that do not work.
    """
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        return _estimate(config, algorithm, overrides, gpu_memory)
    except USER_ERRORS as error:
        if isinstance(error, ModuleNotFoundError):
            error = explain_missing(error, "training")
        say.print(f"agent-r1 train --estimate: {error}", style="red", markup=False)
        return 2


def _estimate(config: str | None, algorithm: str | None, overrides: Sequence[str], gpu_memory: str | None) -> int:
    import torch

    from agent_r1_trainer.train import estimate as room
    from agent_r1_trainer.train.overrides import read_overrides
    from agent_r1_trainer.train.recipes import find_recipe
    from agent_r1_trainer.train.settings import read_settings

    if config is None:
        raise ValueError("pass --config, with a file or the name of a recipe")
    memory = None if gpu_memory is None else room.parse_memory(gpu_memory)
    if memory is None and torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory
    settings = read_settings(find_recipe(config), algorithm, read_overrides(overrides))
    model = room.read_config(settings.model)
    plan = room.make_plan(settings, model, gpu=memory is not None and not settings.training.get("use_cpu"))
    found = room.estimate(model, plan)
    console = Console(highlight=False, soft_wrap=True)
    console.print(_table(found, settings.model))
    if memory is None:
        console.print("Say --gpu-memory 80GiB to know whether it fits.")
        return 0
    limit, kept = memory * (1 - room.RESERVE), f"of which {room.RESERVE:.0%} are kept free"
    if found.peak <= limit:
        console.print(f"It fits into {_size(memory)}, {kept}.")
        return 0
    console.print(f"It does not fit into {_size(memory)}, {kept}. One after the other:")
    steps = room.advise(model, plan, memory)
    for change, then in steps:
        console.print(f"  {change}  ->  {_size(then.peak)}", markup=False)
    if not steps or steps[-1][1].peak > limit:
        console.print("  and then a smaller model, shorter prompts and replies, or a larger GPU")
    return 1


def _table(found: Estimate, model: str) -> Table:
    table = Table("", "update", "rollout", title=f"{model}: memory of each GPU")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, text in _ROWS.items():
        size = getattr(found, name)
        if size:
            update = "" if name == "keys_values" else _size(size)
            table.add_row(text, update, "" if name in ("gradients", "activations", "head") else _size(size))
    table.add_section()
    table.add_row("at the peak", _size(found.update), _size(found.rollout))
    return table


def _size(count: float) -> str:
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} GiB"
