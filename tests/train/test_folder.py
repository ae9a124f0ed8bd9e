"""The folder of a run: other runs are safe in it, and a killed one leaves it readable."""

import json

import pytest

from agent_r1_trainer.files import ManifestError
from agent_r1_trainer.sft.run import claim_folder
from agent_r1_trainer.tiny_policy import load_tiny_policy
from agent_r1_trainer.tiny_policy.hotpotqa.quality import play
from agent_r1_trainer.train.folder import RunFolder


def test_other_settings_are_refused_with_both_values(tmp_path):
    def folder(model="a", **training):
        return RunFolder(tmp_path / "run", {"model": model, "exam": {"episodes": 3}, "training": training})

    folder(seed=0, env_kwargs={"top_k": 2}).open()
    assert folder(seed=0, env_kwargs={"top_k": 2}, gamma=1.0, output_dir="elsewhere").changed == ()
    with pytest.raises(ValueError, match=r"run with other settings") as caught:
        folder("b", seed=1, env_kwargs={"top_k": 3}, learning_rate=1e-3)
    lines = str(caught.value).splitlines()[1:]
    assert lines == ["  env_kwargs.top_k: 2 there, 3 now", '  model: "a" there, "b" now', "  seed: 0 there, 1 now"]


def test_a_run_goes_on_with_settings_that_make_no_other_run_and_a_complete_one_does_not(tmp_path):
    def folder(episodes=3, **training):
        return RunFolder(tmp_path / "run", {"exam": {"episodes": episodes}, "training": {"seed": 0, **training}})

    folder(max_steps=100).open()
    changed = folder(4, max_steps=200, learning_rate=1e-3)
    assert [difference.name for difference in changed.changed] == ["exam.episodes", "learning_rate", "max_steps"]
    changed.open()
    assert folder(4, max_steps=200, learning_rate=1e-3).changed == ()
    changed.report.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"(?s)complete run with other settings.*max_steps: 200 there, 300 now"):
        folder(4, max_steps=300, learning_rate=1e-3)


@pytest.mark.parametrize("content", ["{", "[]", "\udcff"])
def test_a_damaged_manifest_is_named_with_the_way_out(content, tmp_path):
    (tmp_path / "settings.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ManifestError, match=r"settings\.json is .*; choose another --out or remove it"):
        RunFolder(tmp_path, {"model": "a"})
    (tmp_path / "warm_start.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ManifestError, match=r"warm_start\.json is .*; choose another folder or remove it"):
        claim_folder(tmp_path, {"model": "a"}, write=False)


def test_the_key_of_a_service_is_not_kept(tmp_path):
    def folder(key):
        service = {"url": f"http://u:{key}@host", "headers": {"Authorization": key}}
        return RunFolder(tmp_path / "run", {"training": {"env_kwargs": {"retriever": service}}})

    folder("first-key").open()
    folder("second-key").open()
    assert "-key" not in (tmp_path / "run" / "settings.json").read_text()


def test_nothing_is_made_before_open(tmp_path):
    folder = RunFolder(tmp_path / "run", {})
    assert not folder.path.exists() and not folder.complete and folder.rows() == []


def test_a_resumed_run_forgets_what_it_does_again(tmp_path):
    folder = RunFolder(tmp_path, {})
    folder.open()
    for step in (4, 8, 8, 12):
        folder.append({"step": step, "success": 0.5})
    with folder.metrics.open("a", encoding="utf-8") as file:
        file.write('{"step": 16, "succ')  # killed while writing
    assert [row["step"] for row in folder.rows()] == [4, 8, 8, 12]
    folder.forget_after(8)
    folder.append({"step": 12, "success": 0.25})
    lines = folder.metrics.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"step": 4, "success": 0.5},
        {"step": 8, "success": 0.5},
        {"step": 8, "success": 0.5},
        {"step": 12, "success": 0.25},
    ]


def test_trajectories_are_readable_and_whole(tmp_path):
    model, tokenizer = load_tiny_policy()
    episodes = play(model, tokenizer, tasks=5)
    folder = RunFolder(tmp_path, {})
    folder.write_trajectories("sampled", episodes, tokenizer)
    rows = [json.loads(line) for line in (tmp_path / "trajectories" / "sampled.jsonl").open(encoding="utf-8")]
    for row, episode in zip(rows, episodes, strict=True):
        assert row["task_id"] == episode.task_id and row["success"] == episode.success
        assert [turn["reply"] for turn in row["turns"]] == [step.text for step in episode.steps]
        assert row["turns"][0]["prompt"].count("Question:") == 1
        assert all("Question:" not in turn["prompt"] for turn in row["turns"][1:])
        assert sum(turn["reward"] for turn in row["turns"]) == episode.total_reward
