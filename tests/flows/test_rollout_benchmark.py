"""The comparison of rollouts with TRL: both sides play the same episodes."""

from functools import partial

import pytest

from tests.helpers.benchmarks import load_benchmark


@pytest.mark.slow
@pytest.mark.parametrize("ragged", [False, True])
def test_both_trainers_play_every_turn_and_say_the_same(tmp_path, ragged):
    benchmark = load_benchmark("rollout")
    tokenizer = benchmark.make_tokenizer()
    make = partial(benchmark.make_model, tokenizer, 64, 2, ragged)
    found = {}
    for name, play in (("ours", benchmark.play_ours), ("TRL", benchmark.play_trl)):
        clock, (longest, sampled, fewest) = play(str(tmp_path / name), 2, 2, make)
        playing, update = clock.medians()
        assert fewest == 2 and playing > 0 and update > 0 and longest > 300
        found[name] = sampled
    if not ragged:
        reply = len(benchmark.WORDS) + 5  # opening, closing, two tags, the end
        assert found["ours"] == found["TRL"] == 2 * benchmark.TASKS * benchmark.SAMPLES * reply
