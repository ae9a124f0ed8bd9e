"""Prices: what a product's text of a price means, what it really costs, and what a goal allows.

The original draws two things from Python's global random numbers while it loads: the price behind every shown range,
which is the one that the reward tests, and the price cap of every goal. Here the caller's seed decides both; with
``Random(seed)`` they are those of the original after ``random.seed(seed)``.
"""

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from random import Random
from typing import Final

NO_PRICE: Final = 100.0
"""The price of a product that names none."""

NO_CAP: Final = 1_000_000.0
"""The price cap of a goal whose instruction names none."""

_NOT_A_NUMBER: Final = re.compile(r"[^\d.]")
_STEPS: Final = tuple(10.0 * step for step in range(1, 100))
_NEXT: Final = 4


def parse_pricing(text: str | None) -> tuple[tuple[float, ...], str]:
    """Return the prices that a text names, one or the two ends of a range, and the tag that pages show.

    >>> parse_pricing("$1,234.50 - $2,000")
    ((1234.5, 2000.0), '$1234.5 to $2000.0')

    Raises:
        ValueError: The text holds no dollar sign, or no number after one.
    """
    if not text:
        return (NO_PRICE,), f"${NO_PRICE}"
    try:
        prices = tuple(float(Decimal(_NOT_A_NUMBER.sub("", part))) for part in text.split("$")[1:])
    except InvalidOperation:
        raise ValueError("a number after each dollar sign") from None
    if not prices:
        raise ValueError("a price with a dollar sign")
    if len(prices) == 1:
        return prices, f"${prices[0]}"
    return prices[:2], f"${prices[0]} to ${prices[1]}"


def draw_prices(ranges: Iterable[tuple[float, float]], rng: Random) -> list[float]:
    """Draw the hidden price of each range, in order."""
    return [rng.uniform(low, high) for low, high in ranges]


def draw_cap(price: float, rng: Random) -> float:
    """Draw the price cap of a goal for a product that costs ``price``: two of the next four tens, the higher one."""
    first = next((place for place, step in enumerate(_STEPS) if step > price), len(_STEPS))
    above = _STEPS[first : first + _NEXT]
    return max(rng.sample(above, 2)) if len(above) >= 2 else NO_CAP


def cap_text(cap: float) -> str:
    """Return how an instruction names a price cap."""
    return "" if cap == NO_CAP else f", and price lower than {cap:.2f} dollars"
