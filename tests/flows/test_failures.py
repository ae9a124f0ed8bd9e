"""What failures cost a run, and who closes the environments."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_r1_trainer.environments.contract import ContractError
from agent_r1_trainer.environments.mixture import MixtureEntry
from agent_r1_trainer.flows import AgentEnvLoop, AgentFlowBase, Assignment, FlowTimes
from agent_r1_trainer.flows.collect import check_trajectories
from agent_r1_trainer.flows.failures import TooManyFailuresError
from agent_r1_trainer.generation import SamplingParams
from agent_r1_trainer.metrics import summarize
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.training import CueEnv, ScriptedGenerator, make_tokenizer, make_trainer, measured

ROOT = Path(__file__).parents[2]
RUN: dict[str, Any] = {"rollout_batch_size": 8, "max_steps": 12, "logging_steps": 4}  # three rollouts


class Counted(CueEnv):
    """Counts copies, and returns `bad` as the reward in the episodes with these numbers."""

    built, closed, started = 0, 0, 0
    bad: Any = "1.0"
    wrong: Any = ()
    error: BaseException | None = None

    @classmethod
    def clear(cls, wrong: Any = (), bad: Any = "1.0", error: BaseException | None = None) -> None:
        cls.built = cls.closed = cls.started = 0
        cls.wrong, cls.bad, cls.error = wrong, bad, error

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        type(self).built += 1
        self.is_closed = False

    def reset(self, *, seed=None, options=None):
        assert not self.is_closed
        type(self).started += 1
        self.number = self.started
        return super().reset(seed=seed, options=options)

    def step(self, action):
        assert not self.is_closed
        observation, reward, *rest = super().step(action)
        if self.number in self.wrong:
            if self.error is not None:
                raise self.error
            reward = self.bad
        return observation, reward, *rest

    def close(self):
        assert not self.is_closed
        self.is_closed = True
        type(self).closed += 1


class Other(Counted):
    """Counts by itself."""


def test_a_contract_broken_in_the_first_rollout_stops_the_run_in_words(tmp_path):
    Counted.clear(wrong=(3, 5))
    with pytest.raises(
        ContractError, match=r"rollout 0.*2 of its 8.*\n  2 x .*Counted\.step\(\) returned reward = '1.0'"
    ):
        make_trainer(tmp_path, env=Counted, **RUN).train()


def test_later_it_costs_the_episode_and_is_counted(tmp_path):
    Counted.clear(wrong=range(9, 12))
    trainer = make_trainer(tmp_path, env=Counted, **RUN)
    trainer.train()
    assert [row["masked_ratio"] for row in measured(trainer) if "masked_ratio" in row] == [0.0, 3 / 8, 0.0]
    assert Counted.built == Counted.closed == 8 + 3


def test_in_a_mixture_each_environment_has_a_first_time(tmp_path):
    Counted.clear()
    Other.clear(wrong=(1,))
    envs = {"often": Counted, "seldom": MixtureEntry(Other, weight=0.06)}
    with pytest.raises(ContractError, match=r"rollout [12] .*\n  1 x seldom: .*Other\.step\(\) returned reward"):
        make_trainer(tmp_path, env=envs, **RUN).train()
    assert (Counted.built, Other.built) == (Counted.closed, Other.closed) and Counted.started > 8


def test_a_resumed_run_has_no_first_time(tmp_path):
    Counted.clear()
    make_trainer(tmp_path, env=Counted, **{**RUN, "max_steps": 4}, save_strategy="steps", save_steps=4).train()
    Counted.clear(wrong=(1,))
    trainer = make_trainer(tmp_path, env=Counted, **RUN)
    trainer.train(resume_from_checkpoint=True)
    assert [row["masked_ratio"] for row in measured(trainer) if "masked_ratio" in row] == [0.0, 1 / 8, 0.0]


def test_nor_has_the_evaluation_of_one(tmp_path):
    Other.clear()
    kwargs = {**RUN, **EVALUATED, "save_strategy": "steps", "save_steps": 4}
    make_trainer(tmp_path, **{**kwargs, "max_steps": 4}).train()
    Other.clear(wrong=(1,))
    trainer = make_trainer(tmp_path, **kwargs)
    trainer.train(resume_from_checkpoint=True)
    assert [row["eval_masked_ratio"] for row in measured(trainer) if "eval_masked_ratio" in row][-2:] == [1 / 5, 0.0]


def test_above_a_share_of_failures_the_run_stops_and_lists_the_commonest(tmp_path, caplog):
    Counted.clear(wrong=range(9, 14), error=OSError("port 17 is gone"))
    with pytest.raises(TooManyFailuresError, match=r"5 of the 8 .*rollout 1 .*=0.5 .*\n  5 x OSError: port 17 is gone"):
        make_trainer(tmp_path, env=Counted, **RUN).train()
    assert Counted.built == Counted.closed
    Counted.clear(wrong=range(9, 14), error=OSError("port 17 is gone"))
    make_trainer(tmp_path, env=Counted, max_masked_ratio=0.7, **RUN).train()
    assert "5 of the 8 episodes of rollout 1 failed and are left out:\n  5 x OSError: port 17 is gone" in caplog.text
    with pytest.raises(ValueError, match="max_masked_ratio"):
        StepPOConfig(str(tmp_path), max_masked_ratio=1.5, use_cpu=True)


def test_errors_that_differ_in_numbers_only_are_one_kind(tmp_path):
    class Numbered(CueEnv):
        def reset(self, *, seed=None, options=None):
            raise OSError(f"no port {seed}")

    with pytest.raises(TooManyFailuresError, match=r"\n  8 x OSError: no port \d+$"):
        make_trainer(tmp_path, env=Numbered, max_masked_ratio=1.0, **RUN).train()


def test_an_evaluation_is_held_to_the_same(tmp_path):
    Counted.clear(wrong=(2,))
    with pytest.raises(ContractError, match=r"(?s)the evaluation .*1 of its 5 .*Counted\.step"):
        make_trainer(tmp_path, eval_env=Counted, eval_episodes=5, eval_strategy="steps", eval_steps=4, **RUN).train()
    assert Counted.built == Counted.closed > 0


EVALUATED = {"eval_env": Other, "eval_episodes": 5, "eval_strategy": "steps", "eval_steps": 4}


def test_environments_are_closed_when_training_ends_and_built_again_when_they_are_needed(tmp_path):
    Counted.clear()
    Other.clear()
    trainer = make_trainer(tmp_path, env=Counted, **RUN, **EVALUATED)
    trainer.train()
    assert (Counted.built, Other.built) == (Counted.closed, Other.closed) == (8, 5)
    assert trainer.panels == trainer.flow.panels == {"": 8} and Counted.built == 8
    trainer.evaluate()
    assert Other.built == Other.closed == 10
    trainer.train()
    assert (Counted.built, Other.built) == (Counted.closed, Other.closed) == (16, 15)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interruption_in_the_middle_of_an_episode_closes_them_all(error, tmp_path):
    Counted.clear(wrong=(11,), error=error)
    Other.clear()
    envs = {"one": Counted, "two": Counted}
    trainer = make_trainer(tmp_path, env=envs, **RUN, **EVALUATED)
    with pytest.raises(type(error)):
        trainer.train()
    assert (Counted.built, Other.built) == (Counted.closed, Other.closed)
    Counted.wrong = ()
    trainer.train()  # nothing of it is left behind
    assert (Counted.built, Other.built) == (Counted.closed, Other.closed)


def test_a_loop_that_was_interrupted_closes_what_was_under_way_and_keeps_the_rest():
    Counted.clear(wrong=(3,), error=KeyboardInterrupt())
    tokenizer = make_tokenizer()
    loop = AgentEnvLoop(Counted, tokenizer, max_prompt_length=60)
    generator = ScriptedGenerator(tokenizer, lambda prompt: "left <end>")
    tasks = [Assignment(task, task) for task in range(4)]
    with pytest.raises(KeyboardInterrupt):
        loop.run(tasks, generator, SamplingParams(4, (1,)))
    assert Counted.built == Counted.closed == 4
    Counted.clear()
    assert len(loop.run(tasks, generator, SamplingParams(4, (1,)))) == 4
    assert (Counted.built, Counted.closed) == (4, 0)
    loop.close()
    loop.close()
    assert (Counted.built, Counted.closed) == (4, 4)


def test_a_generator_that_raises_leaves_no_environment_open():
    def fail(prompt):
        raise RuntimeError("out of memory")

    Counted.clear()
    loop = AgentEnvLoop(Counted, make_tokenizer(), max_prompt_length=60)
    assert loop.num_tasks == 8
    with pytest.raises(RuntimeError, match="out of memory"):
        loop.run(
            [Assignment(0, 1), Assignment(1, 1)], ScriptedGenerator(make_tokenizer(), fail), SamplingParams(4, (1,))
        )
    assert Counted.built == Counted.closed == 2


def test_a_loop_that_is_forgotten_closes_its_environments(tmp_path):
    Counted.clear()
    with pytest.raises(ValueError, match="DataParallel|max_steps|rollout"):
        make_trainer(
            tmp_path, env=Counted, **{**RUN, "max_steps": 13}
        )  # refused once there is an environment, or before
    loop = AgentEnvLoop(Counted, make_tokenizer(), max_prompt_length=60)
    assert loop.num_tasks == 8 and Counted.built > Counted.closed
    del loop
    gc.collect()
    assert Counted.built == Counted.closed


def test_one_that_cannot_be_built_any_more_is_none_to_close():
    def scarce():
        if Counted.built == 2:
            raise ConnectionError("no more")
        return Counted()

    Counted.clear()
    loop = AgentEnvLoop(scarce, make_tokenizer(), max_prompt_length=60)
    generator = ScriptedGenerator(make_tokenizer(), lambda prompt: "left <end>")
    found = loop.run([Assignment(task, task) for task in range(4)], generator, SamplingParams(4, (1,)))
    assert [t.masked for t in found] == [False, False, True, True]
    loop.close()
    assert Counted.built == Counted.closed == 2


class Given(AgentFlowBase):
    """Returns what it is told to; counts its closes."""

    def __init__(self, make: Any, later: Any = None) -> None:
        self.times, self.make, self.later = FlowTimes(), make, later or make
        self.runs = self.closes = 0

    def run(self, assignments, generator, sampling, *, policy_version=0):
        self.runs += 1
        return [(self.make if self.runs == 1 else self.later)(assignment) for assignment in assignments]

    def close(self):
        self.closes += 1
        raise OSError("never opened")


def good(assignment: Assignment, **changes: Any) -> Trajectory:
    step = {name: changes.pop(name) for name in tuple(changes) if name in Step.__dataclass_fields__}
    first = Step([3, 4], [5, 1], reward=0.5, terminated=True)
    for name, value in step.items():
        setattr(first, name, value)
    trajectory = Trajectory("t", [first], StopReason.TERMINATED, group=assignment.group, sample=assignment.sample)
    for name, value in changes.items():
        setattr(trajectory, name, value)
    return trajectory


BAD: list[dict[str, Any]] = [
    *({"reward": value} for value in (float("nan"), "1.0", 1e300, None)),
    *({"prompt_ids": value} for value in ([], [3.5], [3, 99], "ab", None, [-1])),
    *({"response_ids": value} for value in ([], [None], [5, 12])),
    *(
        {"logprobs": [0.1]},
        {"logprobs": ["a", 0.1]},
        {"text": 3},
        {"group": 7},
        {"sample": 1},
        {"env": "x"},
        {"steps": []},
        {"stop": "done"},
    ),
    *({"success": "False"}, {"score": "high"}, {"reward_info": {"a": "x"}}, {"task_id": 1.5}, {"steps": [None]}),
    *({"masked": True, name: value} for name, value in (("env", "x"), ("group", 7), ("stop", "failed"))),
    {"masked": True, "error": OSError("an object")},
    *({"masked": True, "steps": [None]}, {"masked": True, "reward": "x"}),
    *({"final_prompt_ids": ["a"]}, {"steps": [Step([3], [4]), Step([3, 5, 6], [1], extends=True)]}),
]


@pytest.mark.parametrize("changes", BAD, ids=repr)
def test_what_a_flow_of_ones_own_returns_is_looked_at(changes):
    tasks = [Assignment(0, 1), Assignment(1, 1, group=1)]
    found = [good(tasks[0], **changes), good(tasks[1])]
    result = check_trajectories("Given", tasks, found, vocabulary=12)
    assert [t.masked for t in result] == [t.breach for t in result] == [True, False]
    assert "trajectory 0 of Given" in result[0].error and "ContractError" in result[0].error
    assert [summarize(t).group for t in result] == [0, 1]


def test_a_flow_must_answer_each_assignment():
    tasks = [Assignment(0, 1), Assignment(1, 1, group=1)]
    for found in (None, [], [good(tasks[0])], [good(tasks[0]), None]):
        with pytest.raises(ContractError, match=r"Given\.run\(\) returned .* one Trajectory for each of the 2"):
            check_trajectories("Given", tasks, found)


def test_a_flow_of_ones_own_in_a_run(tmp_path, caplog):
    def sometimes(assignment):
        return good(assignment, reward=float("nan") if assignment.group == 2 else 0.5)

    flow = Given(sometimes)
    with pytest.raises(ContractError, match=r"Given, step 0, has reward = nan"):
        make_trainer(tmp_path, env=None, flow=flow, **RUN).train()
    assert (flow.runs, flow.closes) == (1, 1)
    flow = Given(good, sometimes)
    trainer = make_trainer(tmp_path, env=None, flow=flow, **RUN)
    trainer.train()
    assert [row["masked_ratio"] for row in measured(trainer) if "masked_ratio" in row] == [0.0, 1 / 8, 1 / 8]
    assert (flow.runs, flow.closes) == (3, 1) and "closing Given failed: OSError: never opened" in caplog.text


@pytest.mark.parametrize(
    "settings",
    [
        {"env_failure": "raise"},
        {"env_retries": 2},
        {"env_workers": "threads"},
        {"env_workers": "threads", "env_timeout": 5.0},
        {"max_env_workers": 2},
    ],
)
def test_what_a_flow_of_ones_own_would_never_hear_of_is_refused(settings, tmp_path):
    name, value = list(settings.items())[-1]
    with pytest.raises(ValueError, match=rf"{name}={value!r} has no meaning with flow=.*FailurePolicy.*AsyncEnvLoop"):
        make_trainer(tmp_path, env=None, flow=Given(good), **RUN, **settings)


def worker(folder: Path) -> None:
    """What each of two processes does: something breaks on the second one only, and both must end."""
    rank = int(os.environ["RANK"])
    said = []
    Counted.clear(wrong=(2,) if rank == 1 else ())
    for kind, env in (("contract", Counted), ("build", CueEnv)):
        trainer = make_trainer(folder / kind, env=env, **RUN)
        if kind == "build" and rank == 1:
            trainer.flow.run = lambda *args, **kwargs: 1 / 0
        try:
            trainer.train()
        except (ContractError, RuntimeError, ArithmeticError) as error:
            said.append(f"{type(error).__name__}: {error}")
    assert Counted.built == Counted.closed > 0
    (folder / f"said-{rank}.txt").write_text("\n---\n".join(said))
    import torch

    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_what_breaks_on_one_process_ends_all_of_them(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(
        f"from pathlib import Path; from tests.flows.test_failures import worker; worker(Path({str(tmp_path)!r}))"
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
    launch += ["--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", str(script)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(launch, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400)
    assert ended.returncode == 0, ended.stderr[-4000:]
    first, second = ((tmp_path / f"said-{rank}.txt").read_text().split("\n---\n") for rank in range(2))
    assert first[0] == second[0] and "1 of its 8" in first[0] and "Counted.step() returned reward" in first[0]
    assert first[1] == "RuntimeError: process 1 failed: ZeroDivisionError: division by zero"
    assert second[1] == "ZeroDivisionError: division by zero"
