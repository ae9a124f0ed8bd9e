"""The file of settings that `agent-r1 train --config` takes, with each key's value checked against its type."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_r1_envs.names import did_you_mean
from agent_r1_trainer.algorithms import find_algorithm
from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.fields import Count, NonNegative, check_fields, check_types
from agent_r1_trainer.sft.settings import WarmStartSettings, parse_warm_start
from agent_r1_trainer.train.recipes import load_recipe

__all__ = [
    "ExamSettings",
    "TrainSettings",
    "known_settings",
    "read_envs",
    "read_settings",
    "refuse_unknown",
]


def read_envs(values: Any, source: str) -> dict[str, MixtureEntry]:
    """Read the environments of a mixture: by name an id, or the fields of `MixtureEntry`.

    Args:
        values: The key's value as plain data.
        source: Named in errors.

    Raises:
        ValueError: It is no mapping, or an entry has no id or a field that does not exist.
    """
    if not isinstance(values, dict) or not values:
        raise ValueError(f"{source}: envs must hold environments by name, got {values!r}")
    fields = [field.name for field in dataclasses.fields(MixtureEntry)]
    entries = {}
    for name, entry in values.items():
        where = f"{source}: envs: {name}"
        entry = {"env": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, dict) or not isinstance(entry.get("env"), str):
            raise ValueError(f"{where} must be the id of an environment, or settings with one as `env`, got {entry!r}")
        for key in entry:
            if key not in fields:
                raise ValueError(f"{where}: there is no setting {key!r}; there are {', '.join(fields)}")
        check_types({key: value for key, value in entry.items() if key != "env"}, MixtureEntry, where)
        try:
            entries[str(name)] = MixtureEntry(**entry)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from error
    return entries


@dataclass(frozen=True, slots=True)
class ExamSettings:
    """Held-out tasks that the policy is measured on before and after training.

    Attributes:
        env: Id of the environment; empty for that of training.
        env_kwargs: Arguments of its constructor.
        episodes: How many tasks of the panel; see `choose_tasks`.
        low_temperature: The untrained policy is measured at this temperature too. A gain that it shows as well comes
            from sampling less, not from training.
        seed: Of the sampling; the exam does not change with the seed of training.
    """

    env: str = ""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    episodes: Count = 300
    low_temperature: NonNegative = 0.3
    seed: int = 0

    def __post_init__(self) -> None:
        """Check kinds and ranges.

        Raises:
            ValueError: No episodes, a negative temperature, or a field of another kind.
        """
        check_fields(self)


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """A training run.

    Attributes:
        model: Name or path of the model; `tiny` and `tiny-household` are the policies that come with this package.
        env: Id of the environment; empty in a mixture.
        envs: The environments of a mixture by name; in the file, an id or the fields of `MixtureEntry`.
        eval_env: Id of the one that is evaluated on while training; None takes `env` if there are `eval_env_kwargs`.
        peft: Arguments of `peft.LoraConfig`; None trains all weights.
        warm_start: Fine-tuning on demonstrations that comes first; None for none.
        exam: What is measured before and after; None for no measurement.
        threads: PyTorch's threads on the CPU; None leaves them as they are. One is fastest for a very small model.
        algorithm: Name of the algorithm whose settings were filled in; None if there is none.
        training: Fields of `StepPOConfig`, those of the algorithm included.
    """

    model: str
    env: str = ""
    envs: dict[str, MixtureEntry] = field(default_factory=dict)
    eval_env: str | None = None
    peft: dict[str, Any] | None = None
    warm_start: WarmStartSettings | None = None
    exam: ExamSettings | None = None
    threads: Count | None = None
    algorithm: str | None = None
    training: dict[str, Any] = field(default_factory=dict)


def read_settings(
    path: Path, algorithm: str | None = None, overrides: Mapping[str, Any] | None = None
) -> TrainSettings:
    """Read a YAML file: the keys of `TrainSettings`, any field of `StepPOConfig`, `extends` and `by_algorithm`.

    Args:
        path: The file.
        algorithm: Instead of the file's.
        overrides: Laid over the file as plain data, mappings key by key.

    Raises:
        ValueError: The file is not a mapping, lacks `model` or `env` (or `envs`), has a key that nobody knows, or a
            value of another type than the key's; the same of the files that it extends.
        OSError: A file cannot be read.
    """
    known = known_settings()

    def check(values: Mapping[str, Any], source: str) -> None:
        refuse_unknown(values, known | {"by_algorithm"}, source)
        if values.get("by_algorithm") is not None:
            _check_by_algorithm(values["by_algorithm"], known - {"algorithm"}, f"{source}: by_algorithm")

    values = load_recipe(path, algorithm=algorithm, over=overrides, check=check)
    return parse_settings(values, str(path))


def _check_by_algorithm(values: Any, known: set[str], source: str) -> None:
    if not isinstance(values, dict):
        raise ValueError(f"{source} must hold settings by the name of an algorithm, got {values!r}")
    for name, settings in values.items():
        try:
            find_algorithm(name)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
        if not isinstance(settings, dict | None):
            raise ValueError(f"{source}: {name} must hold settings of its own or null, got {settings!r}")
        refuse_unknown(settings or {}, known, f"{source}: {name}")


def parse_settings(values: Mapping[str, Any], source: str) -> TrainSettings:
    """Sort the keys of a file into those of the command and those of `StepPOConfig`.

    Args:
        values: The file as plain data.
        source: Named in errors.

    Raises:
        ValueError: See `read_settings`.
    """
    from agent_r1_trainer.steppo_config import StepPOConfig

    own = _own()
    refuse_unknown(values, known_settings(), source)
    # A file that extends another says `env: null` to have a mixture instead, or the other way round.
    values = {name: value for name, value in values.items() if name not in ("env", "envs") or value is not None}
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
    if mine.get("warm_start") is not None:
        mine["warm_start"] = parse_warm_start(mine["warm_start"], source)
    return TrainSettings(**mine, training={name: value for name, value in values.items() if name not in own})


def _own() -> set[str]:
    return {f.name for f in dataclasses.fields(TrainSettings)} - {"training"}


def known_settings() -> set[str]:
    """The keys of a file of settings, beside `extends` and `by_algorithm`."""
    from agent_r1_trainer.steppo_config import StepPOConfig

    # An old file may hold `reward_scaling`, which is no field any more: the settings say so when they read it.
    return _own() | {f.name for f in dataclasses.fields(StepPOConfig) if f.init} | {"reward_scaling"}


def _exam(values: Any, source: str) -> ExamSettings:
    if not isinstance(values, dict):
        raise ValueError(f"{source}: exam must hold settings of its own, got {values!r}")
    refuse_unknown(values, {f.name for f in dataclasses.fields(ExamSettings)}, f"{source}: exam")
    check_types(values, ExamSettings, f"{source}: exam")
    try:
        return ExamSettings(**values)
    except ValueError as error:
        raise ValueError(f"{source}: exam: {error}") from None


def refuse_unknown(values: Mapping[str, Any], known: set[str], source: str) -> None:
    """Refuse keys that nobody knows, and name the nearest.

    Raises:
        ValueError: There is such a key.
    """
    for name in values:
        if name not in known:
            raise ValueError(f"{source}: there is no setting {name!r}{did_you_mean(str(name), sorted(known))}")
