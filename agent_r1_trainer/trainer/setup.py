"""From a trainer's arguments to the flows that run its episodes and the sampler that chooses their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import nn

from agent_r1_envs.names import load_factory
from agent_r1_trainer.curriculum.epochs import TaskCursor
from agent_r1_trainer.curriculum.sampler import TaskSampler
from agent_r1_trainer.environments.factory import EnvFactory
from agent_r1_trainer.environments.mixture import EnvironmentsArgument, MixtureEntry, mixture_entries
from agent_r1_trainer.fields import has_default
from agent_r1_trainer.flows import AgentEnvLoop, AgentFlowBase, AsyncEnvLoop, FailurePolicy
from agent_r1_trainer.steppo_config import StepPOConfig, options
from agent_r1_trainer.trainer.models import Models, prompt_limit

if TYPE_CHECKING:
    from agent_r1_trainer.steppo_config import StepPOConfig

__all__ = ["FlowSetup", "make_loop", "make_task_sampler", "set_up_flows", "trained_environments"]


def make_task_sampler(
    config: StepPOConfig,
    panels: Mapping[str, int | None],
    weights: Mapping[str, float],
    given: TaskSampler | None = None,
) -> TaskSampler:
    """Return the sampler that was given, that of the settings, or a walk through the panels.

    A factory that the settings name as `module:factory` is called with `panels`, `groups` (tasks of a rollout), `seed`
    and `weights`, all by name.

    Args:
        config: The settings.
        panels: Size of each environment's panel, None without one.
        weights: Of the environments.
        given: The trainer's argument.

    Raises:
        ValueError: Two samplers, an unknown one, or an empty panel.
        TypeError: What was given, or what the factory returned, is no sampler.
    """
    for name, size in panels.items():
        if size == 0:
            raise ValueError(f"the panel of tasks of the environment{f' {name!r}' if name else ''} is empty")
    if given is not None and config.task_sampler is not None:
        raise ValueError(f"pass either task_sampler or the setting task_sampler={config.task_sampler!r}, not both")
    sampler = given
    if sampler is None:
        named = config.task_sampler
        factory = TaskCursor if named is None else load_factory(named, "task_sampler", "'module:factory'")
        sampler = factory(panels=panels, groups=config.groups_per_rollout, seed=config.seed, weights=weights)
    if not isinstance(sampler, TaskSampler):
        raise TypeError(
            f"a task sampler needs assignments, observe, state_dict and load_state_dict, got {type(sampler).__name__}"
        )
    return sampler


@dataclass(frozen=True, slots=True)
class FlowSetup:
    """Where a run plays.

    Attributes:
        entries: The environments by name; a single one has the empty name. Empty with a flow and no environment.
        flow: Of training.
        eval_flow: Of evaluation, or None.
    """

    entries: Mapping[str, MixtureEntry]
    flow: AgentFlowBase
    eval_flow: AgentFlowBase | None

    def weights(self) -> dict[str, float]:
        """Weight of each environment that is trained on."""
        return {name: self.entries[name].weight if name in self.entries else 1.0 for name in self.flow.panels}

    def loss_divisors(self, args: StepPOConfig) -> dict[str, float]:
        """What `token_sum` divides the sum over an episode's tokens by, for each environment that is trained on.

        Raises:
            ValueError: An environment has neither a limit of turns nor a divisor, or a divisor that would be ignored.
        """
        own = {name: entry.loss_divisor for name, entry in self.entries.items() if entry.loss_divisor is not None}
        if args.loss_aggregation != "token_sum":
            for name, ignored in own.items():
                raise ValueError(
                    f"the environment {name!r} has loss_divisor={ignored}, which has no meaning with loss_aggregation="
                    f"{args.loss_aggregation!r}: leave it out, or set loss_aggregation='token_sum'"
                )
            return {}
        divisors: dict[str, float] = {}
        for name, limit in self.flow.turn_limits.items():
            divisor: float | None = own.get(name, args.loss_divisor)
            if divisor is None and limit is not None:
                divisor = args.max_completion_length * limit
            if divisor is None:
                raise ValueError(
                    "loss_aggregation='token_sum' (Dr. GRPO) divides by max_completion_length times the limit of "
                    f"turns, and the environment{f' {name!r}' if name else ''} has no limit: set max_turns, or "
                    "loss_divisor to the most tokens that the replies of an episode may have together"
                )
            divisors[name] = divisor
        return divisors


def trained_environments(env: EnvironmentsArgument | None, flow: AgentFlowBase | None) -> list[str]:
    """Names of the environments that a run trains on; that of a single one is empty.

    Args:
        env: What to train on; see `StepPOTrainer`.
        flow: A flow of the user's own, which knows its environments itself, or None.
    """
    if flow is not None:
        return list(flow.panels)
    if not isinstance(env, Mapping):
        return [""]
    return [name for name, entry in mixture_entries(env).items() if entry.weight > 0]


def set_up_flows(
    args: StepPOConfig,
    models: Models,
    env: EnvironmentsArgument | None,
    eval_env: EnvironmentsArgument | None,
    flow: AgentFlowBase | None,
    eval_flow: AgentFlowBase | None,
) -> FlowSetup:
    """Make the flows that were not given, with the prompts that the settings ask for.

    Args:
        args: The settings.
        models: Tokenizer and context of the policy.
        env: What to train on; see `StepPOTrainer`.
        eval_env: What to evaluate on; None may leave it to `env` and the settings.
        flow: Used as it is where it is given.
        eval_flow: The same for evaluation.

    Raises:
        ValueError: There is no environment to train on, an evaluation that is asked for has none, or a setting of the
            trainer's own loops with a flow that was given.
    """
    if flow is not None:
        _check_own_flow(args)
    eval_kwargs = None if args.eval_env_kwargs is None else options(args.eval_env_kwargs)
    entries: dict[str, MixtureEntry] = {}
    if env is None and eval_env is None and eval_kwargs is not None:
        raise ValueError("eval_env_kwargs needs an environment to evaluate on: pass env or eval_env")
    if env is not None:
        entries = mixture_entries(env, options(args.env_kwargs), None if eval_env is not None else eval_kwargs)
    elif flow is None:
        raise ValueError("env is needed: an id, an EnvSpec or a function that builds an environment")
    if flow is None:
        training = {name: entry for name, entry in entries.items() if entry.weight > 0}
        flow = make_loop(args, models.policy, models.tokenizer, training)
    if eval_flow is None:
        held_out = entries if eval_env is None else mixture_entries(eval_env, eval_kwargs)
        evaluation = {
            name: entry if entry.eval_kwargs is None else replace(entry, kwargs=entry.eval_kwargs)
            for name, entry in held_out.items()
            if entry.eval_kwargs is not None or eval_env is not None
        }
        eval_flow = make_loop(args, models.policy, models.tokenizer, evaluation) if evaluation else None
    if eval_flow is None and args.eval_strategy != "no":
        raise ValueError(
            f"eval_strategy={args.eval_strategy.value!r} needs held-out tasks: pass eval_env, or set "
            "eval_env_kwargs (for example {'split': 'validation'}); in a mixture, eval_kwargs of an entry. "
            'Without held-out tasks: eval_strategy="no"'
        )
    return FlowSetup(entries, flow, eval_flow)


def _check_own_flow(args: StepPOConfig) -> None:
    """Refuse settings of the loops that the trainer makes, which a flow of the user's own would never hear of."""
    derived = {"env_workers"} if args.use_vllm and args.vllm_mode == "server" else set()
    for name in ("env_failure", "env_retries", "env_timeout", "max_env_workers", "env_workers"):
        if name not in derived and not has_default(args, name):
            raise ValueError(
                f"{name}={getattr(args, name)!r} has no meaning with flow=, which plays as it was made: leave it out, "
                "and say it to the flow: failures=FailurePolicy(...) of AgentEnvLoop, AsyncEnvLoop and SingleStepFlow; "
                "env_workers, env_timeout and max_env_workers of AsyncEnvLoop"
            )


