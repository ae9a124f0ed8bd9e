"""The command line, ``agent-r1``: what each command takes. The work is done elsewhere, imported when it is asked for.

``envs``, ``play``, ``demos`` and ``bench`` with any agent but ``hf:`` and ``vllm:`` run without torch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Text-agent environments: list, play, train, benchmark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

serve = typer.Typer(help="Serve local data in the form of a live service.", no_args_is_help=True)
app.add_typer(serve, name="serve")

EnvKwargs = Annotated[str, typer.Option(help="Further arguments of the environment, a JSON object.")]
Split = Annotated[str, typer.Option(help="Split of the tasks.")]
Seed = Annotated[int, typer.Option(help="Seed of everything that is random.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("agent-r1"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Text-agent environments: list, play, train, benchmark."""


@app.command()
def envs() -> None:
    """List the environments, one line each."""
    from agent_r1_trainer.commands.envs import print_environments

    print_environments()


@app.command()
def play(
    env: Annotated[str, typer.Argument(help="Id of the environment, such as AgentR1/HotpotQA-v0.")],
    split: Split = "test",
    task: Annotated[str | None, typer.Option(help="Position or id of the task; a random one without it.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the choice of a task.")] = None,
    env_kwargs: EnvKwargs = "{}",
) -> None:
    """Play an environment yourself."""
    from agent_r1_trainer.commands.play import play_in_terminal

    raise typer.Exit(play_in_terminal(env, split, task, seed, env_kwargs))


@app.command()
def bench(
    env: Annotated[str, typer.Option(help="Id of the environment.")],
    agent: Annotated[str, typer.Option(help="random, expert, hf:MODEL, vllm:MODEL or openai:MODEL@URL.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; a run that stopped there goes on.")],
    split: Split = "test",
    episodes: Annotated[int | None, typer.Option(help="How many episodes; one per task without it.")] = None,
    seed: Seed = 0,
    concurrency: Annotated[int, typer.Option(help="Most episodes at a time.")] = 1,
    env_kwargs: EnvKwargs = "{}",
    max_turns: Annotated[int | None, typer.Option(help="Turn limit instead of the environment's own.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="Context of a model: default, tools, native or none. Without it, the one it was trained in."),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Of a model's sampling; 0, which is greedy, by itself.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest reply of a model; 1024 by itself.")] = None,
    sampling: Annotated[
        str, typer.Option(help="Further arguments of a model's sampling, a JSON object; null sends none.")
    ] = "{}",
    timeout: Annotated[float, typer.Option(help="Seconds to wait for a reply of an endpoint.")] = 120.0,
    retries: Annotated[int, typer.Option(help="How often a request to an endpoint is repeated.")] = 4,
) -> None:
    """Measure an agent: score, success, turns and invalid actions, with 95 % intervals."""
    from agent_r1_trainer.commands.bench import bench_command

    code = bench_command(
        env=env,
        agent=agent,
        out=out,
        split=split,
        episodes=episodes,
        seed=seed,
        concurrency=concurrency,
        env_kwargs=env_kwargs,
        max_turns=max_turns,
        recipe=recipe,
        sampling={n: v for n, v in (("temperature", temperature), ("max_tokens", max_tokens)) if v is not None},
        transport={"timeout": timeout, "retries": retries},
        further=sampling,
    )
    raise typer.Exit(code)


@app.command()
def demos(
    env: Annotated[str, typer.Option(help="Id of the environment.")],
    out: Annotated[Path, typer.Option(help="The file, JSON lines.")],
    split: Split = "train",
    episodes: Annotated[int | None, typer.Option(help="How many episodes; one per task without it.")] = None,
    seed: Seed = 0,
    env_kwargs: EnvKwargs = "{}",
    max_turns: Annotated[int | None, typer.Option(help="Turn limit instead of the environment's own.")] = None,
    recipe: Annotated[str, typer.Option(help="Context of plain text: default, tools, native or none.")] = "default",
    only_successful: Annotated[bool, typer.Option("--only-successful", help="Leave unsolved episodes out.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a file that is there.")] = False,
) -> None:
    """Write demonstrations of an environment's expert, to fine-tune on with TRL or to warm-start from."""
    from agent_r1_trainer.commands.demos import demos_command

    code = demos_command(
        env=env,
        out=out,
        split=split,
        episodes=episodes,
        seed=seed,
        env_kwargs=env_kwargs,
        max_turns=max_turns,
        recipe=recipe,
        only_successful=only_successful,
        resume=resume,
    )
    raise typer.Exit(code)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train(
    context: typer.Context,
    config: Annotated[
        str | None, typer.Option(help="A YAML file of settings, or the name of one that `recipes` lists.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Older form of --config, for demo and household.", hidden=True)
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Such as grpo, instead of the file's: what was said for another one gives way.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run, instead of the file's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run, instead of the file's.")] = None,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Do not train: say how much memory each GPU needs, of the config alone."),
    ] = False,
    gpu_memory: Annotated[
        str | None, typer.Option(help="With --estimate: size of a GPU, such as 80GiB, and what to change to fit it.")
    ] = None,
) -> None:
    """Train a model with StepPO or another algorithm, from a file of settings.

    Any setting can be given as --name value, instead of the file's: --learning_rate 1e-6 --env_kwargs.split test.
    """
    from agent_r1_trainer.train import train_command

    if estimate or gpu_memory is not None:
        from agent_r1_trainer.commands.estimate import estimate_command

        raise typer.Exit(
            estimate_command(config=config, algorithm=algorithm, overrides=context.args, gpu_memory=gpu_memory)
        )
    raise typer.Exit(
        train_command(config=config, preset=preset, seed=seed, out=out, algorithm=algorithm, overrides=context.args)
    )


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this one; all are listed without it.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="With this algorithm instead of its own.")] = None,
) -> None:
    """List the files of settings to train with, or print one with all that it extends."""
    from agent_r1_trainer.commands.recipes import recipes_command

    raise typer.Exit(recipes_command(name, algorithm))


@serve.command()
def papers(
    corpus: Annotated[
        Path | None,
        typer.Option(help="A file of papers, or a folder with a saved corpus; the embedded one without it."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0 for a free one.")] = 8000,
) -> None:
    """Serve papers as the Graph API of Semantic Scholar does; needs the extra 'serve'."""
    from agent_r1_trainer.commands.serve import serve_papers

    raise typer.Exit(serve_papers(corpus, host, port))


def main() -> None:
    """Run the command line.

    Modules of the working folder can be named, as in `module:Id` and `module:factory`, and as with `python -m`: Python
    puts the folder of an installed command on the path instead. It goes last, so that it shadows nothing.
    """
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())
    app()
