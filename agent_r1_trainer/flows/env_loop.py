"""The loop between a policy and any Gymnasium environment, many episodes at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from agent_r1_trainer.flows.base import Assignment, FlowTimes
from agent_r1_trainer.flows.env_flow import EnvFlow
from agent_r1_trainer.flows.episode import Episode
from agent_r1_trainer.flows.failures import note_closing
from agent_r1_trainer.flows.progress import RolloutProgress
from agent_r1_trainer.generation.protocol import Generator, SamplingParams, joined
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["AgentEnvLoop"]


class AgentEnvLoop(EnvFlow):
    """Runs episodes in lockstep: every live episode takes one turn, then all of them the next.

    Only live episodes generate. When one ends, the next assignment takes its environment at once, so the batch stays
    full until the assignments run out. In a mixture the episodes of all environments take their turns together, in one
    call of the generator. `AsyncEnvLoop` has the environments work side by side.

    Whatever goes wrong in an episode, because its environment raises or returns what nobody can use (`CheckedEnv`),
    costs that episode: the trajectory is masked, the environment is closed and replaced by a new one. So does a reply
    that cannot be had (`Generation.error`), but for the environment. Only if the very first cannot be built the error
    is the caller's. `close` closes all environments, and `run` then builds new ones; at the latest they are closed
    when the loop is forgotten.

    Args: those of `EnvFlow`.
    """

    def run(
        self,
        assignments: Sequence[Assignment],
        generator: Generator,
        sampling: SamplingParams,
        *,
        policy_version: int = 0,
    ) -> list[Trajectory]:
        """Run every assignment once; see `AgentFlowBase.run`.

        Raises:
            ValueError: An assignment names an environment that the loop does not have.
            EpisodeFailedError: An episode failed, and the policy for failures is to raise.
        """
        self._check_names(assignments)
        self.times = FlowTimes()
        self.progress = RolloutProgress(len(assignments))
        try:
            return self._run(assignments, generator, sampling, policy_version)
        except BaseException:  # of the generator, or Ctrl-C: the episodes that were under way are given up
            self._shelf.discard_taken()
            raise
        finally:
            self.progress.ended = time.perf_counter()

    def _run(
        self, assignments: Sequence[Assignment], generator: Generator, sampling: SamplingParams, policy_version: int
    ) -> list[Trajectory]:
        limit = len(assignments) if self._concurrency is None else self._concurrency
        waiting = deque(range(len(assignments)))
        live: dict[int, Episode] = {}
        done: dict[int, Trajectory] = {}
        attempts = [0] * len(assignments)
        progress = self.progress

        def start(index: int) -> None:
            live[index] = self._start(assignments[index], sampling, policy_version)

        def retire() -> None:
            """Move the episodes that ended from `live` to `done`, or play them again."""
            for index in [index for index, episode in live.items() if episode.stop is not None]:
                trajectory = self._end(live[index])
                while self._failures.check(trajectory, attempts[index], environment=live[index].spoilt):
                    attempts[index] += 1
                    progress.retried += 1
                    start(index)
                    if live[index].stop is None:
                        break
                    trajectory = self._end(live[index])
                else:
                    del live[index]
                    done[index] = trajectory
                    progress.done += 1
                    progress.masked += trajectory.masked
            self._tell()

        while waiting or live:
            with self._measured("environment", live):
                while waiting and len(live) < limit:
                    start(waiting.popleft())
                    retire()
            if not live:
                continue
            with self._measured("generation", live):
                episodes = list(live.values())
                replies = generator.generate(
                    [episode.prompt_ids for episode in episodes],
                    joined([episode.sampling(sampling) for episode in episodes]),
                    [episode.assignment.reply_seed(episode.turn) for episode in episodes],
                )
            with self._measured("environment", live):
                for episode, reply in zip(episodes, replies, strict=True):
                    episode.advance(reply)
                    progress.lost_replies += bool(reply.error)
                    progress.turns += not reply.error
                    progress.tokens += len(reply.ids)
                retire()
        return [done[index] for index in range(len(assignments))]

    @contextmanager
    def _measured(self, side: Literal["environment", "generation"], live: Collection[int]) -> Iterator[None]:
        """Count the time of the block, which all live episodes wait for."""
        started = time.perf_counter()
        waiting = len(live)
        yield
        seconds = time.perf_counter() - started
        setattr(self.times, side, getattr(self.times, side) + seconds)
        waited = seconds * max(waiting, len(live))
        setattr(self.progress, side, getattr(self.progress, side) + waited)

    def _start(self, assignment: Assignment, sampling: SamplingParams, policy_version: int) -> Episode:
        own = self._facts(assignment.env).own
        episode = Episode(
            self._shelf.take(assignment.env),
            assignment,
            self._tokenizer,
            stop_ids=sampling.stop_token_ids,
            own=own,
            policy_version=policy_version,
            **self._episode_kwargs,
        )
        episode.begin()
        return episode

    def _end(self, episode: Episode) -> Trajectory:
        """What an episode has become; its environment is free again, or closed where it failed."""
        trajectory = episode.trajectory()
        if episode.spoilt:
            note_closing(trajectory, self._shelf.discard(episode.env))
        else:
            self._shelf.give_back(episode.assignment.env, episode.env)
        return trajectory
