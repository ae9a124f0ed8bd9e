"""What the official rows mean, and what is said about damaged ones."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import agent_r1_envs  # noqa: F401  (registers the ids)
from agent_r1_envs.errors import DataError
from agent_r1_envs.webshop.catalogue.catalogue import Catalogue
from agent_r1_envs.webshop.catalogue.opening import open_catalogue
from tests.helpers.webshop_files import product, write

DAMAGED: list[tuple[Any, str]] = [
    ("a string", "row 1: expected a JSON object"),
    ({"name": "x"}, "field asin"),
    (product(name=7), "field name: expected a string"),
    (product(full_description=...), "field full_description"),
    (product(small_description=7), "field small_description"),
    (product(small_description=["x", 7]), r"field small_description\[1\]"),
    (product(images=[]), "field images: expected a list with at least one address"),
    (product(pricing="10.99"), "field pricing: expected a price with a dollar sign, found the string '10.99'"),
    (product(pricing="$"), "field pricing: expected a number after each dollar sign"),
    (product(pricing=7), "field pricing"),
    (product(customization_options=["x"]), "field customization_options: expected an object"),
    (product(customization_options={"Size": "x"}), "field customization_options.Size: expected a list"),
    (product(customization_options={"Size": [{}]}), r"field customization_options.Size\[0\].value"),
    (product(query=None), "field query"),
]


def load(folder: Path, *args: Any, **options: Any) -> Catalogue:
    return open_catalogue(write(folder, *args), store="memory", nouns="fallback", **options)


@pytest.mark.parametrize(("row", "complaint"), DAMAGED)
def test_a_damaged_row_is_named_or_skipped(tmp_path: Path, row: Any, complaint: str) -> None:
    rows = [product("B000000000"), row, product("B000000002")]
    with pytest.raises(DataError, match=rf"products\.json, row 1.*{complaint}|products\.json, {complaint}"):
        load(tmp_path, rows)
    catalogue = load(tmp_path, rows, strict=False)
    assert [catalogue.product(place).asin for place in range(len(catalogue))] == ["B000000000", "B000000002"]
    assert len(catalogue.skipped) == 1 and "row 1" in catalogue.skipped[0]
    assert catalogue.protocol()["skipped_products"] == 1


def test_rows_that_the_original_drops_are_dropped_without_a_word(tmp_path: Path) -> None:
    rows = [product("nan"), product("B0000000012"), product(), product(name="again")]
    catalogue = load(tmp_path, rows)
    assert (len(catalogue), catalogue.skipped) == (1, ())
    assert catalogue.product(0).name == "Acme Lamp B000000001"


def test_a_product(tmp_path: Path) -> None:
    groups = {"Size": [{"value": "A/B "}], "size": [{"value": "Small", "image": "s.png"}], "Gone": None}
    row = product(small_description="one", pricing="", customization_options=groups)
    catalogue = load(tmp_path, [row], {"B000000001": {"attributes": []}})
    found = catalogue.product("B000000001")
    assert (found.query, found.bullets, found.prices, found.price_tag) == ("table lamps", ("one",), (100.0,), "$100.0")
    assert (found.options, found.option_images) == ({"size": ("small",)}, {"small": "s.png"})  # the last group wins
    assert found.attributes == ()
    assert load(tmp_path / "none", [row]).product(0).attributes == ("DUMMY_ATTR",)
    without = {"B000000001": {"instruction": "buy it", "instruction_attributes": ["x"]}}
    catalogue = load(tmp_path / "without", [row], without)
    assert catalogue.product(0).attributes == ("DUMMY_ATTR",) and len(catalogue.goals("synthetic")) == 1


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    assert load(tmp_path, [product(name="lamp \ud83d")]).product(0).name == "lamp \ud83d"


def test_damage_in_the_other_files_is_named(tmp_path: Path) -> None:
    for number, (attributes, human, complaint) in enumerate(
        [
            ({"B000000001": []}, None, "attributes.json.*B000000001"),
            ({"B000000001": {"attributes": None}}, None, "attributes.json.*attributes"),
            ({"B000000001": {"attributes": [], "instruction": "x"}}, None, "instruction_attributes"),
            (
                {"B000000001": {"attributes": [], "instruction": "x", "instruction_attributes": []}},
                None,
                "at least one attribute",
            ),
            ([], None, "attributes.json: expected a JSON object"),
            (None, {"B000000001": {}}, "human.json.*B000000001"),
            (None, {"B000000001": [{"instruction": "x"}]}, r"human.json.*B000000001\[0\].*instruction_attributes"),
        ]
    ):
        with pytest.raises(DataError, match=complaint):
            load(tmp_path / str(number), [product()], attributes, human)


def test_a_file_that_is_no_list_of_products(tmp_path: Path) -> None:
    cut = "[" + json.dumps(product())
    for text, complaint in (("{}", "expected '\\['"), ("[", "row 0"), ("[]", "found none"), (cut, "after row 0")):
        (tmp_path / "products.json").write_text(text)
        with pytest.raises(DataError, match=complaint):
            open_catalogue(tmp_path, store="memory")
    with pytest.raises(DataError, match="expected one of items_shuffle.json"):
        open_catalogue(tmp_path.parent / tmp_path.name / "..", store="memory")
    with pytest.raises(DataError, match="no such file"):
        open_catalogue(tmp_path / "nowhere")


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="limit"):
        open_catalogue(limit=0)
    with pytest.raises(ValueError, match="need data="):
        open_catalogue(nouns="spacy")
    with pytest.raises(ValueError, match="products at least"):
        open_catalogue({"human": "x.json"})


@pytest.mark.parametrize(("kind", "file"), [("human", "items_human_ins.json"), ("synthetic", "items_ins_v2.json")])
def test_products_without_the_file_of_their_goals(tmp_path: Path, kind: str, file: str) -> None:
    write(tmp_path, [product()], None, None)
    with pytest.raises(ValueError, match=rf"no {kind} goals: they come from the file of .*{file}"):
        gymnasium.make("AgentR1/WebShop-v0", data=str(tmp_path / "products.json"), goals=kind, nouns="fallback")
