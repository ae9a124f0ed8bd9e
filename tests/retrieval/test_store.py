import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_r1_envs.errors import DataError
from agent_r1_envs.retrieval import OkapiRetriever, Passage, words

PASSAGES = [
    Passage("a", "Lorin", "Lorin is a town on the river Vess."),
    Passage("b", "", "The Vess is a river. It flows past Lörin and \ud800."),
    Passage("c", "Marn", ""),
]
QUERIES = ["river", "lörin", "the Vess", "unknown", ""]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    OkapiRetriever(PASSAGES, k1=1.2).save(tmp_path / "index")
    return tmp_path / "index"


def test_opens_as_it_was_saved(saved: Path) -> None:
    original, opened = OkapiRetriever(PASSAGES, k1=1.2), OkapiRetriever.open(saved)
    assert list(opened.passages) == PASSAGES and opened.passages[-1] == PASSAGES[-1]
    assert opened.passages[:2] == tuple(PASSAGES[:2])
    assert opened.parameters == original.parameters and opened.content_hash == original.content_hash
    for query in QUERIES:
        np.testing.assert_array_equal(opened.scores(query), original.scores(query))
        assert opened.search(query, 3) == original.search(query, 3)
    with pytest.raises(IndexError):
        opened.passages[3]


def test_arrays_stay_on_disk(saved: Path) -> None:
    assert isinstance(OkapiRetriever.open(saved)._postings.impacts.base, np.memmap)


def test_another_process_opens_it(saved: Path) -> None:
    code = (
        "import sys; from agent_r1_envs.retrieval import OkapiRetriever as R; print(R.open(sys.argv[1]).content_hash)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == OkapiRetriever.open(saved).content_hash


def test_an_opened_index_can_be_saved_again(saved: Path, tmp_path: Path) -> None:
    OkapiRetriever.open(saved).save(tmp_path / "copy")
    copy = OkapiRetriever.open(tmp_path / "copy")
    assert list(copy.passages) == PASSAGES and copy.content_hash == OkapiRetriever.open(saved).content_hash
    assert len(list(saved.iterdir())) == len(list((tmp_path / "copy").iterdir()))


def test_replacing_keeps_open_readers_and_leaves_no_old_files(saved: Path) -> None:
    reader = OkapiRetriever.open(saved)
    count = len(list(saved.iterdir()))
    (saved / "notes.txt").write_text("mine")
    OkapiRetriever(PASSAGES[:2]).save(saved)
    assert len(OkapiRetriever.open(saved)) == 2
    assert len(reader) == 3 and reader.passages[2] == PASSAGES[2]
    assert len(list(saved.iterdir())) == count + 1 and (saved / "notes.txt").exists()


@pytest.mark.parametrize("at", [1, 4, 13])
def test_a_killed_writer_leaves_the_old_index(saved: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = OkapiRetriever.open(saved).content_hash
    fsync, calls = os.fsync, []

    def killed(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == at:
            raise KeyboardInterrupt
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        OkapiRetriever(PASSAGES[:2]).save(saved)
    monkeypatch.undo()
    assert OkapiRetriever.open(saved).content_hash == before


def once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, first: Callable[[], None]) -> None:
    """Call ``first`` before the next call of a function, as if another process had been faster."""
    function = getattr(owner, name)

    def delayed(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(owner, name, function)
        first()
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, delayed)


@pytest.mark.parametrize("passages", [PASSAGES, PASSAGES[:2], PASSAGES[1:]], ids=["the old", "another", "its own"])
def test_of_two_writers_the_last_one_wins(
    saved: Path, passages: list[Passage], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = OkapiRetriever(passages, k1=1.2), OkapiRetriever(PASSAGES[1:], k1=1.2)
    once(monkeypatch, os, "replace", lambda: other.save(saved))
    mine.save(saved)
    assert list(OkapiRetriever.open(saved).passages) == passages


def test_a_reader_overtaken_by_a_writer_gets_the_new_index(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch, np, "load", lambda: OkapiRetriever(PASSAGES[:2]).save(saved))
    assert list(OkapiRetriever.open(saved).passages) == PASSAGES[:2]


def data_file(folder: Path, name: str = "impacts") -> Path:
    return next(folder.glob(f"{name}-*.npy"))


def edit_manifest(folder: Path, **fields: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_flipped_bit_is_found(saved: Path) -> None:
    path = data_file(saved)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"impacts-.*SHA-256 differs"):
        OkapiRetriever.open(saved)
    OkapiRetriever.open(saved, verify=False)


@pytest.mark.parametrize("verify", [True, False])
def test_a_short_or_missing_file_is_found(saved: Path, verify: bool) -> None:
    path = data_file(saved, "texts_blob")
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(DataError, match=r"texts_blob-.*expected \d+ bytes, got \d+"):
        OkapiRetriever.open(saved, verify=verify)
    path.unlink()
    with pytest.raises(DataError, match="texts_blob-.*No such file"):
        OkapiRetriever.open(saved, verify=verify)


@pytest.mark.parametrize(
    ("fields", "words_"),
    [
        ({"format": "other"}, "field format"),
        ({"version": 99}, "version 99, and version 1 is read"),
        ({"files": []}, "field files: expected dict"),
        ({"files": {}}, "field files.starts"),
        ({"passages": "3"}, "field passages: expected int"),
    ],
)
def test_a_bad_manifest_names_the_field(saved: Path, fields: dict[str, Any], words_: str) -> None:
    edit_manifest(saved, **fields)
    with pytest.raises(DataError, match=f"manifest.json.*{words_}"):
        OkapiRetriever.open(saved)


def test_no_index_and_no_json(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no saved index here"):
        OkapiRetriever.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="manifest.json.*damaged"):
        OkapiRetriever.open(tmp_path)


def letters(text: str) -> list[str]:
    return list(text.replace("\n", ""))


def test_the_tokenizer_must_be_the_same(tmp_path: Path) -> None:
    OkapiRetriever(PASSAGES, tokenizer=letters).save(tmp_path)
    assert OkapiRetriever.open(tmp_path, tokenizer=letters).search("ö", 1)[0].passage == PASSAGES[1]
    with pytest.raises(DataError, match="built with the tokenizer .*letters, opened with .*words"):
        OkapiRetriever.open(tmp_path, tokenizer=words)
