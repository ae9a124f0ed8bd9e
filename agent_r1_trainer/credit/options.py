"""The options of an estimator: its keyword-only parameters beyond ``gamma`` and ``lam``."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["check_options", "options_of"]


def options_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Read the options and their defaults off a function's signature.

    Args:
        name: Of the estimator, for messages.
        function: Takes the batch, ``gamma`` and ``lam`` by keyword, and the options.

    Raises:
        ValueError: ``gamma`` or ``lam`` is missing, or a further parameter is not keyword-only with a default.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if not {"gamma", "lam"} <= {parameter.name for parameter in parameters}:
        raise ValueError(f"the advantage estimator {name!r} must take gamma and lam: (batch, *, gamma, lam, ...)")
    further = [parameter for parameter in parameters if parameter.name not in ("gamma", "lam")]
    for parameter in further:
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
            raise ValueError(
                f"{parameter.name!r} of the advantage estimator {name!r} must be a keyword-only parameter with a "
                "default: (batch, *, gamma, lam, option=default)"
            )
    return {parameter.name: parameter.default for parameter in further}


def check_options(name: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse options that there are not, and values of another kind than the default.

    A float takes whole numbers too, but nothing that is not finite; a default of None takes anything.

    Args:
        name: Of the estimator, for messages.
        known: The options with their defaults.
        given: What was set.

    Raises:
        ValueError: With the list of the options.
    """
    listed = ", ".join(f"{option}={default!r}" for option, default in known.items())
    ending = f"its options are: {listed}" if listed else "it has none"
    for option, value in given.items():
        if option not in known:
            raise ValueError(f"the advantage estimator {name!r} has no option {option!r}; {ending}")
        if not _fits(value, known[option]):
            kind = type(known[option]).__name__
            raise ValueError(f"{option} of the advantage estimator {name!r} must be a {kind}, got {value!r}; {ending}")


def _fits(value: Any, default: Any) -> bool:
    if default is None:
        return True
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if isinstance(default, int) and not isinstance(default, bool):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, type(default))
