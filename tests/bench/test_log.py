import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_r1_trainer.bench.episode import EpisodeRecord, LogError, PlayedTurn, read_log
from agent_r1_trainer.bench.manifest import claim_folder
from agent_r1_trainer.files import JsonLines, LockError, ManifestError


def record(episode: int, **fields: Any) -> EpisodeRecord:
    base: dict[str, Any] = {"task_id": f"t{episode}", "seed": 1, "success": True, "score": 1.0, "reward": 1.0}
    return EpisodeRecord(episode=episode, **{**base, "turns": 2, "invalid": 0, "stop": "terminated", **fields})


def write(path: Path, *records: EpisodeRecord) -> None:
    with JsonLines(path) as log:
        for item in records:
            log.append(item.to_json())


def test_reads_what_was_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    odd = record(0, steps=[PlayedTurn("é\u2028\ud800\n", 0.0)])
    write(path, record(2), odd)
    write(path, record(1))
    first, *others = read_log(path)
    assert others == [record(1), record(2)]
    assert first.steps[0].action == "é\u2028?\n"  # half a surrogate pair has no place in a file
    assert read_log(tmp_path / "none.jsonl") == []


def test_a_later_line_of_an_episode_counts(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path, record(0, error="down", stop="failed"), record(0))
    assert read_log(path) == [record(0)]


@pytest.mark.parametrize("cut", [1, 5, 60, 150])
def test_a_torn_last_line_is_ignored_and_then_cut_away(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log.jsonl"
    write(path, record(0), record(1))
    os.truncate(path, path.stat().st_size - cut)
    assert read_log(path) == [record(0)]
    write(path, record(2))
    assert read_log(path) == [record(0), record(2)]


def test_a_log_that_is_one_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"x" * 200_000)
    assert read_log(path) == []
    write(path, record(0))
    assert read_log(path) == [record(0)]


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"episode": 0}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "log.jsonl"
    write(path, record(0))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(LogError, match=r"log.jsonl, line 2: not the record"):
        read_log(path)


def test_two_runs_cannot_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with JsonLines(path), pytest.raises(LockError, match=f"log.jsonl is in use by process {os.getpid()} "):
        write(path)
    write(path, record(0))
    assert [found.name for found in tmp_path.iterdir()] == ["log.jsonl"]


def test_keys_of_later_versions_are_left_out() -> None:
    assert EpisodeRecord.from_json({**record(0).to_json(), "tokens": 5}) == record(0)


def test_a_folder_belongs_to_one_run(tmp_path: Path) -> None:
    settings = {"env": "A", "seed": 0, "sampling": {"temperature": 0.0}}
    assert claim_folder(tmp_path / "run", settings) is False
    assert claim_folder(tmp_path / "run", settings) is True
    with pytest.raises(ManifestError, match=r"other settings(?s:.*)seed: 0 there, 1 now") as caught:
        claim_folder(tmp_path / "run", {**settings, "seed": 1})
    assert "env" not in str(caught.value)
    with pytest.raises(ManifestError, match="extra: null there, 1 now"):
        claim_folder(tmp_path / "run", {**settings, "extra": 1})


def test_another_version_of_the_program_may_go_on(tmp_path: Path) -> None:
    claim_folder(tmp_path, {"env": "A"})
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "agent_r1": "0.0.1"}))
    assert claim_folder(tmp_path, {"env": "A"}) is True


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_foreign_manifest_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ManifestError, match="choose another --out"):
        claim_folder(tmp_path, {"env": "A"})


def test_episodes_without_a_manifest_are_refused(tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").write_text("")
    with pytest.raises(ManifestError, match="no manifest.json"):
        claim_folder(tmp_path, {"env": "A"})


def test_a_turn_is_written_without_what_it_lacks_and_read_back() -> None:
    turns = [PlayedTurn("look", 0.5, "A room.", usage={"prompt_tokens": 3}), PlayedTurn("fly", 0.0, invalid="no wings")]
    row = record(0, steps=turns).to_json()
    assert row["steps"] == [
        {"action": "look", "reward": 0.5, "observation": "A room.", "usage": {"prompt_tokens": 3}},
        {"action": "fly", "reward": 0.0, "invalid": "no wings"},
    ]
    assert EpisodeRecord.from_json(row) == record(0, steps=turns)
    row["steps"][0]["later"] = 1
    assert EpisodeRecord.from_json(row) == record(0, steps=turns)
    for damaged in (3, {"reward": 1.0}):
        with pytest.raises(ValueError, match="expected an object, got int|'action'"):
            EpisodeRecord.from_json({**row, "steps": [damaged]})
