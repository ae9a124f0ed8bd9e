"""Official formats, and errors that say where."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_r1_envs.errors import DataError
from agent_r1_envs.paper_search import iter_papers, load_queries
from agent_r1_envs.paper_search.env import PaperSearchEnv
from tests.data import real_data


def write(path: Path, *rows: Any) -> str:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


AUTO = {
    "qid": "q0",
    "question": "Papers on sand?",
    "answer": ["Sieves", "Sieves again"],
    "answer_arxiv_id": ["2001.00001v2", "2001.00001"],
    "source_meta": {"published_time": "20230325"},
}
LIT = {"query_set": "inline", "query": "papers on sand", "specificity": 0, "quality": 2, "corpusids": [7, 8, 7]}
SPAR = {
    "question": "sand?",
    "answer": ["Sieves"],
    "source_meta": {
        "published_time": "20250320",
        "answers": [{"paperID": "abc", "title": "Sieves", "abstract": None, "year": 2020}, {"title": "No  Id"}],
    },
}
AGENT = {
    "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "papers on sand"}],
    "reward_model": {"ground_truth": None},
    "extra_info": {"index": 4},
    "agent_name": "paper_search",
}


def test_real_files() -> None:
    folder = real_data("paper_search")
    auto = load_queries(folder, split="validation")
    assert len(auto) == 1000 and auto.dataset == "autoscholar" and auto.split == "validation"
    first = auto[auto.index_of("AutoScholarQuery_dev_2")]
    assert first.answers == ("1810.12281", "1706.05350"), "without versions"
    assert first.titles[1].startswith("L2 Regularization") and first.cutoff == "20221003"
    assert all(len(set(task.answers)) == len(task.answers) == len(task.titles) for task in auto)
    spar = load_queries(folder / "spar_bench.jsonl")
    assert len(spar) == 50 and spar.dataset == "spar" and spar[0].cutoff == "20250320"
    papers = {record.paper.id for record in iter_papers(folder / "spar_bench.jsonl")}
    assert papers == {answer for task in spar for answer in task.answers} and len(papers) > 450


def test_formats(tmp_path: Path) -> None:
    [task] = load_queries(write(tmp_path / "a.jsonl", AUTO))
    assert (task.answers, task.titles) == (("2001.00001",), ("Sieves",)), "one paper in two versions is one answer"
    [task] = load_queries(write(tmp_path / "l.jsonl", LIT))
    assert (task.id, task.question, task.answers) == ("litsearch-0001", "papers on sand", ("7", "8"))
    [task] = load_queries(write(tmp_path / "s.jsonl", SPAR))
    assert task.answers == ("abc", "title:no id") and task.titles == ("Sieves", "No  Id")
    [task] = load_queries(write(tmp_path / "g.jsonl", AGENT))
    assert (task.id, task.question, task.answers) == ("agent-r1-000004", "papers on sand", ())
    rows = [
        {**AGENT, "extra_info": {"index": "4"}},
        {**AGENT, "extra_info": None},
        {"prompt": AGENT["prompt"], "reward_model": {}},
    ]
    assert load_queries(write(tmp_path / "h.jsonl", *rows)).ids == ("agent-r1-000004", "row-000001", "row-000002")


def test_parquet(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([AGENT]), tmp_path / "train.parquet")
    [task] = load_queries(tmp_path, split="train")
    assert task.question == "papers on sand"


def test_litsearch_corpus_and_queries_make_an_env(tmp_path: Path) -> None:
    queries = write(tmp_path / "q.jsonl", LIT)
    papers = [{"corpusid": n, "title": f"Sand {n}", "abstract": "sieves", "citations": [n + 1]} for n in (7, 8, 9)]
    corpus = write(tmp_path / "c.jsonl", *papers)
    env = PaperSearchEnv("test", data=queries, backend={"path": corpus})
    env.reset()
    while (action := env.expert_action()) is not None:
        *_, info = env.step(action)
    assert info["score"] == 1.0 and info["dataset"] == "litsearch"


def test_queries_need_something_to_search_and_someone_to_judge(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no papers to search: pass backend"):
        PaperSearchEnv(data=write(tmp_path / "a.jsonl", AUTO))
    with pytest.raises(ValueError, match="without answers: pass relevance"):
        PaperSearchEnv(data=write(tmp_path / "g.jsonl", AGENT), backend="tests.helpers.papers:small_backend")
    judge = {"name": "judge", "url": "http://127.0.0.1:9/v1", "model": "m"}
    env = PaperSearchEnv(data=str(tmp_path / "g.jsonl"), backend="tests.helpers.papers:small_backend", relevance=judge)
    _, info = env.reset()
    assert info["score"] == 0.0 and not info["success"] and env.expert_action() == "finish[done]"


def test_spar_brings_its_papers() -> None:
    env = PaperSearchEnv("test", data=str(real_data("paper_search") / "spar_bench.jsonl"), use_cutoff=False)
    scores = []
    for position in range(len(env.tasks)):
        env.reset(options={"task": position})
        while (action := env.expert_action()) is not None:
            *_, info = env.step(action)
        scores.append(info["score"])
    assert min(scores) > 0.9


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**AUTO, "answer_arxiv_id": ["a"]}, r"line 1, field answer: expected one title for each of 1 ids, found 2"),
        ({**AUTO, "answer_arxiv_id": [], "answer": []}, "field answer_arxiv_id: expected at least one id"),
        ({**AUTO, "answer_arxiv_id": [3, 4]}, r"answer_arxiv_id\[0\]: expected a string"),
        ({**AUTO, "question": " "}, "field question: expected a string that is not blank"),
        ({**AUTO, "question": "\ud800"}, "valid Unicode"),
        ({**AUTO, "source_meta": {"published_time": "May"}}, "published_time: expected a date YYYYMMDD"),
        ({**LIT, "corpusids": [None]}, "corpusids: expected the id of a paper, found null"),
        ({**SPAR, "source_meta": {"answers": []}}, "answers: expected at least one paper"),
        ({**AGENT, "prompt": [{"role": "system", "content": "x"}]}, "expected a message of the user"),
        (
            {**AGENT, "extra_info": {"index": [4]}},
            r"extra_info.index: expected an id \(string or integer\), found a list",
        ),
        ({"x": 1}, "expected a row of autoscholar, deepscholar"),
        ("{", "bad JSON"),
    ],
)
def test_damaged_queries(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_queries(write(tmp_path / "x.jsonl", row))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"title": "a"}], "field id: expected one of id, arxiv_id"),
        ([{"id": "a"}], "field title"),
        ([{"id": "a", "title": "t"}, {"id": "a", "title": "t"}], "line 2, field id: expected a new id"),
        ([{"id": "a", "title": "t", "references": [[]]}], r"references\[0\]: expected the id"),
        ([{"id": True, "title": "t"}], "expected the id of a paper"),
        ([{"id": "a", "title": ""}], "expected papers with words"),
    ],
)
def test_damaged_corpora(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        PaperSearchEnv(backend={"path": write(tmp_path / "x.jsonl", *rows)})


def test_missing_files(tmp_path: Path) -> None:
    for call in (lambda: load_queries("nowhere.jsonl"), lambda: list(iter_papers("nowhere.jsonl"))):
        with pytest.raises(DataError, match=r"no such file or folder: nowhere\.jsonl"):
            call()
    with pytest.raises(DataError, match=r"expected one of AutoScholarQuery_train\.jsonl"):
        load_queries(tmp_path, split="train")
    with pytest.raises(ValueError, match="split must be one of"):
        load_queries(tmp_path, split="all")
    with pytest.raises(ValueError, match="data_format must be"):
        load_queries(tmp_path, data_format="bibtex")
    with pytest.raises(DataError, match="expected a new id"):
        load_queries(write(tmp_path / "twice.jsonl", AUTO, AUTO))
