"""Runs of the benchmark: what is played, resuming, failures, interruptions."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agent_r1_envs.spaces import FreeText
from agent_r1_envs.tasks import TaskSet
from agent_r1_trainer.bench.episode import EpisodeRecord, read_log
from agent_r1_trainer.bench.run import BenchError, BenchRun
from agent_r1_trainer.bench.settings import AgentSpec, BenchSettings, parse_agent
from agent_r1_trainer.files import JsonLines, LockError, ManifestError

HOTPOT = "AgentR1/HotpotQA-v0"


def settings(agent: str = "random", **fields: Any) -> BenchSettings:
    return BenchSettings(**{"env": HOTPOT, "agent": parse_agent(agent), "episodes": 12, **fields})


def plain(records: list[EpisodeRecord]) -> list[dict[str, Any]]:
    """The records without what a clock decides."""
    return [{**r.to_json(), "seconds": 0} for r in records]


def test_experts_solve_what_random_agents_do_not(tmp_path: Path) -> None:
    expert = BenchRun(settings("expert", episodes=40), tmp_path / "expert").run()
    random = BenchRun(settings("random", episodes=40), tmp_path / "random").run()
    assert expert.success.value == expert.score.value == 1.0 and expert.invalid_rate.value == 0.0
    assert random.success.value < 0.2 and random.invalid_rate.value == 0.0
    assert json.loads((tmp_path / "expert" / "summary.json").read_text())["success"]["value"] == 1.0


def test_every_task_is_played_once_in_order_and_then_again_with_other_seeds(tmp_path: Path) -> None:
    run = BenchRun(settings(episodes=None), tmp_path)
    tasks = run.tasks
    assert tasks is not None and [job.task for job in run.jobs] == list(range(tasks))
    wrapped = BenchRun(settings(episodes=tasks + 2), tmp_path).jobs
    chosen = [job.task for job in BenchRun(settings(episodes=2), tmp_path).jobs]
    assert [job.task for job in wrapped[-2:]] == chosen and len(wrapped) == tasks + 2
    assert wrapped[-2].seed != wrapped[chosen[0]].seed


SORTED = [f"{kind}-{number}" for kind in ("clean", "heat", "look") for number in range(40)]


class SortedEnv(gymnasium.Env[str, str]):
    """A panel that lies sorted by type, as official games do."""

    observation_space = action_space = FreeText(100)
    tasks = TaskSet(
        [type("Task", (), {"task_type": name.split("-")[0]})() for name in SORTED],
        dataset="games",
        split="train",
        ids=SORTED,
        content_hash="1",
    )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.info = {"task_id": self.tasks.ids[(options or {})["task"]], "admissible_actions": ["left", "right"]}
        return "go", self.info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "done", 1.0, True, False, self.info


@pytest.fixture
def sorted_panel() -> Iterator[None]:
    gymnasium.register("Sorted-v0", entry_point=SortedEnv)
    yield
    del gymnasium.registry["Sorted-v0"]


def kinds(run: BenchRun) -> list[str]:
    return sorted(record.task_id.split("-")[0] for record in run.records)


def test_some_episodes_stand_for_the_panel(tmp_path: Path, sorted_panel: None) -> None:
    run = BenchRun(settings(env="Sorted-v0", episodes=6), tmp_path)
    run.run()
    assert kinds(run) == ["clean"] * 2 + ["heat"] * 2 + ["look"] * 2
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["task_ids"] == [record.task_id for record in run.records]
    more = BenchRun(settings(env="Sorted-v0", episodes=12), tmp_path)
    assert more.resumed and len(more.jobs) == 6 and len(more.records) == 6
    more.run()
    assert kinds(more) == ["clean"] * 4 + ["heat"] * 4 + ["look"] * 4
    assert len(json.loads((tmp_path / "manifest.json").read_text())["task_ids"]) == 12
    assert BenchRun(settings(env="Sorted-v0", episodes=6), tmp_path).summary().episodes == 6
    other = BenchRun(settings(env="Sorted-v0", episodes=6, seed=7), tmp_path / "other")
    assert other.numbers == run.numbers
    twice = BenchRun(settings(env="Sorted-v0", episodes=123), tmp_path)
    assert twice.numbers[:120] == list(range(120)) and len(twice.numbers) == 123
    assert json.loads((tmp_path / "manifest.json").read_text())["task_ids"] is None


def test_a_run_of_the_first_tasks_goes_on_with_them(tmp_path: Path, sorted_panel: None) -> None:
    run = BenchRun(settings(env="Sorted-v0", episodes=6), tmp_path)
    path = tmp_path / "manifest.json"
    earlier = json.loads(path.read_text())
    del earlier["choice"], earlier["task_ids"]
    path.write_text(json.dumps(earlier))
    with JsonLines(run.log) as log:
        for number in range(4):  # what an earlier version left
            log.append(EpisodeRecord(number, SORTED[number], 0, True, 1.0, 1.0, 1, 0, "terminated").to_json())
    again = BenchRun(settings(env="Sorted-v0", episodes=6), tmp_path)
    assert again.resumed and [job.task for job in again.jobs] == [4, 5]
    again.run()
    assert kinds(again) == ["clean"] * 6


@pytest.mark.parametrize("concurrency", [2, 5])
def test_concurrency_changes_nothing(tmp_path: Path, concurrency: int) -> None:
    alone, together = (BenchRun(settings(concurrency=n), tmp_path / str(n)) for n in (1, concurrency))
    alone.run()
    together.run()
    assert plain(alone.records) == plain(together.records)


def test_a_run_that_stopped_goes_on_to_the_same_result(tmp_path: Path) -> None:
    whole = BenchRun(settings(), tmp_path / "whole")
    whole.run()
    part = BenchRun(settings(), tmp_path / "part")
    with pytest.raises(KeyboardInterrupt):
        part.run(_raise_after(5))
    log = tmp_path / "part" / "episodes.jsonl"
    with log.open("ab") as file:
        file.write(b'{"episode": 99, "tas')  # as a kill in the middle of a write leaves it
    again = BenchRun(settings(), tmp_path / "part")
    assert again.resumed and [job.episode for job in again.jobs] == list(again.numbers)[5:]
    played: list[int] = []
    again.run(lambda record: played.append(record.episode))
    assert played == list(again.numbers)[5:] and len(played) == 7
    assert plain(again.records) == plain(whole.records) == plain(read_log(log))
    nothing = BenchRun(settings(), tmp_path / "part")
    assert nothing.jobs == [] and nothing.run() == whole.run()


def _raise_after(count: int) -> Any:
    counter = itertools.count(1)

    def on_record(record: EpisodeRecord) -> None:
        if next(counter) == count:
            raise KeyboardInterrupt

    return on_record


def test_more_episodes_may_be_asked_for_later_and_other_settings_not(tmp_path: Path) -> None:
    BenchRun(settings(episodes=3), tmp_path).run()
    assert len(BenchRun(settings(episodes=5), tmp_path).jobs) == 2
    assert len(BenchRun(settings(episodes=2, concurrency=2), tmp_path).records) == 2
    for other in (settings(seed=1), settings("expert"), settings(env_kwargs={"top_k": 1}), settings(max_turns=3)):
        with pytest.raises(ManifestError, match="other settings"):
            BenchRun(other, tmp_path)


class FlakyEnv(gymnasium.Env[str, str]):
    """Raises in the step of every third episode while ``broken``; every episode while ``hopeless``."""

    broken = hopeless = False
    observation_space = action_space = FreeText(100)
    tasks = ["a", "b", "c"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.task = (options or {}).get("task", 0)
        return "go", {"admissible_actions": ["left", "right"]}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.hopeless or (self.broken and self.task == 1):
            raise OSError("the disk is full")
        return "done", 1.0, True, False, {}


@pytest.fixture
def flaky() -> Iterator[type[FlakyEnv]]:
    gymnasium.register("Flaky-v0", entry_point=FlakyEnv)
    yield FlakyEnv
    FlakyEnv.broken = FlakyEnv.hopeless = False
    del gymnasium.registry["Flaky-v0"]


def test_keys_of_a_service_stand_in_no_file_and_may_change(tmp_path: Path) -> None:
    for key in ("first-key", "second-key"):
        service = {"url": f"http://u:{key}@127.0.0.1:1/retrieve", "headers": {"Authorization": f"Bearer {key}"}}
        settings = BenchSettings(
            env="AgentR1/HotpotQA-v0",
            agent=parse_agent("random"),
            episodes=1,
            env_kwargs={"retriever": {**service, "retries": 0}, "retrieval": "corpus"},
            max_turns=2,
        )
        BenchRun(settings, tmp_path / "run").run()
        written = "".join(path.read_text() for path in (tmp_path / "run").iterdir())
        assert "http://127.0.0.1:1/retrieve" in written and "-key" not in written


@pytest.mark.parametrize("concurrency", [1, 3])
def test_failed_episodes_are_counted_and_played_again(tmp_path: Path, flaky: type[FlakyEnv], concurrency: int) -> None:
    flaky.broken = True
    given = settings(env="Flaky-v0", episodes=6, concurrency=concurrency)
    summary = BenchRun(given, tmp_path).run()
    assert summary.failed == 2 and summary.success.value == pytest.approx(4 / 6)
    assert summary.stops == {"terminated": 4, "failed": 2}
    failed = [r for r in read_log(tmp_path / "episodes.jsonl") if r.failed]
    assert [r.episode for r in failed] == [1, 4] and "OSError: the disk is full" in failed[0].error
    flaky.broken = False
    again = BenchRun(given, tmp_path)
    assert [job.episode for job in again.jobs] == [1, 4]
    assert again.run().success.value == 1.0


@pytest.mark.parametrize("concurrency", [1, 3])
def test_an_env_that_cannot_be_built_again_costs_its_episodes_only(tmp_path: Path, concurrency: int) -> None:
    built: list[FlakyEnv] = []

    def scarce() -> FlakyEnv:
        if len(built) == 2:  # the one that is described, and one that plays
            raise ConnectionError("no more servers")
        built.append(FlakyEnv())
        return built[-1]

    gymnasium.register("Scarce-v0", entry_point=scarce)
    try:
        run = BenchRun(settings(env="Scarce-v0", episodes=6, concurrency=concurrency), tmp_path)
        FlakyEnv.broken = True
        run.run()
    finally:
        FlakyEnv.broken = False
        del gymnasium.registry["Scarce-v0"]
    errors = [record.error for record in run.records if record.failed]
    assert len(run.records) == 6 and any("no more servers" in error for error in errors)


class GarbledEnv(FlakyEnv):
    """Says half a surrogate pair and a control sequence, and is sure of it in the wrong type."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "done \ud800\x1b[2J", 1.0, True, False, {"success": "False"} if self.task == 1 else {}


def test_what_an_env_may_not_return_is_a_failed_episode(tmp_path: Path) -> None:
    gymnasium.register("Garbled-v0", entry_point=GarbledEnv)
    try:
        summary = BenchRun(settings(env="Garbled-v0", episodes=3), tmp_path).run()
    finally:
        del gymnasium.registry["Garbled-v0"]
    records = read_log(tmp_path / "episodes.jsonl")
    assert summary.failed == 1 and "Garbled-v0.step() returned info['success'] = 'False'" in records[1].error
    assert records[0].success and records[0].steps[0].observation == "done \ufffd\x1b[2J"


def test_a_run_in_which_nothing_works_stops(tmp_path: Path, flaky: type[FlakyEnv]) -> None:
    flaky.hopeless = True
    with pytest.raises(BenchError, match="first 8 episodes failed.*the disk is full"):
        BenchRun(settings(env="Flaky-v0", episodes=500), tmp_path).run()
    assert len(read_log(tmp_path / "episodes.jsonl")) == 8


def test_a_run_that_never_got_going_gives_its_folder_up(tmp_path: Path, flaky: type[FlakyEnv]) -> None:
    flaky.hopeless = True
    BenchRun(settings(env="Flaky-v0", episodes=2), tmp_path).run()
    with JsonLines(tmp_path / "episodes.jsonl"), pytest.raises(LockError, match="in use by"):
        BenchRun(settings(seed=3, episodes=2), tmp_path)
    assert len(BenchRun(settings(seed=3, episodes=2), tmp_path).run().stops) > 0
    assert len(BenchRun(settings(seed=3, episodes=2), tmp_path).jobs) == 0


def test_an_env_without_a_panel_needs_a_number(tmp_path: Path, flaky: type[FlakyEnv], monkeypatch: Any) -> None:
    monkeypatch.delattr(flaky, "tasks")
    with pytest.raises(BenchError, match="--episodes"):
        _ = BenchRun(settings(env="Flaky-v0", episodes=None), tmp_path).jobs


@pytest.mark.parametrize("fields", [{"episodes": 0}, {"concurrency": 0}])
def test_bad_settings_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        settings(**fields)


@pytest.mark.parametrize("text", ["", "expert:x", "hf:", "openai:m", "openai:m@ftp://x", "openai:@http://x", "gpt"])
def test_unknown_agents_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="has no address" if text.startswith("openai:") else "unknown agent"):
        parse_agent(text)


