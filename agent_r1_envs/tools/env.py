"""The env of a model that calls tools until it answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agent_r1_envs.core import AgentEnv, Outcome
from agent_r1_envs.errors import ToolError
from agent_r1_envs.tasks import TaskSet
from agent_r1_envs.text import clean, echo
from agent_r1_envs.tools.base import Tool
from agent_r1_envs.tools.grammar import Call, CallSyntaxError, format_calls, parse_calls

__all__ = ["ToolEnv"]

TaskT = TypeVar("TaskT")


class ToolEnv(AgentEnv[TaskT]):
    """An env whose actions are calls of tools, in the grammar of :mod:`agent_r1_envs.tools.grammar`.

    * Prose, a call that cannot be read, or too many calls: nothing runs, and the observation says what was wrong.
    * Otherwise the calls run in order. One that fails, because the tool does not exist, its arguments do not fit or it
      raises ``ToolError``, is reported, and the rest go on. An action of which nothing could run is an invalid one.
    * The answer stands alone and ends the episode.

    ``info["calls"]`` lists the calls of the turn as dicts of ``name``, ``arguments``, ``ok``, ``error`` (``""`` when
    ok) and ``reward``; ``info["tools"]`` of reset holds the schemas, the answer's included.

    A subclass implements :meth:`_answer` besides the hooks of ``AgentEnv``.

    Args:
        tasks: The panel.
        tools: The tools, or typed functions that :meth:`Tool.from_function` makes into tools. Tools that change the
            world keep their state where :meth:`_get_world` finds it, and change nothing when they raise ``ToolError``.
        max_calls: The most calls of one action.
        answer_aliases: Names of the answer; the first is the one that is shown. None at all for an env without one.
        answer_description: What the model is told of the answer.
        answer_argument: What the model is told of its text.
        **kwargs: Arguments of :class:`~agent_r1_envs.core.AgentEnv`.

    Raises:
        ValueError: If there is no tool, two have one name, or ``max_calls`` is no integer of at least 1.
    """

    def __init__(
        self,
        tasks: TaskSet[TaskT],
        tools: Sequence[Tool | Callable[..., Any]],
        *,
        max_calls: int = 4,
        answer_aliases: Sequence[str] = ("answer", "finish"),
        answer_description: str = "Give the final answer, which ends the episode.",
        answer_argument: str = "The answer alone, as short as possible.",
        **kwargs: Any,
    ) -> None:
        super().__init__(tasks, **kwargs)
        if not isinstance(max_calls, int) or max_calls < 1:
            raise ValueError(f"max_calls must be an integer of at least 1, got {max_calls!r}")
        self.max_calls = max_calls
        self._answer_aliases = tuple(answer_aliases)
        shown = [tool if isinstance(tool, Tool) else Tool.from_function(tool) for tool in tools]
        named = [(tool.name, tool) for tool in shown]
        if answer_aliases:
            answer = _answer_tool(answer_aliases[0], answer_description, answer_argument)
            shown.append(answer)
            named.extend((alias, answer) for alias in answer_aliases)
        self._shown_tools = tuple(shown)
        self.tools: dict[str, Tool] = dict(named)
        """All tools by name, the answer under each of its aliases."""
        if not shown or len(self.tools) < len(named):
            raise ValueError(f"tools need distinct names, got {[name for name, _ in named]}")

    def _answer(self, text: str) -> Outcome:
        """Take the final answer; a subclass scores it and returns an outcome that is ``terminated``."""
        raise NotImplementedError

    def _join(self, results: Sequence[tuple[Call, str]]) -> str:
        """Make one observation of what the calls returned: a single text as it is, several under their commands."""
        if len(results) == 1:
            return results[0][1]
        return "\n\n".join(f"{echo(format_calls([call], self.tools))}\n{text}" for call, text in results)

    def _reset_info(self) -> dict[str, Any]:
        return {"tools": [tool.schema for tool in self._shown_tools], "calls": []}

    def _refuse(self, reason: str) -> Outcome:
        return Outcome(f"Invalid action: {reason}.", invalid=reason, info={"calls": []})

    def _refuse_syntax(self, reason: str) -> Outcome:
        """Refuse text that this env tried to read itself, and show the forms that it can read."""
        forms = " or ".join(tool.usage for tool in self._shown_tools)
        how = f"Write one call a line, at most {self.max_calls}: {forms}; or JSON: {self._shown_tools[0].json_usage}"
        return Outcome(f"Invalid action: {reason}.\n{how}", invalid=reason, info={"calls": []})

    def _act(self, action: str) -> Outcome:
        try:
            calls = self._read_calls(action)
        except CallSyntaxError as error:
            return self._refuse_syntax(str(error))
        answers = [call.name for call in calls if call.name in self._answer_aliases]
        if not answers:
            return self._run(calls)
        if len(calls) > 1:
            return self._refuse(f"{answers[0]} ends the episode, so it must be the only call")
        return self._run_answer(calls[0])

    def _read_calls(self, action: str) -> list[Call]:
        """Return the calls of an action.

        Raises:
            CallSyntaxError: There is none, one cannot be read, or there are too many.
        """
        return parse_calls(action, self.tools, max_calls=self.max_calls)

    def _run(self, calls: Sequence[Call]) -> Outcome:
        """Run calls in order; a failing one does not stop the rest."""
        reports: list[dict[str, Any]] = []
        results: list[tuple[Call, str]] = []
        anything_ran = False
        for call in calls:
            text, error, reward = "", "", 0.0
            try:
                tool, arguments = self._checked(call)
                anything_ran = True
                result = tool.run_checked(arguments)
                text, reward = result.text, float(result.reward)
            except ToolError as failure:
                error = clean(str(failure)) or "the tool failed"
                text = f"Error: {error}"
            results.append((call, text))
            reports.append(_report(call.name, call.arguments, error, reward))
        return Outcome(
            self._join(results),
            reward=sum(report["reward"] for report in reports),
            invalid=None if anything_ran else "; ".join(report["error"] for report in reports),
            info={"calls": reports},
        )

    def _run_answer(self, call: Call) -> Outcome:
        try:
            tool, arguments = self._checked(call)
        except ToolError as failure:
            return self._refuse(str(failure))
        outcome = self._answer(arguments["answer"])
        report = _report(tool.name, call.arguments, outcome.invalid or "", outcome.reward)
        return dataclasses.replace(outcome, info={**outcome.info, "calls": [report]})

    def _checked(self, call: Call) -> tuple[Tool, dict[str, Any]]:
        """Return the tool and the converted arguments of a call.

        Raises:
            ToolError: If there is no such tool or the arguments do not fit.
        """
        tool = self.tools.get(call.name)
        if tool is None:
            names = [tool.name for tool in self._shown_tools]
            raise ToolError(f"there is no tool '{echo(call.name)}'; there are {', '.join(names)}")
        try:
            return tool, tool.check(call.arguments)
        except ToolError as failure:
            raise ToolError(f"{tool.name}: {failure}; write {tool.json_usage}") from None


def _answer_tool(name: str, description: str, argument: str) -> Tool:
    def answer(answer: str) -> str:
        raise NotImplementedError("the env takes the answer itself")

    return Tool(name, description, answer, {"answer": argument})


def _report(name: str, arguments: dict[str, Any], error: str, reward: float) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "ok": not error, "error": error, "reward": float(reward)}
