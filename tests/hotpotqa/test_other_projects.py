"""A golden row of every project's files that are read, as that project writes it."""

import functools
import gzip
import json
import operator
import random
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import agent_r1_envs  # noqa: F401
from agent_r1_envs.errors import DataError
from agent_r1_envs.hotpotqa import iter_corpus, load_questions
from agent_r1_envs.hotpotqa.rows import Format

LATE = (
    "You FIRST think and then provide the final answer, which MUST BE put in <answer> </answer> tags."  # as theirs ends
)
EARLY = "Answer the given question.\n</think>\n<answer>\n...\n</answer>\n"
SEARCH_R1 = "Answer the given question. For example, <answer> Beijing </answer>. Question: "

FLASHRAG = {
    "id": "dev_0",
    "question": "who directed a?",
    "golden_answers": ["B", "Bee"],
    "metadata": {
        "type": "bridge",
        "level": "hard",
        "supporting_facts": {"title": ["A"], "sent_id": [0]},
        "context": {"title": ["A", "C"], "content": [["A is a film.", "B directed it."], ["C is a town."]]},
    },
}
SEARCH = {
    "id": "test_0",
    "question": "who directed a?",
    "golden_answers": ["B", "Bee"],
    "data_source": "nq",
    "prompt": [{"role": "user", "content": f"{SEARCH_R1}who directed a?\n"}],
    "ability": "fact-reasoning",
    "reward_model": {"style": "rule", "ground_truth": {"target": ["B", "Bee"]}},
    "extra_info": {"split": "test", "index": 0},
}
RECIPE = {
    "data_source": "musique",
    "prompt": [{"role": "user", "content": "Who directed A?"}],
    "reward_model": {"ground_truth": "B", "style": "rule"},
    "extra_info": {
        "index": 3,
        "question_id": "2hop__1_2",
        "split": "validation",
        "source_dataset": "musique",
        "answers": ["B", "Bee"],
    },
}
APRIL_2025 = {
    "data_source": "hotpotqa/hotpot_qa",
    "prompt": [{"role": "user", "content": f"{EARLY}Question: Who directed A?"}],
    "ability": "multihop_qa",
    "reward_model": {"style": "rule", "ground_truth": "B"},
    "extra_info": {
        "split": "train",
        "index": "7",
        "answer": "B",
        "question": "Who directed A?",
        "supporting_facts": '[["A", 0]]',
        "level": "hard",
        "type": "bridge",
    },
}
MAY_2025 = {
    "supporting_facts": '[["A", 0]]',
    "level": "hard",
    "type": "bridge",
    "data_source": "hotpotqa/hotpot_qa",
    "prompt": [{"role": "user", "content": f"Question: Who directed A?\n{LATE}"}],
    "ability": "multihop_qa",
    "reward_model": {"style": "rule", "ground_truth": "B"},
}
MAY_2025_2WIKI = {
    "_id": "q9",
    "type": "inference",
    "question": "Who directed A?",
    "context": json.dumps([["A", ["A is a film.", "B directed it."]], ["C", ["C is a town."]]]),
    "entity_ids": "Q1_Q2",
    "supporting_facts": '[["A", 0], ["A", 1]]',
    "evidences": '[["A", "director", "B"]]',
    "answer": "B",
    **{key: MAY_2025[key] for key in ("prompt", "ability", "reward_model")},
    "data_source": "xanhho/2WikiMultihopQA",
}
MAY_2025_MUSIQUE = {
    "id": "2hop__1_2",
    "paragraphs": [{"idx": 0, "title": "A", "paragraph_text": "B directed A.", "is_supporting": True}],
    "question": "Who directed A?",
    "question_decomposition": [{"id": 1, "question": "A", "answer": "B", "paragraph_support_idx": 0}],
    "answer": "B",
    "answer_aliases": ["Bee"],
    "answerable": True,
    **{key: MAY_2025[key] for key in ("prompt", "ability", "reward_model")},
    "data_source": "bdsaglam/musique",
}
GOLDEN: dict[str, tuple[dict[str, Any], str, str, str, tuple[str, ...], int]] = {
    # row; data set, id, question, answers, paragraphs
    "FlashRAG": (FLASHRAG, "flashrag", "dev_0", "who directed a?", ("B", "Bee"), 2),
    "Search-R1": (SEARCH, "search-r1", "nq/test/0", "who directed a?", ("B", "Bee"), 0),
    "Agent-R1's recipe": (RECIPE, "agent-r1", "2hop__1_2", "Who directed A?", ("B", "Bee"), 0),
    "Agent-R1, April 2025": (APRIL_2025, "agent-r1", "hotpotqa/hotpot_qa/train/7", "Who directed A?", ("B",), 0),
    "Agent-R1, May 2025": (MAY_2025, "agent-r1", "row-000000", "Who directed A?", ("B",), 0),
    "its 2Wiki": (MAY_2025_2WIKI, "2wikimultihopqa", "q9", "Who directed A?", ("B",), 2),
    "its MuSiQue": (MAY_2025_MUSIQUE, "musique", "2hop__1_2", "Who directed A?", ("B", "Bee"), 1),
}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def table(path: Path, *rows: dict[str, Any]) -> Path:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(list(rows)), path)
    return path


