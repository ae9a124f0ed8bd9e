"""From a typed Python function to the JSON schema of its arguments, and back to checked arguments."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from agent_r1_envs.errors import ToolError
from agent_r1_envs.text import echo

__all__ = ["ArgumentModel"]

SHOWN_ERRORS = 3
SCALARS = frozenset({"string", "integer", "number", "boolean"})


class ArgumentModel:
    """The arguments of one function: their JSON schema, and how to check a model's values against it.

    Values are read leniently, as models write them: ``"3"`` is welcome where an int is asked for, and 1984 where a
    string is; unknown and missing arguments are not.

    Args:
        function: A function, or bound method, of named parameters with type annotations.
        descriptions: What to say of each parameter, by name.

    Raises:
        TypeError: If a parameter has no annotation or cannot be passed by name.
    """

    def __init__(self, function: Callable[..., Any], descriptions: dict[str, str]) -> None:
        hints = typing.get_type_hints(function, include_extras=True)
        self._fields: dict[str, str] = {}
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            name = parameter.name
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"{function.__qualname__}: {parameter} cannot be passed by name")
            if name not in hints:
                raise TypeError(f"{function.__qualname__}: parameter {name!r} needs a type annotation")
            default = ... if parameter.default is parameter.empty else parameter.default
            # Fields get names of our own, because a parameter may be called like a method of pydantic's models.
            field = f"argument_{len(fields)}"
            fields[field] = (hints[name], Field(default, alias=name, description=descriptions.get(name)))
            self._fields[field] = name
        config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, arbitrary_types_allowed=False)
        self._model: type[BaseModel] = create_model(f"{function.__name__}_arguments", __config__=config, **fields)
        self.schema: dict[str, Any] = self._model.model_json_schema(schema_generator=_PlainSchema)
        self.schema.pop("title", None)
        self.schema.setdefault("properties", {})

    @property
    def primary(self) -> str | None:
        """The parameter that ``name[...]`` fills: the first, if it is a scalar and no other one is required."""
        properties = list(self.schema["properties"].items())
        if not properties or set(self.schema.get("required", ())) - {properties[0][0]}:
            return None
        name, rule = properties[0]
        types = {option.get("type") for option in rule.get("anyOf", [rule])}
        return name if types & SCALARS or "enum" in rule or "const" in rule else None

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments in the types of the function; those left out are left to its defaults.

        Raises:
            ToolError: If they do not fit; the text says which and why.
        """
        try:
            model = self._model.model_validate(arguments)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            shown = "; ".join(_explain(detail) for detail in details[:SHOWN_ERRORS])
            more = f"; and {len(details) - SHOWN_ERRORS} more" if len(details) > SHOWN_ERRORS else ""
            raise ToolError(shown + more) from None
        return {name: getattr(model, field) for field, name in self._fields.items() if field in model.model_fields_set}


class _PlainSchema(GenerateJsonSchema):
    """Leaves out the titles, which only repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _explain(detail: Any) -> str:
    path = echo(".".join(map(str, detail["loc"])))
    if detail["type"] == "missing":
        return f"argument '{path}' is missing"
    if detail["type"] == "extra_forbidden":
        return f"unknown argument '{path}'"
    return f"argument '{path}': {echo(detail['msg'])}"
