"""Goals in the original's order, made when they are asked for.

A catalogue keeps what goals are made of: one source for each instruction that a person wrote, and one for each product
with a synthetic instruction, which stands for a goal for every combination of the product's options. The order depends
on nothing but the number of goals; the price caps depend on the seed of the catalogue.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod
from random import Random
from typing import Final, Literal, overload

import numpy as np
import numpy.typing as npt

from agent_r1_envs.webshop.catalogue.data import Goal, Product
from agent_r1_envs.webshop.catalogue.prices import cap_text
from agent_r1_envs.webshop.catalogue.rows import Instruction

GoalKind = Literal["human", "synthetic"]
KINDS: Final[tuple[GoalKind, ...]] = ("human", "synthetic")

SHUFFLE_SEED: Final = 233
"""The seed with which the original shuffles its goals."""


def shuffled(total: int) -> npt.NDArray[np.int32]:
    """Return the order in which the original serves ``total`` goals: place to number."""
    order = list(range(total))
    Random(SHUFFLE_SEED).shuffle(order)
    return np.array(order, dtype=np.int32)


def combinations(options: Mapping[str, Sequence[str]]) -> int:
    """Return how many ways there are to choose one value of every group."""
    return prod(len(values) for values in options.values())


def combination(options: Mapping[str, Sequence[str]], number: int) -> dict[str, str]:
    """Return way ``number`` to choose; groups go by name, and the last group's values take turns fastest."""
    chosen: dict[str, str] = {}
    for name in sorted(options, reverse=True):
        number, place = divmod(number, len(options[name]))
        chosen[name] = options[name][place]
    return dict(reversed(chosen.items()))


def synthetic_weights(sources: Sequence[tuple[Sequence[str], int]]) -> npt.NDArray[np.float64]:
    """Return the weight of the goals of each source: the mean over its attributes of one through their frequency.

    Args:
        sources: Attributes, and number of goals.
    """
    frequency: Counter[str] = Counter()
    for attributes, goals in sources:
        for attribute in attributes:
            frequency[attribute] += goals
    return np.array(
        [
            sum(1.0 / frequency[attribute] for attribute in attributes) / len(attributes) if goals else 0.0
            for attributes, goals in sources
        ]
    )


def human_goal(product: Product, source: Instruction, number: int, cap: float) -> Goal:
    """Make the goal of the ``number``-th instruction that people wrote for a product."""
    return _goal(product, source, f"human-{product.asin}-{number}", source.text, cap, source.options, 1.0)


def synthetic_goal(product: Product, source: Instruction, number: int, cap: float, weight: float) -> Goal:
    """Make the goal of combination ``number`` of a product's options."""
    chosen = combination(product.options, number)
    wanted = ", and ".join(f"{name}: {value}" for name, value in chosen.items())
    text = f"{source.text} with {wanted}" if wanted else source.text
    return _goal(product, source, f"synthetic-{product.asin}-{number}", text, cap, chosen, weight)


def _goal(
    product: Product,
    source: Instruction,
    id: str,
    text: str,
    cap: float,
    options: tuple[str, ...] | Mapping[str, str],
    weight: float,
) -> Goal:
    return Goal(
        id=id,
        asin=product.asin,
        category=product.category,
        query=product.query,
        name=product.name,
        product_category=product.product_category,
        instruction_text=text + cap_text(cap),
        attributes=source.attributes,
        price_upper=cap,
        goal_options=options,
        weight=weight,
    )


class GoalList(Sequence[Goal]):
    """All goals of a kind, in order.

    Args:
        order: int32 of shape ``[goals]``; place to number, numbers counted through the sources.
        ends: int64 of shape ``[sources]``; how many goals the sources up to this one have.
        weights: float64 of shape ``[sources]``; the weight of each goal of a source.
        make: Makes goal ``i`` of a source.
        find: The number of the goal that has an id, None if there is none.
        labels: The split that each source names, if they do.
    """

    def __init__(
        self,
        order: npt.NDArray[np.int32],
        ends: npt.NDArray[np.int64],
        weights: npt.NDArray[np.float64],
        make: Callable[[int, int], Goal],
        find: Callable[[str], int | None],
        labels: Sequence[str] | None,
    ) -> None:
        self._order, self._ends, self._weights, self._make, self._find = order, ends, weights, make, find
        self._labels = labels

    def __len__(self) -> int:
        """Return the number of goals."""
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> Goal: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Goal, ...]: ...
    def __getitem__(self, index: int | slice) -> Goal | tuple[Goal, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(len(self))[index])
        number = int(self._order[index])
        source = int(np.searchsorted(self._ends, number, side="right"))
        return self._make(source, number - (int(self._ends[source - 1]) if source else 0))

    def place_of(self, id: str) -> int | None:
        """Return the place of the goal that has an id, None if there is none."""
        number = self._find(id)
        return None if number is None else int(np.flatnonzero(self._order == number)[0])

    def places(self, split: str) -> range | list[int]:
        """Return the places of a split's goals, ascending; see :func:`split_ranges` for where the splits lie.

        Raises:
            ValueError: There is no such split.
        """
        ranges = split_ranges(len(self))
        if split not in ranges:
            raise ValueError(f"split must be one of {', '.join(ranges)}; got {split!r}")
        if self._labels is None or split == "all":
            return ranges[split]
        own = np.array([label == split for label in self._labels])
        return np.flatnonzero(own[self._sources()]).tolist()

    def weights(self) -> npt.NDArray[np.float64]:
        """Return the weight of every goal, in order."""
        return self._weights[self._sources()]

    def _sources(self) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._ends, self._order, side="right")


def split_ranges(total: int) -> dict[str, range]:
    """Return where the splits lie in the order of ``total`` goals.

    ``test`` is the first 500, ``eval`` the next 1,000, ``train`` the rest, as in the original on its full data; with
    fewer than 3,000 goals a sixth each are test and eval, at least one. ``all`` is every goal.

    >>> split_ranges(12_087)["train"], split_ranges(60)
    (range(1500, 12087), {'test': range(0, 10), 'eval': range(10, 20), 'train': range(20, 60), 'all': range(0, 60)})
    """
    test, end = (500, 1500) if total >= 3000 else (max(total // 6, 1), max(total // 6, 1) * 2)
    test, end = min(test, total), min(end, total)
    return {"test": range(test), "eval": range(test, end), "train": range(end, total), "all": range(total)}


class WeightedSampler:
    """Draws places in proportion to weights.

    Args:
        weights: One weight a goal.
        original: Whether to draw as the original does, which is off by one: see :meth:`draw`.

    Raises:
        ValueError: No weight is positive.
    """

    def __init__(self, weights: Sequence[float] | npt.NDArray[np.float64], *, original: bool = False) -> None:
        self._sums = np.concatenate(([0.0], np.cumsum(weights)))
        self._original = original
        if self._sums[-1] <= 0:
            raise ValueError("the weights must have a positive sum")

    def draw(self, fraction: float) -> int:
        """Return the place that a number from [0, 1) falls on.

        The original looks the number up among the sums with a zero in front, but does not take that zero off the
        place again: every place is one too high, and the last one, which would be past the end, counts as the last.
        """
        place = int(np.searchsorted(self._sums, fraction * self._sums[-1], side="right"))
        return min(place if self._original else place - 1, len(self._sums) - 2)
