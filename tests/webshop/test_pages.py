"""Pages of odd products: what the text mode shows is what an HTML parser reads on the page."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_r1_envs.webshop.catalogue.data import Product
from agent_r1_envs.webshop.pages import contents
from agent_r1_envs.webshop.pages.elements import Element, targets
from agent_r1_envs.webshop.pages.html import page_html
from agent_r1_envs.webshop.pages.render import ansi, plain, rich
from agent_r1_envs.webshop.pages.session import Page, Session
from tests.helpers.webshop import Reader, Strict

ODD = st.text(
    st.sampled_from("ab &;<>\"'/[]|\\\n\t\r\f\x0b\x1f\x85\xa0\u2028é漢\u200b#x3c") | st.characters(codec="utf-8")
)
TEXT = st.sampled_from(["", " ", "\n", " \n ", "\t", "&amp;", "<b>x</b>", "-->", "a\nb", "Buy Now"]) | ODD
NAMES = st.lists(TEXT, max_size=4)
VALUES = st.lists(TEXT.map(lambda text: text.strip().lower()), max_size=4).map(tuple)

PRODUCTS = st.builds(
    Product,
    asin=ODD.filter(str.strip).map(lambda text: text[:10]) | st.just("B000000001"),
    name=TEXT,
    description=TEXT,
    bullets=NAMES.map(tuple),
    category=TEXT,
    query=TEXT,
    product_category=TEXT,
    attributes=NAMES.map(tuple),
    prices=st.just((1.0,)),
    price_tag=st.just("$1.0"),
    options=st.dictionaries(TEXT.map(str.lower), VALUES, max_size=3),
)


def read(body: list[Element], instruction: str, session: Session, product: Product) -> tuple[str, dict[str, Any]]:
    html = page_html(
        body,
        session,
        session_id="1",
        instruction=instruction,
        products={product.asin: product, session.asin: product},
        mark_selected=True,
    )
    checker = Strict()
    checker.feed(html)
    assert not checker.open
    page = Reader(html)
    return page.text(), page.available()


@settings(max_examples=80, deadline=None)
@given(product=PRODUCTS, instruction=TEXT, number=st.integers(-1, 3))
def test_text_is_what_a_parser_reads(product: Product, instruction: str, number: int) -> None:
    header = contents.header(instruction)
    bodies = {
        Session(Page.INDEX): [],
        Session(Page.ITEM, ("a", ""), 1, product.asin): contents.item(product, attributes=True, qualified=False),
        Session(Page.RESULTS, ("a",), number): contents.results([contents.row(product)] * 2, number, 2, bounded=False),
        **{
            Session(Page.SUB, ("a",), 1, product.asin, name): contents.sub(product, name) for name in contents.SUB_PAGES
        },
    }
    for session, body in bodies.items():
        whole = [*header, *body] if body else contents.index(instruction)
        text, available = read(body, instruction, session, product)
        assert text == plain(whole)
        assert available == {"has_search_bar": not body, "clickables": list(targets(whole))}


@settings(max_examples=50, deadline=None)
@given(product=PRODUCTS, options=st.dictionaries(TEXT, TEXT, max_size=3))
def test_so_it_is_after_the_purchase(product: Product, options: dict[str, str]) -> None:
    session = Session(Page.DONE, ("a",), 1, product.asin.upper(), options=tuple(options.items()))
    body = contents.done(session.asin, options, 0.5, hide_score=False)
    text, available = read(body, "", session, product)
    assert text == plain(body)
    assert available["clickables"] == []


def test_white_space_alone() -> None:
    """A parser makes one space of spaces, and one line break, which is not shown, of spaces with a line break."""
    product = Product("B1", "t", "   ", (" ", "\n", ""), "", "", "", (), (1.0,), "$1.0")
    assert plain(contents.sub(product, "Description")) == "Back to Search [SEP] < Prev [SEP] "
    assert plain(contents.sub(product, "Features")) == "Back to Search [SEP] < Prev [SEP]  [SEP] "
    assert rich(contents.sub(product, "Description"), url="", visited=()).endswith("\n \n")


def test_options_that_share_a_value() -> None:
    product = Product(
        "B1", "t", "", (), "", "", "", (), (1.0,), "$1.0", {"size": ("small", "buy now"), "colour": ("small",)}
    )
    found = targets(contents.item(product, attributes=False, qualified=False))
    assert list(found) == [
        "back to search", "< prev", "description", "features", "reviews", "buy now", "small"
    ]  # fmt: skip
    assert found["small"].group == "colour"
    qualified = targets(contents.item(product, attributes=False, qualified=True))
    assert list(qualified)[-3:] == ["size: small", "size: buy now", "colour: small"]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ((("size", "small"),), ["  (x) small", "  ( ) large", "  ( ) small"]),
        ((("colour", "small"), ("size", "large")), ["  ( ) small", "  (x) large", "  (x) small"]),
    ],
)
def test_pages_for_people_tick_what_is_selected(options: tuple[tuple[str, str], ...], lines: list[str]) -> None:
    product = Product(
        "B1", "Lamp", "", (), "", "", "", (), (1.0,), "$1.0", {"size": ("small", "large"), "colour": ("small",)}
    )
    shown = ansi(contents.item(product, attributes=False, qualified=False), options=dict(options), visited=())
    assert [line for line in shown.splitlines() if line.startswith("  (")] == lines
    assert shown.startswith("[Back to Search]  [< Prev]\nsize\n")
    assert shown.endswith("[Description]  [Features]  [Reviews]  [Buy Now]")
