"""Make a tiny policy: `python -m agent_r1_trainer.tiny_policy [hotpotqa|household] [--out FOLDER] ...`."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from agent_r1_trainer.tiny_policy.loading import make_tiny_policy, save_tiny_policy
from agent_r1_trainer.tiny_policy.subjects import SUBJECTS


def main() -> None:
    """Clone the policy on one thread, save it and say what it can do."""
    parser = argparse.ArgumentParser(prog="python -m agent_r1_trainer.tiny_policy", description=__doc__)
    parser.add_argument("subject", nargs="?", choices=list(SUBJECTS), default="hotpotqa", help="what it is made for")
    parser.add_argument("--out", type=Path, help="where the checkpoint goes; by default where the shipped one is")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the demonstrations")
    parser.add_argument("--heads", type=int, help="query heads, of which each has a share of the width; needs --out")
    arguments = parser.parse_args()
    if arguments.heads is not None and arguments.out is None:
        parser.error("--heads needs --out: the shipped policy has its own number")
    torch.set_num_threads(1)  # at this size more threads are slower
    subject = SUBJECTS[arguments.subject]
    if arguments.heads is not None:
        subject = replace(subject, architecture=replace(subject.architecture, heads=arguments.heads))
    config = replace(subject.cloning, seed=arguments.seed)
    steps = {"copy": config.copy_steps, "expert": config.expert_steps, "habits": config.habit_steps}
    with Progress() as progress:
        bars = {phase: progress.add_task(phase, total=total) for phase, total in steps.items()}

        def report(phase: str, step: int, loss: float) -> None:
            progress.update(bars[phase], completed=step, description=f"{phase:7} loss {loss:6.3f}")

        model, tokenizer = make_tiny_policy(config, report=report, subject=subject)
    save_tiny_policy(model, tokenizer, arguments.out or subject.checkpoint)
    table = Table("on test tasks", "share")
    for name, share in asdict(subject.measure(model, tokenizer)).items():
        table.add_row(name.replace("_", " "), f"{share:.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
