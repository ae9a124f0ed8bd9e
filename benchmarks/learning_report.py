"""The table and the figure of `benchmarks/learning.py`."""

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_r1_trainer.bench.report import share_estimate

NAMES = {"steppo": "StepPO", "grpo": "GRPO", "rloo": "RLOO", "token_ppo": "token PPO"}
BEGIN, END = "<!-- begin: benchmarks/learning.py -->", "<!-- end: benchmarks/learning.py -->"
# 97.5th percentile of Student's t by degrees of freedom.
_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


@dataclass(frozen=True)
class RunResult:
    """One run; `before` and `after` are held-out success, sampled and greedy, `curve` pairs of episodes and success.

    `tasks` counts the held-out tasks.
    """

    task: str
    algorithm: str
    seed: int
    episodes: int
    before: tuple[float, float]
    after: tuple[float, float]
    curve: list[tuple[float, float]]
    tokens: float
    wall: float
    cpu: float
    turns: float
    tasks: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Row:
    """The runs of one algorithm on one task."""

    task: str
    algorithm: str
    runs: list[RunResult]

    def interval(self, values: Sequence[float]) -> str:
        """Mean over seeds with Student's 95 % interval: with five seeds a bootstrap would be too narrow.

        Where all seeds solved every task, or none, they do not vary: then it is the interval of one exam's tasks.
        """
        mean = statistics.mean(values)
        if set(values) in ({0.0}, {1.0}):
            exam = share_estimate([mean] * self.runs[0].tasks)
            return f"{mean:.3f} [{exam.low:.3f}, {exam.high:.3f}]"
        if len(values) < 2:
            return f"{mean:.3f}"
        half = _T.get(len(values) - 1, 1.96) * statistics.stdev(values) / math.sqrt(len(values))
        return f"{mean:.3f} ± {half:.3f}"


def summarise(results: Sequence[RunResult]) -> list[Row]:
    """Group the runs, in the order in which tasks and algorithms appear."""
    groups: dict[tuple[str, str], list[RunResult]] = defaultdict(list)
    for result in results:
        groups[result.task, result.algorithm].append(result)
    tasks = list(dict.fromkeys(task for task, _ in groups))
    return [Row(*key, runs) for task in tasks for key, runs in groups.items() if key[0] == task]


def table(rows: Sequence[Row]) -> str:
    """A Markdown table: success over seeds, and what a run cost; tokens are those that the policy sampled."""
    lines = [
        "| task | algorithm | seeds | sampled | greedy | worst seed, sampled | turns | tokens, k | CPU s | wall s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for task in dict.fromkeys(row.task for row in rows):
        mine = [row for row in rows if row.task == task]
        start = mine[0].runs[0].before
        lines.append(f"| {task} | untrained | | {start[0]:.3f} | {start[1]:.3f} | | | | | |")
        for row in mine:
            sampled, greedy = zip(*(run.after for run in row.runs), strict=True)
            mean = {
                name: statistics.mean(getattr(run, name) for run in row.runs)
                for name in ("turns", "tokens", "cpu", "wall")
            }
            cells = (
                task,
                NAMES.get(row.algorithm, row.algorithm),
                len(row.runs),
                row.interval(sampled),
                row.interval(greedy),
                f"{min(sampled):.3f}",
                f"{mean['turns']:.1f}",
                f"{mean['tokens'] / 1e3:.0f}",
                f"{mean['cpu']:.0f}",
                f"{mean['wall']:.0f}",
            )
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def write_between_marks(document: Path, text: str) -> None:
    """Replace what stands between the marks.

    Raises:
        ValueError: The document lacks them.
    """
    before, begin, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{document} needs the lines {BEGIN} and {END}")
    document.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def draw(results: Sequence[RunResult], path: Path) -> None:
    """Held-out success while training: a thin line a seed, a thick one for the mean."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = summarise(results)
    tasks = list(dict.fromkeys(row.task for row in rows))
    figure = Figure(figsize=(5.2 * len(tasks), 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    colours = ("#4477aa", "#ee7733", "#228833", "#aa3377", "#66ccee", "#bbbbbb")
    for axes, task in zip(panels, tasks, strict=True):
        for row, colour in zip((row for row in rows if row.task == task), colours, strict=False):
            for run in row.runs:
                axes.plot(*zip(*run.curve, strict=True), color=colour, alpha=0.25, linewidth=0.8)
            points = zip(*(run.curve for run in row.runs), strict=True)
            mean = [(at[0][0], statistics.mean(success for _, success in at)) for at in points]
            axes.plot(
                *zip(*mean, strict=True), color=colour, linewidth=2.0, label=NAMES.get(row.algorithm, row.algorithm)
            )
        axes.set(title=task, xlabel="episodes of training", ylim=(0.0, 1.0))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("success on validation tasks, sampled")
    panels[0].legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
