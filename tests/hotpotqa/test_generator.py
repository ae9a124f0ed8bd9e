"""The synthetic encyclopedia: closed language, splits without a common entity, one answer a question."""

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import islice
from typing import Any

import pytest

from agent_r1_envs.hotpotqa.generator import PANEL, capacity, generate, stream, vocabulary
from agent_r1_envs.hotpotqa.lexicon import NAMESPACES, SPLITS, names, split_of
from agent_r1_envs.hotpotqa.metric import normalize
from agent_r1_envs.hotpotqa.questions import KINDS, SHARES

Rows = list[dict[str, Any]]


@cache
def panel(split: str) -> Rows:
    tasks, seed = PANEL[split]  # type: ignore[index]
    return generate(split, tasks=tasks, seed=seed)  # type: ignore[arg-type]


def kind(row: dict[str, Any]) -> str:
    return row["_id"].split("-", 3)[3]


def texts(row: dict[str, Any]) -> list[str]:
    return [row["question"], row["answer"], *(title + " " + "".join(text) for title, text in row["context"])]


def read_facts(rows: Rows) -> dict[str, dict[str, str]]:
    """Read the facts back out of the prose, independently of the code that wrote it."""
    name = r"([A-Z]\w+ [A-Z]\w+)"
    patterns = {
        "director": rf"film directed by {name}\.",
        "source": rf"based on the novel {name}\.",
        "author": rf"novel written by {name}\.",
        "setting": rf"set in the town {name}\.",
        "band": rf"album by the band {name}\.",
        "singer": rf"Its singer is {name}\.",
        "founder": rf"company founded by {name} in",
        "teacher": rf"was a student of {name}\.",
        "birthplace": rf"born in {name} in \d",
        "river": rf"The river {name} flows",
        "mayor": rf"its mayor is {name}\.",
        "born": r"born in \w+ \w+ in (\d{4})\.",
        "released": r"is a (\d{4}) film",
        "country": r"is a town in (\w+)\.",
    }
    facts: dict[str, dict[str, str]] = {}
    for row in rows:
        for title, sentences in row["context"]:
            text = "".join(sentences)
            found = {key: m.group(1) for key, pattern in patterns.items() if (m := re.search(pattern, text))}
            assert facts.setdefault(title, found) == found, f"two articles on {title}"
    return facts


def solve(row: dict[str, Any], facts: dict[str, dict[str, str]]) -> str:
    first, second = (title for title, _ in row["supporting_facts"])
    match kind(row):
        case "born-earlier":
            return min((first, second), key=lambda title: facts[title]["born"])
        case "released-earlier":
            return min((first, second), key=lambda title: facts[title]["released"])
        case "same-country":
            return "yes" if facts[first]["country"] == facts[second]["country"] else "no"
        case chain:
            one, two = chain.split("-")
            assert facts[first][one] == second
            return facts[second][two]


@pytest.mark.parametrize("split", SPLITS)
def test_rows_have_the_official_schema(split: str) -> None:
    for row in panel(split):
        assert list(row) == ["_id", "question", "answer", "type", "level", "supporting_facts", "context"]
        assert 8 <= len(row["context"]) <= 10
        titles = [title for title, _ in row["context"]]
        assert len(set(titles)) == len(titles)
        assert all(1 <= len(sentences) <= 2 for _, sentences in row["context"])
        assert row["type"] in ("bridge", "comparison") and row["level"] in ("easy", "medium", "hard")
        by_title = dict(map(tuple, row["context"]))
        assert len(row["supporting_facts"]) == 2
        for title, sentence in row["supporting_facts"]:
            assert sentence < len(by_title[title])
    assert json.loads(json.dumps(panel(split))) == panel(split)


@pytest.mark.parametrize("split", SPLITS)
def test_answers_follow_from_the_prose_and_facts_agree_over_the_corpus(split: str) -> None:
    facts = read_facts(panel(split))
    for row in panel(split):
        assert solve(row, facts) == row["answer"], row["_id"]


@pytest.mark.parametrize("split", SPLITS)
def test_supporting_sentences_hold_what_they_support(split: str) -> None:
    for row in panel(split):
        if row["type"] == "bridge":
            by_title = dict(map(tuple, row["context"]))
            (a, i), (b, j) = row["supporting_facts"]
            assert b in by_title[a][i] and row["answer"] in by_title[b][j]
            assert a in row["question"] and b not in row["question"] and row["answer"] not in row["question"]


def test_questions_and_ids_are_distinct() -> None:
    rows = [row for split in SPLITS for row in panel(split)]
    assert len({row["_id"] for row in rows}) == len({row["question"] for row in rows}) == len(rows)


