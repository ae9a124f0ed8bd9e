"""Episodes that wait for nobody: the same trajectories as in lockstep, whatever the environments' delays and faults."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
import time
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import pytest

from agent_r1_trainer.environments.factory import EnvFactory
from agent_r1_trainer.flows import AgentEnvLoop, Assignment, AsyncEnvLoop, FailurePolicy, SingleStepFlow
from agent_r1_trainer.flows.crew import HungThreadsError
from agent_r1_trainer.flows.failures import EpisodeFailedError
from agent_r1_trainer.generation import (
    BatchingGenerator,
    BlockingGenerator,
    Generation,
    GenerationError,
    SamplingParams,
    TransformersGenerator,
)
from agent_r1_trainer.tiny_policy.loading import load_tiny_policy
from agent_r1_trainer.trajectory import StopReason, Trajectory
from tests.helpers.cues import CueEnv
from tests.helpers.fault_envs import (
    RELEASE,
    AloneEnv,
    BadlyClosedEnv,
    BoundEnv,
    DelayedEnv,
    ExitingCloseEnv,
    ExitingEnv,
    FaultyEnv,
    HangingCloseEnv,
    MeetingEnv,
    notes,
)
from tests.helpers.text_envs import ROOMS
from tests.helpers.training import ScriptedGenerator, make_model, make_tokenizer

TOKENIZER = make_tokenizer()
SAMPLING = SamplingParams(4, (1,))
WORKERS = ("inline", "threads", "processes")


def last_cue(prompt: list[int]) -> str:
    words = TOKENIZER.convert_ids_to_tokens(prompt)
    return [word for word in words if word in ("left", "right")][-1] + " <end>"


def loop(make_env: Any = CueEnv, **kwargs: Any) -> AsyncEnvLoop:
    return AsyncEnvLoop(make_env, TOKENIZER, **{"max_prompt_length": 200, **kwargs})


def assignments(count: int) -> list[Assignment]:
    return [Assignment(task=i % 8, seed=50 + i, group=i // 2, sample=i % 2) for i in range(count)]


class Recorded:
    """A model, and how many prompts it was asked in each call."""

    def __init__(self) -> None:
        self.inner = TransformersGenerator(make_model(), pad_token_id=0)
        self.calls: list[list[int]] = []

    def generate(
        self, prompts: Sequence[list[int]], sampling: SamplingParams | Sequence[SamplingParams], seeds: Sequence[int]
    ) -> list[Generation]:
        self.calls.append(list(seeds))
        return self.inner.generate(prompts, sampling, seeds)


@pytest.fixture(scope="module")
def lockstep() -> tuple[list[Trajectory], list[list[int]]]:
    generator = Recorded()
    flow = AgentEnvLoop(CueEnv, TOKENIZER, max_prompt_length=200, concurrency=24)
    return flow.run(assignments(200), generator, SAMPLING, policy_version=3), generator.calls


@pytest.mark.parametrize("workers", WORKERS)
def test_two_hundred_episodes_with_random_delays_are_those_of_lockstep_to_the_last_bit(workers, lockstep):
    flow = loop(DelayedEnv, env_workers=workers, concurrency=24)
    generator = Recorded()
    try:
        trajectories = flow.run(assignments(200), generator, SAMPLING, policy_version=3)
    finally:
        flow.close()
    assert trajectories == lockstep[0] and generator.calls == lockstep[1]
    assert flow.progress.done == 200 and flow.progress.turns == sum(map(len, trajectories))
    assert flow.progress.tokens == sum(
        len(step.response_ids) for trajectory in trajectories for step in trajectory.steps
    )
    assert flow.times.environment > 0 and flow.times.generation > 0 and 0 < flow.progress.environment_share < 1


@pytest.mark.parametrize("workers", ["threads", "inline"])
def test_a_back_end_that_answers_each_by_itself_gives_the_same_up_to_rounding(workers, lockstep):
    """Batches are whatever waits at the time, so their rounding differs, and nothing else does."""
    flow = loop(DelayedEnv, env_workers=workers, concurrency=24)
    trajectories = flow.run(assignments(200), BatchingGenerator(Recorded()), SAMPLING, policy_version=3)
    flow.close()
    for found, expected in zip(trajectories, lockstep[0], strict=True):
        assert [step.response_ids for step in found.steps] == [step.response_ids for step in expected.steps]
        assert [step.prompt_ids for step in found.steps] == [step.prompt_ids for step in expected.steps]
        assert found.rewards == expected.rewards and found.group == expected.group
        for step, other in zip(found.steps, expected.steps, strict=True):
            assert step.logprobs == pytest.approx(other.logprobs, abs=1e-5)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_the_tiny_policy_answers_questions_the_same_wherever_they_are_asked(workers):
    model, tokenizer = load_tiny_policy()
    tasks = [Assignment(task=i, seed=i, group=i) for i in range(12)]
    kwargs = {"split": "validation", "top_k": 2, "max_calls": 1}  # as it was taught
    factory = EnvFactory("AgentR1/HotpotQA-v0", kwargs, recipe="native")
    sampling = SamplingParams(8, (tokenizer.eos_token_id,), temperature=0.7)
    runs = []
    for flow in (
        AgentEnvLoop(factory, tokenizer, max_prompt_length=1024, step_anchor="state"),
        AsyncEnvLoop(factory, tokenizer, max_prompt_length=1024, step_anchor="state", env_workers=workers),
    ):
        flow.check(sampling)
        generator = TransformersGenerator(model, pad_token_id=tokenizer.pad_token_id, tokenizer=tokenizer)
        runs.append(flow.run(tasks, generator, sampling))
        flow.close()
    assert runs[0] == runs[1] and len({len(trajectory) for trajectory in runs[0]}) > 1


def test_environments_work_side_by_side():
    """Every step waits until all 32 environments are in it."""
    flow = loop(MeetingEnv)
    trajectories = flow.run(assignments(32), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert all(trajectory.success and len(trajectory) == 2 for trajectory in trajectories)
    flow.close()


def test_no_more_work_than_may():
    flow = loop(MeetingEnv, max_env_workers=31)
    MeetingEnv.meeting = threading.Barrier(31, timeout=60)
    trajectories = flow.run(assignments(31), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert all(trajectory.success for trajectory in trajectories)
    assert sum(thread.name == "agent-r1-environment" for thread in threading.enumerate()) == 31
    flow.close()
    assert sum(thread.name == "agent-r1-environment" for thread in threading.enumerate()) == 0


def test_an_environment_stays_in_the_thread_that_built_it():
    flow = loop(BoundEnv, concurrency=5)
    for _ in range(2):
        trajectories = flow.run(assignments(20), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
        assert all(trajectory.success for trajectory in trajectories)
    flow.close()


def test_an_environment_may_refuse_threads():
    with pytest.raises(ValueError, match="not thread-safe.*env_workers='processes'"):
        loop(AloneEnv).run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    with pytest.raises(ValueError, match="'alone'.*not thread-safe"):
        loop({"alone": AloneEnv, "cue": CueEnv}).check(SAMPLING)
    [trajectory] = loop(AloneEnv, env_workers="inline").run(
        assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING
    )
    assert trajectory.success


def test_what_cannot_work_is_refused_at_once():
    with pytest.raises(ValueError, match="env_timeout=5 .*'inline'.*'threads' or 'processes'"):
        loop(env_workers="inline", env_timeout=5)
    with pytest.raises(ValueError, match="seconds above 0, got -1"):
        loop(env_timeout=-1)
    with pytest.raises(ValueError, match="inline, threads, processes"):
        loop(env_workers="fibers")
    with pytest.raises(ValueError, match="max_env_workers must be at least 1"):
        loop(max_env_workers=0)
    with pytest.raises(TypeError, match=r"cannot be sent there.*top of a module.*env_workers='threads'"):
        loop(lambda: CueEnv(), env_workers="processes")
    with pytest.raises(TypeError, match="of 'mine' cannot be sent there"):
        loop({"mine": EnvFactory(lambda: CueEnv())}, env_workers="processes")
    with pytest.raises(ValueError, match="no environment 'x'"):
        loop().run([Assignment(0, 1, env="x")], ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)


def test_an_id_that_only_this_process_knows_can_be_built_in_another():
    flow = loop(EnvFactory(ROOMS, {}, recipe="native"), env_workers="processes", concurrency=2)
    trajectories = flow.run(
        [Assignment(i, 1, group=i) for i in range(3)], ScriptedGenerator(TOKENIZER, lambda prompt: "a <end>"), SAMPLING
    )
    assert [trajectory.stop for trajectory in trajectories] == [StopReason.TURN_LIMIT] * 3
    assert [trajectory.task_id for trajectory in trajectories] == ["kitchen", "cellar", "garden"]
    flow.close()
    assert not multiprocessing.active_children()


@pytest.fixture
def released():
    RELEASE.clear()
    yield
    RELEASE.set()


def faulty(folder: Any, workers: str, **kwargs: Any) -> partial[FaultyEnv]:
    return partial(FaultyEnv, str(folder), own_process=workers == "processes", **kwargs)


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("retries", [0, 1])
def test_faults_cost_their_own_episodes_and_nothing_is_lost(workers, retries, tmp_path, released):
    before = threading.active_count()
    flow = loop(
        faulty(tmp_path, workers, share=0.4),
        env_workers=workers,
        env_timeout=0.75,
        failures=FailurePolicy(retries),
    )
    generator = ScriptedGenerator(TOKENIZER, last_cue)
    trajectories = flow.run(assignments(24), generator, SAMPLING)  # all at once, so that those that hang do so together
    injected = {kind: notes(tmp_path, f"fault-{kind}") for kind in ("raise", "hang", "die")}
    assert all(injected.values()) and len(trajectories) == 24
    progress = flow.progress
    assert (progress.timeouts, progress.crashes) == (injected["hang"], injected["die"])
    assert (progress.retried, progress.masked)[:: 1 if retries else -1] == (sum(injected.values()), 0)
    masked = [trajectory for trajectory in trajectories if trajectory.masked]
    assert len(masked) == progress.masked and [t.group for t in trajectories] == [i // 2 for i in range(24)]
    assert all(trajectory.success for trajectory in trajectories if not trajectory.masked)
    if not retries:
        errors = sorted({trajectory.error.split(":")[0] for trajectory in masked})
        died = "WorkerDiedError" if workers == "processes" else "SystemExit"
        assert errors == sorted(["ConnectionError", "TimeoutError", died])
    assert progress.hung_threads == flow.hung_threads == (injected["hang"] if workers == "threads" else 0)
    RELEASE.set()
    flow.close()
    until = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before and not multiprocessing.active_children()
    gone = sum(injected[kind] for kind in ("hang", "die")) if workers == "processes" else 0
    assert notes(tmp_path, "built") == notes(tmp_path, "closed") + gone


FIRST = "ConnectionError: the server is gone; closing the environment then failed too: "


@pytest.mark.parametrize("workers", ["step", *WORKERS])
@pytest.mark.filterwarnings("ignore:.*closing")
def test_what_closing_raises_is_added_to_the_first_error(workers):
    flow = (
        AgentEnvLoop(BadlyClosedEnv, TOKENIZER, max_prompt_length=200)
        if workers == "step"
        else loop(BadlyClosedEnv, env_workers=workers)
    )
    [trajectory] = flow.run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert trajectory.error == FIRST + "OSError: the port is still open" and trajectory.masked
    assert len(trajectory) == 1
    flow.close()


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.filterwarnings("ignore:.*closing")
def test_a_close_that_hangs_or_ends_its_program_does_not_hide_the_first_error(workers, released):
    for make_env, second in (
        (HangingCloseEnv, "TimeoutError: close() took more than env_timeout=1 s"),
        (ExitingCloseEnv, "SystemExit: not like this"),
    ):
        flow = loop(make_env, env_workers=workers, env_timeout=1.0)
        trajectories = flow.run(assignments(2), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
        for trajectory in trajectories:
            assert trajectory.error.startswith(FIRST) and trajectory.error.endswith(second) and trajectory.masked
        assert (flow.progress.timeouts, flow.progress.crashes) == ((2, 0) if "Timeout" in second else (0, 2))
        RELEASE.set()
        flow.close()
        RELEASE.clear()


class SlowlyClosedEnv(CueEnv):
    closed = 0

    def close(self):
        threading.Event().wait(0.4)
        type(self).closed += 1


def test_every_environment_has_its_own_time_to_close():
    """One worker has two of them."""
    SlowlyClosedEnv.closed = 0
    flow = loop({"a": SlowlyClosedEnv, "b": SlowlyClosedEnv}, concurrency=1, env_timeout=0.6)
    flow.run([Assignment(0, 1, env=name) for name in "ab"], ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    before = SlowlyClosedEnv.closed  # those that were only looked at
    flow.close()
    assert SlowlyClosedEnv.closed == before + 2 and not flow.hung_threads


class StuckEnv(CueEnv):
    """Hangs while it is built, or looked at, or closed."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        if where == "building":
            RELEASE.wait()

    @property
    def tasks(self) -> Any:
        if self.where == "looking":
            RELEASE.wait()
        return self.panel

    @tasks.setter
    def tasks(self, panel: Any) -> None:
        self.panel = panel

    def close(self):
        if self.where == "closing":
            RELEASE.wait()


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize(("where", "most"), [("building", 16), ("looking", 16), ("looking", 0)])
def test_an_environment_that_hangs_while_it_is_looked_at_is_an_error(workers, where, most, released, monkeypatch):
    """However many threads may hang: this ends the run anyway, and the message is to name the environment."""
    monkeypatch.setattr("agent_r1_trainer.flows.workers._CONSTRUCTION", 0.3)
    flow = loop({"stuck": partial(StuckEnv, where)}, env_workers=workers, env_timeout=0.2, max_hung_threads=most)
    with pytest.raises(
        TimeoutError, match=r"environment 'stuck' cannot be looked at.*construction took more than 0.3 s"
    ):
        flow.panels  # noqa: B018
    assert flow.hung_threads == 1
    flow.close()
    RELEASE.set()
    until = time.monotonic() + 20
    while flow.hung_threads and time.monotonic() < until:
        time.sleep(0.01)
    assert not flow.hung_threads


