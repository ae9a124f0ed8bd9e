"""The report's arithmetic, its table and its picture."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from agent_r1_trainer.train.curve import draw_curve
from agent_r1_trainer.train.exam import ExamResult, exam_table, gain, summarize_exam


def result(policy, temperature, successes):
    rows = [(f"task-{number}", value, 3, number % 2) for number, value in enumerate(successes)]
    return summarize_exam(policy, temperature, rows)


def flips(seed, count, share):
    return [int(value) for value in np.random.default_rng(seed).random(count) < share]


def test_summary_of_rows():
    summary = summarize_exam("trained", 0.0, [("a", 1, 2, 0), ("b", 0, 5, 3), ("c", 1, 3, 0), ("d", 1, 2, 0)])
    assert summary.success.value == 0.75
    assert summary.turns == 3.0
    assert summary.invalid_rate == 0.25
    assert summary.tasks == ("a", "b", "c", "d") and summary.successes == (1, 0, 1, 1)


def test_gain_is_the_paired_difference_with_its_own_interval():
    before, after = flips(0, 400, 0.2), flips(1, 400, 0.7)
    estimate = gain(result("untrained", 1.0, before), result("trained", 1.0, after))
    differences = 100.0 * (np.array(after) - np.array(before))
    assert estimate.value == pytest.approx(differences.mean())
    # Newcombe's interval against the normal one: both are right for 400 tasks.
    half = 1.96 * differences.std(ddof=1) / 20
    assert estimate.low == pytest.approx(differences.mean() - half, abs=1.0)
    assert estimate.high == pytest.approx(differences.mean() + half, abs=1.0)


@pytest.mark.parametrize("same", [flips(0, 100, 0.5), [0] * 100, [1] * 100])
def test_no_gain_is_no_certainty(same):
    """A bootstrap of the differences said 0 to 0."""
    estimate = gain(result("untrained", 0.0, same), result("trained", 0.0, same))
    assert estimate.value == 0.0 and -6.0 < estimate.low < -1.0 and 1.0 < estimate.high < 6.0


def test_gain_refuses_other_tasks():
    with pytest.raises(ValueError, match="same tasks"):
        gain(result("untrained", 1.0, [1, 0]), result("trained", 1.0, [1, 0, 1]))


def test_results_survive_json():
    original = result("untrained", 0.3, flips(2, 30, 0.4))
    assert ExamResult.from_json(json.loads(json.dumps(original.to_json()))) == original


def shown(results):
    stream = io.StringIO()
    Console(file=stream, width=80).print(exam_table(results, "300 tasks"))
    return stream.getvalue()


def test_the_table_fits_and_says_everything():
    results = [
        result("untrained", 1.0, flips(0, 300, 0.1)),
        result("untrained", 0.0, [0] * 300),
        result("untrained", 0.3, flips(1, 300, 0.2)),
        result("trained", 1.0, flips(2, 300, 0.8)),
        result("trained", 0.0, [1] * 300),
    ]
    text = shown(results)
    assert "…" not in text and max(map(len, text.splitlines())) <= 80
    lines = [line for line in text.splitlines() if "T =" in line or "greedy" in line]
    assert ["T = 1" in lines[0], "greedy" in lines[1], "T = 0.3" in lines[2]] == [True] * 3
    assert "0.000 [0.00, 0.01]" in lines[1] and "1.000 [0.99, 1.00]" in lines[1] and "+100 [98, 100]" in lines[1]
    assert lines[2].count("[") == 1  # the trained policy is not measured there


def test_before_training_there_is_nothing_to_compare():
    text = shown([result("untrained", 1.0, [0, 1]), result("untrained", 0.0, [0, 0])])
    assert text.count("[") == 2


@pytest.mark.parametrize("with_rows", [True, False])
def test_the_picture_is_a_png(tmp_path, with_rows):
    rows = [{"step": 4, "success": 0.2}, {"step": 4, "eval_success": 0.3}, {"step": 8, "success": 0.5}]
    results = [result("untrained", 1.0, [0, 1, 0]), result("trained", 1.0, [1, 1, 0])]
    path = tmp_path / "curve.png"
    draw_curve(rows if with_rows else [], results if with_rows else [], path, title="t", episodes_per_step=16.0)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG") and len(data) > 5000
