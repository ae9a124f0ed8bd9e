"""Kinds and bounds of settings, in Python and in files."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from agent_r1_trainer.fields import Bounds, Count, NonNegative, Positive, Share, check_fields, check_types, fits


@dataclass(frozen=True)
class Settings:
    count: Count = 1
    limit: Count | None = None
    rate: Share = 0.5
    weight: NonNegative = 0.0
    size: Positive | None = None
    cap: Annotated[float, Bounds(at_least=1, at_most=math.inf)] = 2.0
    mode: Literal["a", "b"] = "a"
    on: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    ids: list[int] | None = None
    anything: Any = None


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"count": np.int64(3), "rate": np.float32(0.25), "weight": 2},
        {"cap": math.inf},
        {"limit": None, "size": None, "ids": (1, 2)},
        {"more": MappingProxyType({"a": 1}), "anything": object()},
    ],
)
def test_what_fits_passes(values):
    check_fields(Settings(**values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "count must be a whole number of at least 1, got 0"),
        ({"count": True}, "count must be a whole number of at least 1, got True"),
        ({"limit": 1.5}, "limit must be a whole number of at least 1 or None, got 1.5"),
        ({"rate": 1.01}, "rate must be a number from 0 to 1, got 1.01"),
        ({"rate": math.nan}, "rate must be a number from 0 to 1, got nan"),
        ({"weight": math.inf}, "weight must be a number of at least 0, got inf"),
        ({"size": 0}, "size must be a number above 0 or None, got 0"),
        ({"cap": 0.5}, "cap must be a number of at least 1, got 0.5"),
        ({"mode": "c"}, "mode must be 'a' or 'b', got 'c'"),
        ({"on": 1}, "on must be True or False, got 1"),
        ({"more": [1]}, "more must be a mapping, got [1]"),
    ],
)
def test_what_does_not_fit_is_named_with_what_would(values, message):
    with pytest.raises(ValueError) as error:
        check_fields(Settings(**values))
    assert str(error.value) == message
    with pytest.raises(ValueError) as error:
        check_types(values, Settings, "run.yaml")
    words = {"None": "null", "True or False": "true or false", "a mapping": "settings of its own"}
    wanted, got = message.rsplit(", got ", 1)
    for in_code, in_file in words.items():
        wanted = wanted.replace(in_code, in_file)
    assert str(error.value) == f"run.yaml: {wanted}, got {got}"


def test_fields_that_somebody_else_checks_are_left_out():
    check_fields(Settings(count=0), leave_out=["count"])


def test_an_annotation_of_no_plain_kind_takes_all():
    assert fits(object(), Settings) and fits(3, str | Settings)
