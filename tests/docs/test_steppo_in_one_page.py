"""StepPO on one page does what the trainer does: on the same tasks, replies and weights the same numbers."""

import copy
import importlib.util
import re
from collections import defaultdict, deque
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
import pytest
import torch

from agent_r1_trainer import StepPOConfig, StepPOTrainer
from agent_r1_trainer.learning.update import Updater
from agent_r1_trainer.tiny_policy import load_tiny_policy

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "examples" / "steppo_in_one_page.py"
ROLLOUTS = 2


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("steppo_in_one_page", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ADAM_EPSILON = 1e-4  # Adam divides what rounding does to a gradient by the gradient, or by this
    return module


@pytest.fixture(scope="module")
def run(page: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Two rollouts of the trainer with the page's settings, and what it computed on the way."""
    folder = tmp_path_factory.mktemp("run")
    policy, tokenizer = load_tiny_policy()
    start = copy.deepcopy(policy)
    env = dict(page.ENV)
    config = StepPOConfig(
        str(folder),
        env_kwargs=env,
        recipe="native",
        max_steps=ROLLOUTS * page.EPOCHS * page.MINIBATCHES,
        rollout_batch_size=12,
        seed=7,
        max_completion_length=page.MAX_RESPONSE,
        max_prompt_length=1024,
        gamma=page.GAMMA,
        lam=page.LAM,
        epsilon=page.CLIP,
        num_ppo_epochs=page.EPOCHS,
        num_minibatches=page.MINIBATCHES,
        critic="separate",
        learning_rate=page.POLICY_LR,
        critic_learning_rate=page.CRITIC_LR,
        adam_epsilon=page.ADAM_EPSILON,
        max_grad_norm=page.MAX_GRAD_NORM,
        lr_scheduler_type="constant",
        micro_batch_tokens=600,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = StepPOTrainer(policy, config, env=env.pop("id"), processing_class=tokenizer)
    experiences, losses = [], []
    compute = Updater.run

    def watched(self: Updater, model: Any, experience: Any, index: int, **kwargs: Any) -> Any:
        if index == 0:
            experiences.append(experience)
        result = compute(self, model, experience, index, **kwargs)
        losses.append(result.loss)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Updater, "run", watched)
        trainer.train()
    return SimpleNamespace(start=start, trainer=trainer, tokenizer=tokenizer, experiences=experiences, losses=losses)


def replay(page: ModuleType, run: SimpleNamespace, experience: Any) -> list[list[Any]]:
    """The page's rollout of the trainer's tasks, with the trainer's replies."""
    replies = defaultdict(deque)
    for trajectory in experience.trajectories:
        for step in trajectory.steps:
            replies[tuple(step.prompt_ids)].append(step.response_ids)
    envs = [gymnasium.make(**page.ENV) for _ in experience.trajectories]
    tasks = [trajectory.task_id for trajectory in experience.trajectories]
    return page.rollout(lambda prompts: [replies[tuple(p)].popleft() for p in prompts], run.tokenizer, envs, tasks)


def test_its_rollout_and_its_updates_are_those_of_the_trainer(page: ModuleType, run: SimpleNamespace) -> None:
    learner, losses = page.StepPO(copy.deepcopy(run.start)), []
    assert len(run.experiences) == ROLLOUTS
    first, second = (experience.units[""] for experience in run.experiences)
    assert abs(second.scale / first.scale - 1.0) > 0.05 and abs(second.mean - first.mean) > 0.01, (first, second)
    for number, experience in enumerate(run.experiences):
        episodes = replay(page, run, experience)
        theirs = [step for trajectory in experience.trajectories for step in trajectory.steps]
        ours = [step for episode in episodes for step in episode]
        assert [(s.prompt, s.response, s.reward) for s in ours] == [
            (s.prompt_ids, s.response_ids, s.reward) for s in theirs
        ]
        losses += learner.learn(episodes, run.trainer.args.seed, number)
        for name, expected in (("advantage", experience.advantages), ("target", experience.returns)):
            found = torch.tensor([float(getattr(step, name)) for step in ours])
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
            assert expected.std() > 0.3
    assert losses == pytest.approx(run.losses, rel=0, abs=1e-6) and len(losses) == run.trainer.state.global_step

    critic = run.trainer.critic.model
    moved = 0
    for ours, theirs, start in (
        (learner.policy, run.trainer.model, run.start),
        (learner.trunk, critic.trunk, run.start.model),
        (learner.head, critic.head.linear, None),
    ):
        expected = dict(theirs.named_parameters())
        for name, parameter in ours.named_parameters():
            torch.testing.assert_close(parameter, expected[name], rtol=0, atol=1e-6)
            moved += start is None or (parameter - start.get_parameter(name)).abs().max() > 1e-4
    assert moved > 40


def test_chains_are_one_sequence_and_a_rewritten_prompt_begins_another(page: ModuleType) -> None:
    steps = [
        page.Step(prompt=prompt, response=response, reward=0.0)
        for prompt, response in (([1, 2], [3]), ([1, 2, 3, 4], [5]), ([1, 4], [6]), ([1, 4, 6], [7]))
    ]
    assert page.merge([steps, steps[:1]]) == [steps[:2], steps[2:], steps[:1]]


def test_its_page_includes_every_line_once_and_in_order() -> None:
    text = (ROOT / "docs" / "steppo.md").read_text(encoding="utf-8")
    includes = re.findall(r"^```{literalinclude} (\S+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    source = SOURCE.read_text(encoding="utf-8")
    shown = ""
    for path, options in includes:
        assert (ROOT / "docs" / path).resolve() == SOURCE
        marks = dict(re.findall(r"^:([\w-]+): (.*)$", options, re.MULTILINE))
        begin = source.index(marks["start-at"]) if "start-at" in marks else 0
        shown += source[begin : source.index(marks["end-before"], begin) if "end-before" in marks else None]
    assert shown == source


def test_it_restates_the_mathematics_on_less_than_a_page_and_a_half() -> None:
    source = SOURCE.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 150
    assert re.findall(r"agent_r1_\w+[\w.]*", source) == ["agent_r1_trainer.tiny_policy", "agent_r1_envs"]
