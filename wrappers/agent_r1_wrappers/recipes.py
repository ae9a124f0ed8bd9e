"""Recipes: named stacks of wrappers.

:func:`default` is what a bare id gets in training, :func:`tools` is for models and endpoints with tool calls of their
own, :func:`native` is the smallest stack. A published recipe is an id of
its own, registered with its wrappers when ``agent_r1_wrappers`` is imported::

    import agent_r1_wrappers
    import gymnasium

    env = gymnasium.make("AgentR1/HotpotQA-StepPO-v0")

Without the import, ``gymnasium.make("agent_r1_wrappers:AgentR1/HotpotQA-StepPO-v0")`` does both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium.envs.registration import WrapperSpec, load_env_creator

import agent_r1_envs  # noqa: F401  registers the ids that recipes are made of
from agent_r1_envs.core import AgentEnv
from agent_r1_envs.spaces import Messages
from agent_r1_envs.tools import ToolEnv
from agent_r1_wrappers.context.append_history import AppendHistory
from agent_r1_wrappers.context.augment_context import AugmentContext
from agent_r1_wrappers.context.explain_invalid import ExplainInvalid
from agent_r1_wrappers.context.rewrite_context import RewriteContext
from agent_r1_wrappers.context.wrap_observation import WrapObservation
from agent_r1_wrappers.formats.parse_react import ParseReAct
from agent_r1_wrappers.formats.parse_tags import ParseTags
from agent_r1_wrappers.formats.parse_tool_calls import ParseToolCalls
from agent_r1_wrappers.formats.parse_tool_tags import ParseToolTags
from agent_r1_wrappers.rewards import InvalidActionPenalty, SuccessReward

_TEXTS = "agent_r1_wrappers.hotpotqa_recipes"
_SHOP_TEXTS = "agent_r1_wrappers.webshop_recipes"
_PAPERS = "agent_r1_wrappers.paper_search_recipes"
_HOUSEHOLD = "agent_r1_wrappers.alfworld_recipes"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A named stack of wrappers around a registered env.

    Attributes:
        id: The id that it is registered as.
        base: The id of the env.
        wrappers: The stack, inside out; arguments are JSON data.
        summary: The recipe in one line.
        kwargs: Arguments of the env that differ from those of ``base``.
        max_episode_steps: The turn limit, where it differs from that of ``base``.
    """

    id: str
    base: str
    wrappers: tuple[WrapperSpec, ...]
    summary: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    max_episode_steps: int | None = None


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        id="AgentR1/HotpotQA-StepPO-v0",
        base="AgentR1/HotpotQA-v0",
        kwargs={"force_first_search": True, "top_k": 5, "max_calls": 4},
        wrappers=(
            ParseToolCalls.wrapper_spec(),
            AppendHistory.wrapper_spec(system=f"{_TEXTS}:STEPPO_SYSTEM"),
            RewriteContext.wrapper_spec(
                template=f"{_TEXTS}:STEPPO_TEMPLATE",
                variables=f"{_TEXTS}:steppo_variables",
                fit="passages",
                tokens=10_240,
            ),
        ),
        summary="HotpotQA with a prompt rebuilt each turn: question, past queries, passages, last complaints.",
    ),
    Recipe(
        id="AgentR1/HotpotQA-SearchR1-v0",
        base="AgentR1/HotpotQA-v0",
        kwargs={"top_k": 3, "max_calls": 1},
        wrappers=(
            ParseToolTags.wrapper_spec(instruct=False, first_only=True),
            WrapObservation.wrapper_spec(before="<information>", after="</information>"),
            AppendHistory.wrapper_spec(system=f"{_TEXTS}:SEARCH_R1_SYSTEM"),
        ),
        summary="HotpotQA in Search-R1's tags, <search>, <information> and <answer>: the first call ends a turn.",
    ),
    Recipe(
        id="AgentR1/HotpotQA-ReAct-v0",
        base="AgentR1/HotpotQA-v0",
        kwargs={"lookup": True, "max_calls": 1},
        wrappers=(
            ParseReAct.wrapper_spec(),
            AppendHistory.wrapper_spec(system=f"{_TEXTS}:REACT_SYSTEM"),
        ),
        summary="HotpotQA as ReAct plays it: thought, action, observation; search, lookup and answer.",
    ),
    Recipe(
        id="AgentR1/WebShop-StepPO-v0",
        base="AgentR1/WebShop-v0",
        wrappers=(
            ParseToolCalls.wrapper_spec(command_tool="env_step"),
            SuccessReward.wrapper_spec(value=10.0),
            InvalidActionPenalty.wrapper_spec(penalty=0.1, only_malformed=True),
            ExplainInvalid.wrapper_spec(),
            AppendHistory.wrapper_spec(system=f"{_SHOP_TEXTS}:STEPPO_SYSTEM"),
            RewriteContext.wrapper_spec(
                template=f"{_SHOP_TEXTS}:STEPPO_TEMPLATE",
                variables=f"{_SHOP_TEXTS}:steppo_variables",
                fit="past",
                tokens=4096,
            ),
        ),
        summary="WebShop with a prompt rebuilt each turn: instruction, page, last two turns, actions; tool env_step.",
    ),
    Recipe(
        id="AgentR1/WebShop-GiGPO-v0",
        base="AgentR1/WebShop-v0",
        wrappers=(
            ParseTags.wrapper_spec(require_think=True, instruct=False),
            SuccessReward.wrapper_spec(value=10.0),
            InvalidActionPenalty.wrapper_spec(penalty=0.1, only_malformed=True),
            AppendHistory.wrapper_spec(),
            RewriteContext.wrapper_spec(
                template=f"{_SHOP_TEXTS}:GIGPO_TEMPLATE",
                variables=f"{_SHOP_TEXTS}:gigpo_variables",
                fit="past",
                tokens=4096,
            ),
        ),
        summary="WebShop as verl-agent's GiGPO plays it: the same state, and <think> and <action> tags.",
    ),
    Recipe(
        id="AgentR1/PaperSearch-StepPO-v0",
        base="AgentR1/PaperSearch-v0",
        wrappers=(
            ParseToolCalls.wrapper_spec(no_call="finish", finish_tool="finish"),
            AppendHistory.wrapper_spec(system=f"{_PAPERS}:PAPERS_SYSTEM"),
            RewriteContext.wrapper_spec(
                template=f"{_PAPERS}:PAPERS_TEMPLATE",
                variables=f"{_PAPERS}:papers_variables",
                fit="pool",
                tokens=14_336,
            ),
        ),
        summary="Paper search with a prompt rebuilt each turn: query, past calls, pool; a reply without a call ends.",
    ),
    Recipe(
        id="AgentR1/ALFWorld-StepPO-v0",
        base="AgentR1/ALFWorld-v0",
        wrappers=(
            ParseToolCalls.wrapper_spec(schemas="none", command_tool="env_step"),
            ExplainInvalid.wrapper_spec(),
            AppendHistory.wrapper_spec(system=f"{_HOUSEHOLD}:STEPPO_SYSTEM"),
            RewriteContext.wrapper_spec(template=f"{_HOUSEHOLD}:STEPPO_TEMPLATE"),
        ),
        summary="ALFWorld with a prompt rebuilt each turn: task, observation, past actions, admissible commands.",
        max_episode_steps=20,
    ),
    Recipe(
        id="AgentR1/ALFWorld-GiGPO-v0",
        base="AgentR1/ALFWorld-v0",
        wrappers=(
            ParseTags.wrapper_spec(require_think=True, instruct=False),
            SuccessReward.wrapper_spec(value=10.0),
            InvalidActionPenalty.wrapper_spec(penalty=0.1, only_malformed=True),
            AppendHistory.wrapper_spec(),
            RewriteContext.wrapper_spec(
                template=f"{_HOUSEHOLD}:GIGPO_TEMPLATE", variables=f"{_HOUSEHOLD}:gigpo_variables"
            ),
        ),
        summary="ALFWorld in <think> and <action>, with the last two turns; 10 for success, -0.1 for no action.",
    ),
)