def test_one_that_hangs_when_it_is_closed_again_holds_up_nothing(released):
    flow = loop(partial(StuckEnv, "closing"), env_timeout=0.3)
    assert flow.num_tasks == 8
    trajectories = flow.run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert trajectories[0].success and flow.progress.hung_threads == 1
    flow.close()
    assert flow.hung_threads == 2
    RELEASE.set()


def test_closing_goes_on_where_more_threads_hang_than_may(released):
    flow = loop(partial(StuckEnv, "closing"), env_timeout=0.3, max_hung_threads=0)
    assert flow.num_tasks == 8
    assert flow.run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)[0].success
    flow.check(SAMPLING)
    flow.close()
    assert flow.hung_threads == 3  # both that looked, and the worker
    RELEASE.set()


class FirstEnv(CueEnv):
    """The first of its kind is built only once it is released, after it has pressed Ctrl-C if it is told so."""

    def __init__(self, built: list[FirstEnv], closed: list[FirstEnv], interrupts: bool = False) -> None:
        super().__init__()
        self.closed = closed
        built.append(self)
        if len(built) == 1:
            if interrupts:
                RELEASE.wait(0.5)  # until the other thread waits for this one
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            RELEASE.wait()

    def close(self):
        self.closed.append(self)


def test_an_interrupted_look_does_not_answer_the_next_one(released, monkeypatch):
    monkeypatch.setattr("agent_r1_trainer.flows.workers._CONSTRUCTION", 30.0)
    flow = loop({"a": partial(FirstEnv, [], [], True), "b": partial(FewEnv, 3)}, env_timeout=30.0)
    with pytest.raises(KeyboardInterrupt):
        flow.panels  # noqa: B018
    RELEASE.set()
    assert flow.panels == {"a": 8, "b": 3}
    flow.close()
    assert not flow.hung_threads


