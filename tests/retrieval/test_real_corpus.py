import json

import numpy as np
from rank_bm25 import BM25Okapi

from agent_r1_envs.retrieval import OkapiRetriever, Passage, words
from tests.data import real_data


def test_scores_equal_rank_bm25_on_the_2wiki_corpus() -> None:
    rows = json.loads((real_data("hotpotqa") / "2wikimultihopqa_corpus_6119.json").read_text(encoding="utf-8"))
    passages = [Passage(str(i), row["title"], row["text"]) for i, row in enumerate(rows)]
    ours, theirs = OkapiRetriever(passages), BM25Okapi([words(p.document) for p in passages])
    for query in ["Who is the mother of the director of film Polish-Russian War?", *(p.title for p in passages[::600])]:
        np.testing.assert_allclose(ours.scores(query), theirs.get_scores(words(query)), atol=1e-9, rtol=0)
