"""The key `envs` of a file of settings: a mixture."""

from __future__ import annotations

import dataclasses
from typing import Any

from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.train.types import check_types

__all__ = ["read_envs"]


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
