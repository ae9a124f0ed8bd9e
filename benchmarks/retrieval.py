"""Is ``OkapiRetriever`` rank_bm25, only faster?  Scores and times of both, in one process.

    python benchmarks/retrieval.py [--corpus FILE] [--passages 50000] [--queries 40]

Two collections: a JSON list of ``{title, text}`` (the 2Wiki corpus of 6,119 passages, when it is at hand) and one that
is generated from a fixed seed with word frequencies as in natural text. For each it prints the largest difference
between the scores, the time of a query (scores and the best ten passages) and their ratio. Exit status 1 when a score
differs by more than 1e-9, or a query on the generated collection is less than 100 times faster.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

from agent_r1_envs.retrieval import OkapiRetriever, Passage, words

DATA = Path(os.environ.get("AGENT_R1_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
CORPUS = DATA / "hotpotqa" / "2wikimultihopqa_corpus_6119.json"
K = 10


def read(path: Path) -> list[Passage]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [Passage(str(i), row["title"], row["text"]) for i, row in enumerate(rows)]


def generate(size: int, seed: int = 0) -> list[Passage]:
    """Passages of 20 to 120 words; word number r is drawn with a probability proportional to 1 / (r + 2.7)."""
    rng = np.random.default_rng(seed)
    vocabulary = np.array([f"w{r}" for r in range(100_000)])
    share = np.cumsum(1.0 / (np.arange(len(vocabulary)) + 2.7))
    lengths = rng.integers(20, 121, size=size)
    drawn = vocabulary[np.searchsorted(share, rng.random(lengths.sum()) * share[-1])]
    parts = np.split(drawn, np.cumsum(lengths)[:-1])
    return [Passage(str(i), " ".join(part[:2]), " ".join(part[2:])) for i, part in enumerate(parts)]


def questions(passages: list[Passage], count: int, seed: int = 1) -> list[str]:
    """Twelve words in a row out of a random passage: frequent and rare words as they come in text."""
    rng = np.random.default_rng(seed)
    picked = [words(passages[i].document) for i in rng.integers(len(passages), size=count)]
    return [" ".join(text[len(text) // 3 :][:12]) for text in picked]


def seconds(call: Callable[[str], object], queries: list[str], rounds: int) -> float:
    """The median time of a call."""
    times = []
    for query in queries * rounds:
        begin = time.perf_counter()
        call(query)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def compare(name: str, passages: list[Passage], queries: list[str]) -> tuple[float, float]:
    begin = time.perf_counter()
    ours = OkapiRetriever(passages)
    built = time.perf_counter() - begin
    theirs = BM25Okapi([words(p.document) for p in passages])
    places = list(range(len(passages)))
    difference = max(float(np.abs(ours.scores(q) - theirs.get_scores(words(q))).max()) for q in queries)
    fast = seconds(lambda q: ours.search(q, K), queries, rounds=5)
    slow = seconds(lambda q: theirs.get_top_n(words(q), places, K), queries, rounds=1)
    print(
        f"{name}: {len(passages):,} passages, {len(queries)} queries of {len(words(queries[0]))} words\n"
        f"  index built in {built:.2f} s; largest difference of a score {difference:.1e}\n"
        f"  a query: rank_bm25 {slow * 1e3:.2f} ms, OkapiRetriever {fast * 1e6:.0f} us, {slow / fast:.0f} times faster"
    )
    return difference, slow / fast


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--passages", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=40)
    args = parser.parse_args()
    differences = []
    if args.corpus.is_file():
        real = read(args.corpus)
        differences.append(compare(args.corpus.name, real, questions(real, args.queries))[0])
    else:
        print(
            f"{args.corpus} is not there: set AGENT_R1_TEST_DATA or --corpus; only the generated collection is measured"
        )
    generated = generate(args.passages)
    difference, ratio = compare("generated", generated, questions(generated, args.queries))
    return int(max(*differences, difference) > 1e-9 or ratio < 100)


if __name__ == "__main__":
    sys.exit(main())
