"""Searches of the golden walks, made by the real Lucene: every page that was shown, in its order."""

import re

import pytest

from agent_r1_envs.webshop.catalogue.opening import open_catalogue
from tests.helpers.webshop import folder, walk

ADDRESS = re.compile(r"http://127\.0\.0\.1:3000/search_results/.*/(-?\d+)$")
BUTTONS = ("back to search", "next >", "< prev")


@pytest.mark.parametrize(
    ("data", "name"),
    [(".", "real1k_walk_text"), ("hostile", "hostile_walk_text"), ("hostile", "hostile_walk_text_rich_human")],
)
def test_results_are_those_of_lucene(data: str, name: str) -> None:
    catalogue = open_catalogue(folder() / data, nouns="fallback", store="memory")
    query, pages = "", 0
    for line in walk(f"{name}.jsonl"):
        if line["action"] is None:
            continue
        search = re.match(r"search\[(.+)\]", line["action"])
        query = search[1].lower() if search else query
        address = ADDRESS.match(line["url"])
        if address is None or query.startswith("<"):
            continue
        found = [catalogue.product(place).asin for place in catalogue.search(query.split(" "))]
        total = re.search(r"Total results: (\d+)", line["obs"])
        assert total is not None and len(found) == int(total[1])
        number = int(address[1])
        shown = [text.upper() for text in line["available"]["clickables"] if text not in BUTTONS]
        assert found[(number - 1) * 10 : number * 10] == shown
        pages += 1
    assert pages > 200
