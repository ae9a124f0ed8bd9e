from typing import Any

import pytest

from agent_r1_envs.retrieval import OkapiRetriever, Passage, Retriever, make_retriever
from agent_r1_envs.retrieval.http import HttpRetriever

PASSAGES = [Passage("a", "Lorin", "A town."), Passage("b", "Vess", "A river.")]


def test_okapi_by_name() -> None:
    retriever = make_retriever("okapi", PASSAGES)
    assert isinstance(retriever, OkapiRetriever) and retriever.search("river", 1)[0].passage is PASSAGES[1]
    tuned = make_retriever({"name": "okapi", "k1": 0.9}, PASSAGES)
    assert isinstance(tuned, OkapiRetriever) and tuned.parameters["k1"] == 0.9


def test_url() -> None:
    retriever = make_retriever({"url": "http://127.0.0.1:9/retrieve", "timeout": 3})
    assert isinstance(retriever, HttpRetriever) and retriever.endpoint.timeout == 3


def test_path(tmp_path: Any) -> None:
    OkapiRetriever(PASSAGES).save(tmp_path / "index")
    assert make_retriever({"path": str(tmp_path / "index")}).search("town", 1)[0].passage == PASSAGES[0]


def test_module_factory() -> None:
    retriever = make_retriever("agent_r1_envs.retrieval:OkapiRetriever", PASSAGES)
    assert retriever.search("town", 1)[0].passage == PASSAGES[0]


def test_live_object() -> None:
    live = OkapiRetriever(PASSAGES)
    assert isinstance(live, Retriever) and make_retriever(live) is live


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("okapi", "none were given"),
        ("lucene", "unknown retriever 'lucene'"),
        ("no_such_module:factory", "cannot load"),
        ("agent_r1_envs.retrieval:nothing", "cannot load"),
        ({}, "unknown retriever"),
        ({"url": "http://127.0.0.1", "colour": 1}, "bad options .*colour"),
        (7, "unknown retriever 7"),
        (None, "unknown retriever None"),
        (OkapiRetriever, "unknown retriever <class"),
    ],
)
def test_bad_specs_are_explained(spec: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_retriever(spec)


def test_a_factory_must_return_a_retriever() -> None:
    with pytest.raises(TypeError, match="no search and search_batch"):
        make_retriever("builtins:repr", PASSAGES)
