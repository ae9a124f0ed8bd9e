"""``agent-r1 demos``: a `DemoRun` with a progress bar and words for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from agent_r1_trainer.bench.settings import env_arguments
from agent_r1_trainer.commands.options import INTERRUPTED, USER_ERRORS, json_object
from agent_r1_trainer.demos.file import DemoError
from agent_r1_trainer.demos.run import DemoRun, DemoSettings, describe, run_with_bar

__all__ = ["demos_command"]


def demos_command(
    *,
    env: str,
    out: Path,
    split: str,
    episodes: int | None,
    seed: int,
    env_kwargs: str,
    max_turns: int | None,
    recipe: str,
    only_successful: bool,
    resume: bool,
) -> int:
    """Run the command; see ``agent-r1 demos --help`` for the arguments.

    Returns:
        The exit status: 0 when all is done, 1 when no episode was kept, 2 for what cannot work, 130 when interrupted.
    """
    say = Console(stderr=True, highlight=False, soft_wrap=True)
    console = Console(highlight=False, soft_wrap=True)
    try:
        kwargs = env_arguments(env, split, json_object(env_kwargs, "--env-kwargs"))
        chosen: Any = recipe
        settings = DemoSettings(env, kwargs, episodes, chosen, max_turns, seed, only_successful)
        counts = run_with_bar(DemoRun(settings, out, resume=resume), say)
    except (*USER_ERRORS, DemoError) as error:
        say.print(f"agent-r1 demos: {error}", style="red", markup=False)
        return 2
    except KeyboardInterrupt:
        say.print(f"Stopped. What was played is in {out}; the same command with --resume goes on.", markup=False)
        return INTERRUPTED
    console.print(f"{describe(counts)}: {out}", markup=False)
    return 0 if counts.kept else 1
