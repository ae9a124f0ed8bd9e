"""Paths that users give, the cache's folder, and hashes."""

import hashlib
from pathlib import Path

import pytest

from agent_r1_envs.errors import DataError
from agent_r1_envs.files import cache_folder, resolve, sha256
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
