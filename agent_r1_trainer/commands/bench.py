"""``agent-r1 bench``: the run of :mod:`agent_r1_trainer.bench.run` with a progress bar and words for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from agent_r1_trainer.bench.episode import LogError
from agent_r1_trainer.bench.report import Summary
from agent_r1_trainer.bench.run import BenchError, BenchRun
from agent_r1_trainer.bench.settings import AgentSpec, BenchSettings, parse_agent
from agent_r1_trainer.commands.options import INTERRUPTED, USER_ERRORS, json_object
from agent_r1_trainer.environments.factory import RECIPES
from agent_r1_trainer.files import LockError

__all__ = ["bench_command"]


def bench_command(
    *,
    env: str,
    agent: str,
    out: Path,
    split: str,
    episodes: int | None,
    seed: int,
    concurrency: int,
    env_kwargs: str,
    max_turns: int | None,
    recipe: str | None,
    sampling: Mapping[str, Any],
    transport: Mapping[str, Any],
    further: str = "{}",
) -> int:
    """Run the command; see ``agent-r1 bench --help`` for the arguments. Returns the exit status.

    ``sampling`` holds the arguments that have an option of their own and were said, ``further`` is ``--sampling``.
    """
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        spec = parse_agent(agent)
        settings = BenchSettings(
            env=env,
            agent=spec,
            split=split,
            seed=seed,
            episodes=episodes,
            concurrency=concurrency,
            env_kwargs=json_object(env_kwargs, "--env-kwargs"),
            max_turns=max_turns,
            sampling=_sampling(spec, recipe, sampling, json_object(further, "--sampling")),
            transport=transport if spec.kind == "openai" else {},
        )
        run = BenchRun(settings, out)
        return _play(run, say)
    except (*USER_ERRORS, LogError, LockError, BenchError) as error:
        say.print(f"agent-r1 bench: {error}", style="red", markup=False)
        return 2


def _sampling(
    spec: AgentSpec, recipe: str | None, named: Mapping[str, Any], further: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the options say of a model's replies."""
    if recipe is not None and recipe not in RECIPES:
        raise ValueError(f"--recipe must be one of {', '.join(RECIPES)}, got {recipe!r}")
    if not spec.is_model:
        if recipe is not None:
            raise ValueError(f"--recipe is the context of a model; the agent {spec} takes none")
        if further:
            raise ValueError(f"--sampling is for a model; the agent {spec} takes none")
        return {}
    said = {**named, **({} if recipe is None else {"recipe": recipe})}
    for name in said:
        if name in further or (name == "max_tokens" and "max_completion_tokens" in further):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{option} {said[name]} and --sampling {json.dumps(dict(further))} say the same; say it once"
            )
    return {**said, **further}


def _play(run: BenchRun, say: Console) -> int:
    jobs, total = len(run.jobs), run.episodes
    if run.resumed:
        say.print(f"{total - jobs} of {total} episodes are there already; {jobs} to play", markup=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=say, transient=True, disable=not say.is_terminal) as progress:
            bar = progress.add_task(run.settings.agent.shown, total=total, completed=total - jobs)
            summary = run.run(lambda record: progress.advance(bar))
    except KeyboardInterrupt:
        done = total - len(run.jobs)
        if done:
            show(run.summary(), run)
        say.print(f"Stopped. {done} of {total} episodes are in {run.log}; the same command goes on.", markup=False)
        return INTERRUPTED
    show(summary, run)
    if summary.failed:
        first = next(record for record in run.records if record.failed)
        say.print(
            f"{summary.failed} episodes failed and count as score 0, the first with {first.error}\n"
            "The same command plays them again.",
            style="yellow",
            markup=False,
        )
    return 1 if summary.failed == summary.episodes else 0


def show(summary: Summary, run: BenchRun) -> None:
    """Print the figures and where the run lies."""
    settings = run.settings
    table = Table()
    for heading in ("", "mean", "95 % interval"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name in ("score", "success", "reward", "turns", "invalid_rate"):
        figure = getattr(summary, name)
        # A bootstrap of what is the same in all episodes has no width, and is no interval.
        interval = f"{figure.low:.3f} .. {figure.high:.3f}" if figure.low < figure.high else "no spread"
        table.add_row(name.replace("_", " "), f"{figure.value:.3f}", interval)
    console = Console(highlight=False)
    title = f"{settings.agent.shown} on {settings.env}, {run.split}, {summary.episodes} episodes"
    console.print(title, markup=False, soft_wrap=True)
    console.print(table)
    if summary.usage:
        counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in summary.usage.items())
        console.print(f"used: {counts}", markup=False, soft_wrap=True)
    stops = ", ".join(f"{name} {count}" for name, count in summary.stops.items())
    console.print(f"stopped by: {stops}\n{run.folder}: episodes.jsonl, summary.json", markup=False, soft_wrap=True)
