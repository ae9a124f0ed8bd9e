"""An expert shopper: finds the best purchase for a goal, and buys it through the pages.

The best purchase chooses those of the product's options that satisfy most of the goal. The plan adds a query that finds
the product, so that there is a next command from wherever a session is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_r1_envs.webshop.catalogue.data import Goal, Product
from agent_r1_envs.webshop.pages.contents import PAGE_SIZE
from agent_r1_envs.webshop.pages.elements import Element, Kind
from agent_r1_envs.webshop.pages.session import Page, Session
from agent_r1_envs.webshop.reward import Judge
from agent_r1_envs.webshop.shop import Shop

__all__ = ["Plan", "Purchase", "best_purchase", "make_plan", "next_action"]

_OTHER_MEANING = frozenset(
    ("search", "buy now", "back to search", "< prev", "description", "features", "reviews", "attributes")
)
_MAGIC = ("<r>", "<a>", "<c>", "<q>")
_WORDS = 24  # of a description, as a query


@dataclass(frozen=True, slots=True)
class Plan:
    """How to solve a goal.

    Attributes:
        purchase: What to buy.
        query: What finds it; None if nothing was found that does.
        page: The page of results that it is on.
    """

    purchase: Purchase
    query: str | None
    page: int


def make_plan(shop: Shop, judge: Judge, goal: Goal) -> Plan:
    """Find out what to buy, and a query that has it as far to the front as possible."""
    position = shop.position_of(goal.asin)
    query, rank = None, 1 << 60
    for candidate in _queries(shop.catalogue.product(position)):
        place = _rank(shop.catalogue.search(candidate.split(" ")), position)
        if place < rank:
            query, rank = candidate, place
        if rank < PAGE_SIZE:
            break
    return Plan(best_purchase(shop, judge, goal), query, rank // PAGE_SIZE + 1)


def next_action(plan: Plan, shop: Shop, session: Session, hits: Sequence[int]) -> str | None:
    """Return the next command of a plan from wherever the session is, or None if the plan does not go on.

    Args:
        plan: The plan.
        shop: The shop.
        session: The session.
        hits: What its query finds; needed on a page of results only.
    """
    asin = plan.purchase.asin
    if session.page is Page.DONE:
        return None
    if session.asin == asin.upper() and session.page in (Page.ITEM, Page.SUB):
        return _on_product(plan, shop, session)
    if session.page is Page.RESULTS:
        way = _on_results(plan, shop, session, hits)
        if way is not None:
            return way
    return None if plan.query is None else f"search[{plan.query}]"


def _on_product(plan: Plan, shop: Shop, session: Session) -> str:
    selected = dict(session.options)
    missing = {group: value for group, value in plan.purchase.options.items() if selected.get(group) != value}
    if session.page is Page.SUB:
        return "click[< prev]"
    if not missing:
        return "click[buy now]"
    targets = shop.views.item(shop.position_of(session.asin)).targets
    return next(
        f"click[{key}]"
        for key, element in targets.items()
        if element.kind is Kind.OPTION and missing.get(element.group.lower()) == element.value
    )


def _on_results(plan: Plan, shop: Shop, session: Session, hits: Sequence[int]) -> str | None:
    """Go on from a page of results, unless a new search is the shorter way."""
    rank = _rank(hits, shop.position_of(plan.purchase.asin))
    page = rank // PAGE_SIZE + 1
    if page == session.number:
        return f"click[{plan.purchase.asin.lower()}]"
    # With the plan's own query there is no other way than to leaf.
    if rank < len(hits) and (page == session.number + 1 or session.keywords == tuple((plan.query or "").split(" "))):
        if page > session.number:
            return "click[next >]"
        if session.number > 1:
            return "click[< prev]"
    return None


def _rank(hits: Sequence[int], position: int) -> int:
    for rank, hit in enumerate(hits):
        if hit == position:
            return rank
    return 1 << 60


def _queries(product: Product) -> Iterator[str]:
    """Yield queries that should find a product, the most natural one first."""
    options = " ".join(value for values in product.options.values() for value in values)
    first = product.bullets[0] if product.bullets else ""
    texts = (
        product.name,
        f"{product.name} {options}",
        " ".join(f"{product.name} {product.description}".split()[:_WORDS]),
        f"{product.name} {product.description} {first} {options}",
    )
    for text in texts:
        query = _as_query(text)
        if query:
            yield query


def _as_query(text: str) -> str:
    """Return a text as the argument of ``search``, in which it must neither break off nor mean something else."""
    words = text.replace("[", " ").replace("]", " ").lower().split()
    if words and words[0] in _MAGIC:
        words.append(words.pop(0))
    return " ".join(words)[:4000]


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