@pytest.mark.parametrize("name", GOLDEN)
def test_a_row_of_every_project_is_read(tmp_path: Path, name: str) -> None:
    row, dataset, id, question, answers, paragraphs = GOLDEN[name]
    [read] = load_questions(lines(tmp_path / "x.jsonl", row))
    assert (read.dataset, read.id, read.question, read.answers) == (dataset, id, question, answers)
    assert len(read.paragraphs) == paragraphs and bool(read.gold) == bool(paragraphs)
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(row).encode() + b"\r\n\r\n"))
    assert load_questions(packed)[0] == load_questions(table(tmp_path / "x.parquet", row))[0] == read


def test_the_details_that_stand_beside_a_question_are_kept(tmp_path: Path) -> None:
    [read] = load_questions(lines(tmp_path / "x.jsonl", FLASHRAG))
    assert (read.type, read.level, read.supporting) == ("bridge", "hard", (("A", 0),))
    assert read.paragraphs[0].text == "A is a film. B directed it."
    [read] = load_questions(lines(tmp_path / "y.jsonl", MAY_2025_2WIKI))
    assert read.supporting == (("A", 0), ("A", 1)) and read.gold == (0,)


def test_rows_of_several_sources_keep_apart_where_their_own_ids_do_not(tmp_path: Path) -> None:
    rows = [SEARCH, {**SEARCH, "data_source": "hotpotqa"}, {**SEARCH, "extra_info": {"split": "test", "index": 1}}]
    ids = load_questions(table(tmp_path / "test.parquet", *rows)).ids
    assert ids == ("nq/test/0", "hotpotqa/test/0", "nq/test/1")
    with pytest.raises(DataError, match="row 1, field id: expected a new id, found 'nq/test/0' of row 0 again"):
        load_questions(table(tmp_path / "twice.parquet", SEARCH, SEARCH))


def test_rows_without_ids_are_named_by_their_place_over_all_files(tmp_path: Path) -> None:
    for shard in range(2):
        table(tmp_path / f"train-0000{shard}-of-00002.parquet", MAY_2025, MAY_2025)
    assert load_questions(tmp_path).ids == ("row-000000", "row-000001", "row-000002", "row-000003")


def test_the_files_lie_under_the_names_that_the_scripts_gave_them(tmp_path: Path) -> None:
    table(tmp_path / "train_answerable_processed.parquet", MAY_2025_MUSIQUE)
    assert load_questions(tmp_path).dataset == "musique"
    table(tmp_path / "validation_processed.parquet", MAY_2025_2WIKI)
    assert load_questions(tmp_path, split="validation").dataset == "2wikimultihopqa"


