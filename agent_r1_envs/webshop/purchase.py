"""The best purchase for a goal: which of its product's options to choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent_r1_envs.webshop.catalogue.data import Goal
from agent_r1_envs.webshop.pages.elements import Element, Kind
from agent_r1_envs.webshop.reward import Judge
from agent_r1_envs.webshop.shop import Shop

__all__ = ["Purchase", "best_purchase"]

_OTHER_MEANING = frozenset(
    ("search", "buy now", "back to search", "< prev", "description", "features", "reviews", "attributes")
)


@dataclass(frozen=True, slots=True)
class Purchase:
    """A product with a choice of its options.

    Attributes:
        asin: The product.
        options: The value to choose in each group that needs one.
        score: What the purchase is worth.
    """

    asin: str
    options: Mapping[str, str]
    score: float


@dataclass(frozen=True, slots=True)
class _Choice:
    """Values chosen so far; ``exact`` of them are the goal's own words, which among equals are preferred."""

    options: tuple[tuple[str, str], ...]
    exact: int

    @property
    def rank(self) -> tuple[int, int]:
        return self.exact, -len(self.options)


def best_purchase(shop: Shop, judge: Judge, goal: Goal) -> Purchase:
    """Find a purchase of the goal's product with the highest score that the shop's pages allow.

    Type, attributes and price are those of the product, so that only options are to be chosen. Each selectable value
    satisfies some of the goal's options, those of several values together; the search goes through the groups and keeps
    one choice for each set of satisfied options that can be reached.

    Args:
        shop: Where to buy: its rules say which values can be selected at all.
        judge: What scores purchases.
        goal: What to buy.
    """
    position = shop.position_of(goal.asin)
    reached: dict[int, _Choice] = {0: _Choice((), 0)}
    for group, values in _selectable(shop.views.item(position).targets.values(), shop).items():
        gains = _gains(judge, goal, group, values)
        for mask, choice in list(reached.items()):
            for gain, (value, exact) in gains.items():
                longer = _Choice((*choice.options, (group, value)), choice.exact + exact)
                known = reached.get(mask | gain)
                if known is None or known.rank < longer.rank:
                    reached[mask | gain] = longer
    best = max(reached.items(), key=lambda entry: (entry[0].bit_count(), entry[1].rank))[1]
    options = dict(best.options)
    return Purchase(goal.asin, options, judge.score(goal, position, options)[0])


def _selectable(elements: Iterable[Element], shop: Shop) -> dict[str, list[str]]:
    """Return the values that can be selected, by group."""
    groups: dict[str, list[str]] = {}
    for element in elements:
        if element.kind is Kind.OPTION and element.key not in _OTHER_MEANING and shop.can_click(element):
            groups.setdefault(element.group.lower(), []).append(element.value)
    return groups


def _gains(judge: Judge, goal: Goal, group: str, values: Iterable[str]) -> dict[int, tuple[str, bool]]:
    """Return, for each set of the goal's options that a value satisfies, such a value, and whether it is an own one."""
    own = set(_own_values(goal, group))
    gains: dict[int, tuple[str, bool]] = {}
    for value in values:
        hits = judge.option_hits(goal, {group: value})
        mask = sum(hit << place for place, hit in enumerate(hits))
        if mask and (mask not in gains or (value in own and not gains[mask][1])):
            gains[mask] = (value, value in own)
    return gains


def _own_values(goal: Goal, group: str) -> Iterator[str]:
    if isinstance(goal.goal_options, Mapping):
        return (value for name, value in goal.goal_options.items() if name == group)
    return iter(goal.goal_options)