class FewEnv(CueEnv):
    def __init__(self, tasks: int) -> None:
        super().__init__()
        self.tasks = range(tasks)


def test_a_look_that_was_given_up_does_not_close_what_the_next_one_looks_at(released, monkeypatch):
    monkeypatch.setattr("agent_r1_trainer.flows.workers._CONSTRUCTION", 0.3)
    built, closed = [], []
    flow = loop(partial(FirstEnv, built, closed), env_timeout=0.3)
    with pytest.raises(TimeoutError, match="cannot be looked at"):
        flow.panels  # noqa: B018
    monkeypatch.setattr("agent_r1_trainer.flows.workers._CONSTRUCTION", 60.0)
    assert flow.panels == {"": 8}
    RELEASE.set()
    until = time.monotonic() + 20
    while flow.hung_threads and time.monotonic() < until:
        time.sleep(0.01)
    assert [built.index(env) for env in closed] == [0]
    flow.close()
    assert [built.index(env) for env in closed] == [0, 1]


class SignalEnv(CueEnv):
    """Needs the main thread, when it is built or when it is reset."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when
        if when == "built":
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)

    def reset(self, *, seed=None, options=None):
        if self.when == "reset":
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        return super().reset(seed=seed, options=options)


@pytest.mark.slow
def test_an_environment_that_needs_the_main_thread_is_told_the_ways_out():
    flow = loop(partial(SignalEnv, "built"), env_workers="processes", env_timeout=60.0)
    with pytest.raises(ValueError, match="main thread") as caught:
        flow.check(SAMPLING)
    assert all(way in caught.value.__notes__[0] for way in ("its reset", "'processes'", "leave env_timeout out"))
    flow.close()
    for when, timeout in (("reset", 60.0), ("built", None)):
        flow = loop(partial(SignalEnv, when), env_workers="processes", env_timeout=timeout)
        assert flow.run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)[0].success
        flow.close()


class PlainErrorEnv(CueEnv):
    def __init__(self) -> None:
        raise FileNotFoundError("no such data")


def test_what_the_first_construction_raises_is_the_callers_error_with_a_deadline_too():
    flow = loop(PlainErrorEnv, env_timeout=5.0)
    with pytest.raises(FileNotFoundError, match="no such data"):
        flow.check(SAMPLING)
    flow.close()


def test_an_episode_that_fails_again_and_again_is_masked(tmp_path):
    flow = loop(faulty(tmp_path, "threads", share=1.0, kinds=("raise",), once=False), failures=FailurePolicy(2))
    trajectories = flow.run(assignments(3), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert all(trajectory.masked and "is gone" in trajectory.error for trajectory in trajectories)
    assert (flow.progress.retried, flow.progress.masked, flow.progress.done) == (6, 3, 3)
    flow.close()


@pytest.mark.parametrize("make", [loop, lambda env, **kw: AgentEnvLoop(env, TOKENIZER, max_prompt_length=200, **kw)])
def test_retries_and_raising_are_alike_in_both_loops(make, tmp_path):
    generator = ScriptedGenerator(TOKENIZER, last_cue)
    once = make(faulty(tmp_path, "threads", share=1.0, kinds=("raise",)), failures=FailurePolicy(1))
    trajectories = once.run(assignments(6), generator, SAMPLING)
    assert all(trajectory.success for trajectory in trajectories) and once.progress.retried == 6
    assert notes(tmp_path, "fault") == 6
    always = make(
        faulty(tmp_path, "threads", share=1.0, kinds=("raise",), once=False), failures=FailurePolicy(1, then="raise")
    )
    with pytest.raises(EpisodeFailedError, match=r"failed in 2 attempts: ConnectionError.*env_failure='mask'"):
        always.run(assignments(6), generator, SAMPLING)
    once.close()
    always.close()
    assert notes(tmp_path, "built") == notes(tmp_path, "closed")


def test_a_policy_for_failures_is_a_value():
    assert FailurePolicy(1) == FailurePolicy(1) and len({FailurePolicy(), FailurePolicy(0)}) == 1
    failed = Trajectory("t", [], StopReason.FAILED, masked=True)
    assert [FailurePolicy(1).verdict(failed, attempt) for attempt in (0, 1)] == ["retry", "mask"]
    assert FailurePolicy(then="raise").verdict(failed, 0) == "raise"
    failed.breach = True
    assert FailurePolicy(3).verdict(failed, 0) == "mask"
    assert FailurePolicy(3).verdict(Trajectory("t", [], StopReason.PROMPT_TOO_LONG, masked=True), 0) == "keep"
    for wrong in ({"retries": -1}, {"then": "shrug"}):
        with pytest.raises(ValueError, match="got"):
            FailurePolicy(**wrong)


def test_too_many_threads_that_hang_stop_the_run_and_name_processes(tmp_path, released):
    flow = loop(
        faulty(tmp_path, "threads", share=1.0, kinds=("hang",)), env_timeout=0.2, max_hung_threads=2, concurrency=4
    )
    with pytest.raises(HungThreadsError, match=r"3 threads are left behind.*env_workers='processes'"):
        flow.run(assignments(8), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert flow.hung_threads >= 3
    RELEASE.set()
    flow.close()
    until = time.monotonic() + 20
    while flow.hung_threads and time.monotonic() < until:
        time.sleep(0.01)
    assert not flow.hung_threads and notes(tmp_path, "built") == notes(tmp_path, "closed")


def test_a_worker_that_was_given_up_is_left_once(released):
    flow = loop(ExitingEnv, env_timeout=0.3, failures=FailurePolicy(then="raise"))
    with pytest.raises(EpisodeFailedError, match="SystemExit"):
        flow.run(assignments(1), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    flow.close()
    assert flow.hung_threads == 1
    RELEASE.set()


def test_threads_that_came_back_do_not_count_as_hung(released):
    """However long their environments take to close."""
    flow = loop(ExitingEnv, env_timeout=60.0, max_hung_threads=1)
    trajectories = flow.run(assignments(8), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert all("SystemExit" in trajectory.error for trajectory in trajectories)
    assert (flow.progress.crashes, flow.progress.hung_threads, flow.hung_threads) == (8, 0, 0)
    RELEASE.set()
    flow.close()


class LateEnv(CueEnv):
    """Comes back from its second reset only once it is released."""

    resets = 0

    def reset(self, *, seed=None, options=None):
        type(self).resets += 1
        if self.resets == 2:
            RELEASE.wait()
        elif self.resets == 4:
            RELEASE.set()
            until = time.monotonic() + 20  # for the late one to come back while the rollout goes on
            while self.late.is_alive() and time.monotonic() < until:
                time.sleep(0.01)
        return super().reset(seed=seed, options=options)


def test_a_late_result_is_dropped_and_counted(released):
    LateEnv.resets = 0
    flow = loop(LateEnv, env_timeout=2.0, concurrency=1)
    LateEnv.late = threading.Thread()
    LateEnv.late.start()
    LateEnv.late.join()
    generator = ScriptedGenerator(TOKENIZER, last_cue)
    trajectories = flow.run(assignments(4), generator, SAMPLING)
    assert [trajectory.masked for trajectory in trajectories] == [False, True, False, False]
    assert flow.progress.environment >= 2.0  # the wait for what never came too
    until = time.monotonic() + 20
    while flow.hung_threads and time.monotonic() < until:
        time.sleep(0.01)
    late = flow.progress.late
    assert all(trajectory.success for trajectory in flow.run(assignments(2), generator, SAMPLING))
    assert late + flow.progress.late == 1 and flow.hung_threads == 0
    flow.close()


class Answers:
    """Answers with the last cue; not in episodes of these seeds, and raises what it is given in others."""

    def __init__(self, missing: Sequence[int] = (), error: BaseException | None = None) -> None:
        self.missing, self.error = missing, error
        self.episodes: dict[Hashable, list[int]] = {}
        self.closed = 0

    async def answer(self, prompt: list[int], sampling: SamplingParams, seed: int, *, episode: Hashable) -> Generation:
        self.episodes.setdefault(episode, []).append(len(prompt))
        if len(self.episodes[episode]) == 3:
            if self.error is not None:
                raise self.error
            if len(self.episodes) in self.missing:
                raise GenerationError("no server is left")
        return ScriptedGenerator(TOKENIZER, last_cue).generate([prompt], sampling, [seed])[0]

    async def aclose(self) -> None:
        self.closed += 1


def test_replies_of_an_episode_share_its_name_and_one_that_is_missing_masks_it(tmp_path):
    answers = Answers(missing=(2,))
    flow = loop(faulty(tmp_path, "threads", share=0.0), concurrency=1, failures=FailurePolicy(3))
    trajectories = flow.run(assignments(4), answers, SAMPLING)
    assert [trajectory.masked for trajectory in trajectories] == [False, True, False, False]
    assert trajectories[1].error == "GenerationError: no server is left" and len(trajectories[1]) == 2
    assert [len(asked) for asked in answers.episodes.values()] == [5, 3, 5, 5]
    assert all(asked == sorted(asked) for asked in answers.episodes.values())
    assert (flow.progress.lost_replies, flow.progress.masked, answers.closed) == (1, 1, 1)
    flow.close()
    assert notes(tmp_path, "built") == notes(tmp_path, "closed") == 2  # one is only looked at


def play_in_step(generator: Any, failures: FailurePolicy | None = None) -> tuple[list[Trajectory], int]:
    flow = AgentEnvLoop(CueEnv, TOKENIZER, max_prompt_length=200, failures=failures)
    return flow.run(assignments(4), generator, SAMPLING), flow.progress.lost_replies


def play_side_by_side(generator: Any, failures: FailurePolicy | None = None) -> tuple[list[Trajectory], int]:
    flow = loop(failures=failures)
    try:
        return flow.run(assignments(4), generator, SAMPLING), flow.progress.lost_replies
    finally:
        flow.close()


def play_once(generator: Any, failures: FailurePolicy | None = None) -> tuple[list[Trajectory], int]:
    flow = SingleStepFlow(
        ["left", "right"] * 2, lambda task, reply: 1.0, TOKENIZER, max_prompt_length=50, failures=failures
    )
    found = flow.run(assignments(4), generator, SAMPLING)
    return found, sum("GenerationError" in trajectory.error for trajectory in found)


REFUSED = assignments(2)[1].reply_seed(0)


class Refusing:
    """Has no reply to one prompt, and says so in its place."""

    def generate(self, prompts: Any, sampling: Any, seeds: Sequence[int]) -> list[Generation]:
        replies = ScriptedGenerator(TOKENIZER, last_cue).generate(prompts, sampling, seeds)
        lost = Generation.lost("no server is left")
        return [lost if seed == REFUSED else reply for seed, reply in zip(seeds, replies, strict=True)]


class RefusingAlone:
    """Has no reply to one prompt, and raises."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = reasons

    async def answer(self, prompt: list[int], sampling: SamplingParams, seed: int, *, episode: Hashable) -> Generation:
        if seed == REFUSED:
            raise GenerationError(*self.reasons)
        return ScriptedGenerator(TOKENIZER, last_cue).generate([prompt], sampling, [seed])[0]


