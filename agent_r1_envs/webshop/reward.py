"""What a purchase is worth: the original's fuzzy reward, and a strict one for options.

Texts are equal where the fuzz library that the original pins says ``token_set_ratio(a, b) > 85``. That library (0.19,
without its speed-up) compares with difflib, whose ratio is never above the one that rapidfuzz computes in a
microsecond. So rapidfuzz turns down nearly all pairs, and difflib decides on the few that are left. Of an option the
original's reward sees nothing but the first colour word in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from rapidfuzz import fuzz

from agent_r1_envs.webshop.catalogue.data import Goal

if TYPE_CHECKING:
    from agent_r1_envs.webshop.catalogue.catalogue import Catalogue

__all__ = ["COLOURS", "THRESHOLD", "Judge", "RewardKind", "matches", "normalise_colour", "process", "token_set_ratio"]

RewardKind = Literal["original", "strict"]
_CACHED_PRODUCTS: Final = 512
_CACHED_GOALS: Final = 4096

THRESHOLD: Final = 85
"""Scores above this are matches."""

# Scores are rounded to whole numbers, halves to even: what is below cannot become 86. The rest is for float errors.
_HOPELESS: Final = THRESHOLD + 0.5 - 1e-6
_NON_WORD: Final = re.compile(r"\W")
_LATIN_1: Final = dict.fromkeys(range(128, 256))

COLOURS: Final = tuple(
    """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
    caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
    dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
    ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor
    mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand
    sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
    wheat white wine yellow
    """.split()
)
"""In the order in which they are looked for."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """A product as the reward sees it."""

    query: str
    categories: frozenset[str]
    nouns: frozenset[str]
    attributes: frozenset[str]
    processed: tuple[str, ...]
    texts: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Wish:
    """A goal as the reward sees it: ``options`` are the texts that chosen values are compared with."""

    categories: frozenset[str]
    nouns: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    options: tuple[str, ...]


class Judge:
    """Scores purchases from one catalogue.

    Args:
        catalogue: Where products, hidden prices and nouns of titles come from.
        kind: ``"original"`` compares options fuzzily, after reducing each to the first colour word in it, and does not
            care for their groups. ``"strict"`` wants the very value; in its group, where the goal names groups. Type,
            attributes and price count alike in both.
    """

    def __init__(self, catalogue: Catalogue, kind: RewardKind = "original") -> None:
        self.kind = kind
        self._catalogue = catalogue
        self._offer = lru_cache(_CACHED_PRODUCTS)(self._make_offer)
        self._wishes: dict[str, tuple[Goal, _Wish]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Judge:
        return self  # it has no state but what it remembers

    def score(self, goal: Goal, position: int, options: Mapping[str, str]) -> tuple[float, dict[str, float]]:
        """Return the score of a purchase, from 0 to 1, and its components.

        Args:
            goal: What was to be bought.
            position: Which product was bought.
            options: The value chosen in each group.

        Returns:
            ``r_type * (attributes hit + options hit + price in range) / (attributes + options + 1)``, and

            * ``r_type``: 1, or 0.5 where neither query nor categories nor title match; 0.1 or 0 where the titles share
              hardly any noun or none. From ``query_match``, ``category_match`` (0 or 1) and ``title_score``.
            * ``r_att``, ``r_option``, ``r_price``: the shares of attributes and options that were hit, and whether the
              price is in range; ``w_att``, ``w_option``, ``w_price``: what each share weighs. A goal without options
              has neither ``r_option`` nor ``w_option``.
        """
        wish, offer = self._wish(goal), self._offer(position)
        kind = self._type(goal, wish, offer)
        attributes = sum(self._has_attribute(offer, raw, text) for raw, text in wish.attributes)
        hits = self.option_hits(goal, options)
        price = self._catalogue.hidden_price(position) <= goal.price_upper
        parts = len(wish.attributes) + len(hits) + 1
        score = (attributes + sum(hits) + price) / parts * kind["r_type"]
        components = {
            **kind,
            "r_att": attributes / len(wish.attributes) if wish.attributes else 0.0,
            "w_att": len(wish.attributes) / parts,
        }
        if hits:
            components["r_option"] = sum(hits) / len(hits)
            components["w_option"] = len(hits) / parts
        components["r_price"] = float(price)
        components["w_price"] = 1 / parts
        return score, components

    def option_hits(self, goal: Goal, options: Mapping[str, str]) -> list[bool]:
        """Return, for each option of the goal in its order, whether a chosen value satisfies it.

        A chosen value may satisfy several, so the hits of a choice are those of its values together.
        """
        if self.kind == "strict":
            return _strict_hits(goal, options)
        chosen = [process(str(normalise_colour(value))) for value in options.values()]
        return [any(matches(value, wanted) for value in chosen) for wanted in self._wish(goal).options]

    def _type(self, goal: Goal, wish: _Wish, offer: _Offer) -> dict[str, float]:
        query_match = offer.query == goal.query
        category_match = len(offer.categories & wish.categories) >= 2
        if wish.nouns:
            title_score = len(offer.nouns.intersection(wish.nouns)) / len(wish.nouns)  # duplicates count below only
        else:
            title_score = 0.2
        r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
        if title_score < 0.1:
            r_type = 0.1 if title_score else 0.0
        return {
            "r_type": r_type,
            "query_match": float(query_match),
            "category_match": float(category_match),
            "title_score": title_score,
        }

    def _has_attribute(self, offer: _Offer, raw: str, text: str) -> bool:
        # A quick yes first: which of the ways hits makes no difference.
        if text and raw in offer.attributes:
            return True
        return any(raw in other for other in offer.texts) or any(matches(own, text) for own in offer.processed)

    def _make_offer(self, position: int) -> _Offer:
        product = self._catalogue.product(position)
        return _Offer(
            query=product.query,
            categories=_categories(product.product_category),
            nouns=frozenset(self._catalogue.nouns(position)),
            attributes=frozenset(product.attributes),
            processed=tuple(map(process, product.attributes)),
            texts=(product.name.lower(), " ".join(product.bullets).lower(), product.description.lower()),
        )

    def _wish(self, goal: Goal) -> _Wish:
        known = self._wishes.get(goal.id)
        if known is not None and known[0] is goal:
            return known[1]
        if len(self._wishes) >= _CACHED_GOALS:
            self._wishes.clear()
        wish = self._make_wish(goal)
        self._wishes[goal.id] = (goal, wish)
        return wish

    def _make_wish(self, goal: Goal) -> _Wish:
        options = goal.goal_options.items() if isinstance(goal.goal_options, Mapping) else goal.goal_options
        return _Wish(
            categories=_categories(goal.product_category),
            nouns=tuple(self._catalogue.nouns(self._catalogue.position_of(goal.asin))),
            attributes=tuple((attribute, process(attribute)) for attribute in goal.attributes),
            # A pair is compared as Python writes it, which after processing is "group value".
            options=tuple(process(str(normalise_colour(option))) for option in options),
        )


def _categories(path: str) -> frozenset[str]:
    return frozenset(part.strip() for part in path.split("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"))


def _strict_hits(goal: Goal, options: Mapping[str, str]) -> list[bool]:
    if isinstance(goal.goal_options, Mapping):
        return [options.get(group) == value for group, value in goal.goal_options.items()]
    chosen = set(options.values())
    return [value.strip().replace("/", " | ").lower() in chosen for value in goal.goal_options]


def process(text: str) -> str:
    """Drop the characters U+0080 to U+00FF, put a space for all but word characters, lower the case, and strip."""
    if not text.isascii():
        text = text.translate(_LATIN_1)
    return _NON_WORD.sub(" ", text).lower().strip()


def token_set_ratio(first: str, second: str) -> int:
    """Return how alike two processed texts are as sets of words, from 0 to 100.

    Example:
        >>> token_set_ratio("x large", "xx large"), token_set_ratio("grey", "gray")
        (93, 75)
    """
    if not first or not second:
        return 0
    words, others = set(first.split()), set(second.split())
    common = " ".join(sorted(words & others))
    left = f"{common} {' '.join(sorted(words - others))}".strip()
    right = f"{common} {' '.join(sorted(others - words))}".strip()
    return max(_ratio(common, left), _ratio(common, right), _ratio(left, right))


def matches(first: str, second: str) -> bool:
    """Tell whether two processed texts count as the same."""
    if first == second:
        return bool(first)
    if fuzz.token_set_ratio(first, second) < _HOPELESS:
        return False
    return token_set_ratio(first, second) > THRESHOLD


def _ratio(first: str, second: str) -> int:
    if first == second:
        return 100
    if not first or not second:
        return 0
    return round(100 * SequenceMatcher(None, first, second).ratio())


def normalise_colour(option: str | tuple[str, str]) -> str | tuple[str, str]:
    """Return the first of the colour words that ``option`` holds, or ``option`` itself.

    Args:
        option: A value, which holds a colour as a part of it (``tan`` in ``standard``), or a pair of group and value,
            which holds one only if group or value is a colour and nothing else.

    Example:
        >>> normalise_colour("washed black"), normalise_colour("standard"), normalise_colour(("color", "dark blue"))
        ('ash', 'tan', ('color', 'dark blue'))
    """
    for colour in COLOURS:
        if colour in option:
            return colour
    return option
