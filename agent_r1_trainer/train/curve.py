"""The picture of a run: success while training, and on the held-out tasks before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_r1_trainer.train.exam import ExamResult, temperature_name

__all__ = ["draw_curve"]

_BLUE, _ORANGE, _GREEN = "#4477aa", "#ee7733", "#228833"


def draw_curve(
    rows: Sequence[Mapping[str, Any]],
    results: Sequence[ExamResult],
    path: Path,
    *,
    title: str,
    episodes_per_step: float,
) -> None:
    """Draw success against episodes of training.

    Args:
        rows: Logged metrics, each with `step`; of training if they have `success`, of evaluation if `eval_success`.
        results: Of the exam; drawn with their intervals at the beginning and at the end.
        path: Where the PNG goes.
        title: Above the picture.
        episodes_per_step: Episodes that an optimizer step stands for.
    """
    # No pyplot: its figures and its choice of a window system are global.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.8), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()

    def line(key: str, label: str, **style: Any) -> float:
        points = [(row["step"] * episodes_per_step, row[key]) for row in rows if key in row]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
        return max((x for x, _ in points), default=0.0)

    end = max(
        line("success", "training tasks, sampled", color=_BLUE, alpha=0.6, linewidth=1.2),
        line("eval_success", "validation tasks, sampled", color=_ORANGE, marker="o", markersize=4),
    )
    for result in results:
        if result.policy == "untrained" and 0 < result.temperature < 1:
            continue
        low, high = result.success.value - result.success.low, result.success.high - result.success.value
        greedy = result.temperature == 0
        axes.errorbar(
            [0.0 if result.policy == "untrained" else end],
            [result.success.value],
            yerr=[[low], [high]],
            fmt="D" if greedy else "s",
            color=_GREEN,
            markerfacecolor="white" if greedy else _GREEN,
            capsize=4,
            label=f"test tasks, {temperature_name(result.temperature)}" if result.policy == "untrained" else None,
        )
    axes.set(xlabel="episodes of training", ylabel="success", ylim=(0.0, 1.0), title=title)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", frameon=False)
    figure.savefig(path)