@pytest.mark.parametrize("play", [play_in_step, play_side_by_side, play_once])
@pytest.mark.parametrize("make", [Refusing, lambda: BlockingGenerator(RefusingAlone("no server is left"))])
def test_a_reply_that_cannot_be_had_costs_its_episode_in_every_flow(play, make):
    generator = make()
    trajectories, lost = play(generator, FailurePolicy(3))  # it is not played again: it was asked for everywhere
    assert [trajectory.masked for trajectory in trajectories] == [False, True, False, False] and lost == 1
    assert trajectories[1].error == "GenerationError: no server is left"
    assert all(trajectory.success for trajectory in trajectories if not trajectory.masked)
    with pytest.raises(EpisodeFailedError, match="task.*1.*no server is left.*env_failure='mask'"):
        play(generator, FailurePolicy(then="raise"))
    if isinstance(generator, BlockingGenerator):
        generator.close()


@pytest.mark.parametrize("play", [play_in_step, play_side_by_side, play_once])
def test_so_does_one_that_cannot_be_had_for_no_reason(play):
    with BlockingGenerator(RefusingAlone()) as generator:
        trajectories, lost = play(generator)
    assert [trajectory.masked for trajectory in trajectories] == [False, True, False, False] and lost == 1
    assert trajectories[1].error == "GenerationError: no reason was given"


