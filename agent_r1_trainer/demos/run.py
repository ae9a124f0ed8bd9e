"""Making demonstrations from the first, or from where they stopped, to the last."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agent_r1_trainer.bench.episode import Job
from agent_r1_trainer.curriculum.choice import representative_order
from agent_r1_trainer.demos.episode import Demonstration, demonstrate
from agent_r1_trainer.demos.file import DemoError, DemoFile, Found
from agent_r1_trainer.environments.factory import EnvArgument, EnvFactory, Recipe, panel_of
from agent_r1_trainer.seeds import derive_seed

__all__ = ["DemoCounts", "DemoRun", "DemoSettings", "describe", "run_with_bar"]


@dataclass(frozen=True)
class DemoSettings:
    """What to demonstrate.

    Attributes:
        env: Id of the environment, or what else builds one.
        env_kwargs: Arguments of its constructor, the split among them.
        episodes: How many to play; None for one a task.
        recipe: Context of an environment with plain text observations.
        max_turns: Turn limit; None for the environment's own.
        seed: Of the episodes.
        only_successful: Whether unsolved episodes are left out.
    """

    env: EnvArgument
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    episodes: int | None = None
    recipe: Recipe = "default"
    max_turns: int | None = None
    seed: int = 0
    only_successful: bool = False

    def __post_init__(self) -> None:
        if self.episodes is not None and self.episodes < 1:
            raise ValueError(f"episodes must be at least 1, got {self.episodes}")


@dataclass(frozen=True, slots=True)
class DemoCounts:
    """What a finished file holds.

    Attributes:
        episodes: Episodes played; those that a resumed run found are counted.
        kept: Episodes in the file.
        solved: Episodes in the file whose task was solved.
        turns: Rows of the file.
    """

    episodes: int
    kept: int
    solved: int
    turns: int


class DemoRun:
    """Writes demonstrations to a file.

    Episode ``i`` plays task ``i`` of the split (from the first again after the last) with a seed made of the run's seed
    and ``i``, so that the file does not depend on interruptions. Where there are more tasks than episodes, they are
    played in an order whose every beginning stands for the split; see `representative_order`.

    Args:
        settings: What to demonstrate.
        path: The file.
        resume: Go on where a run with the same settings stopped; without it a file that is there is refused.

    Raises:
        DemoError: The file is there already.
        ValueError: The environment cannot be built.
    """

    def __init__(self, settings: DemoSettings, path: Path, *, resume: bool = False) -> None:
        if path.exists() and path.stat().st_size and not resume:
            raise DemoError(f"{path} is there already: go on with --resume, choose another --out, or remove it")
        self.settings = settings
        self.path = path
        self._make_env = EnvFactory(settings.env, settings.env_kwargs, settings.recipe, settings.max_turns)
        env = self._make_env()
        try:
            panel = panel_of(env)
        finally:
            env.close()
        self._tasks = None if panel is None else len(panel)
        orders: list[Sequence[int]] = [range(self._tasks or 0)]
        if panel is not None:
            some = settings.episodes is not None and settings.episodes < len(panel)
            orders.insert(0 if some else 1, list(representative_order(panel.ids, panel.types)))
        self._order, *self._other_orders = orders
        if settings.episodes is None and self._tasks is None:
            raise ValueError(f"{self._make_env.name} has no panel of tasks: say how many episodes to play")
        self.episodes: int = settings.episodes or self._tasks or 0

    def run(self, on_episode: Callable[[int], None] | None = None) -> DemoCounts:
        """Play what is still to play.

        Args:
            on_episode: Told how many episodes are done, first those that were there, then after each.

        Raises:
            DemoError: The file was made with other settings, there is no expert, it cannot begin an episode, or an
                episode failed.
        """
        report = on_episode or (lambda done: None)
        with DemoFile(self.path) as file:
            found = file.found
            env = self._make_env()
            try:
                first = self._first(found, env)
                report(min(first, self.episodes))
                kept, solved, turns = len(found.episodes), found.solved, found.rows
                for episode in range(first, self.episodes):
                    demonstration = self._play(env, episode)
                    if demonstration.rows and (demonstration.success or not self.settings.only_successful):
                        file.append(demonstration.rows)
                        kept, solved = kept + 1, solved + demonstration.success
                        turns += len(demonstration.rows)
                    report(episode + 1)
            finally:
                env.close()
        return DemoCounts(max(first, self.episodes), kept, solved, turns)

    def _first(self, found: Found, env: gymnasium.Env[Any, Any]) -> int:
        """The number of the first episode to play.

        Whether the file was made with these settings is seen from its last episode: it is played again.
        """
        if not found.episodes:
            return 0
        last = found.episodes[-1]
        only = self.settings.only_successful
        if only and found.solved < len(found.episodes):
            raise DemoError(f"{self.path} holds unsolved episodes: go on without --only-successful, or elsewhere")
        if not only and found.episodes != list(range(last + 1)):
            raise DemoError(f"{self.path} lacks some episodes: go on with --only-successful, or choose another --out")
        # A file that was begun with all tasks, or by an earlier version, has another order.
        for order in (self._order, *self._other_orders):
            self._order = order
            if self._comes_out_as(found.last, env, last):
                return last + 1
        raise DemoError(
            f"{self.path} was made with other settings: its episode {last} comes out otherwise now. Go on with the "
            "arguments that it was made with, or choose another --out"
        )

    def _comes_out_as(self, rows: list[dict[str, Any]], env: gymnasium.Env[Any, Any], episode: int) -> bool:
        try:
            return json.loads(json.dumps(self._play(env, episode).rows)) == rows
        except DemoError:  # in this order it is a task that the expert cannot do
            return False

    def _play(self, env: gymnasium.Env[Any, Any], episode: int) -> Demonstration:
        task = None if self._tasks is None else self._order[episode % self._tasks]
        job = Job(episode, task, derive_seed(self.settings.seed, "demos", episode))
        try:
            demonstration = demonstrate(env, self._make_env.name, job)
        except DemoError:
            raise
        except Exception as error:  # whatever an environment or a server behind it raises
            problem = f"{type(error).__name__}: {error}"
            raise DemoError(f"episode {episode} failed with {problem}; --resume goes on from there") from error
        if not demonstration.rows and not self.settings.only_successful:
            raise DemoError(
                f"the expert does not know how to begin episode {episode} (task {task}): are there gold answers in "
                "this split? --only-successful leaves such tasks out"
            )
        return demonstration


def run_with_bar(run: DemoRun, console: Console) -> DemoCounts:
    """Run with a bar on a terminal, silently elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("demonstrations", total=run.episodes)
        return run.run(lambda done: progress.update(bar, completed=done))


def describe(counts: DemoCounts) -> str:
    """Say what a file holds, in one line."""
    kept = "" if counts.kept == counts.episodes else f", {counts.kept} kept"
    return f"{counts.episodes} episodes{kept}, {counts.solved} solved, {counts.turns} turns"
