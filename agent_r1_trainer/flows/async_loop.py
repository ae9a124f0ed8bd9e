"""The loop in which no episode waits for another one's environment."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar, get_args

from agent_r1_trainer.environments.contract import CheckedEnv
from agent_r1_trainer.environments.factory import EnvWorkers
from agent_r1_trainer.flows.base import Assignment, FlowTimes
from agent_r1_trainer.flows.crew import Crew, portable
from agent_r1_trainer.flows.env_flow import EnvFlow
from agent_r1_trainer.flows.env_shelf import EnvShelf, MakeEnv
from agent_r1_trainer.flows.lookout import Lookout
from agent_r1_trainer.flows.player import PlayerSetup
from agent_r1_trainer.flows.progress import RolloutProgress
from agent_r1_trainer.flows.rollout import Rollout
from agent_r1_trainer.generation.adapters import BlockingGenerator
from agent_r1_trainer.generation.protocol import AsyncGenerator, Generator, SamplingParams
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["AsyncEnvLoop"]

T = TypeVar("T")

_CLOSING = 30.0  # seconds to close environments in, where nobody said how long


class AsyncEnvLoop(EnvFlow):
    """Runs episodes side by side: an environment that takes its time holds up its own episode only.

    Every live episode has a worker, which does all that is done to its environment and makes its prompts. What a
    trajectory holds does not depend on how long anything took: seeds are functions of the assignment and the turn,
    and results are in the order of the assignments.

    * A plain `Generator` is asked once all live episodes wait for a reply, and in the order of their assignments. These
      are the batches of an `AgentEnvLoop` that plays as many at a time, so ids and log-probabilities are the same to
      the last bit: no rounding can make a sampled token another one.
    * A `BlockingGenerator` or an `AsyncGenerator` is asked by each episode as soon as it has a prompt. What the
      replies' batches are is its own business; a token can then be another one where two batches round differently
      and its uniform number falls into that gap, unless the back end computes every prompt alike in any company.

    A call that takes longer than `env_timeout`, or takes its worker with it, costs its episode and its worker; so does
    any exception, as in `AgentEnvLoop`, its environment. A worker that is a process is killed. A thread cannot be: it
    is left behind, and what it may still bring is dropped; with more than `max_hung_threads` of them the run stops. A
    reply that cannot be had (`Generation.error`, `GenerationError`) costs its episode.

    Args:
        make_env: See `EnvFlow`. With processes it must be possible to pickle what builds environments.
        tokenizer: Renders prompts and decodes replies.
        env_workers: Where environments work: `"inline"` in the thread that runs the loop, one after another;
            `"threads"`, side by side as far as they wait for something; `"processes"`, where Python code too runs
            side by side and an environment may crash. `metadata = {"thread_safe": False}` of an environment says that
            two of its kind must not work in one process at the same time, and refuses threads.
        env_timeout: Seconds that a reset, a step or a close may take, the making of the prompt included; None waits for
            ever. Construction has ten minutes, or this if it is more, also where an environment is only looked at: that
            then happens in a thread, which must do for it, and raises a `TimeoutError`.
        max_env_workers: Most workers, and so most episodes at a time, where `concurrency` does not say less.
        max_hung_threads: Most threads that may be left behind.
        **kwargs: See `EnvFlow`.

    Raises:
        ValueError: `env_timeout` with inline workers, or a number that is none.
        TypeError: Processes, and what builds environments cannot be pickled.
    """

    def __init__(
        self,
        make_env: MakeEnv | Mapping[str, MakeEnv],
        tokenizer: Any,
        *,
        env_workers: EnvWorkers = "threads",
        env_timeout: float | None = None,
        max_env_workers: int = 64,
        max_hung_threads: int = 16,
        **kwargs: Any,
    ) -> None:
        super().__init__(make_env, tokenizer, **kwargs)
        if env_workers not in get_args(EnvWorkers):
            raise ValueError(f"env_workers must be one of {', '.join(get_args(EnvWorkers))}, got {env_workers!r}")
        if env_timeout is not None and env_workers == "inline":
            raise ValueError(
                f"env_timeout={env_timeout:g} cannot be kept with env_workers='inline': nobody is left to look at the "
                "clock while an environment works. Take 'threads' or 'processes'"
            )
        if env_timeout is not None and not 0 < env_timeout < math.inf:
            raise ValueError(f"env_timeout must be a number of seconds above 0, got {env_timeout}")
        if max_env_workers < 1:
            raise ValueError(f"max_env_workers must be at least 1, got {max_env_workers}")
        self._workers, self._timeout, self._max_workers = env_workers, env_timeout, max_env_workers
        if env_workers == "processes":
            self._factories = portable(self._factories)
        factories, kwargs_of_episodes, facts = self._factories, self._episode_kwargs, self._known
        self._crew = Crew(
            env_workers,
            # Not by a method: the crew lives on until the loop that it belongs to is forgotten.
            lambda: PlayerSetup(
                factories,
                tokenizer,
                {name: fact.own for name, fact in facts.items()},
                list(dict.fromkeys(module for fact in facts.values() for module in fact.modules)),
                kwargs_of_episodes,
            ),
            max_hung_threads,
        )
        self._lookout = Lookout(lambda: EnvShelf(factories, len(tokenizer)), self._crew, env_timeout)
        weakref.finalize(self, _leave, self._lookout, self._crew, _CLOSING)

    def check(self, sampling: SamplingParams) -> None:
        """Make sure that replies can be written (see `EnvFlow.check`), and that environments may work in threads.

        Raises:
            ValueError: They cannot, or may not.
        """
        super().check(sampling)
        self._check_threads()

    def run(
        self,
        assignments: Sequence[Assignment],
        generator: Generator | AsyncGenerator,
        sampling: SamplingParams,
        *,
        policy_version: int = 0,
    ) -> list[Trajectory]:
        """Run every assignment once; see `AgentFlowBase.run`.

        Raises:
            ValueError: An assignment names an environment that the loop does not have, or one says that threads will
                not do.
            EpisodeFailedError: An episode failed, and the policy for failures is to raise.
            HungThreadsError: Too many threads are left behind.
        """
        self._check_names(assignments)
        self._check_threads()
        self._lookout.close()  # what is played belongs to the workers
        self.times = FlowTimes()
        self.progress = progress = RolloutProgress(len(assignments))
        wanted = len(assignments) if self._concurrency is None else self._concurrency
        with ExitStack() as stack:
            if isinstance(generator, AsyncGenerator):
                generator = stack.enter_context(BlockingGenerator(generator))
            rollout = Rollout(
                assignments,
                generator,
                sampling,
                policy_version=policy_version,
                crew=self._crew,
                limit=min(wanted, self._max_workers),
                timeout=self._timeout,
                failures=self._failures,
                progress=progress,
                tell=self._tell,
            )
            try:
                return rollout.play()
            except BaseException as error:  # of the generator, or Ctrl-C: what was under way is given up
                rollout.give_up(interrupted=isinstance(error, KeyboardInterrupt))
                raise
            finally:
                progress.hung_threads = self._crew.hung_threads
                progress.ended = time.perf_counter()
                self.times = FlowTimes(rollout.generating, progress.seconds - rollout.generating)
                self._tell()

    def close(self) -> None:
        """Close the environments and end the workers; `run` starts new ones."""
        _leave(self._lookout, self._crew, _CLOSING if self._timeout is None else self._timeout)

    @property
    def hung_threads(self) -> int:
        """Threads that were left behind in an environment and have not come back yet."""
        return self._crew.hung_threads

    def _look(self, name: str, at: Callable[[CheckedEnv], T]) -> T:
        return self._lookout.look(name, at)

    def _check_threads(self) -> None:
        """Look at all environments, of which the workers have to know, and refuse those for which threads won't do."""
        for name in self._shelf.names:
            if not self._facts(name).thread_safe and self._workers == "threads":
                raise ValueError(
                    f"the environment{f' {name!r}' if name else ''} says that it is not thread-safe "
                    "(metadata['thread_safe'] is False): take env_workers='processes' or 'inline'"
                )


def _leave(lookout: Lookout, crew: Crew, seconds: float) -> None:
    """End what a loop has begun, with so many seconds for each thing that a worker has left to do."""
    try:
        lookout.close()
    finally:
        crew.dismiss(seconds)
