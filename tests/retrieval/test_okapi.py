import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from agent_r1_envs.retrieval import OkapiRetriever, Passage, words

PASSAGES = [
    Passage("a", "Lorin", "Lorin is a town on the river Vess."),
    Passage("b", "Vess", "The Vess is a river. It flows past Lorin and Marn."),
    Passage("c", "Marn", "Marn is the seat of the duke."),
    Passage("d", "Duke", "A duke of Marn wrote three books on bees."),
]


def reference(passages: list[Passage], query: str) -> np.ndarray:
    return BM25Okapi([words(p.document) for p in passages]).get_scores(words(query))


@pytest.mark.parametrize("query", ["river Vess", "the the duke", "unknown", "", "Marn marn MARN bees", "a is of"])
def test_scores_equal_rank_bm25(query: str) -> None:
    np.testing.assert_allclose(OkapiRetriever(PASSAGES).scores(query), reference(PASSAGES, query), atol=1e-12, rtol=0)


small_word = st.sampled_from("a b c d e f g h i j".split())
document = st.lists(small_word, max_size=12).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(st.lists(document, min_size=1, max_size=12).filter(lambda ds: any(ds)), st.lists(small_word, max_size=6))
def test_search_equals_a_full_sort(documents: list[str], terms: list[str]) -> None:
    passages = [Passage(str(i), "", text) for i, text in enumerate(documents)]
    query = " ".join(terms)
    index = OkapiRetriever(passages)
    expected = reference(passages, query)
    np.testing.assert_allclose(index.scores(query), expected, atol=1e-12, rtol=0)
    holds = [i for i, text in enumerate(documents) if set(text.split()) & set(terms)]
    scores = index.scores(query)
    ranked = sorted(holds, key=lambda i: (-scores[i], i))
    for k in (1, 3, 100):
        hits = index.search(query, k)
        assert [int(h.passage.id) for h in hits] == ranked[:k]
        assert [h.score for h in hits] == [scores[i] for i in ranked[:k]]


def test_equal_scores_keep_the_order_of_passages() -> None:
    passages = [Passage(str(i), "", "rain" if i % 2 else "sun and wind") for i in range(3000)]
    hits = OkapiRetriever(passages).search("sun", 5)
    assert [h.passage.id for h in hits] == ["0", "2", "4", "6", "8"]


def test_a_word_of_half_of_the_passages_still_matches() -> None:
    hits = OkapiRetriever([Passage("0", "", "red"), Passage("1", "", "blue")]).search("blue", 5)
    assert [(h.passage.id, h.score) for h in hits] == [("1", 0.0)]


def test_search_batch_is_search_repeated() -> None:
    index = OkapiRetriever(PASSAGES)
    queries = ["duke", "river", "nothing"]
    assert index.search_batch(queries, 2) == [index.search(q, 2) for q in queries]


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_bad_k_is_refused(k: object) -> None:
    with pytest.raises(ValueError, match="k must be"):
        OkapiRetriever(PASSAGES).search("duke", k)  # type: ignore[arg-type]


@pytest.mark.parametrize("passages", [[], [Passage("0", "", "...")]])
def test_nothing_to_index_is_refused(passages: list[Passage]) -> None:
    with pytest.raises(ValueError, match="no passage that holds a word"):
        OkapiRetriever(passages)


@pytest.mark.parametrize("parameter", [{"k1": -1}, {"k1": float("nan")}, {"k1": float("inf")}, {"b": 2}, {"b": -0.1},
                                       {"epsilon": float("inf")}])  # fmt: skip
def test_parameters_out_of_range_are_refused(parameter: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected k1 >= 0, 0 <= b <= 1 and a finite epsilon"):
        OkapiRetriever(PASSAGES, **parameter)


def test_content_hash_tells_indexes_apart() -> None:
    base = OkapiRetriever(PASSAGES)
    assert base.content_hash == OkapiRetriever(list(PASSAGES)).content_hash
    assert base.content_hash != OkapiRetriever(PASSAGES[:-1]).content_hash
    assert base.content_hash != OkapiRetriever(PASSAGES, k1=1.2).content_hash
