"""One prompt a turn, rendered afresh from the state of the episode."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, Literal

import gymnasium
import jinja2
from gymnasium.utils import RecordConstructorArgs
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agent_r1_envs.names import is_name, load_name
from agent_r1_envs.spaces import Message
from agent_r1_envs.text import clean
from agent_r1_wrappers.callables import Live, load_callable, recordable
from agent_r1_wrappers.context.append_history import AppendHistory
from agent_r1_wrappers.context.context_operation import ContextOperation
from agent_r1_wrappers.fitting import message_length
from agent_r1_wrappers.stack import WrapperOrderError, layers, turn_limit

VARIABLES = (
    "instruction", "observation", "first_observation", "turns", "actions", "turn", "remaining_turns", "info"
)  # fmt: skip


class RewriteContext(ContextOperation, RecordConstructorArgs):
    """Emits the system message and one user message, which a jinja2 template makes from the state of the episode.

    The template sees

    * ``instruction``: ``info["instruction"]``, or the first observation where the env gives none,
    * ``observation`` and ``first_observation``: what the env said last and at reset,
    * ``turns``: a list of ``action``, ``reply``, ``observation`` and ``info`` (see ``AppendHistory.history``),
    * ``actions``: the actions alone,
    * ``turn`` and ``remaining_turns``: turns done and left (None without a ``TimeLimit`` inside),
    * ``info``: the last ``info``, over that of reset; a key that is absent is false,
    * and what ``variables`` adds.

    It runs in jinja2's sandbox without HTML escaping; text of the env or the model is data, never template. White space
    around the prompt is dropped. Prompts made this way do not extend each other, so that steps of an episode are not
    merged in training.

    Args:
        env: An ``AppendHistory``, maybe inside wrappers that leave observations alone.
        template: The template, or ``"module:NAME"`` of one.
        variables: What makes further variables: a callable or ``"module:function"`` from the ``AppendHistory`` to a
            mapping of names to values.
        fit: Name of a list among the variables, of which the first items are left out until the prompt has at most
            ``tokens``.
        tokens: The most that ``length`` may give; needs ``fit``.
        length: As for ``TruncateHistory``.
        length_of: As for ``TruncateHistory``.

    Raises:
        WrapperOrderError: If there is no ``AppendHistory`` below, or another context operation in between, which would
            have no effect.
        ValueError: If the template is none, uses an unknown variable, or ``fit`` and ``tokens`` are not given together.
    """

    stateless = True

    def __init__(
        self,
        env: gymnasium.Env[list[Message], str],
        template: str,
        *,
        variables: str | Callable[[AppendHistory], Mapping[str, Any]] | None = None,
        fit: str | None = None,
        tokens: int | None = None,
        length: str | Callable[..., int] = "agent_r1_wrappers.fitting:estimate_tokens",
        length_of: Literal["text", "messages"] = "text",
    ) -> None:
        length, variables = recordable(length), recordable(variables)
        RecordConstructorArgs.__init__(
            self, template=template, variables=variables, fit=fit, tokens=tokens, length=length, length_of=length_of
        )
        super().__init__(env)
        if (fit is None) != (tokens is None):
            raise ValueError("fit and tokens belong together")
        self._history = self._find_history(env)
        self._variables = None if variables is None else load_callable(variables, "variables")
        self._template = Live(_compile(template, check=variables is None).render)  # jinja2's own cannot be copied
        self._fit = fit
        self._tokens = tokens
        self._length = message_length(length, length_of)
        self._limit = turn_limit(env)

    def rewrite(self, messages: list[Message], info: dict[str, Any]) -> list[Message]:
        """Return the system message, if there is one, and the rendered prompt."""
        system = [message for message in messages[:1] if message["role"] == "system"]
        variables = self._all_variables(info)
        if self._fit is None or self._tokens is None:
            return self._render(system, variables)
        return self._render_fitting(system, variables, self._fit, self._tokens)

    def _render_fitting(
        self, system: list[Message], variables: Mapping[str, Any], name: str, tokens: int
    ) -> list[Message]:
        """Leave out the first items of the list ``name``, as few as the budget allows."""
        items = variables.get(name)
        if not isinstance(items, list | tuple):
            raise ValueError(f"fit: the variable {name!r} is no list, got {type(items).__name__}")
        shown = items

        def render_without(count: int) -> list[Message]:
            return self._render(system, {**variables, name: shown[count:]})

        def fits_without(count: int) -> bool:
            return self._length(render_without(count)) <= tokens

        return render_without(bisect_left(range(len(shown)), True, key=fits_without))

    def _render(self, system: list[Message], variables: Mapping[str, Any]) -> list[Message]:
        return [*system, {"role": "user", "content": clean(self._template(variables).strip())}]

    def _all_variables(self, info: dict[str, Any]) -> dict[str, Any]:
        history = self._history
        turn = len(history.history)
        last = history.history[-1].observation if history.history else history.first_observation
        found: dict[str, Any] = {
            "instruction": info.get("instruction", history.first_observation),
            "observation": last,
            "first_observation": history.first_observation,
            "turns": history.history,
            "actions": [transition.action for transition in history.history],
            "turn": turn,
            "remaining_turns": None if self._limit is None else max(self._limit - turn, 0),
            "info": {**history.reset_info, **info},
        }
        return {**found, **(self._variables(history) if self._variables else {})}

    def _find_history(self, env: gymnasium.Env) -> AppendHistory:
        for layer in layers(env):
            if isinstance(layer, AppendHistory):
                return layer
            if isinstance(layer, ContextOperation):
                name = type(layer).__name__
                raise WrapperOrderError(
                    self,
                    f"renders from the whole history, so {name} below it would have no effect",
                    f"Put {name} above it.",
                )
        raise WrapperOrderError(self, "needs an AppendHistory below it", "Put AppendHistory below it.")


def _compile(template: str, check: bool) -> jinja2.Template:
    source = load_name(template) if is_name(template) else template
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
    try:
        unknown = find_undeclared_variables(environment.parse(source)) - set(VARIABLES) - set(environment.globals)
        compiled = environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"template, line {error.lineno}: {error.message}") from error
    if check and unknown:
        names = ", ".join(sorted(unknown))
        raise ValueError(f"template: unknown variables {names}; there are {', '.join(VARIABLES)}, and keys of info")
    return compiled
