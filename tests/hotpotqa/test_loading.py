"""Loading every format, and what a broken file is answered with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.errors import DataError
from agent_r1_envs.hotpotqa.data import Paragraph
from agent_r1_envs.hotpotqa.generator import generate
from agent_r1_envs.hotpotqa.loading import iter_corpus, load_questions
from tests.data import real_data

Make = Callable[[Any], Path]


def official() -> dict[str, Any]:
    return {
        "_id": "q1",
        "question": "Who directed A?",
        "answer": "B",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["A &amp; C", 0], ["B", 7]],
        "context": [["A &amp; C", ["A is a film.", " B directed it."]], ["B", ["B is a person.", "B lives."]]],
    }


def hub() -> dict[str, Any]:
    row = official()
    return {
        **{key: row[key] for key in ("question", "answer", "type", "level")},
        "id": "q1",
        "supporting_facts": {"title": ["A &amp; C", "B"], "sent_id": [0, 7]},
        "context": {"title": [t for t, _ in row["context"]], "sentences": [s for _, s in row["context"]]},
    }


def musique() -> dict[str, Any]:
    return {
        "id": "2hop__1_2",
        "question": "Who directed A?",
        "answer": "B",
        "answer_aliases": ["Bee"],
        "answerable": True,
        "question_decomposition": [
            {"id": 2, "question": "A", "answer": "x", "paragraph_support_idx": 2},
            {"id": 1, "question": "#1", "answer": "B", "paragraph_support_idx": 0},
        ],
        "paragraphs": [
            {"idx": 0, "title": "A", "paragraph_text": "A one.", "is_supporting": True},
            {"idx": 1, "title": "A", "paragraph_text": "A two.", "is_supporting": False},
            {"idx": 2, "title": "", "paragraph_text": "", "is_supporting": True},
        ],
    }


def agent_r1() -> dict[str, Any]:
    return {
        "data_source": "hotpotqa",
        "prompt": [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who directed A?"}],
        "reward_model": {"ground_truth": "B", "style": "rule"},
        "extra_info": {"index": 3, "question_id": "q9", "split": "dev", "type": "bridge", "answers": ["B", "Bee"]},
    }


@pytest.fixture
def as_list(tmp_path: Path) -> Make:
    def write(rows: Any) -> Path:
        path = tmp_path / "data.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
        return path

    return write


@pytest.fixture
def as_lines(tmp_path: Path) -> Make:
    def write(rows: Any) -> Path:
        path = tmp_path / "data.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
        return path

    return write


def as_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), path)
    return path


def test_official_json(as_list: Make) -> None:
    question = load_questions(as_list([official()]), split="validation")[0]
    assert (question.id, question.answer, question.type, question.level) == ("q1", "B", "bridge", "hard")
    assert question.supporting == (("A &amp; C", 0), ("B", 7))
    assert question.paragraphs[0].text == "A is a film. B directed it."
    assert question.paragraphs[1].text == "B is a person. B lives."
    assert question.paragraphs[0].passage("0").title == "A & C"
    assert question.gold == (0, 1)


def test_the_same_rows_in_every_container_are_the_same_questions(as_list: Make, as_lines: Make, tmp_path: Path) -> None:
    rows = generate("test", tasks=30, seed=1)
    flat = [
        {
            **{key: row[key] for key in ("question", "answer", "type", "level")},
            "id": row["_id"],
            "supporting_facts": dict(
                zip(("title", "sent_id"), map(list, zip(*row["supporting_facts"], strict=True)), strict=True)
            ),
            "context": dict(zip(("title", "sentences"), map(list, zip(*row["context"], strict=True)), strict=True)),
        }
        for row in rows
    ]
    expected = list(load_questions(as_list(rows)))
    assert list(load_questions(as_lines(rows))) == expected
    assert list(load_questions(as_parquet(tmp_path / "data.parquet", flat))) == expected


def test_musique(as_lines: Make) -> None:
    question = load_questions(as_lines([musique()]))[0]
    assert question.answers == ("B", "Bee")
    assert question.dataset == "musique" and question.type == "2hop"
    assert question.gold == (2, 0)  # in the order of the hops
    assert question.supporting == (("A", 0), ("", 0))


def test_unanswerable_twins_are_left_out(as_lines: Make) -> None:
    panel = load_questions(as_lines([musique(), {**musique(), "answerable": False}]))
    assert len(panel) == 1
    with pytest.raises(DataError, match="found none"):
        load_questions(as_lines([{**musique(), "answerable": False}]))


def test_agent_r1(as_lines: Make, tmp_path: Path) -> None:
    question = load_questions(as_lines([agent_r1()]))[0]
    assert (question.id, question.question, question.answers) == ("q9", "Who directed A?", ("B", "Bee"))
    assert question.paragraphs == () and question.gold == ()
    assert load_questions(as_parquet(tmp_path / "x.parquet", [agent_r1()]))[0] == question


def test_format_can_be_given(as_list: Make) -> None:
    row = official()
    assert load_questions(as_list([row]), data_format="2wiki")[0].dataset == "2wikimultihopqa"
    with pytest.raises(DataError, match="data.json, row 0, field paragraphs: expected a list of objects"):
        load_questions(as_list([row]), data_format="musique")
    with pytest.raises(ValueError, match="data_format must be auto or one of"):
        load_questions(as_list([row]), data_format="squad")


def without(row: dict[str, Any], field: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != field}


def broken() -> list[Any]:
    o, h, m, a = official(), hub(), musique(), agent_r1()
    paragraph = m["paragraphs"][0]
    cases: list[tuple[Any, str]] = [
        (without(o, "answer"), r"field answer: expected a string, found no such field \(the row has: _id, context"),
        (without(o, "_id"), "field id: expected an id, found no such field"),
        ({**o, "answer": 7}, "field answer: expected a string, found the int 7"),
        ({**o, "answer": None}, "field answer: expected a string, found null"),
        ({**o, "answer": " "}, "field answer: expected a string that is not blank, found the string ' '"),
        ({**o, "question": ["x"]}, "field question: expected a string, found a list of 1"),
        ({**o, "level": 3}, "field level: expected a string, found the int 3"),
        ({**o, "context": "x"}, r"field context: expected a list of \[title, .*, found the string 'x'"),
        ({**o, "context": [["A"]]}, r"field context\[0\]: expected a \[title, .* pair, found a list of 1"),
        ({**o, "context": [[1, []]]}, r"field context\[0\]\[0\]: expected a title \(string\), found the int 1"),
        ({**o, "context": [["A", "text"]]}, r"field context\[0\]\[1\]: expected a list of strings, found the string"),
        ({**o, "context": [["A", ["x", 2]]]}, r"field context\[0\]\[1\]\[1\]: expected a string, found the int 2"),
        ({**o, "supporting_facts": None}, "field supporting_facts: expected a list of .*, found null"),
        ({**o, "supporting_facts": [["A", "0"]]}, r"field supporting_facts\[0\]\[1\]: expected a sentence index"),
        ({**o, "supporting_facts": [["A", -1]]}, r"supporting_facts\[0\]\[1\]: .* at least 0, found the int -1"),
        ({**o, "supporting_facts": [["A", True]]}, r"supporting_facts\[0\]\[1\]: .*found the bool True"),
        ({**o, "supporting_facts": [[None, 0]]}, r"supporting_facts\[0\]\[0\]: expected a title"),
        (without(h, "supporting_facts"), "field supporting_facts: expected a list of .*, found no such field"),
        ({**h, "context": {"title": ["A"]}}, r"field context.sentences: expected a list of lists of sentences"),
        ({**h, "context": {"title": ["A"], "sentences": []}}, "context.sentences: expected one list for each of 1"),
        ({**h, "context": {"title": ["A"], "sentences": [["x", None]]}}, r"context.sentences\[0\]\[1\]: .*null"),
        ({**h, "supporting_facts": {"title": ["A"], "sent_id": []}}, "supporting_facts.sent_id: expected one for"),
        ({**m, "paragraphs": {}}, "field paragraphs: expected a list of objects, found a dict of 0"),
        ({**m, "paragraphs": ["x"]}, r"field paragraphs\[0\]: expected an object, found the string 'x'"),
        ({**m, "paragraphs": [without(paragraph, "title")]}, r"field paragraphs\[0\].title: expected a string"),
        ({**m, "paragraphs": [{**paragraph, "is_supporting": 1}]}, "is_supporting: expected true or false"),
        ({**m, "answer_aliases": "Bee"}, "field answer_aliases: expected a list of strings"),
        ({**m, "answer_aliases": [1]}, r"field answer_aliases\[0\]: expected a string, found the int 1"),
        ({**m, "answerable": "yes"}, "field answerable: expected true or false, found the string 'yes'"),
        ({**a, "reward_model": {}}, r"field reward_model.ground_truth: .*\(the row has: nothing\)"),
        ({**a, "reward_model": None}, "field reward_model: expected an object, found null"),
        ({**a, "prompt": []}, "field prompt: expected a message of the user, found none"),
        ({**a, "prompt": [{"role": "user"}]}, r"field prompt\[0\].content: expected a string"),
        ({**a, "extra_info": 3}, "field extra_info: expected an object, found the int 3"),
        ({"title": "A", "text": "x"}, "found a corpus of titles and texts: pass it as corpus="),
        ({"a": 1}, r"field question: expected a row of hotpotqa, .*, found the fields \['a'\]"),
    ]
    return [pytest.param(row, message, id=str(i)) for i, (row, message) in enumerate(cases)]


@pytest.mark.parametrize(("row", "message"), broken())
def test_a_broken_row_is_named(as_list: Make, row: Any, message: str) -> None:
    good = without(row, "x")
    with pytest.raises(DataError, match=rf"data\.json, row 0, .*{message}"):
        load_questions(as_list([good]))


def test_the_row_or_line_is_counted(as_list: Make, as_lines: Make) -> None:
    rows = [{**official(), "_id": f"q{i}"} for i in range(5)]
    rows[3]["answer"] = None
    with pytest.raises(DataError, match=r"data\.json, row 3, field answer"):
        load_questions(as_list(rows))
    with pytest.raises(DataError, match=r"data\.jsonl, line 4, field answer"):
        load_questions(as_lines(rows))


def test_ids_must_be_new(as_list: Make) -> None:
    with pytest.raises(DataError, match="row 1, field id: expected a new id, found 'q1' of row 0 again"):
        load_questions(as_list([official(), official()]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a JSON list, JSON lines or a parquet file, found nothing"),
        (b"  \n ", "found nothing at its beginning"),
        (b"version https://git-lfs", "found a pointer of Git LFS: fetch the file itself"),
        (b"[]", "expected questions, found none"),
        (b"[1]", "row 0: expected a JSON object, found the int 1"),
        (b'[{"a": 1}', r"after row 0|row 0, field question"),
        (b'[{"a": 1', "row 0: expected a JSON object, found bad JSON"),
        (b"[{]", "row 0: expected a JSON object, found bad JSON"),
        (b"[" * 100_000, "row 0: expected a JSON object, found bad JSON"),
        (b'{"a": ', "line 1: expected a JSON object, found bad JSON"),
        (b'{"a": "\xff"}', "line 1: expected a JSON object, found bad JSON: 'utf-8' codec can't decode byte 0xff"),
        (b'[{"a": "\xff"}]', "expected UTF-8 text, found invalid start byte at byte 8"),
        (b"[" + b" " * (1 << 22) + b"\xff]", "expected UTF-8 text, found invalid start byte at byte 4194305"),
        (b"PAR1 and then nothing", "expected a parquet file, found damage"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"file\.json.*({message})"):
        load_questions(path)


@pytest.mark.parametrize("tail", ["", ",", "]]", "] x", "x"])
def test_a_list_must_end_well(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "file.json"
    path.write_text("[" + json.dumps(official()) + tail, encoding="utf-8")
    with pytest.raises(DataError, match=r"file\.json, (after row 0|row 1): expected"):
        load_questions(path)


def test_parquet_with_text_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"question": pa.array([b"\xff"], pa.binary()).view(pa.string())})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet, after row 0: expected a parquet file, found damage: 'utf-8'"):
        load_questions(tmp_path / "x.parquet")


@pytest.mark.parametrize("change", [{"_id": "a\ud800"}, {"answer": "a\ud800"}])
def test_what_no_action_can_say_is_refused(as_list: Make, change: dict[str, str]) -> None:
    with pytest.raises(DataError, match="row 0, field id or answer: expected valid Unicode"):
        load_questions(as_list([{**official(), **change}]))


@pytest.mark.parametrize("odd", [None, "x", 2.0, True, [2], {"a": 1}, -1, 99])
def test_a_decomposition_only_orders_the_paragraphs(as_list: Make, odd: Any) -> None:
    row = musique()
    row["question_decomposition"][0]["paragraph_support_idx"] = odd
    (question,) = load_questions(as_list([row]))
    assert sorted(question.gold) == [0, 2] and all(type(position) is int for position in question.gold)


def test_missing_files_and_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_R1_DATA", raising=False)
    with pytest.raises(DataError, match="no such file or folder: nowhere.json; AGENT_R1_DATA can name a folder"):
        load_questions("nowhere.json")
    monkeypatch.setenv("AGENT_R1_DATA", str(tmp_path))
    with pytest.raises(DataError, match="no such file or folder: nowhere.json or .*nowhere.json"):
        load_questions("nowhere.json")
    with pytest.raises(DataError, match=r"expected one of hotpot_train_v1\.1\.json, .* for split 'train', found none"):
        load_questions(tmp_path)
    with pytest.raises(ValueError, match="split must be one of train, validation, test"):
        load_questions(tmp_path, split="trian")


def test_a_folder_holds_files_under_their_official_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hotpotqa").mkdir()
    for name, id in (("hotpot_train_v1.1.json", "t"), ("hotpot_dev_distractor_v1.json", "d")):
        (tmp_path / "hotpotqa" / name).write_text(json.dumps([{**official(), "_id": id}]), encoding="utf-8")
    monkeypatch.setenv("AGENT_R1_DATA", str(tmp_path))
    assert load_questions("hotpotqa").ids == ("t",)
    assert load_questions("hotpotqa", split="validation").ids == ("d",)
    assert (
        load_questions(tmp_path / "hotpotqa").content_hash
        != load_questions("hotpotqa", split="validation").content_hash
    )


def test_shards_are_read_in_order(tmp_path: Path) -> None:
    for shard in (1, 0):
        row = {**hub(), "id": f"shard {shard}"}
        as_parquet(tmp_path / f"validation-0000{shard}-of-00002.parquet", [row])
    assert load_questions(tmp_path, split="validation").ids == ("shard 0", "shard 1")


def test_parquet_without_pyarrow_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_parquet(tmp_path / "x.parquet", [hub()])
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        load_questions(path)


def test_corpora(as_list: Make, as_lines: Make) -> None:
    rows = [{"title": "A", "text": "x"}, {"id": 7, "title": "", "text": ""}, {"id": "n", "contents": '"C"\nz'}]
    for path in (as_list(rows), as_lines(rows)):
        assert [(p.id, p.title, p.text) for p in iter_corpus(path)] == [("0", "A", "x"), ("7", "", ""), ("n", "C", "z")]
    with pytest.raises(DataError, match="line 2, field text: expected a string, found no such field"):
        list(iter_corpus(as_lines([rows[0], {"title": "B"}])))
    with pytest.raises(DataError, match="expected passages, found none"):
        list(iter_corpus(as_list([])))


@pytest.mark.parametrize(
    ("name", "tasks", "dataset"),
    [
        ("hotpot_dev_distractor_slice200.json", 200, "hotpotqa"),
        ("hotpot_train_v1.1_slice100.json", 100, "hotpotqa"),
        ("hotpot_dev_distractor_50_hf.parquet", 50, "hotpotqa"),
        ("2wikimultihopqa_dev_slice164.json", 164, "2wikimultihopqa"),
        ("musique_ans_v1.0_dev_slice200.jsonl", 200, "musique"),
    ],
)
def test_real_files(name: str, tasks: int, dataset: str) -> None:
    panel = load_questions(real_data("hotpotqa") / name)
    assert (len(panel), panel.dataset) == (tasks, dataset)
    for question in panel:
        assert len(question.gold) == (len(question.marked) if question.marked else len(dict(question.supporting)))


def test_hub_parquet_holds_the_official_rows() -> None:
    folder = real_data("hotpotqa")
    official_rows = {q.id: q for q in load_questions(folder / "hotpot_dev_distractor_slice200.json")}
    rows = load_questions(folder / "hotpot_dev_distractor_50_hf.parquet")
    assert all(official_rows[question.id] == question for question in rows)


def test_real_corpus() -> None:
    passages = list(iter_corpus(real_data("hotpotqa") / "2wikimultihopqa_corpus_6119.json"))
    assert len(passages) == 6119 and passages[0].title == "Teutberga"


@given(st.lists(st.sampled_from(["One.", " Two.", "Three. ", "", "  "])))
def test_sentences_are_joined_with_one_gap(sentences: list[str]) -> None:
    text = Paragraph("T", tuple(sentences)).text
    assert text.split() == " ".join(sentences).split()
