"""The table of a run: held-out success before and after training."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from agent_r1_trainer.bench.intervals import Estimate
from agent_r1_trainer.train.exam import ExamResult, gain

__all__ = ["exam_table", "temperature_name"]


def exam_table(results: Sequence[ExamResult], title: str, before: str = "untrained") -> Table:
    """Make the table, one row a temperature; in brackets 95 % intervals over the tasks, paired for the gain.

    It fits into 80 columns.

    Args:
        results: Of the untrained policy and, where there are any yet, of the trained one.
        title: Says what was measured.
        before: What the policy was before training.
    """
    table = Table(title=title, title_justify="left")
    for heading in ("held-out success", before, "trained", "gain, points"):
        table.add_column(heading, justify="left" if heading == "held-out success" else "right", no_wrap=True)
    found = {(result.policy, result.temperature): result for result in results}
    for temperature in sorted({result.temperature for result in results}, key=_order):
        first, after = found.get(("untrained", temperature)), found.get(("trained", temperature))
        table.add_row(
            temperature_name(temperature),
            "" if first is None else _show(first.success, ".3f", ".2f"),
            "" if after is None else _show(after.success, ".3f", ".2f"),
            "" if first is None or after is None else _show(gain(first, after), "+.0f", ".0f"),
        )
    return table


def temperature_name(temperature: float) -> str:
    """What a temperature is called."""
    return "greedy" if temperature == 0 else f"sampled, T = {temperature:g}"


def _order(temperature: float) -> tuple[bool, float]:
    """Sampled as in training first, then greedy, then the temperatures between."""
    return (0.0 < temperature < 1.0, -temperature)


def _show(estimate: Estimate, form: str, bounds: str) -> str:
    return f"{estimate.value:{form}} [{estimate.low:{bounds}}, {estimate.high:{bounds}}]"