@pytest.mark.parametrize(
    ("changes", "answers"),
    [
        ({"golden_answers": "B"}, ("B",)),
        ({"golden_answers": [1990, "", " ", "1990"]}, ("1990",)),
        ({"golden_answers": np.array(["B", "Bee"])}, ("B", "Bee")),
        ({"metadata": None}, ("B", "Bee")),
        ({"id": 7}, ("B", "Bee")),
    ],
)
def test_odd_but_clear_rows(tmp_path: Path, changes: dict[str, Any], answers: tuple[str, ...]) -> None:
    row = {**FLASHRAG, **changes}
    if isinstance(row["golden_answers"], np.ndarray):
        path = table(tmp_path / "x.parquet", row)
    else:
        path = lines(tmp_path / "x.jsonl", row)
    [read] = load_questions(path)
    assert read.answers == answers and read.id in ("dev_0", "7")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {**FLASHRAG, "golden_answers": []},
            "field golden_answers: expected an answer that is not blank, found a list of 0",
        ),
        ({**FLASHRAG, "golden_answers": None}, "field golden_answers: expected an answer .string., found null"),
        (
            {**FLASHRAG, "golden_answers": [float("nan")]},
            r"golden_answers\[0\]: expected an answer .*found the float nan",
        ),
        ({**FLASHRAG, "golden_answers": [["B"]]}, r"golden_answers\[0\]: expected an answer .*found a list of 1"),
        ({**FLASHRAG, "golden_answers": [True]}, r"golden_answers\[0\]: expected an answer .*found the bool True"),
        ({**FLASHRAG, "id": 1.5}, r"field id: expected an id \(string or integer\), found the float 1.5"),
        ({**FLASHRAG, "question": None}, "field question: expected a string, found null"),
        ({**FLASHRAG, "metadata": "x"}, "field metadata: expected an object, found the string 'x'"),
        ({**SEARCH, "reward_model": {"ground_truth": {}}}, "field reward_model.ground_truth.target: expected answers"),
        ({**MAY_2025, "prompt": [{"role": "system", "content": "x"}]}, "field prompt: expected a message of the user"),
        ({**MAY_2025, "reward_model": {"ground_truth": None}}, "reward_model.ground_truth: expected an answer .*null"),
        ({**MAY_2025_2WIKI, "context": "[["}, "field context: expected JSON, found bad JSON"),
        ({**MAY_2025_2WIKI, "supporting_facts": '[["A"]]'}, r"field supporting_facts\[0\]: expected a \[title, "),
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=rf"x\.jsonl, line 1, .*{message}"):
        load_questions(lines(tmp_path / "x.jsonl", row))


ODD: list[Any] = [
    None,
    "",
    " ",
    0,
    -1,
    1.5,
    float("nan"),
    True,
    [],
    {},
    [None],
    ["x"],
    [[]],
    {"a": 1},
    "\ud800",
    "[1",
    10**30,
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, item in inner for place in places(item, (*path, key))]


