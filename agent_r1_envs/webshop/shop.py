"""The shop: what each command does to a session."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from agent_r1_envs.text import echo
from agent_r1_envs.webshop.pages.actions import clickable, parse_action
from agent_r1_envs.webshop.pages.contents import PAGE_SIZE, SUB_PAGES
from agent_r1_envs.webshop.pages.elements import Element, Kind
from agent_r1_envs.webshop.pages.rules import Rules
from agent_r1_envs.webshop.pages.session import Page, Session, page_name
from agent_r1_envs.webshop.pages.views import View, Views

if TYPE_CHECKING:
    from agent_r1_envs.webshop.catalogue.catalogue import Catalogue

__all__ = ["Refused", "Shop"]

_RANDOM_RESULTS: Final = 50
_LISTINGS: Final = ("<r>", "<a>", "<c>", "<q>")
_MOST_TERMS: Final = 1024  # Lucene refuses a query of more
_CACHED_POSITIONS: Final = 8192
_SUBS: Final = {name.lower(): name for name in SUB_PAGES}


class Refused(Exception):
    """The command does nothing; the text says why, in words that an agent can act on."""


class Shop:
    """One catalogue under one set of rules. It has no state of its own, so that any number of envs can share it.

    Args:
        catalogue: The products.
        rules: How the shop behaves.
        show_attrs: Whether products have a sub-page of their attributes.
    """

    def __init__(self, catalogue: Catalogue, rules: Rules, *, show_attrs: bool = False) -> None:
        self.catalogue = catalogue
        self.rules = rules
        self.views = Views(catalogue, rules, show_attrs=show_attrs)
        self.position_of = lru_cache(_CACHED_POSITIONS)(catalogue.position_of)
        """The position of the product with an asin; KeyError if there is none."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Shop:
        return self  # it has no state

    def view(self, session: Session, hits: Sequence[int], score: float) -> View:
        """Return the page of a session.

        Args:
            session: The session.
            hits: The products that its query finds; needed for a page of results only.
            score: What the purchase was worth; needed for the last page only.
        """
        match session.page:
            case Page.ITEM:
                return self.views.item(self.position_of(session.asin))
            case Page.RESULTS:
                first = (session.number - 1) * PAGE_SIZE
                return self.views.results(hits[first : first + PAGE_SIZE], session.number, len(hits))
            case Page.SUB:
                return self.views.sub(self.position_of(session.asin), session.sub)
            case Page.DONE:
                return self.views.done(session, score)
        return self.views.index()

    def hits(self, session: Session, seed: str) -> Sequence[int]:
        """Return the positions of the products that the session's query finds.

        Args:
            session: A session after a search.
            seed: Makes the random lists of ``<r>``, together with how many there were before.
        """
        words = session.keywords
        if not self.rules.literal_queries:
            if words[0] == "<r>":
                rng = random.Random(f"{seed}/{session.draws}")
                return rng.sample(range(len(self.catalogue)), _RANDOM_RESULTS)
            if words[0] == "<c>":
                return self.catalogue.by_category(words[1].strip())
            if words[0] == "<q>":
                return self.catalogue.by_query(" ".join(words[1:]).strip())
        return self.catalogue.search(words)

    def act(self, session: Session, view: View, action: str, session_id: str) -> Session:
        """Return the session after an action.

        Args:
            session: The session before.
            view: Its page.
            action: What the agent wrote.
            session_id: What stands for the session in addresses.

        Raises:
            Refused: The action does nothing, or is one at which the original crashes.
        """
        parsed = parse_action(action, nested_brackets=self.rules.nested_brackets)
        if parsed is None:
            raise Refused("an action is search[words] or click[name]")
        name, argument = parsed
        if name == "search":
            return self._search(session, argument)
        if name != "click":
            raise Refused(f"an action is search[words] or click[name], not {echo(name)}[...]")
        target = view.targets.get(argument)
        if target is None:
            raise Refused(f"there is nothing called {echo(argument)!r} to click on this page")
        if argument == "search":
            raise Refused("to search, give the words: search[words]")
        return self._click(session, target, argument, session_id)

    def can_click(self, element: Element) -> bool:
        """Tell whether an agent can say that it clicks an element."""
        return element.key is not None and clickable(element.key, nested_brackets=self.rules.nested_brackets)

    def _search(self, session: Session, query: str) -> Session:
        return self._results(session, tuple(query.split(" ")), 1)

    def _results(self, session: Session, keywords: tuple[str, ...], number: int) -> Session:
        """Show a page of results, which forgets product and options; products listed at random are drawn again."""
        self._check_query(keywords)
        draws = session.draws + (not self.rules.literal_queries and keywords[0] == "<r>")
        return Session(Page.RESULTS, keywords, number, visited=session.visited, draws=draws)

    def _check_query(self, keywords: tuple[str, ...]) -> None:
        """Refuse the queries at which the original crashes."""
        if not self.rules.literal_queries and keywords[0] in _LISTINGS:
            if keywords[0] == "<r>" and len(self.catalogue) < _RANDOM_RESULTS:
                raise Refused(f"<r> needs a catalogue of at least {_RANDOM_RESULTS} products")
            if keywords[0] == "<a>":
                raise Refused("<a> lists nothing here")
            if keywords[0] == "<c>" and len(keywords) < 2:
                raise Refused("<c> needs a category after it")
        elif sum(map(len, keywords)) > _MOST_TERMS and len(set(self.catalogue.terms(keywords))) > _MOST_TERMS:
            raise Refused(f"a query has at most {_MOST_TERMS:,} different words")

    def _click(self, session: Session, target: Element, name: str, session_id: str) -> Session:
        # Names come before what bears them: in the original an option called "buy now" is the button.
        if name == "buy now":
            self._check_product(session)
            return replace(session, page=Page.DONE)
        if name == "back to search":
            return Session(draws=session.draws)
        if name in ("next >", "< prev"):
            place = session.page if self.rules.literal_queries else page_name(session.url(session_id))
            if place is Page.RESULTS:
                step = 1 if name == "next >" else -1
                return self._results(session, session.keywords, session.number + step)
            if name == "< prev" and place is Page.ITEM:
                return self._results(session, session.keywords, session.number)
        elif name in _SUBS:
            self._check_product(session)
            return replace(session, page=Page.SUB, sub=_SUBS[name])
        return self._open(session, target, name)

    def _open(self, session: Session, target: Element, name: str) -> Session:
        """Show a product: one from a link, or the present one, maybe with another option."""
        if target.kind is Kind.LINK:
            asin = name.upper()
            self._check_asin(asin)
            visited = session.visited if asin in session.visited else (*session.visited, asin)
            return replace(session, page=Page.ITEM, asin=asin, visited=visited)
        self._check_product(session)
        if target.kind is Kind.OPTION:
            options = {**dict(session.options), target.group.lower(): target.value}
            return replace(session, page=Page.ITEM, options=tuple(options.items()))
        return replace(session, page=Page.ITEM, sub="")

    def _check_asin(self, asin: str) -> None:
        try:
            self.position_of(asin)
        except KeyError:  # the original upper-cases ids, so that one with a lower-case letter is lost
            raise Refused(f"the product {echo(asin)!r} cannot be opened") from None

    def _check_product(self, session: Session) -> None:
        if not session.asin:
            raise Refused("no product is open")
