"""How fast is a large local literature, and how much memory does it take?

    python benchmarks/paper_search.py [--papers 200000] [--folder FOLDER]

A corpus is generated from a fixed seed: titles and abstracts of 60 to 180 words with frequencies as in natural text,
and about 12 references a paper, mostly to papers that are cited often. It is indexed, saved and mapped into memory by a
process of its own, whose resident memory is measured after all queries. Exit status 1 when the median search takes more
than 5 ms, the median expansion more than 1 ms (of processor time, so that a busy machine does not count), or the
process more than 2 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from agent_r1_envs.paper_search import Corpus, CorpusBackend, Paper, PaperRecord
from agent_r1_envs.paper_search.backends import Expand, Limits, Lookup, Search

SEARCHES, EXPANSIONS = 300, 2000
BARS = {"search": 5.0, "expand": 1.0}
MOST_MEMORY = 2e9


def generate(size: int, seed: int = 0) -> Iterator[PaperRecord]:
    """Papers in the order of their dates; word number r comes with a probability proportional to 1 / (r + 2.7)."""
    rng = np.random.default_rng(seed)
    vocabulary = [f"w{r}" for r in range(200_000)]
    share = np.cumsum(1.0 / (np.arange(len(vocabulary)) + 2.7))
    for number in range(size):
        drawn = np.searchsorted(share, rng.random(int(rng.integers(60, 181))) * share[-1]).tolist()
        words = [vocabulary[place] for place in drawn]
        date = str(2000 + 24 * number // size) + "0615"
        # The square pulls references towards early papers, as fame does; 30 and more citations are common there.
        cited = {int(place) for place in number * rng.random(12) ** 2} if number else set()
        references = tuple(f"{place:07d}" for place in cited)
        yield PaperRecord(Paper(f"{number:07d}", " ".join(words[:10]), " ".join(words[10:]), date), references)


def peak_memory() -> float:
    """The most bytes that this process had in memory; getrusage would count those of its parent as well."""
    if not Path("/proc/self/status").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    status = Path("/proc/self/status").read_text()
    return 1024.0 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def milliseconds(call: Callable[[Lookup], object], lookups: list[Lookup]) -> dict[str, float]:
    """The median of the wall clock, and median and 95th percentile of the processor's time, of a call."""
    wall, cpu = [], []
    for lookup in lookups:
        begin, began = time.perf_counter(), time.process_time()
        call(lookup)
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - began)
    figures = {"wall": np.median(wall), "wall_p95": np.percentile(wall, 95), "cpu": np.median(cpu)}
    return {name: float(value) * 1e3 for name, value in {**figures, "cpu_p95": np.percentile(cpu, 95)}.items()}


def measure(folder: Path) -> dict[str, float]:
    """Open a saved corpus and time look-ups, half of them within a cut-off date."""
    begin = time.perf_counter()
    backend = CorpusBackend(Corpus.open(folder, verify=False))
    opened = time.perf_counter() - begin
    rng = np.random.default_rng(1)
    papers = [backend.corpus.paper(int(i)) for i in rng.integers(len(backend.corpus), size=EXPANSIONS)]
    limits = Limits()
    figures = {"open_s": opened}
    for name, lookups in (
        ("search", [Search(" ".join(p.abstract.split()[:8])) for p in papers[:SEARCHES]]),
        ("expand", [Expand(p.id) for p in papers]),
    ):
        cutoffs = iter(["", "20120615"] * len(lookups))
        timed = milliseconds(
            lambda lookup, cutoffs=cutoffs: backend.look_up([lookup], limits, next(cutoffs)),  # type: ignore[misc]
            lookups,
        )
        figures |= {f"{name}_{figure}": value for figure, value in timed.items()}
    figures["resident"] = peak_memory()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--papers", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, help="where the corpus is kept; a temporary folder without it")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch) / "corpus"
        if not (folder / "corpus.json").exists():
            begin = time.perf_counter()
            corpus = Corpus.of(generate(args.papers))
            built = time.perf_counter() - begin
            corpus.save(folder)
            print(
                f"built from {args.papers:,} papers and {corpus.graph.edges:,} references in {built:.0f} s, "
                f"saved in {time.perf_counter() - begin - built:.0f} s; {peak_memory() / 1e9:.2f} GB at most"
            )
            del corpus
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        done = subprocess.run(
            [sys.executable, __file__, "--measure", str(folder)], check=True, capture_output=True, text=True
        )
    figures = json.loads(done.stdout)
    for name, bar in BARS.items():
        times = [f"{figures[f'{name}_{kind}']:.2f}" for kind in ("cpu", "cpu_p95", "wall", "wall_p95")]
        print(
            f"{name}: median {times[0]} ms, p95 {times[1]} ms of processor time (bar of the median {bar:g} ms); "
            f"{times[2]} and {times[3]} ms by the clock"
        )
    print(
        f"opened in {figures['open_s']:.2f} s; {size / 1e9:.2f} GB on disk; {figures['resident'] / 1e9:.2f} GB "
        "resident after all queries, mapped pages included"
    )
    return int(any(figures[f"{name}_cpu"] > bar for name, bar in BARS.items()) or figures["resident"] > MOST_MEMORY)


if __name__ == "__main__":
    sys.exit(main())
