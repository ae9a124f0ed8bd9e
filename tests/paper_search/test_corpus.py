"""Local corpora: search, citations, cut-off, saving and opening."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agent_r1_envs.errors import DataError
from agent_r1_envs.paper_search import Corpus, CorpusBackend, Paper, PaperRecord, build_corpus, load_corpus
from agent_r1_envs.paper_search.backends import Expand, Found, Limits, Search
from agent_r1_envs.paper_search.embedded import embedded_backend, embedded_literature
from tests.helpers.papers import RECORDS, small_backend

A, B, C, D, P5, LATER = (record.paper.id for record in RECORDS)
LIMITS = Limits()


def ids(found: list[Found]) -> list[list[str]]:
    return [[paper.id for paper in answer.papers] for answer in found]


def test_look_ups() -> None:
    backend = small_backend()
    lookups = [Search("gravel"), Expand(A), Expand(f"arXiv:{D}v2"), Expand("unknown"), Search("absent")]
    assert ids(backend.look_up(lookups, LIMITS)) == [[C], [B, C, D, LATER], [P5, A, B, C], [], []]
    assert ids(backend.look_up([Expand(A)], Limits(citations=2))) == [[B, C]]
    assert ids(backend.look_up([Expand(D)], Limits(citations=0, references=1))) == [[A]]
    assert backend.neighbours(A, LIMITS) == [B, C, D, LATER]
    [found] = backend.look_up([Search("magnets")], LIMITS)
    assert found.papers == (RECORDS[4].paper,), "titles, abstracts and dates come back as they went in"


@pytest.mark.parametrize(
    ("cutoff", "around", "found"),
    [
        ("20200315", [B, C], [B, A]),
        ("2020", [B, C, D], [D, B, A]),
        ("20191231", [], []),
        ("20210601", [B, C, D, LATER], None),
    ],
)
def test_later_papers_are_not_found(cutoff: str, around: list[str], found: list[str] | None) -> None:
    backend = small_backend()
    [[*neighbours], [*hits]] = ids(backend.look_up([Expand(A), Search("sand")], LIMITS, cutoff))
    assert neighbours == around
    assert found is None or sorted(hits) == sorted(found)


def test_a_cutoff_takes_the_places_of_no_one() -> None:
    records = [PaperRecord(Paper(f"x{n}", "same words", "", f"{2000 + n}0101")) for n in range(30)]
    corpus = Corpus.of(reversed(records))
    assert [paper.id for paper in corpus.search("words", 3, "20051231")] == ["x5", "x4", "x3"]


def test_of_two_papers_with_one_name_the_first_counts() -> None:
    corpus = Corpus.of([*RECORDS, PaperRecord(Paper(A, "Another", "of the same name"), (B,))])
    assert len(corpus) == len(RECORDS) and corpus.paper(0).title == "Sieves"


def test_edges_equal_a_dictionary_of_sets() -> None:
    records = embedded_literature().records
    corpus = embedded_backend().corpus
    cited_by: dict[str, list[str]] = {record.paper.id: [] for record in records}
    for record in records:
        for reference in record.references:
            cited_by[reference].append(record.paper.id)
    assert corpus.graph.edges == sum(len(record.references) for record in records)
    for number, record in enumerate(records):
        assert [f"P{i:05d}" for i in corpus.references(number, 10**6)] == list(record.references)
        assert [f"P{i:05d}" for i in corpus.citations(number, 10**6)] == cited_by[record.paper.id]


def test_a_saved_corpus_is_mapped_and_answers_alike(tmp_path: Path) -> None:
    original = small_backend()
    original.corpus.save(tmp_path)
    opened = CorpusBackend(load_corpus(tmp_path))
    assert isinstance(opened.corpus.graph.references.base, np.memmap)
    assert opened.describe() == original.describe() and len(opened.corpus) == len(RECORDS)
    lookups = [Search("sand"), Search("water iron"), *(Expand(record.paper.id) for record in RECORDS), Expand("zzz")]
    for cutoff in ("", "20200315"):
        assert opened.look_up(lookups, LIMITS, cutoff) == original.look_up(lookups, LIMITS, cutoff)
    assert [opened.corpus.position(record.paper.id) for record in RECORDS] == list(range(len(RECORDS)))
    assert opened.corpus.position("") is None
    code = "import sys; from agent_r1_envs.paper_search import Corpus; print(Corpus.open(sys.argv[1]).content_hash)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == original.corpus.content_hash


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    small_backend().corpus.save(tmp_path)
    before = len(list(tmp_path.rglob("*")))
    reader = Corpus.open(tmp_path)
    Corpus.of(RECORDS[:3]).save(tmp_path)
    assert len(list(tmp_path.rglob("*"))) == before and len(Corpus.open(tmp_path)) == 3
    assert len(reader.search("sand", 10)) == 4, "who had it open keeps it"


def test_a_corpus_without_references(tmp_path: Path) -> None:
    Corpus.of([PaperRecord(Paper("a", "alone"))]).save(tmp_path)
    assert CorpusBackend(Corpus.open(tmp_path)).look_up([Expand("a")], LIMITS) == [Found()]


def test_damage_is_named(tmp_path: Path) -> None:
    small_backend().corpus.save(tmp_path)
    for pattern in ("dates-*.npy", "references-*.npy", "corpus.json", "texts/starts-*.npy"):
        [file] = tmp_path.glob(pattern)
        whole = file.read_bytes()
        for damaged in (whole[:-3], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
            file.write_bytes(damaged)
            with pytest.raises(DataError, match=r"damaged|expected a saved"):
                Corpus.open(tmp_path)
        file.write_bytes(whole)
    Corpus.open(tmp_path)
    Corpus.of(RECORDS[:2]).index.save(tmp_path / "texts")
    with pytest.raises(DataError, match="other texts"):
        Corpus.open(tmp_path)
    with pytest.raises(DataError, match="no saved corpus"):
        load_corpus(tmp_path / "texts")


def test_building_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "papers.jsonl"
    file.write_text('{"id": "a", "title": "One"}\n{"id": "b", "title": "Two", "references": ["a", "c"]}\n')
    corpus = build_corpus(file, tmp_path / "folder")
    assert corpus.references(1, 9) == [0] and corpus.search("two", 1)[0].id == "b"
