"""Callables that a wrapper's spec can name or share, so that the spec stays JSON data."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from agent_r1_envs.names import load_name


class Live:
    """A live callable among a wrapper's arguments; copying a spec shares it.

    Gymnasium deep-copies the spec for every wrapper above, which must not duplicate a language model.
    """

    def __init__(self, target: Callable[..., Any]) -> None:
        self.target = target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the target."""
        return self.target(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Live":
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Live) and self.target == other.target

    def __hash__(self) -> int:
        return hash(self.target)

    def __repr__(self) -> str:
        return f"Live({self.target!r})"


def load_callable(value: str | Callable[..., Any], argument: str) -> Callable[..., Any]:
    """Return a callable that is given live or as ``"module:function"``.

    Raises:
        TypeError: If it is, or names, nothing that can be called; the message names the ``argument``.
        ValueError: If the name has another form.
        ImportError: If the name names nothing.
    """
    found = load_name(value) if isinstance(value, str) else value
    if not callable(found):
        raise TypeError(f"{argument} must be a callable or name one as 'module:function', got {value!r}")
    return found


def recordable(value: Any) -> Any:
    """Return an argument in the form that a spec should record: live objects are shared, the rest is as it was."""
    if callable(value) and not isinstance(value, FunctionType | type | Live):
        return Live(value)
    return value
