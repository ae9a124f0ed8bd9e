"""The state of an episode: small, immutable, and free of anything that the catalogue knows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

__all__ = ["BASE_URL", "Page", "Session", "page_name"]

BASE_URL: Final = "http://127.0.0.1:3000"


class Page(StrEnum):
    """The kinds of page, by their names in addresses; the home page has none."""

    INDEX = ""
    RESULTS = "search_results"
    ITEM = "item_page"
    SUB = "item_sub_page"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Session:
    """Where the shopper is.

    Attributes:
        page: The kind of page.
        keywords: The query, split at spaces; empty before the first search.
        number: Number of the page of results; 0 and less can be reached by the original's quirks.
        asin: The product that is looked at, upper-cased; ``""`` for none.
        sub: Which sub-page, such as ``"Features"``.
        options: What is selected, as (group, value), in the order of selection.
        visited: Products that were looked at since the home page, upper-cased, in the order of first visits.
        draws: How many random lists of products there were, which makes each of them another.
    """

    page: Page = Page.INDEX
    keywords: tuple[str, ...] = ()
    number: int = 0
    asin: str = ""
    sub: str = ""
    options: tuple[tuple[str, str], ...] = ()
    visited: tuple[str, ...] = ()
    draws: int = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Session:
        return self  # nothing in it can change

    def url(self, session_id: str) -> str:
        """Return the address, which the original makes without escaping anything."""
        query = "+".join(self.keywords)
        match self.page:
            case Page.INDEX:
                return f"{BASE_URL}/{session_id}"
            case Page.RESULTS:
                return f"{BASE_URL}/search_results/{session_id}/{query}/{self.number}"
            case Page.ITEM:
                options = json.dumps(dict(self.options))
                return f"{BASE_URL}/item_page/{session_id}/{self.asin}/{query}/{self.number}/{options}"
            case Page.SUB:
                place = f"{session_id}/{self.asin}/{query}/{self.number}/{self.sub}"
                return f"{BASE_URL}/item_sub_page/{place}/{dict(self.options)}"
            case Page.DONE:
                return f"{BASE_URL}/done/{session_id}/{self.asin}/{dict(self.options)}"


def page_name(url: str) -> Page:
    """Return the page that the original takes an address for: the first name that occurs anywhere in it."""
    for page in (Page.RESULTS, Page.ITEM, Page.SUB, Page.DONE):
        if page in url:
            return page
    return Page.INDEX
