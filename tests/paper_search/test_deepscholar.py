"""The 952 real papers of a DeepScholar corpus."""

import json
from collections import defaultdict
from pathlib import Path

import gymnasium
import pytest

from agent_r1_envs.paper_search.backends import Expand, Limits, Search
from agent_r1_envs.paper_search.env import PaperSearchEnv
from agent_r1_envs.paper_search.papers.identity import paper_key
from agent_r1_trainer.bench.run import BenchRun
from agent_r1_trainer.bench.settings import BenchSettings, parse_agent
from tests.data import real_data


@pytest.fixture
def corpus_file() -> Path:
    return real_data("paper_search") / "deepscholar_corpus.jsonl"


def edges(file: Path) -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """Read the edges within the file with nothing of the package but the equality of ids."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    names = {paper_key(row["arxiv_id"]) for row in rows}
    cites: dict[str, list[str]] = {}
    cited: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        keys = [paper_key(r["arxiv_id"]) for r in row["references"] if r["arxiv_id"]]
        cites[row["arxiv_id"]] = [key for key in dict.fromkeys(keys) if key in names]
        for key in cites[row["arxiv_id"]]:
            cited[key].add(row["arxiv_id"])
    return cites, cited


def test_expand_returns_exactly_the_edges_in_both_directions(corpus_file: Path) -> None:
    env = PaperSearchEnv("test", data=str(corpus_file))
    cites, cited = edges(corpus_file)
    assert len(cites) == 952
    assert sum(map(len, cites.values())) == 956, "958 in the file, of which two are there twice"
    for key, references in cites.items():
        [found] = env.backend.look_up([Expand(key)], Limits(citations=1000))
        citing = cited[key]
        got = [paper.id for paper in found.papers]
        assert set(got[: len(citing)]) == citing
        assert got[len(citing) :] == [reference for reference in references if reference not in citing]


def test_a_query_about_related_work_reaches_the_references(corpus_file: Path) -> None:
    env = gymnasium.make("AgentR1/PaperSearch-v0", split="test", data=str(corpus_file))
    bare = env.unwrapped
    assert isinstance(bare, PaperSearchEnv)
    cites, _ = edges(corpus_file)
    assert len(bare.tasks) == 63
    for position, task in enumerate(bare.tasks):
        assert list(task.answers) == cites[task.id]
        _, info = env.reset(options={"task": position})
        [found] = bare.backend.look_up([Search(task.question)], bare.limits, task.cutoff)
        assert found.papers[0].id == task.id, "the paper itself comes first, and leads to what it cites"
        env.step(f"search[{task.question}]")
        *_, info = env.step(f"expand[{task.id}]")
        assert info["score"] == 1.0 and info["success"]


@pytest.mark.parametrize(("agent", "least", "most"), [("random", 0.0, 0.3), ("expert", 1.0, 1.0)])
def test_bench(corpus_file: Path, tmp_path: Path, agent: str, least: float, most: float) -> None:
    settings = BenchSettings("AgentR1/PaperSearch-v0", parse_agent(agent), env_kwargs={"data": str(corpus_file)})
    run = BenchRun(settings, tmp_path)
    summary = run.run()
    assert summary.episodes == 63 and summary.failed == 0 and least <= summary.score.value <= most
    assert summary.invalid_rate.value == 0.0