@pytest.mark.parametrize(
    "spec",
    [AgentSpec("random"), AgentSpec("hf", "org/m"), AgentSpec("openai", "a@b/c", "http://u:p@host:1/v1")],
)
def test_the_form_of_an_agent_can_be_read_back(spec: AgentSpec) -> None:
    assert parse_agent(str(spec)) == spec


SLOW = """
import agent_r1_trainer.bench.agents as r, time
begin = r.RandomAgent.begin
r.RandomAgent.begin = lambda *a: (time.sleep(0.05), begin(*a))[1]
from agent_r1_trainer.cli import main
main()
"""


@pytest.mark.parametrize("concurrency", ["1", "2"])
def test_ctrl_c_leaves_what_was_done_and_says_how_to_go_on(tmp_path: Path, concurrency: str) -> None:
    out = tmp_path / "run"
    arguments = ["bench", "--env", HOTPOT, "--agent", "random", "--out", str(out), "--concurrency", concurrency]
    running = subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    log = out / "episodes.jsonl"
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGINT)
    shown, said = running.communicate(timeout=60)
    assert running.returncode == 130
    done = len(read_log(log))
    assert f"Stopped. {done} of 500 episodes are in" in said and "the same command goes on" in said
    assert "success" in shown and "Traceback" not in said
    assert BenchRun(settings(episodes=None), out).resumed
