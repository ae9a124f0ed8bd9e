"""Pages with what an env needs of them at every step: their text, and what can be clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from agent_r1_envs.webshop.pages import contents
from agent_r1_envs.webshop.pages.actions import QUERY_PLACEHOLDER, admissible
from agent_r1_envs.webshop.pages.elements import Element, targets
from agent_r1_envs.webshop.pages.render import plain
from agent_r1_envs.webshop.pages.rules import Rules
from agent_r1_envs.webshop.pages.session import Page, Session

if TYPE_CHECKING:
    from agent_r1_envs.webshop.catalogue.catalogue import Catalogue

__all__ = ["View", "Views"]

_CACHED_PRODUCTS: Final = 512
_CACHED_ROWS: Final = 8192


@dataclass(frozen=True, slots=True)
class View:
    """A page without the instruction at its top.

    Attributes:
        body: Its elements.
        plain: Them as the text mode shows them.
        targets: What can be clicked, by key.
        keys: The keys, in the original's order.
        commands: The commands that click them, as far as the rules of actions let it.
        search_bar: Whether there is a field for a query.
    """

    body: tuple[Element, ...]
    plain: str
    targets: dict[str, Element]
    keys: tuple[str, ...]
    commands: tuple[str, ...]
    search_bar: bool = False

    def __deepcopy__(self, memo: dict[int, Any]) -> View:
        return self  # nothing in it changes


class Views:
    """Makes views, and keeps those of products, which all envs of a process share.

    Args:
        catalogue: The products.
        rules: How the shop behaves.
        show_attrs: Whether products have a sub-page of their attributes.
    """

    def __init__(self, catalogue: Catalogue, rules: Rules, *, show_attrs: bool) -> None:
        self._catalogue = catalogue
        self._rules = rules
        self._show_attrs = show_attrs
        self.item = lru_cache(_CACHED_PRODUCTS)(self._item)
        """The page of the product at a position."""
        self.sub = lru_cache(_CACHED_PRODUCTS)(self._sub)
        """A sub-page of the product at a position, by its name."""
        self._row = lru_cache(_CACHED_ROWS)(self._make_row)

    def index(self) -> View:
        """Return what the home page has to click; its text depends on the instruction alone."""
        found = targets(contents.index(""))
        return View((), "", found, tuple(found), (QUERY_PLACEHOLDER,), search_bar=True)

    def results(self, positions: Sequence[int], number: int, total: int) -> View:
        """Return a page of results with the products at these positions."""
        rows = [self._row(position) for position in positions]
        return self._view(contents.results(rows, number, total, bounded=self._rules.bounded_pages))

    def done(self, session: Session, score: float) -> View:
        """Return the page after the purchase."""
        assert session.page is Page.DONE
        return self._view(contents.done(session.asin, dict(session.options), score, hide_score=self._rules.hide_score))

    def _item(self, position: int) -> View:
        product = self._catalogue.product(position)
        qualified = self._rules.qualified_options
        return self._view(contents.item(product, attributes=self._show_attrs, qualified=qualified))

    def _sub(self, position: int, name: str) -> View:
        return self._view(contents.sub(self._catalogue.product(position), name))

    def _make_row(self, position: int) -> tuple[Element, ...]:
        return contents.row(self._catalogue.product(position))

    def _view(self, body: list[Element]) -> View:
        found = targets(body)
        keys = tuple(found)
        commands = admissible(keys, nested_brackets=self._rules.nested_brackets)
        return View(tuple(body), plain(body), found, keys, commands)
