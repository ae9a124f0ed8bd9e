"""``agent-r1 play``: a person in the place of the agent."""

from __future__ import annotations

import itertools
import json
import textwrap
from collections.abc import Sequence
from typing import Any

import gymnasium
from agent_r1_wrappers import ActionFormat, reply_for
from agent_r1_wrappers.stack import layers
from gymnasium.spaces import Text
from rich.console import Console

from agent_r1_envs.actions import MalformedAction
from agent_r1_envs.text import clean
from agent_r1_envs.tools import parse_calls
from agent_r1_trainer.bench.settings import env_arguments
from agent_r1_trainer.commands.options import json_object
from agent_r1_trainer.environments.contract import CheckedEnv, ContractError, close_quietly, verdict
from agent_r1_trainer.environments.factory import make_env

__all__ = ["play_in_terminal"]

_HELP = (
    "Type an action, or the number of one. help shows what is possible, :expert what an expert would do, quit leaves."
)
_MAX_CALLS = 64  # the env has a limit of its own, and words for it
_LEAVE, _EXPLAIN = ("quit", "exit", "q"), ("help", "?")


def play_in_terminal(env: str, split: str, task: str | None, seed: int | None, env_kwargs: str) -> int:
    """Play one episode with standard input and output, a terminal or a pipe.

    Args:
        env: Id of the env.
        split: Passed to the env where its constructor takes a split.
        task: Position or id of the task; None for a random one.
        seed: Seed of that choice.
        env_kwargs: A JSON object of further constructor arguments.

    Returns:
        The exit status: 0 also when the player leaves early, 2 for arguments that do not work.
    """
    console = Console(highlight=False, markup=False, soft_wrap=False)
    try:
        arguments = env_arguments(env, split, json_object(env_kwargs, "--env-kwargs"))
        playing = make_env(env, arguments)
    except (ValueError, TypeError, ImportError, gymnasium.error.Error) as error:
        return _refuse(str(error))
    try:
        if not isinstance(playing.action_space, Text):
            return _refuse(f"{env} takes no text: its actions are in {playing.action_space}")
        return _episode(CheckedEnv(playing), console, _options(task), seed)
    except ContractError as error:
        return _refuse(str(error))
    except (KeyError, IndexError) as error:
        return _refuse(str(error.args[0]))
    except (EOFError, KeyboardInterrupt):
        console.print("\nLeft before the end.")
        return 0
    finally:
        close_quietly(playing)


def _refuse(why: str) -> int:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"agent-r1 play: {why}", style="red", markup=False)
    return 2


def _options(task: str | None) -> dict[str, Any] | None:
    if task is None:
        return None
    return {"task": int(task) if task.isdecimal() else task}


def _episode(env: CheckedEnv, console: Console, options: dict[str, Any] | None, seed: int | None) -> int:
    observation, info = env.reset(seed=seed, options=options)
    limit = env.spec.max_episode_steps if env.spec is not None else None
    tools = info.get("tools", [])
    console.print(f"Task {info.get('task_id', '?')}", style="bold")
    if str(info.get("instruction", "")) not in str(observation):
        console.print(clean(str(info["instruction"])))
    console.print(_HELP, style="dim")
    _show_choices(console, tools, info)
    total = 0.0
    for turn in itertools.count(1):
        console.print()
        _show_observation(console, observation)
        action = _ask(console, env, tools, info, f"[{turn}{f'/{limit}' if limit else ''}] > ")
        if action is None:
            console.print("Left before the end.")
            return 0
        observation, reward, terminated, truncated, info = env.step(_as_reply(env, action))
        if info.get("invalid_action", "") not in str(observation):
            console.print(f"Not possible: {clean(info['invalid_action'])}", style="yellow")
        total += reward
        if reward:
            console.print(f"Reward {reward:g}", style="cyan")
        if terminated or truncated:
            console.print()
            _show_observation(console, observation)
            _show_end(console, info, total, out_of_turns=not terminated)
            break
    return 0


def _ask(
    console: Console, env: gymnasium.Env[Any, Any], tools: list[dict[str, Any]], info: dict[str, Any], prompt: str
) -> str | None:
    """Return the next action; None when the player wants to leave."""
    while True:
        console.print(prompt, end="", style="bold")
        line = input().strip()
        admissible: Sequence[str] = info.get("admissible_actions", [])
        word = line.lower().removeprefix(":")
        meant_for_env = line in admissible  # a game may have a command of its own that is called help
        if word in _LEAVE and not meant_for_env:
            return None
        if word in _EXPLAIN and not meant_for_env:
            console.print(_HELP, style="dim")
            _show_choices(console, tools, info)
        elif line == ":expert":
            expert = getattr(env.unwrapped, "expert_action", lambda: None)()
            console.print(expert or "There is no expert for this.", style="dim")
        elif line.isdecimal() and 1 <= int(line) <= len(admissible):
            console.print(admissible[int(line) - 1], style="dim")
            return admissible[int(line) - 1]
        elif line:
            return line


def _as_reply(env: gymnasium.Env[Any, Any], line: str) -> str:
    """Put a command into the form that the action formats of a recipe read; what has the form already stays."""
    outermost = next((layer for layer in layers(env) if isinstance(layer, ActionFormat)), None)
    if outermost is None:
        return line
    # A tool env's commands are told by their grammar; elsewhere any text is a command, so the form is asked first.
    if not outermost.env_tools:
        return reply_for(env, line) if isinstance(outermost.parse(line), MalformedAction) else line
    try:
        parse_calls(line, outermost.env_tools, max_calls=_MAX_CALLS)
        return reply_for(env, line)
    except ValueError:
        return line


def _show_observation(console: Console, observation: Any) -> None:
    if isinstance(observation, (list, tuple)) and observation and isinstance(observation[-1], dict):
        observation = observation[-1].get("content", "")
    console.print(clean(str(observation)))  # control characters would speak to the terminal


def _show_choices(console: Console, tools: list[dict[str, Any]], info: dict[str, Any]) -> None:
    for number, action in enumerate(info.get("admissible_actions", []), 1):
        console.print(f"  {number:>3}  {clean(str(action))}")
    for tool in (entry["function"] for entry in tools):
        required = tool["parameters"].get("required", [])
        shown = required[0] if len(required) == 1 else json.dumps({name: "..." for name in required})
        console.print(f"  {tool['name']}[{shown}]", style="green")
        console.print(textwrap.indent(textwrap.fill(tool.get("description", ""), console.width - 8), "      "))


def _show_end(console: Console, info: dict[str, Any], total: float, *, out_of_turns: bool) -> None:
    solved, _ = verdict(info, terminated=not out_of_turns, total=total)
    end = "Out of turns." if out_of_turns else "Done."
    score = f" Score {info['score']:.3f}." if "score" in info else ""
    console.print(f"{end} {'Solved.' if solved else 'Not solved.'}{score}", style="green" if solved else "red")
