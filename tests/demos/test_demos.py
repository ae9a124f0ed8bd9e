"""Demonstrations: what is in a row, and that a file comes out the same however it was made."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from agent_r1_wrappers import AppendHistory, ParseToolCalls

from agent_r1_envs.spaces import FreeText
from agent_r1_envs.tasks import TaskSet
from agent_r1_trainer.commands.envs import environment_lines
from agent_r1_trainer.demos import DemoError, DemoRun, DemoSettings, read_rows
from agent_r1_trainer.demos.file import DemoFile
from agent_r1_trainer.environments.factory import EnvFactory

IDS = [env_id for env_id, _ in environment_lines()]
HOTPOT = "AgentR1/HotpotQA-v0"
REWRITTEN = ("-StepPO-", "WebShop-GiGPO-", "ALFWorld-GiGPO-")


def make(path: Path, *, resume: bool = False, **settings: Any) -> list[dict[str, Any]]:
    DemoRun(DemoSettings(**{"env": HOTPOT, "episodes": 6, **settings}), path, resume=resume).run()
    return list(read_rows(path))


class CountEnv(gymnasium.Env[str, str]):
    """Wants its task's number of `up`; the expert knows nothing of tasks 1 and 3, and gives up in the middle of 3."""

    observation_space = action_space = FreeText(1000)
    tasks = range(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.task, self.count = int((options or {})["task"]), 0
        return f"Say up {self.task + 1} times.", {"task_id": f"t{self.task}"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.count += 1
        won = self.count == self.task + 1
        return f"{self.count}", float(won), won, False, {"task_id": f"t{self.task}"}

    def expert_action(self) -> str | None:
        return None if self.task == 1 or (self.task, self.count) == (3, 2) else "up"


class Broken(CountEnv):
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.task == 2:
            raise OSError("the server is down")
        return super().step(action)


@pytest.mark.parametrize("env_id", IDS)
def test_rows_replay_to_the_same_prompts(env_id: str, tmp_path: Path) -> None:
    """Playing the completions of the file gives its prompts again, each reply is read as the expert's command."""
    rows = make(tmp_path / "d.jsonl", env=env_id, episodes=2)
    env = EnvFactory(env_id)()
    assert [row["episode"] for row in rows if row["turn"] == 0] == [0, 1]
    for row in rows:
        if row["turn"] == 0:
            messages, info = env.reset(options={"task": row["task_id"]})
            assert info["task_id"] == row["task_id"]
        assert row["prompt"] == messages
        (reply,) = row["completion"]
        assert reply["role"] == "assistant"
        expert = env.unwrapped.expert_action()  # type: ignore[attr-defined]
        messages, _, terminated, _, info = env.step(reply["content"])
        assert info["action"] == expert and "invalid_action" not in info
        assert row["continues"] == (row["turn"] > 0 and not any(part in env_id for part in REWRITTEN))
        assert terminated == (row["turn"] == row["turns"] - 1)
        if terminated:
            assert (info["success"], info["score"]) == (row["success"], row["score"]) == (True, 1.0)


def test_datasets_loads_every_file(tmp_path: Path) -> None:
    from datasets import load_dataset

    for env_id in (HOTPOT, "AgentR1/WebShop-StepPO-v0"):
        rows = make(tmp_path / "d.jsonl", env=env_id, episodes=2)
        loaded = load_dataset("json", data_files=str(tmp_path / "d.jsonl"), split="train", cache_dir=str(tmp_path))
        assert list(loaded) == rows
        (tmp_path / "d.jsonl").unlink()


def test_a_history_below_other_changes_is_not_told_to_continue(tmp_path: Path) -> None:
    from agent_r1_wrappers import AugmentContext, recipes

    def augmented() -> gymnasium.Env:
        return AugmentContext(recipes.native(gymnasium.make(HOTPOT, split="train")), remaining_turns=True)

    rows = make(tmp_path / "d.jsonl", env=augmented)
    assert len(rows) > 6 and not any(row["continues"] for row in rows)


def test_tools_of_a_template_are_a_json_text(tmp_path: Path) -> None:
    def templated() -> gymnasium.Env:
        return AppendHistory(ParseToolCalls(gymnasium.make(HOTPOT, split="train"), schemas="template"))

    for row in make(tmp_path / "d.jsonl", env=templated, episodes=1):
        assert [tool["function"]["name"] for tool in json.loads(row["tools"])] == ["search", "answer"]
        assert "chat_template_kwargs" not in row


def test_plain_text_is_one_user_message(tmp_path: Path) -> None:
    class One(CountEnv):
        tasks = range(1)

    rows = make(tmp_path / "d.jsonl", env=One, recipe="none", episodes=1)
    assert rows[0]["prompt"] == [{"role": "user", "content": "Say up 1 times."}]
    assert rows[0]["completion"][0]["content"] == "up" and rows[0]["success"] and rows[0]["env"] == "One"


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    rows = make(whole)
    content = whole.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    assert rows[1]["episode"] == 0 and rows[-2]["turn"] == rows[-1]["turn"] - 1  # episodes of several rows
    for cut in (0, 10, ends[0], ends[1] + 7, ends[4], ends[-2], ends[-2] + 1, len(content) - 1, len(content)):
        broken.write_bytes(content[:cut])
        make(broken, resume=True)
        assert broken.read_bytes() == content, cut
    make(broken, resume=True, episodes=8)
    assert broken.read_bytes().startswith(content) and len(list(read_rows(broken))) > len(rows)


class SortedEnv(CountEnv):
    """Its tasks lie sorted by type; the expert can do all of them."""

    tasks = TaskSet(
        [type("Task", (), {"task_type": kind})() for kind in "aaabbbccc"],
        dataset="games",
        split="train",
        ids=[f"{kind}{number}" for number, kind in enumerate("aaabbbccc")],
        content_hash="1",
    )

    def expert_action(self) -> str:
        return "up"


def test_some_episodes_are_of_every_type(tmp_path: Path) -> None:
    path, old = tmp_path / "d.jsonl", tmp_path / "old.jsonl"
    kind = {f"t{number}": kind for number, kind in enumerate("aaabbbccc")}
    settings: dict[str, Any] = {"env": SortedEnv, "recipe": "native"}
    for episodes in (3, 6):
        rows = make(path, resume=True, episodes=episodes, **settings)
        tasks = {row["task_id"] for row in rows}
        assert sorted(map(kind.get, tasks)) == sorted("abc" * (episodes // 3))
    assert len({row["task_id"] for row in make(path, resume=True, episodes=None, **settings)}) == 9
    # What an earlier version began with the first tasks goes on with them.
    whole = make(old, episodes=None, **settings)
    content = old.read_bytes().splitlines(keepends=True)
    assert [row["task_id"] for row in whole[:3]] == ["t0", "t1", "t1"]
    old.write_bytes(b"".join(content[:3]))
    assert {row["task_id"] for row in make(old, resume=True, episodes=4, **settings)} == {"t0", "t1", "t2", "t3"}


def test_unsolved_episodes_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    settings: dict[str, Any] = {"env": CountEnv, "recipe": "native", "episodes": None, "only_successful": True}
    rows = make(path, **settings)
    assert [row["task_id"] for row in rows] == ["t0", *["t2"] * 3, *["t4"] * 5]
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    assert make(path, resume=True, **settings) == rows
    with pytest.raises(DemoError, match="lacks some episodes: go on with --only-successful"):
        make(path, resume=True, **{**settings, "only_successful": False})
    with pytest.raises(DemoError, match="does not know how to begin episode 1 .task 1.*--only-successful"):
        make(tmp_path / "all.jsonl", **{**settings, "only_successful": False})


def test_unsolved_episodes_are_kept_otherwise(tmp_path: Path) -> None:
    def without_task_1() -> gymnasium.Env:
        env = CountEnv()
        env.tasks = range(1)
        return env

    class Giving(CountEnv):
        tasks = range(4)

        def expert_action(self) -> str | None:
            return "up" if self.count < 2 else None

    path = tmp_path / "d.jsonl"
    rows = make(path, env=Giving, episodes=4)
    assert [(row["episode"], row["success"]) for row in rows if row["turn"] == 0] == [
        (0, True),
        (1, True),
        (2, False),
        (3, False),
    ]
    with pytest.raises(DemoError, match="holds unsolved episodes"):
        make(path, env=Giving, resume=True, only_successful=True)
    assert {row["task_id"] for row in make(tmp_path / "one.jsonl", env=without_task_1, episodes=2)} == {"t0"}


def test_a_failure_is_named_and_what_was_played_stays(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    settings: dict[str, Any] = {"env": Broken, "only_successful": True, "episodes": 5}
    with pytest.raises(DemoError, match="episode 2 failed with OSError: the server is down; --resume goes on"):
        make(path, **settings)
    assert [row["task_id"] for row in read_rows(path)] == ["t0"]


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    make(path)
    before = path.read_bytes()
    with pytest.raises(DemoError, match="is there already: go on with --resume"):
        make(path)
    for other in ({"env": "AgentR1/HotpotQA-ReAct-v0"}, {"recipe": "native"}, {"env_kwargs": {"split": "test"}}):
        with pytest.raises(DemoError, match="made with other settings: its episode 5 comes out otherwise"):
            make(path, resume=True, **other)
    with DemoFile(path), pytest.raises(DemoError, match="in use by process"):
        make(path, resume=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense\n", "line 1: not JSON"),
        (b"[1]\n", "line 1: expected an object, got list"),
        (b'{"prompt": "x"}\n', "line 1: no row of demonstrations, it lacks 'episode'"),
        (b"notes of mine", "line 1: this is no row of demonstrations"),  # it was cut away as a torn row
        (b'{"episode": 0, "turn": 1, "turns": 2, "success": true}\n', "turn 1 of episode 0 does not follow"),
    ],
)
def test_a_damaged_file_is_named(line: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(line)
    with pytest.raises(DemoError, match=message):
        make(path, resume=True)
    assert path.read_bytes() == line


def test_an_env_without_an_expert_is_refused(tmp_path: Path) -> None:
    class Mute(CountEnv):
        expert_action = tasks = None  # type: ignore[assignment]

    with pytest.raises(DemoError, match=r"Mute has no expert_action\(\)"):
        make(tmp_path / "d.jsonl", env=Mute)
    with pytest.raises(ValueError, match="has no panel of tasks: say how many episodes"):
        make(tmp_path / "d.jsonl", env=Mute, episodes=None)
    with pytest.raises(ValueError, match="episodes must be at least 1, got 0"):
        DemoSettings(HOTPOT, episodes=0)
