"""From a trainer's arguments to the flow that runs its episodes."""

from __future__ import annotations

from typing import Any

from agent_r1_trainer.environments import EnvArgument, EnvFactory
from agent_r1_trainer.flows import AgentEnvLoop
from agent_r1_trainer.models import Models, prompt_limit
from agent_r1_trainer.steppo_checks import options
from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["env_flow"]


def env_flow(
    args: StepPOConfig, models: Models, env: EnvArgument | None, kwargs: dict[str, Any] | str | None
) -> AgentEnvLoop:
    """Make the loop over an environment, with the prompts that the settings ask for.

    Args:
        args: The settings.
        models: Tokenizer and context of the policy.
        env: The trainer's argument.
        kwargs: Arguments of the environment's constructor.

    Raises:
        ValueError: Without an environment.
    """
    if env is None:
        raise ValueError("env is needed: an id, an EnvSpec or a function that builds an environment")
    factory = EnvFactory(env, options(kwargs), recipe=args.recipe, max_turns=args.max_turns)
    return AgentEnvLoop(
        factory,
        models.tokenizer,
        max_prompt_length=prompt_limit(models.policy, args),
        concurrency=args.rollout_concurrency,
        history_thinking=args.history_thinking,
        chat_template_kwargs=options(args.chat_template_kwargs),
        step_anchor=args.anchors,
    )
