import random
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.webshop.catalogue.prices import NO_CAP, cap_text, draw_cap, draw_prices, parse_pricing


@pytest.mark.parametrize(
    ("text", "prices", "tag"),
    [
        ("", (100.0,), "$100.0"),
        (None, (100.0,), "$100.0"),
        ("$7.00", (7.0,), "$7.0"),
        ("$1,234.50 - $2,000", (1234.5, 2000.0), "$1234.5 to $2000.0"),
        ("$20.00 - $10.00", (20.0, 10.0), "$20.0 to $10.0"),
        ("$5$6$7", (5.0, 6.0), "$5.0 to $6.0"),
        ("from $3.99 each", (3.99,), "$3.99"),
    ],
)
def test_pricing(text: str | None, prices: tuple[float, ...], tag: str) -> None:
    assert parse_pricing(text) == (prices, tag)


@pytest.mark.parametrize("text", ["abc", "10.99", "$", "$x", "$1.2.3", "$5 $"])
def test_a_text_without_a_price_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="dollar sign"):
        parse_pricing(text)


@given(st.floats(0, 1200), st.integers(0, 2**32))
def test_a_cap_is_the_higher_of_two_of_the_next_four_tens(price: float, seed: int) -> None:
    above = [10.0 * step for step in range(1, 100) if 10 * step > price][:4]
    ours, theirs = Random(seed), Random(seed)
    expected = sorted(theirs.sample(above, 2))[1] if len(above) >= 2 else 1_000_000
    assert draw_cap(price, ours) == expected
    assert ours.getstate() == theirs.getstate()


def test_caps_lie_two_to_four_tens_ahead() -> None:
    rng = Random(0)
    share = Counter(draw_cap(12.0, rng) for _ in range(6000))
    assert {cap: round(count / 1000) for cap, count in share.items()} == {30.0: 1, 40.0: 2, 50.0: 3}


def test_how_a_cap_is_worded() -> None:
    assert cap_text(40.0) == ", and price lower than 40.00 dollars"
    assert cap_text(NO_CAP) == ""


def test_prices_are_those_of_the_seeded_original() -> None:
    random.seed(7)
    expected = [random.uniform(1234.5, 2000.0), random.uniform(20.0, 10.0)]
    before = random.getstate()
    assert draw_prices([(1234.5, 2000.0), (20.0, 10.0)], Random(7)) == expected
    assert random.getstate() == before  # the global random numbers are left alone
