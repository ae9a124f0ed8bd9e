import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.retrieval.lucene import LuceneBuilder, LuceneIndex, decode_length, encode_length

F = np.float32
WORDS = st.lists(st.sampled_from("lamp red steel shade the sofa cotton".split()), max_size=60)


def build(documents: list[list[str]], names: list[str]) -> LuceneIndex:
    builder = LuceneBuilder(str.split)
    for words, name in zip(documents, names, strict=True):
        builder.add(" ".join(words), name)
    return builder.finish()


def reference(documents: list[list[str]], names: list[str], query: list[str]) -> list[int]:
    """The formula, document by document, in single precision where Lucene has it."""
    filled = [words for words in documents if words]
    average = F(sum(map(len, filled)) / max(len(filled), 1))
    ranked = []
    for place, words in enumerate(documents):
        length = F(decode_length(encode_length(len(words))))
        cached = F(1) / (F(0.9) * ((F(1) - F(0.4)) + F(0.4) * length / average)) if filled else F(0)
        total = 0.0
        for term, times in Counter(query).items():
            frequency = sum(term in other for other in documents)
            if term in words:
                weight = F(times) * F(math.log(1 + (len(filled) - frequency + 0.5) / (frequency + 0.5)))
                total += float(weight - weight / (F(1) + F(words.count(term)) * cached))
        if total > 0:
            ranked.append((-float(F(total)), names[place], place))
    return [place for _, _, place in sorted(ranked)]


@given(st.lists(WORDS, max_size=12), WORDS, st.permutations(range(12)), st.integers(1, 13))
def test_the_order_is_that_of_the_formula(
    documents: list[list[str]], query: list[str], order: list[int], k: int
) -> None:
    names = [f"B{order[place]:02d}" for place in range(len(documents))]
    found = build(documents, names).search(" ".join(query), k).tolist()
    assert found == reference(documents, names, query)[:k]


def test_equal_scores_go_by_name() -> None:
    assert build([["lamp"], ["lamp"], ["lamp"]], ["C", "A", "B"]).search("lamp", 2).tolist() == [1, 2]


def test_lengths_lose_all_but_four_bits_past_forty() -> None:
    kept = [decode_length(encode_length(length)) for length in range(3000)]
    assert kept[:40] == list(range(40))
    assert all(0 <= length - short <= (length - 24) / 8 for length, short in enumerate(kept) if length >= 40)
    assert kept == sorted(kept)
    assert encode_length(2**31 - 1) == 255


def test_many_documents_are_placed_chunk_by_chunk() -> None:
    from agent_r1_envs.retrieval import lucene as lucene_build

    documents = [[f"w{(place * step) % 97}" for step in range(1, 9)] for place in range(400)]
    names = [f"{place:03d}" for place in range(400)]
    whole = build(documents, names)
    before, lucene_build._CHUNK = lucene_build._CHUNK, 100  # type: ignore[misc]
    try:
        parts = build(documents, names)
    finally:
        lucene_build._CHUNK = before  # type: ignore[misc]
    assert np.array_equal(whole.documents, parts.documents) and np.array_equal(whole.counts, parts.counts)


def test_an_index_without_words_finds_nothing() -> None:
    assert build([[], []], ["A", "B"]).search("lamp", 5).tolist() == []
    assert build([], []).search("lamp", 5).tolist() == []
