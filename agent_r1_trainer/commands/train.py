"""The command `agent-r1 train`, for people: errors in words, an exit status."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from agent_r1_trainer.commands.options import INTERRUPTED, USER_ERRORS
from agent_r1_trainer.demos.file import DemoError
from agent_r1_trainer.extras import explain_missing
from agent_r1_trainer.files import LockError
from agent_r1_trainer.flows.failures import TooManyFailuresError

__all__ = ["train_command"]

logger = logging.getLogger(__name__)

_PRESETS = ("demo", "household")


def train_command(
    *,
    config: str | Path | None,
    preset: str | None,
    seed: int | None,
    out: Path | None,
    algorithm: str | None = None,
    overrides: Sequence[str] = (),
) -> int:
    """Train from a file of settings, or from a preset.

    Args:
        config: The file, or the name of a shipped recipe.
        preset: Name of a built-in file; either this or `config`.
        seed: Instead of the file's.
        out: Folder of the run, instead of the file's `output_dir`.
        algorithm: Name of an algorithm, instead of the file's.
        overrides: Further settings as `--name value`, instead of the file's; see `train.overrides`.

    Returns:
        The exit status: 0 when the run is complete, 2 for settings that do not work, 130 when it was interrupted.
    """
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        return _train(config, preset, seed, out, algorithm, overrides)
    except (*USER_ERRORS, DemoError, TooManyFailuresError, LockError) as error:
        if isinstance(error, ModuleNotFoundError):
            error = explain_missing(error, "training")
        say.print(f"agent-r1 train: {error}", style="red", markup=False)
        return 2


def _train(
    config: str | Path | None,
    preset: str | None,
    seed: int | None,
    out: Path | None,
    algorithm: str | None,
    overrides: Sequence[str],
) -> int:
    from agent_r1_trainer.train.overrides import read_overrides
    from agent_r1_trainer.train.settings import read_settings

    path = _file(config, preset)
    settings = read_settings(path, algorithm, read_overrides(overrides))
    training = dict(settings.training)
    training["seed"] = training.get("seed", 0) if seed is None else seed
    if out is not None:
        training["output_dir"] = str(out)
    name = "-".join(filter(None, (preset or path.stem, algorithm)))
    if training.get("output_dir") is None:
        training["output_dir"] = f"runs/{name}-{training['seed']}"

    from transformers.utils import logging

    from agent_r1_trainer.train.run import TrainRun

    logging.disable_progress_bar()  # bars of loading and saving would cut through the one of training

    console = Console(highlight=False)
    run = TrainRun(dataclasses.replace(settings, training=training), console)
    try:
        if run.run():
            return 0
    except KeyboardInterrupt:
        pass
    finally:
        run.close()
    console.print(
        f"Stopped. The same command goes on from the last checkpoint in {run.folder.path}.",
        markup=False,
        soft_wrap=True,
    )
    return INTERRUPTED


def _file(config: str | Path | None, preset: str | None) -> Path:
    from agent_r1_trainer.train.recipes import SHIPPED, find_recipe

    if (config is None) == (preset is None):
        raise ValueError("pass --config, with a file or the name of a recipe")
    if preset is None:
        assert config is not None
        return find_recipe(config)
    if preset not in _PRESETS:
        raise ValueError(f"there is no preset {preset!r}; there are {', '.join(_PRESETS)}")
    logger.warning("--preset %s is now --config %s", preset, preset)
    return SHIPPED / f"{preset}.yaml"