@pytest.mark.parametrize("name", GOLDEN)
def test_odd_values_anywhere_are_read_or_named(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    for place in places(GOLDEN[name][0]):
        for odd in rng.sample(ODD, 4):
            row = json.loads(json.dumps(GOLDEN[name][0]))
            holder = functools.reduce(operator.getitem, place[:-1], row)
            holder[place[-1]] = odd
            try:
                load_questions(lines(tmp_path / "x.jsonl", row))
            except DataError as error:
                assert re.search(r"x\.jsonl(, line 1, field|: expected questions, found none)", str(error))


def test_an_index_out_of_a_column_with_gaps_is_an_integer(tmp_path: Path) -> None:
    extra = {"split": "test", "index": 7.0}
    assert load_questions(lines(tmp_path / "x.jsonl", {**SEARCH, "extra_info": extra})).ids == ("nq/test/7",)


def test_every_format_can_be_named(tmp_path: Path) -> None:
    formats: dict[Format, dict[str, Any]] = {"flashrag": FLASHRAG, "search-r1": SEARCH, "agent-r1": RECIPE}
    for name, row in formats.items():
        assert load_questions(lines(tmp_path / f"{name}.jsonl", row), data_format=name)[0].dataset == name


HIPPORAG = {"A &amp; B": ["A is a film.", " B directed it."], "Text": ["A word."], "C": "C is a town.", "C": "Again."}  # noqa: F601


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_a_corpus_by_title(tmp_path: Path, indent: int | None, packed: bool) -> None:
    text = json.dumps(HIPPORAG, indent=indent).encode()
    path = tmp_path / "corpus.json"
    path.write_bytes(gzip.compress(text) if packed else text)
    assert [(p.id, p.title, p.text) for p in iter_corpus(path)] == [
        ("0", "A & B", "A is a film. B directed it."),
        ("1", "Text", "A word."),
        ("2", "C", "Again."),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"A": ["x"], "B": 3}', r"row 1, field 'B': expected a list of strings, found the int 3"),
        ('{"A": ["x"], "B": [3]}', r"row 1, field 'B'\[0\]: expected a string, found the int 3"),
        ('{"A": ["x"], "B": ["y"]', "after row 1: expected ',' or '}', found the end of the file"),
        ('{"A": ["x"], B: 1}', "row 1: expected '\"', found 'B'"),
        ('{"A": ["x"]} x', "after row 0: expected the end of the file, found 'x'"),
        ("{}", "row|line"),
    ],
)
def test_a_damaged_corpus_by_title_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "corpus.json"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"corpus\.json, .*({message})"):
        list(iter_corpus(path))


def test_rows_of_other_corpora(tmp_path: Path) -> None:
    rows = [
        {"id": 12, "title": "A", "sentences": ["A is a film.", "B directed it."], "mentions": []},  # 2Wiki's paragraphs
        {"title": "C", "text": "C is a town."},  # Agent-R1's hpqa_corpus.jsonl
        {"id": "2", "contents": '"D"\nD is a river.'},  # Search-R1's and FlashRAG's
    ]
    expected = [("12", "A", "A is a film. B directed it."), ("1", "C", "C is a town."), ("2", "D", "D is a river.")]
    assert [(p.id, p.title, p.text) for p in iter_corpus(lines(tmp_path / "x.jsonl", *rows))] == expected


@pytest.mark.parametrize("count", [1, 2])
def test_columns_of_their_own_do_not_hide_the_rows_of_a_corpus(tmp_path: Path, count: int) -> None:
    rows = [
        {"passage_id": "7", "title": "A", "text": "A is a film."},
        {"wiki": ["B"], "sentences": ["B is.", "So."], "title": "B"},
    ]
    passages = list(iter_corpus(lines(tmp_path / "x.jsonl", *rows[:count])))
    assert [(p.title, p.text) for p in passages] == [("A", "A is a film."), ("B", "B is. So.")][:count]


def test_they_make_an_environment(tmp_path: Path) -> None:
    data, corpus = table(tmp_path / "test.parquet", SEARCH), lines(tmp_path / "corpus.json", HIPPORAG)
    env = gymnasium.make("AgentR1/HotpotQA-v0", split="test", data=str(data), corpus=str(corpus), retrieval="corpus")
    _, info = env.reset()
    assert info["instruction"] == "who directed a?" and info["dataset"] == "search-r1"
    observation, *_ = env.step("search[film]")
    assert "A & B" in observation
    *_, info = env.step("answer[bee]")
    assert info["success"] and info["score"] == 1.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04rest", "found a zip archive: unpack it first"),
        (b"BZh91AY", "found a bzip2 file: unpack it first"),
        (b"\xfd7zXZ\x00", "found an xz file"),
        ("[]".encode("utf-16"), "found UTF-16 text: save it as UTF-8"),
        (gzip.compress(b'{"question": "x"}' * 99)[:-20], "cannot read the file: Compressed file ended before"),
        (gzip.compress(b'[{"question": "x"}')[:12] + b"\xff" * 30, "cannot read the file: "),
        (gzip.compress(b""), "found nothing at its beginning"),
    ],
    ids=["zip", "bzip2", "xz", "UTF-16", "cut off", "damaged", "empty"],
)
def test_what_is_not_read_says_what_it_is(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"x\.json.*({message})"):
        load_questions(path)
