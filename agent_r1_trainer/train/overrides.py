"""Settings on the command line, in TRL's form: `--learning_rate 1e-6 --env_kwargs.split test --use_cpu`.

They are read into what a file of settings would hold, and laid over the file as if another one extended it: mappings
are merged key by key, and `null` inside one takes a key away. A dot goes into a mapping. A value is JSON where the
setting's annotation takes it so, and else the text as it stands: `--run_name 7` is a name, `--seed 7` a number.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from agent_r1_trainer.fields import check_types, fits, parts
from agent_r1_trainer.train.recipes import merge_settings
from agent_r1_trainer.train.settings import TrainSettings, known_settings, refuse_unknown

__all__ = ["read_overrides"]

_SOURCE = "the command line"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_NAME = re.compile(r"--[A-Za-z]")
_SWITCHES = {"yes": True, "no": False, "on": True, "off": False}


def read_overrides(arguments: Sequence[str]) -> dict[str, Any]:
    """Read the arguments that are settings.

    Args:
        arguments: `--name value`, `--name=value`, `--name` alone for true, or several values for a list.

    Returns:
        Plain data, as a file of settings holds it.

    Raises:
        ValueError: A value without a name, a setting that nobody knows (the nearest are named), one that is given
            twice, or a value of another type than the setting's.
    """
    given: dict[str, list[str]] = {}
    name = None
    for argument in arguments:
        if _NAME.match(argument):
            name, equals, value = argument[2:].partition("=")
            first, dot, rest = name.partition(".")
            name = first.replace("-", "_") + dot + rest
            if name in given:
                raise ValueError(f"{_SOURCE}: --{name} is given twice; a list is --{name} A B")
            given[name] = [value] if equals else []
        elif name is None:
            raise ValueError(f"{_SOURCE}: {argument!r} belongs to no setting; settings are given as --name value")
        else:
            given[name].append(argument)
    settings: dict[str, Any] = {}
    for name, texts in given.items():
        settings = merge_settings(settings, _nested(name, texts))
    from agent_r1_trainer.steppo_config import StepPOConfig

    for cls in (TrainSettings, StepPOConfig):
        check_types(settings, cls, _SOURCE)
    return settings


def _nested(name: str, texts: Sequence[str]) -> dict[str, Any]:
    from agent_r1_trainer.steppo_config import StepPOConfig

    keys = name.split(".")
    if not all(keys):
        raise ValueError(f"{_SOURCE}: --{name} has an empty part between its dots")
    refuse_unknown({keys[0]: None}, known_settings(), _SOURCE)
    hints = typing.get_type_hints(StepPOConfig) | typing.get_type_hints(TrainSettings)
    hint = hints.get(keys[0], Any)
    for key in keys[1:]:
        hint = _inner(hint, key)
    value = _value(texts, hint)
    for key in reversed(keys):
        value = {key: value}
    return typing.cast(dict[str, Any], value)


def _inner(hint: Any, key: str) -> Any:
    """The annotation of a key of a mapping, or of a field of a dataclass; Any where nothing is known."""
    for part in parts(hint):
        if dataclasses.is_dataclass(part) and isinstance(part, type):
            return typing.get_type_hints(part).get(key, Any)
        if typing.get_origin(part) in (dict, Mapping):
            return typing.get_args(part)[1]
    return Any


def _value(texts: Sequence[str], hint: Any) -> Any:
    if not texts:
        return True
    if len(texts) > 1:
        return [_value([text], _element(hint)) for text in texts]
    (text,) = texts
    data = _data(text)
    for value in (data, text, _SWITCHES.get(text.lower(), text)):
        if fits(value, hint):
            return value
    if any(typing.get_origin(part) is list for part in parts(hint)):
        return [_value(texts, _element(hint))]
    return data


def _element(hint: Any) -> Any:
    return next((typing.get_args(part)[0] for part in parts(hint) if typing.get_origin(part) is list), Any)


def _data(text: str) -> Any:
    """The text as JSON, with Python's words and numbers; what is none of it stays text."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except ValueError:
        if _NUMBER.fullmatch(text):
            return float(text) if re.search(r"[.eE]", text) else int(text)
        if text[:1] in ("{", "["):
            raise ValueError(f"{_SOURCE}: {text} is not JSON") from None
        return text