def test_splits_share_no_entity_whatever_the_seed() -> None:
    titles: dict[str, set[str]] = {split: set() for split in SPLITS}
    answers: dict[str, set[str]] = {split: set() for split in SPLITS}
    for split in SPLITS:
        for seed in (0, 1, 12345):
            for row in generate(split, tasks=400, seed=seed):
                mentioned = re.findall(r"[A-Z]\w+ [A-Z]\w+", " . ".join(texts(row)[2:]))
                titles[split].update(title for title, _ in row["context"])
                titles[split].update(name for name in mentioned if name.split()[0] not in ("The", "It", "Its"))
                answers[split].add(normalize(row["answer"]))
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not titles[one] & titles[other]
        assert answers[one] & answers[other] <= {"yes", "no"}


def test_every_word_of_a_name_is_used_in_every_split() -> None:
    for namespace, pools in NAMESPACES.items():
        owned = [names(namespace, split) for split in SPLITS]
        assert sum(map(len, owned)) == len(pools[0].split()) * len(pools[1].split())
        for pairs in owned:
            assert {a for a, _ in pairs} == set(pools[0].split()) and {b for _, b in pairs} == set(pools[1].split())
    assert [split_of(0, 0), split_of(1, 2), split_of(1, 3)] == ["train", "test", "train"]


def test_name_words_belong_to_one_pool() -> None:
    in_names = [word for pools in NAMESPACES.values() for pool in pools for word in pool.split()]
    lower = {word.lower() for word in in_names}
    assert len(lower) == len(in_names)
    assert not lower & {word.lower() for word in vocabulary() if word not in in_names}


def test_the_vocabulary_is_closed_and_small() -> None:
    everything = [text for split in SPLITS for row in panel(split) for text in texts(row)]
    used = {word for text in everything for word in re.findall(r"\w+", text)}
    assert used == set(vocabulary())
    assert len(vocabulary()) <= 600
    assert {sign for text in everything for sign in re.findall(r"[^\w\s]", text)} == {".", ",", "?"}


def test_kinds_come_in_their_shares_and_answers_are_balanced() -> None:
    counts = Counter(kind(row) for row in panel("train"))
    assert counts == {name: share * 80 for name, share in SHARES.items()} and set(SHARES) == set(KINDS)
    closed = Counter(row["answer"] for row in panel("train") if row["answer"] in ("yes", "no"))
    assert sum(closed.values()) <= 0.12 * len(panel("train"))
    assert 0.4 < closed["yes"] / sum(closed.values()) < 0.6
    earlier = [row for row in panel("train") if kind(row).endswith("earlier")]
    firsts = sum(row["answer"] == row["supporting_facts"][0][0] for row in earlier) / len(earlier)
    assert 0.4 < firsts < 0.6
    assert max(Counter(row["answer"] for row in panel("test") if row["type"] == "bridge").values()) <= 10


def test_distractors_share_words_with_the_gold_paragraphs() -> None:
    for row in panel("test"):
        gold = {title for title, _ in row["supporting_facts"]}
        words = {word for title in gold for word in title.split()}
        others = [title for title, _ in row["context"] if title not in gold]
        assert sum(bool(words & set(title.split())) for title in others) >= 2, row["_id"]


def test_generation_is_a_prefix_and_depends_on_the_seed() -> None:
    assert generate("test", tasks=20, seed=3) == generate("test", tasks=60, seed=3)[:20]
    assert generate("test", tasks=20, seed=3) != generate("test", tasks=20, seed=4)
    rows = generate("test", tasks=2, seed=3)
    rows[0]["context"][0][1].append("changed")
    assert generate("test", tasks=2, seed=3) != rows


def test_generation_is_the_same_in_another_process() -> None:
    code = (
        "import hashlib, json; from agent_r1_envs.hotpotqa.generator import generate;"
        "print(hashlib.sha256(json.dumps(generate('validation', tasks=300, seed=7)).encode()).hexdigest())"
    )
    here = hashlib.sha256(json.dumps(generate("validation", tasks=300, seed=7)).encode()).hexdigest()
    there = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "99"}, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == here


def test_stream_goes_through_worlds() -> None:
    rows = list(islice(stream(seed=5, tasks_per_world=30), 70))
    assert rows[:30] == generate("train", tasks=30, seed=5)
    assert rows[30:60] == generate("train", tasks=30, seed=6)
    assert len({row["_id"] for row in rows}) == 70


@pytest.mark.parametrize("split", SPLITS)
def test_a_whole_world_can_be_asked(split: str) -> None:
    rows = generate(split, tasks=capacity(split), seed=1)  # type: ignore[arg-type]
    assert len({row["question"] for row in rows}) == capacity(split) >= PANEL[split][0]  # type: ignore[index]
    with pytest.raises(ValueError, match=r"use stream\(\)"):
        generate(split, tasks=capacity(split) + 1, seed=1)  # type: ignore[arg-type]


def test_an_unknown_split_raises() -> None:
    with pytest.raises(ValueError, match="train, validation, test"):
        generate("dev", tasks=1, seed=0)  # type: ignore[arg-type]
