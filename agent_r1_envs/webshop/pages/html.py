"""Pages as HTML: the mode ``html``, and a picture for people.

Elements, ids, classes, names and values are those that programs written for the original look for (``search_input``,
``instruction-text``, ``btn``, ``product-link``, ``product-image``, radio inputs), so that they read the same texts and
the same things to click out of it. Layout and style are not the original's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final
from urllib.parse import urlencode

from agent_r1_envs.webshop.catalogue.data import Product
from agent_r1_envs.webshop.pages.elements import Element, Kind
from agent_r1_envs.webshop.pages.session import Page, Session

__all__ = ["page_html"]

_STYLE: Final = (
    "body{font-family:sans-serif;max-width:60em;margin:1em auto}h4{margin:.4em 0}form{display:inline}"
    ".result-img,.item-page-img{max-height:8em}pre{display:inline}li{margin:.3em 0}"
)


def page_html(
    body: Sequence[Element],
    session: Session,
    *,
    session_id: str,
    instruction: str,
    products: Mapping[str, Product],
    mark_selected: bool,
) -> str:
    """Return a page as an HTML document.

    Args:
        body: The elements of the page, without those that tell the instruction.
        session: The session.
        session_id: What stands for it in addresses.
        instruction: The instruction.
        products: The products on the page, by id.
        mark_selected: Whether selected options are ticked, which the original leaves to a script.
    """
    links = _Links(session, session_id)
    content: Iterable[str]
    match session.page:
        case Page.INDEX:
            content = _index(instruction, links)
        case Page.DONE:
            content = _done(body)
        case Page.RESULTS:
            content = [*_header(instruction), *_results(body, links, products)]
        case Page.ITEM:
            content = [*_header(instruction), *_item(body, session, links, products[session.asin], mark_selected)]
        case Page.SUB:
            content = [*_header(instruction), *_sub(body, session, links)]
    head = f'<meta charset="utf-8">\n<title>WebShop</title>\n<style>{_STYLE}</style>'
    return "\n".join(["<!DOCTYPE html>", f"<html>\n<head>\n{head}\n</head>\n<body>", *content, "</body>\n</html>\n"])


class _Links:
    """The addresses of forms and links, of which the original makes query strings."""

    def __init__(self, session: Session, session_id: str) -> None:
        self._session = session
        self._id = session_id

    def home(self) -> str:
        return self._to()

    def results(self, number: int) -> str:
        return self._to(keywords=self._session.keywords, page=number)

    def item(self, asin: str, options: Mapping[str, str]) -> str:
        return self._to(asin=asin, keywords=self._session.keywords, page=self._session.number, options=options)

    def sub(self, name: str) -> str:
        session = self._session
        options = dict(session.options)
        return self._to(
            asin=session.asin, keywords=session.keywords, page=session.number, sub_page=name, options=options
        )

    def done(self) -> str:
        return self._to(asin=self._session.asin, options=dict(self._session.options))

    def of_button(self, label: str) -> str:
        """Return where a button leads."""
        session = self._session
        match label:
            case "Back to Search" | "Search":
                return self.home()
            case "Next >":
                return self.results(session.number + 1)
            case "< Prev" if session.page is Page.SUB:
                return self.item(session.asin, dict(session.options))
            case "< Prev":
                return self.results(session.number - (session.page is Page.RESULTS))
            case "Buy Now":
                return self.done()
        return self.sub(label)

    def _to(self, **arguments: Any) -> str:
        return escape("/?" + urlencode({"session_id": self._id, **arguments}, doseq=True))


def _header(instruction: str) -> list[str]:
    return [f'<div id="instruction-text">\n<h4>Instruction:<br>{escape(instruction)}</h4>\n</div>']


def _button(element: Element, links: _Links) -> str:
    label = element.text or ""
    return (
        f'<form method="post" action="{links.of_button(label)}">\n'
        f'<button type="submit" class="btn">{escape(label)}</button>\n</form>'
    )


def _index(instruction: str, links: _Links) -> list[str]:
    return [
        "<h2>WebShop</h2>",
        f'<div id="instruction-text">\n<h4>Instruction: <br>{escape(instruction)}</h4>\n</div>',
        f'<form method="post" action="{links.home()}">',
        '<input id="search_input" type="text" name="search_query" placeholder="Search..." required>',
        '<button type="submit" class="btn">Search</button>\n</form>',
    ]


def _results(body: Sequence[Element], links: _Links, products: Mapping[str, Product]) -> Iterable[str]:
    for element in body:
        if element.kind is Kind.BUTTON:
            yield _button(element, links)
        elif element.kind is Kind.LINK:
            asin = element.value
            yield f'<img src="{escape(products[asin].image)}" class="result-img">'
            yield f'<h4><a class="product-link" href="{links.item(asin, {})}">{escape(asin)}</a></h4>'
        else:
            yield f"<h4>{_text(element)}</h4>"


def _item(
    body: Sequence[Element], session: Session, links: _Links, product: Product, mark_selected: bool
) -> Iterable[str]:
    yield f'<img id="product-image" src="{escape(_image(product, session))}" class="item-page-img">'
    options = dict(session.options)
    for number, element in enumerate(body):
        if element.kind is Kind.BUTTON:
            yield _button(element, links)
        elif element.kind is Kind.OPTION:
            checked = " checked" if mark_selected and options.get(element.group.lower()) == element.value else ""
            address = links.item(session.asin, {**options, element.group: element.value})
            yield (
                f'<input type="radio" id="radio{number}" name="{escape(element.group)}" '
                f'value="{escape(element.key or "")}" data-url="{address}"{checked}>\n'
                f'<label for="radio{number}">{escape(element.value)}</label>'
            )
        else:
            yield f"<h4>{_text(element)}</h4>"


def _sub(body: Sequence[Element], session: Session, links: _Links) -> Iterable[str]:
    for element in body:
        if element.kind is Kind.BUTTON:
            yield _button(element, links)
        else:
            yield f'<p class="product-info">{_text(element)}</p>'


def _done(body: Sequence[Element]) -> Iterable[str]:
    """Keep white space: the parser would change an id of spaces."""
    return (f"<pre>{_text(element)}</pre>" for element in body)


def _image(product: Product, session: Session) -> str:
    """Return the picture of the option that was selected last and has one, else the main one."""
    for _, value in reversed(session.options):
        if value in product.option_images:
            return product.option_images[value]
    return product.image


def _text(element: Element) -> str:
    return escape(element.text or "")
