"""The pages of the shop, as sequences of elements."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from agent_r1_envs.webshop.catalogue.data import Product
from agent_r1_envs.webshop.pages.elements import Element, button, link, option, pre, text

__all__ = ["PAGE_SIZE", "SUB_PAGES", "done", "header", "index", "item", "results", "row", "selection", "sub"]

PAGE_SIZE: Final = 10
SUB_PAGES: Final = ("Description", "Features", "Reviews", "Attributes")

_BACK: Final = button("Back to Search")
_PREVIOUS: Final = button("< Prev")
_NEXT: Final = button("Next >")
_BUY: Final = button("Buy Now")
_SEARCH: Final = button("Search")
_RATING: Final = text("Rating: N.A.")  # the original has the field, and no ratings
_SUB_BUTTONS: Final = tuple(map(button, SUB_PAGES))
_NONE: Final = "None"
_THANKS: Final = text("Thank you for shopping with us!")
_CODE: Final = (text("Your code: "), pre(_NONE), text(" (Paste it in your MTurk interface.)"))
_PURCHASED: Final = (text("Purchased"), text("asin"))
_OPTIONS: Final = text("options")
_UNKNOWN: Final = (
    *(part for field in ("attrs", "category", "query", "product category") for part in (text(field), pre(_NONE))),
    text("Target"),
    *map(text, ("asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query")),
    text("Goal "),
    pre(_NONE),
    text("Reward"),
    text("Your score (min 0.0, max 1.0)"),
)
_DETAILS: Final = (text("Reward Details "), pre(_NONE))
_SCRIPT_SAFE: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})


def header(instruction: str) -> list[Element]:
    """Return what every page between home and checkout begins with."""
    return [text("Instruction:"), text(instruction)]


def index(instruction: str) -> list[Element]:
    """Return the home page."""
    return [text("WebShop"), text("Instruction: "), text(instruction), _SEARCH]


def results(rows: Sequence[tuple[Element, ...]], number: int, total: int, *, bounded: bool) -> list[Element]:
    """Return a page of results, without its header.

    Args:
        rows: The elements of each product on it (see :func:`row`).
        number: Its number.
        total: How many results there are on all pages.
        bounded: Whether to leave out the way to a page that is not there.
    """
    elements = [_BACK, text(f"Page {number} (Total results: {total})")]
    if number > 1:
        elements.append(_PREVIOUS)
    if not bounded or number * PAGE_SIZE < total:
        elements.append(_NEXT)
    for row_elements in rows:
        elements.extend(row_elements)
    return elements


def row(product: Product) -> tuple[Element, ...]:
    """Return a product among results."""
    return link(product.asin), text(product.name), text(product.price_tag)


def item(product: Product, *, attributes: bool, qualified: bool) -> list[Element]:
    """Return the page of a product, without its header.

    Args:
        product: The product.
        attributes: Whether there is a way to its attributes.
        qualified: Whether options are clicked with their group.
    """
    elements = [_BACK, _PREVIOUS]
    for group, values in product.options.items():
        elements.append(text(group))
        elements.extend(option(group, value, qualified=qualified) for value in values)
    elements += [text(product.name), text(f"Price: {product.price_tag}"), _RATING]
    return [*elements, *(_SUB_BUTTONS if attributes else _SUB_BUTTONS[:3]), _BUY]


def selection(options: Mapping[str, str]) -> Element:
    """Return a line that says what is selected; the original has none."""
    chosen = "; ".join(f"{group}: {value}" for group, value in options.items())
    return text(f"Selected: {chosen or 'nothing'}")


def sub(product: Product, name: str) -> list[Element]:
    """Return a sub-page of a product, without its header; that of reviews is empty, as in the original."""
    elements = [_BACK, _PREVIOUS]
    match name:
        case "Description":
            elements.append(text(product.description))
        case "Features":
            elements.extend(text(f" {bullet}") for bullet in product.bullets)
        case "Attributes":
            elements.extend(text(f" {attribute}") for attribute in product.attributes)
            elements += [text(product.category), text(product.query), text(product.product_category)]
    return elements


def done(asin: str, options: Mapping[str, str], score: float, *, hide_score: bool) -> list[Element]:
    """Return the page after the purchase; the original's fields of the goal are always empty."""
    chosen = pre(options_json(options))
    if hide_score:
        return [_THANKS, *_PURCHASED, pre(asin), _OPTIONS, chosen]
    return [_THANKS, *_CODE, *_PURCHASED, pre(asin), _OPTIONS, chosen, *_UNKNOWN, pre(str(score)), *_DETAILS]


def options_json(options: Mapping[str, str]) -> str:
    """Return options as the original's template engine writes them: ASCII, sorted, no ``<``, ``>``, ``&``, ``'``."""
    return json.dumps(dict(options), sort_keys=True).translate(_SCRIPT_SAFE)