def default(env: gymnasium.Env) -> gymnasium.Env:
    """Return the env as chat in the format that suits it.

    Tool envs get ``ParseToolCalls``. Other envs of this project get ``ParseTags``, with the reasons of invalid actions
    and the admissible ones in every observation, since their own words name neither. All are under ``AppendHistory``,
    which is all that any other text env gets. An env that emits chat messages already, such as a recipe, stays as it
    is.

    Args:
        env: An env with text actions.

    Raises:
        WrapperOrderError: If the env is neither text nor chat.
    """
    if isinstance(env.observation_space, Messages):
        return env
    if isinstance(env.unwrapped, ToolEnv):
        return AppendHistory(ParseToolCalls(env))
    if isinstance(env.unwrapped, AgentEnv):
        return AppendHistory(AugmentContext(ExplainInvalid(ParseTags(env))))
    return AppendHistory(env)


def tools(env: gymnasium.Env) -> gymnasium.Env:
    """Return the env as chat whose replies are tool calls, with the schemas for the chat template or the endpoint.

    They are in ``info["chat_template_kwargs"]`` of reset, and no word of them in the system message. An env without
    tools gets one, ``act(command)``. An env that emits chat messages already stays as it is.

    Args:
        env: An env with text actions.

    Raises:
        WrapperOrderError: If the env is neither text nor chat.
    """
    if isinstance(env.observation_space, Messages):
        return env
    called = ParseToolCalls(env, schemas="template")
    if isinstance(env.unwrapped, AgentEnv) and not isinstance(env.unwrapped, ToolEnv):
        return AppendHistory(AugmentContext(ExplainInvalid(called)))
    return AppendHistory(called)


def native(env: gymnasium.Env) -> gymnasium.Env:
    """Return the env as chat whose replies are the env's own commands: ``AppendHistory`` and nothing else."""
    return AppendHistory(env)


def wrap(env: gymnasium.Env, wrappers: Iterable[WrapperSpec]) -> gymnasium.Env:
    """Put a stack of wrappers around an env.

    Args:
        env: The env.
        wrappers: Their specs, inside out, as ``SomeWrapper.wrapper_spec(**arguments)`` makes them.

    Raises:
        WrapperOrderError: If the order makes no sense.
    """
    for spec in wrappers:
        create: Any = load_env_creator(spec.entry_point)
        env = create(env=env, **(spec.kwargs or {}))
    return env


def register_recipes() -> None:
    """Register every recipe whose env is registered; ids that are registered already stay as they are."""
    for recipe in RECIPES:
        base = gymnasium.registry.get(recipe.base)
        if base is None or recipe.id in gymnasium.registry:
            continue
        gymnasium.register(
            id=recipe.id,
            entry_point=base.entry_point,
            kwargs={**base.kwargs, **recipe.kwargs},
            max_episode_steps=recipe.max_episode_steps or base.max_episode_steps,
            additional_wrappers=recipe.wrappers,
        )
