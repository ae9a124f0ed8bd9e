import json
from collections.abc import Sequence
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.webshop.catalogue.nouns import fallback_nouns, find_tagger
from agent_r1_envs.webshop.catalogue.opening import open_catalogue
from tests.data import real_data


@pytest.mark.parametrize(
    ("title", "nouns"),
    [
        ("Women's Running-Shoes, Size 8.5 (2 Pack)", ["women", "running", "shoes", "size", "pack"]),
        ("The Lamp for the Lamp", ["lamp", "lamp"]),
        ("Fl.Oz 4pcs Größe’s", ["fl.oz", "größe"]),
        ("12 for 3", []),
        ("", []),
    ],
)
def test_the_fallback(title: str, nouns: list[str]) -> None:
    assert list(next(fallback_nouns([title]))) == nouns


@given(st.text())
def test_any_title_has_lower_cased_nouns(title: str) -> None:
    assert all(noun == noun.lower() and not noun.isspace() for noun in next(fallback_nouns([title])))


def test_how_often_the_fallback_changes_the_type_of_a_purchase() -> None:
    golden = json.loads((real_data("webshop") / "golden" / "real1k_nouns_walks.json").read_text())
    catalogue = open_catalogue(real_data("webshop"), nouns="fallback", store="memory")
    assert catalogue.protocol()["nouns"] == "fallback"
    chosen = list(golden)[::8]
    ours = {asin: catalogue.nouns(catalogue.position_of(asin)) for asin in chosen}
    pairs = [(bought, wanted) for bought in chosen for wanted in chosen if bought != wanted]
    changed = sum(
        _type(golden[bought], golden[wanted]) != _type(ours[bought], ours[wanted]) for bought, wanted in pairs
    ) / len(pairs)
    print(f"the fallback changes the type of {changed:.1%} of {len(pairs)} purchases of another product")
    assert changed < 0.04
    assert all(_type(ours[asin], ours[asin]) == 1.0 for asin in chosen)


def _type(bought: Sequence[str], wanted: Sequence[str]) -> float:
    share = len(set(bought) & set(wanted)) / len(wanted) if wanted else 0.2
    return 0.0 if share == 0 else 0.1 if share < 0.1 else 1.0 if share > 0.2 else 0.5


def test_without_spacy_the_error_names_the_command() -> None:
    if find_tagger() is None:
        with pytest.raises(ImportError, match=r"pip install 'agent-r1\[spacy\]'"):
            open_catalogue(real_data("webshop"), nouns="spacy", store="memory")
    else:
        golden = json.loads((real_data("webshop") / "golden" / "real1k_nouns_rewards.json").read_text())
        catalogue = open_catalogue(real_data("webshop"), nouns="spacy", store="memory", limit=100)
        assert catalogue.noun_source == "spacy" and find_spec(catalogue.noun_model) is not None
        for place in range(len(catalogue)):
            assert list(catalogue.nouns(place)) == golden[catalogue.product(place).asin]
