"""One update on trajectories that were made up, through the trainer's own parts, and the same computed plainly."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import torch
from accelerate import Accelerator

from agent_r1_trainer.learning.experience import Experience
from agent_r1_trainer.learning.make_experience import ExperienceMaker
from agent_r1_trainer.learning.scoring import Reference, attach_scoring
from agent_r1_trainer.learning.update import Updater
from agent_r1_trainer.learning.value_scale import ValueScales
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.training import WORDS, make_model


def make_trajectories(seed: int = 0, groups: int = 3, samples: int = 3, env: str = "") -> list[Trajectory]:
    """Ragged episodes in groups: chains, rewritten contexts, branches off an earlier prompt, empty replies."""
    rng = random.Random(seed)

    def draw(least: int, most: int) -> list[int]:
        return [rng.randrange(3, len(WORDS)) for _ in range(rng.randint(least, most))]

    made = []
    for group in range(groups):
        start = draw(2, 9)
        for sample in range(samples):
            steps, prompt = [], list(start)
            for turn in range(rng.randint(1, 7)):
                reply = [] if rng.random() < 0.1 else draw(1, 6)
                steps.append(
                    Step(
                        list(prompt), reply, reward=rng.choice([0.0, 0.5, 1.0]), turn=turn,
                        logprobs=[-rng.random() * 3 for _ in reply], finish=rng.choice(["stop", "stop", "length"]),
                        anchor=rng.choice(["here", "there"]) if turn else "start",
                    )
                )  # fmt: skip
                kind = rng.random()
                grown = prompt + reply + draw(1, 4)
                prompt = draw(2, 9) if kind < 0.15 else start + draw(1, 3) if kind < 0.3 else grown
            steps[-1].terminated = True
            made.append(Trajectory(f"{group}", steps, StopReason.TERMINATED, group=group, sample=sample, env=env))
    return made


@lru_cache(maxsize=3)
def policy_of(value_head: int) -> torch.nn.Module:
    """A model that scores at temperature 1, with a value head of so many rows that says something."""
    policy = make_model()
    attach_scoring(policy, temperature=1.0, value_head=value_head)
    if value_head:
        torch.manual_seed(5)
        torch.nn.init.normal_(policy.value_head.linear.weight, std=0.3)
    return policy


@lru_cache(maxsize=1)
def reference_of() -> torch.nn.Module:
    """Another model, to hold the policy near."""
    reference = make_model(seed=9)
    attach_scoring(reference, temperature=1.0)
    return reference


def one_update(
    trajectories: list[Trajectory], *, noise: float = 0.2, envs: Any = None, divisors: Any = None, **kwargs: Any
) -> tuple[float, dict[str, torch.Tensor], Experience, dict[str, float]]:
    """Score the trajectories, assign credit and compute one update's gradients, all in a single mini-batch.

    Args:
        trajectories: The batch.
        noise: Standard deviation of what is added to the old log-probabilities, so that ratios are not all 1.
        envs: The mixture.
        divisors: Dr. GRPO's constant of each environment.
        **kwargs: Settings.

    Returns:
        Loss, gradients by name, the experience, and all metrics.
    """
    fields = {
        "num_ppo_epochs": 2,
        "num_minibatches": 1,
        "num_generations": 2,
        "max_grad_norm": 0.0,
        "micro_batch_tokens": 400,
    }
    config = StepPOConfig("unused", **{**fields, "use_cpu": True, "report_to": [], "max_prompt_length": 128,
                                       "max_completion_length": 8, **kwargs})  # fmt: skip
    scales = ValueScales(list(envs or {trajectory.env: None for trajectory in trajectories}))
    policy, accelerator = policy_of(len(scales.rows) if config.uses_critic else 0), Accelerator(cpu=True)
    policy.zero_grad()
    reference = Reference(policy, reference_of()) if config.beta else None
    maker = ExperienceMaker(
        config, accelerator, policy, critic=None, reference=reference,
        scales=scales if config.uses_critic else None, pad_id=0, merge=config.merge_steps, envs=envs,
        loss_divisors=divisors or dict.fromkeys((trajectory.env for trajectory in trajectories), 56.0),
        token_budget=int(config.micro_batch_tokens or 0),
    )  # fmt: skip
    maker._compared = True  # the sampler's log-probabilities are made up
    experience, metrics = maker.make(0, trajectories)
    assert experience.old_logps is not None
    experience.old_logps += noise * torch.randn(len(experience.old_logps), generator=torch.Generator().manual_seed(1))
    result = Updater(config, accelerator, policy, None).run(policy, experience, 0, warmup=False)
    gradients = {name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None}
    return result.loss, gradients, experience, {**metrics, **result.metrics}


def flat(gradients: dict[str, torch.Tensor]) -> torch.Tensor:
    """All of them in one vector."""
    return torch.cat([gradients[name].flatten() for name in sorted(gradients)])
