"""WebShop for tests: the real catalogues, replays of the original's walks, and a reader of its HTML."""

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Comment

from agent_r1_envs.webshop.env import WebShopEnv
from tests.data import real_data

SEED = 7
"""Python's global random numbers were seeded with it before the original made the golden walks."""


def folder() -> Path:
    """Return the folder of the real data, or skip the test."""
    return real_data("webshop")


def hostile(split: str = "all", **kwargs: Any) -> WebShopEnv:
    """Make an env of the hostile catalogue."""
    nouns = str(folder() / "golden" / "hostile_nouns.json")
    return WebShopEnv(split, data=str(folder() / "hostile"), nouns=nouns, catalogue_seed=SEED, store="memory", **kwargs)


def real1k(split: str = "all", *, nouns: str = "real1k_nouns_walks", **kwargs: Any) -> WebShopEnv:
    """Make an env of the real 1,000 products."""
    path = str(folder() / "golden" / f"{nouns}.json")
    return WebShopEnv(split, data=str(folder()), nouns=path, catalogue_seed=SEED, store="memory", **kwargs)


def golden(name: str) -> Any:
    """Return a golden JSON file."""
    return json.loads((folder() / "golden" / name).read_text())


def walk(name: str) -> Iterator[dict[str, Any]]:
    """Yield the steps of golden walks; the first of an episode has no action."""
    with (folder() / "golden" / name).open() as file:
        yield from map(json.loads, file)


def step(env: WebShopEnv, line: dict[str, Any]) -> tuple[str, float, bool, dict[str, Any]]:
    """Do in ``env`` what was done in a step of a walk."""
    if line["action"] is None:
        observation, info = env.reset(options={"task": line["session"]})
        return observation, 0.0, False, info
    observation, reward, terminated, _, info = env.step(line["action"])
    return observation, reward, terminated, info


class Reader:
    """Reads a page of HTML as programs written for the original do, with BeautifulSoup alone."""

    def __init__(self, html: str) -> None:
        self.page = BeautifulSoup(html, "html.parser")

    def text(self) -> str:
        """Return the mode ``text``."""
        hidden = {"style", "script", "head", "title", "meta", "[document]"}
        texts = self.page.find_all(string=True)
        visible = [t for t in texts if t.parent.name not in hidden and not isinstance(t, Comment)]
        return " [SEP] ".join(t.strip() for t in visible if t != "\n")

    def available(self) -> dict[str, Any]:
        """Return what can be clicked, and whether there is a search bar."""
        named = [*self.page.find_all(class_="btn"), *self.page.find_all(class_="product-link")]
        found = {element.get_text().lower(): element for element in named}
        found.update({radio.get("value"): radio for radio in self.page.select('input[type="radio"]')})
        return {"has_search_bar": self.page.find(id="search_input") is not None, "clickables": list(found)}

    def instruction(self) -> str:
        """Return the instruction with its heading."""
        return str(self.page.find(id="instruction-text").h4.get_text())


class Strict(HTMLParser):
    """Checks that every element is closed in its place."""

    VOID = frozenset(("meta", "input", "img", "br", "link", "hr"))

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"
