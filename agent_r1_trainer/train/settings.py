"""The file of settings that `agent-r1 train --config` takes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agent_r1_trainer.mixture import MixtureEntry
from agent_r1_trainer.train.envs import read_envs
from agent_r1_trainer.train.types import check_types

__all__ = ["PRESETS", "ExamSettings", "TrainSettings", "read_settings"]

PRESETS = {"demo": Path(__file__).parent.parent / "recipes" / "demo.yaml"}
"""Built-in files, by the name that `--preset` takes."""


@dataclass(frozen=True, slots=True)
class ExamSettings:
    """Held-out tasks that the policy is measured on before and after training.

    Attributes:
        env: Id of the environment; empty for that of training.
        env_kwargs: Arguments of its constructor.
        episodes: How many tasks of the panel, from the first on.
        low_temperature: The untrained policy is measured at this temperature too. A gain that it shows as well comes
            from sampling less, not from training.
        seed: Of the sampling; the exam does not change with the seed of training.
    """

    env: str = ""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    episodes: int = 300
    low_temperature: float = 0.3
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """A training run.

    Attributes:
        model: Name or path of the model; `tiny` is the policy that comes with this package.
        env: Id of the environment; empty in a mixture.
        envs: The environments of a mixture by name; in the file, an id or the fields of `MixtureEntry`.
        eval_env: Id of the one that is evaluated on while training; None takes `env` if there are `eval_env_kwargs`.
        peft: Arguments of `peft.LoraConfig`; None trains all weights.
        exam: What is measured before and after; None for no measurement.
        threads: PyTorch's threads on the CPU; None leaves them as they are. One is fastest for a very small model.
        training: Fields of `StepPOConfig`.
    """

    model: str
    env: str = ""
    envs: dict[str, MixtureEntry] = field(default_factory=dict)
    eval_env: str | None = None
    peft: dict[str, Any] | None = None
    exam: ExamSettings | None = None
    threads: int | None = None
    training: dict[str, Any] = field(default_factory=dict)


def read_settings(path: Path) -> TrainSettings:
    """Read a YAML file: the keys of `TrainSettings`, and beside them any field of `StepPOConfig`.

    Raises:
        ValueError: The file is not a mapping, lacks `model` or `env` (or `envs`), has a key that nobody knows, or a
            value of another type than the key's.
        OSError: The file cannot be read.
    """
    with path.open(encoding="utf-8") as stream:
        try:
            values = yaml.load(stream, Loader=_Loader)  # noqa: S506  (a SafeLoader)
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold settings as `name: value` lines")
    return parse_settings(values, str(path))


def parse_settings(values: Mapping[str, Any], source: str) -> TrainSettings:
    """Sort the keys of a file into those of the command and those of `StepPOConfig`.

    Args:
        values: The file as plain data.
        source: Named in errors.

    Raises:
        ValueError: See `read_settings`.
    """
    from agent_r1_trainer.steppo_config import StepPOConfig

    own = {f.name for f in dataclasses.fields(TrainSettings)} - {"training"}
    known = own | {f.name for f in dataclasses.fields(StepPOConfig) if f.init}
    _refuse_unknown(values, known, source)
    needed = ("model",) if "envs" in values else ("model", "env")
    missing = [name for name in needed if not isinstance(values.get(name), str)]
    if missing:
        raise ValueError(f"{source}: {' and '.join(missing)} must be given, as a string")
    for cls in (TrainSettings, StepPOConfig):
        check_types(values, cls, source)
    mine = {name: value for name, value in values.items() if name in own}
    if "envs" in mine:
        if "env" in mine:
            raise ValueError(f"{source}: env and envs exclude each other: one environment, or several by name")
        mine["envs"] = read_envs(mine["envs"], source)
    if mine.get("exam") is not None:
        mine["exam"] = _exam(mine["exam"], source)
    return TrainSettings(**mine, training={name: value for name, value in values.items() if name not in own})


def _exam(values: Any, source: str) -> ExamSettings:
    if not isinstance(values, dict):
        raise ValueError(f"{source}: exam must hold settings of its own, got {values!r}")
    _refuse_unknown(values, {f.name for f in dataclasses.fields(ExamSettings)}, f"{source}: exam")
    check_types(values, ExamSettings, f"{source}: exam")
    return ExamSettings(**values)


def _refuse_unknown(values: Mapping[str, Any], known: set[str], source: str) -> None:
    from rapidfuzz import process

    for name in values:
        if name not in known:
            near = [match for match, _, _ in process.extract(str(name), sorted(known), limit=3, score_cutoff=70)]
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise ValueError(f"{source}: there is no setting {name!r}{hint}")


class _Loader(yaml.SafeLoader):
    """YAML that takes 5e-4 for a number, as JSON and Python do; YAML 1.1 wants 5.0e-4."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)