def make_loop(
    args: StepPOConfig, policy: nn.Module, tokenizer: Any, entries: Mapping[str, MixtureEntry]
) -> AgentEnvLoop | AsyncEnvLoop:
    """Make the loop over some environments, with the prompts that the settings ask for.

    Args:
        args: The settings.
        policy: Its context limits the prompts.
        tokenizer: Of the policy.
        entries: The environments by name.
    """
    factories = {
        name: EnvFactory(
            entry.env,
            entry.kwargs,
            recipe=args.recipe if entry.recipe is None else entry.recipe,
            max_turns=args.max_turns if entry.max_turns is None else entry.max_turns,
        )
        for name, entry in entries.items()
    }
    common: dict[str, Any] = {
        "max_prompt_length": prompt_limit(policy, args),
        "concurrency": args.rollout_concurrency,
        "history_thinking": args.history_thinking,
        "chat_template_kwargs": options(args.chat_template_kwargs),
        "step_anchor": args.anchors,
        "failures": FailurePolicy(args.env_retries, args.env_failure),
    }
    if args.env_workers is None:
        return AgentEnvLoop(factories, tokenizer, **common)
    return AsyncEnvLoop(
        factories,
        tokenizer,
        env_workers=args.env_workers,
        env_timeout=args.env_timeout,
        max_env_workers=args.max_env_workers,
        **common,
    )
