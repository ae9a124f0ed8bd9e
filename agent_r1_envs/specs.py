"""Constructor arguments as Gymnasium records them."""

from __future__ import annotations

from typing import Any

__all__ = ["SpecArguments"]


class SpecArguments(dict[str, Any]):
    """Constructor arguments that are copied deeply as far as they are JSON data; live objects are shared.

    Gymnasium deep-copies an env's spec for every wrapper around it. That must not duplicate an index of gigabytes, nor
    fail over a connection that cannot be copied.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> SpecArguments:
        return SpecArguments({name: _copy_data(value) for name, value in self.items()})


def _copy_data(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy_data(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copy_data, value))
    return value