@pytest.mark.parametrize("workers", WORKERS)
def test_what_a_back_end_raises_ends_the_run_and_closes_the_environments(workers, tmp_path):
    flow = loop(faulty(tmp_path, workers, share=0.0), env_workers=workers)
    with BlockingGenerator(Answers(error=MemoryError("none left"))) as generator:
        with pytest.raises(MemoryError, match="none left"):
            flow.run(assignments(6), generator, SAMPLING)
    with pytest.raises(KeyboardInterrupt):
        flow.run(assignments(6), Interrupted(), SAMPLING)
    trajectories = flow.run(assignments(6), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert all(trajectory.success for trajectory in trajectories)
    flow.close()
    assert notes(tmp_path, "built") == notes(tmp_path, "closed") > 12


class Interrupted:
    def generate(self, prompts: Any, sampling: Any, seeds: Any) -> list[Generation]:
        raise KeyboardInterrupt


class HangingEnv(CueEnv):
    """Never comes back from a step with an even seed."""

    def reset(self, *, seed=None, options=None):
        self.hangs = seed % 2 == 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.hangs:
            RELEASE.wait()
        return super().step(action)


def test_nobody_who_presses_ctrl_c_waits_long_for_what_hangs(released, monkeypatch):
    monkeypatch.setattr("agent_r1_trainer.flows.crew._INTERRUPTED", 0.2)
    flow = loop(HangingEnv)

    def press(progress: Any) -> None:
        if progress.turns >= 4:  # of an episode that goes on while the other one hangs
            raise KeyboardInterrupt

    flow.watch = press
    with pytest.raises(KeyboardInterrupt):
        flow.run([Assignment(0, 6), Assignment(0, 7)], Answers(), SAMPLING)
    began = time.monotonic()
    flow.watch = None
    flow.close()
    assert flow.hung_threads == 1 and time.monotonic() - began < 15
    RELEASE.set()


def test_progress_can_be_watched():
    seen = []
    flow = loop(concurrency=4)
    flow.watch = lambda progress: seen.append((progress.done, progress.turns, str(progress)))
    flow.run(assignments(10), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[-1][:2] == (10, 50) and seen[-1][2].startswith("10 of 10 episodes, 50 turns, ")
    assert set(flow.progress.rates) | set(flow.progress.failures) == {
        "rollout/tokens_per_second",
        "rollout/environment_share",
        "rollout/generation_share",
        "rollout/retried",
        "rollout/timeouts",
        "rollout/crashes",
        "rollout/lost_replies",
        "rollout/hung_threads",
    }
    flow.close()


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_loop_that_is_forgotten_leaves_nothing_behind(workers, tmp_path):
    before = threading.active_count()
    flow = loop(faulty(tmp_path, workers, share=0.0), env_workers=workers)
    flow.run(assignments(3), ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert threading.active_count() == before + 3
    del flow
    gc.collect()
    assert threading.active_count() == before and not multiprocessing.active_children()
    assert notes(tmp_path, "built") == notes(tmp_path, "closed") == 4


def test_environments_of_several_names_play_together():
    flow = loop({"a": CueEnv, "b": partial(CueEnv, turns=2)}, concurrency=3)
    tasks = [Assignment(0, 5 + i, group=i, env="ab"[i % 2]) for i in range(8)]
    trajectories = flow.run(tasks, ScriptedGenerator(TOKENIZER, last_cue), SAMPLING)
    assert [len(trajectory) for trajectory in trajectories] == [5, 2] * 4
    assert flow.panels == {"a": 8, "b": 8}
    flow.close()
