"""Paths that users give, the cache's folder, and hashes."""

import hashlib
import json
from pathlib import Path

import pytest

from agent_r1_envs.errors import DataError
from agent_r1_envs.files import cache_folder, files_of_split, resolve, sha256, sha256_of_all, write_json, written_whole
from agent_r1_envs.paper_search.backends.patient_client import Recordings, Reply
from agent_r1_envs.retrieval import OkapiRetriever, Passage


def test_a_path_is_looked_up_here_and_then_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, data = tmp_path / "here", tmp_path / "data"
    here.mkdir()
    data.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("AGENT_R1_DATA", raising=False)
    (data / "x.json").touch()
    with pytest.raises(DataError, match="no such file or folder: x.json; AGENT_R1_DATA can name a folder"):
        resolve("x.json")
    monkeypatch.setenv("AGENT_R1_DATA", str(data))
    assert resolve("x.json") == data / "x.json"
    (here / "x.json").touch()
    assert resolve("x.json") == Path("x.json")
    with pytest.raises(DataError, match="no such file or folder: y.json or .*data/y.json"):
        resolve("y.json")
    with pytest.raises(DataError, match="no such file or folder: /no/where$"):
        resolve("/no/where")


def test_the_users_folder_is_expanded_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.json").touch()
    monkeypatch.setenv("AGENT_R1_DATA", "~/data")
    assert resolve("x.json") == resolve("~/data/x.json") == tmp_path / "data" / "x.json"
    OkapiRetriever([Passage("a", "A", "a")]).save("~/index")
    assert len(OkapiRetriever.open("~/index")) == 1
    Recordings("~/replies").put("/x", {}, Reply(200, {}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "index", "replies"]


def test_the_cache_lies_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AGENT_R1_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == tmp_path / ".cache" / "agent-r1"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder() == tmp_path / "caches" / "agent-r1"
    monkeypatch.setenv("AGENT_R1_CACHE", "~/own")
    assert cache_folder() == tmp_path / "own"


def test_a_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(256)) * 9000)
    assert sha256(tmp_path / "x") == hashlib.sha256(bytes(range(256)) * 9000).hexdigest()


def test_json_is_written_as_a_whole(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": [1, "é"]})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"a": [1, "é"]}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_failure_leaves_a_file_as_it_was(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", object())
    with pytest.raises(KeyboardInterrupt), written_whole(tmp_path / "a.json") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.json", "1\n")]
    with written_whole(tmp_path / "a.json") as file:
        file.write(b"new")
        assert (tmp_path / "a.json").read_text() == "1\n"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.json", "new")]
    (tmp_path / "plain").touch()
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_files_of_a_split_are_found_by_the_best_pattern(tmp_path: Path) -> None:
    patterns = {"train": ("train*.json", "*.json"), "test": ("test.json",)}
    for name in ("b.json", "train-2.json", "train-1.json"):
        (tmp_path / name).write_text(name)
    found = files_of_split(tmp_path, "train", patterns)
    assert [path.name for path in found] == ["train-1.json", "train-2.json"]
    assert files_of_split(tmp_path / "b.json", "of no meaning for a file", patterns) == [tmp_path / "b.json"]
    with pytest.raises(ValueError, match="split must be one of train, test; got 'dev'"):
        files_of_split(tmp_path, "dev", patterns)
    with pytest.raises(DataError, match="expected one of test.json for split 'test', found none"):
        files_of_split(tmp_path, "test", patterns)
    digests = [hashlib.sha256(name.encode()).digest() for name in ("train-1.json", "train-2.json")]
    assert sha256_of_all(found) == hashlib.sha256(b"".join(digests)).hexdigest()
