"""What the loops over environments share: how environments are built, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from agent_r1_wrappers.formats.action_format import sample_replies
from agent_r1_wrappers.stack import layers

from agent_r1_trainer.environments.contract import CheckedEnv
from agent_r1_trainer.environments.factory import Panel, panel_of, turn_limit
from agent_r1_trainer.flows.base import AgentFlowBase, Assignment, FlowTimes
from agent_r1_trainer.flows.env_shelf import EnvShelf, MakeEnv
from agent_r1_trainer.flows.episode import AnchorKind
from agent_r1_trainer.flows.failures import FailurePolicy
from agent_r1_trainer.flows.progress import RolloutProgress
from agent_r1_trainer.generation.protocol import SamplingParams
from agent_r1_trainer.prompts import ChatRenderer, HistoryThinking, check_replies

__all__ = ["EnvFlow"]


class _Facts(NamedTuple):
    """What is known of an environment once one was built, also when it is closed again."""

    panel: Panel | None
    turn_limit: int | None
    own: str
    """Replies of its action format."""
    thread_safe: bool
    modules: tuple[str, ...]
    """Those that its class and its wrappers' are from."""


T = TypeVar("T")


class EnvFlow(AgentFlowBase):
    """A flow over Gymnasium environments.

    Args:
        make_env: Builds one environment; its observations are text, lists of messages or lists of token ids. A mapping
            holds one function for each name that `Assignment.env` may have.
        tokenizer: Renders prompts and decodes replies.
        max_prompt_length: Longest prompt, in tokens. An episode whose next prompt is longer stops.
        concurrency: Most episodes at a time; None runs all of them at once.
        history_thinking: Whether thinking in earlier replies stays in the prompt; see `PromptBuilder`.
        chat_template_kwargs: Passed to the chat template, beneath those of the environment's reset info.
        step_anchor: What every step records as its state: see `state_anchor`. None records nothing.
        failures: What becomes of an episode whose environment failed.
    """

    def __init__(
        self,
        make_env: MakeEnv | Mapping[str, MakeEnv],
        tokenizer: Any,
        *,
        max_prompt_length: int,
        concurrency: int | None = None,
        history_thinking: HistoryThinking = "keep",
        chat_template_kwargs: dict[str, Any] | None = None,
        step_anchor: AnchorKind | None = None,
        failures: FailurePolicy | None = None,
    ) -> None:
        if concurrency is not None and concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        self.times = FlowTimes()
        self.progress: RolloutProgress = RolloutProgress()
        self._tokenizer = tokenizer
        self._concurrency = concurrency
        self._failures = FailurePolicy() if failures is None else failures
        self._episode_kwargs: dict[str, Any] = {
            "max_prompt_length": max_prompt_length,
            "history_thinking": history_thinking,
            "chat_template_kwargs": chat_template_kwargs,
            "step_anchor": step_anchor,
        }
        self._factories = dict(make_env) if isinstance(make_env, Mapping) else {"": make_env}
        self._shelf = EnvShelf(self._factories, len(tokenizer))
        self._known: dict[str, _Facts] = {}

    @property
    def num_tasks(self) -> int | None:
        """Size of the environment's panel, None if there are several; see `AgentFlowBase.num_tasks`."""
        sizes = list(self.panels.values())
        return sizes[0] if len(sizes) == 1 else None

    @property
    def panels(self) -> Mapping[str, int | None]:
        """Size of each environment's panel; see `AgentFlowBase.panels`."""
        return {name: None if panel is None else len(panel) for name, panel in self.tasks.items()}

    @property
    def tasks(self) -> Mapping[str, Panel | None]:
        """The panel of each environment; see `AgentFlowBase.tasks`."""
        return {name: self._facts(name).panel for name in self._shelf.names}

    @property
    def turn_limits(self) -> Mapping[str, int | None]:
        """The limit of each environment's wrappers; see `AgentFlowBase.turn_limits`."""
        return {name: self._facts(name).turn_limit for name in self._shelf.names}

    def check(self, sampling: SamplingParams) -> None:
        """Make sure of each environment that the tokenizer can write the replies which its action format reads.

        Raises:
            ValueError: It cannot; the message has a reply and what became of it.
        """
        template = self._episode_kwargs["chat_template_kwargs"]
        for name in self._shelf.names:
            renderer = ChatRenderer(self._tokenizer, template, own=self._facts(name).own)
            check = partial(
                check_replies, tokenizer=self._tokenizer, stop_ids=sampling.stop_token_ids, renderer=renderer
            )
            self._look(name, check)

    def close(self) -> None:
        """Close the environments; `run` builds new ones."""
        self._shelf.close()

    def _look(self, name: str, at: Callable[[CheckedEnv], T]) -> T:
        """What is seen of an environment of that name, which is built for it if there is none."""
        return at(self._shelf.idle(name))

    def _tell(self) -> None:
        if self.watch is not None:
            self.watch(self.progress)

    def _check_names(self, assignments: Iterable[Assignment]) -> None:
        """Refuse assignments to environments that the flow does not have."""
        for name in {assignment.env for assignment in assignments}.difference(self._shelf.names):
            raise ValueError(
                f"there is no environment {name!r} to run; there are {', '.join(map(repr, self._shelf.names))}"
            )

    def _facts(self, name: str) -> _Facts:
        if name not in self._known:
            self._known[name] = self._look(name, _facts_of)
        return self._known[name]


def _facts_of(env: CheckedEnv) -> _Facts:
    return _Facts(
        panel_of(env),
        turn_limit(env),
        "\n".join(sample_replies(env, "So.").values()),
        bool((env.metadata or {}).get("thread_safe", True)),
        tuple(dict.fromkeys(type(layer).__module__ for layer in layers(env))),
    )
