"""Mistakes that training on steps was seen to have elsewhere, outside credit: each kept as a small faulty function."""

import random

import numpy as np
import pytest
import torch

from agent_r1_trainer.flows import AgentEnvLoop, Assignment
from agent_r1_trainer.generation import SamplingParams
from agent_r1_trainer.learning.experience import BatchFacts, plan_updates
from agent_r1_trainer.losses import LossConfig, policy_loss
from agent_r1_trainer.packing import Layout, MicroBatch, collate, merge_units, micro_batches, packing_stats
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.training import CueEnv, ScriptedGenerator, make_tokenizer, make_trainer

END = 1


def grown(count: int, turns: int, seed: int = 0) -> list[Trajectory]:
    """Episodes whose prompts only grow; the lengths of their parts vary by half."""
    rng = random.Random(seed)
    trajectories = []
    for number in range(count):
        steps, prompt = [], [2] * rng.randint(10, 20)
        for _ in range(turns):
            steps.append(Step(prompt, [3] * rng.randint(2, 4)))
            prompt = prompt + steps[-1].response_ids + [4] * rng.randint(6, 12)
        trajectories.append(Trajectory(str(number), steps, StopReason.TERMINATED, group=number))
    return trajectories


def updates_of(trajectories: list[Trajectory], minibatches: int, token_budget: int) -> list[list[MicroBatch]]:
    """The micro-batches of each optimizer step of one epoch."""
    units, layout = merge_units(trajectories), Layout(trajectories)
    facts = [
        BatchFacts(
            rewards=trajectory.rewards,
            lengths=[len(step.response_ids) for step in trajectory.steps],
            units=[unit.num_steps for unit in units if unit.trajectory == i],
            group=i,
            bootstrapped=False,
        )
        for i, trajectory in enumerate(trajectories)
    ]
    updates = plan_updates(
        trajectories, units, layout, facts, first=0, epochs=1, minibatches=minibatches, seed=(0, 1),
        aggregation="step_mean", token_budget=token_budget, pad_id=0,
    )  # fmt: skip
    return [update.batches for update in updates]


def computed(batches: list[MicroBatch]) -> int:
    return sum(int(batch.attention_mask.sum()) for batch in batches)


def test_no_end_token_is_added_to_a_reply_that_was_cut():
    """Faulty: a reply that ran out of tokens gets the end token that the model never sampled, and is trained on it."""

    def with_an_end(sampled: list[int]) -> list[int]:
        return sampled if sampled[-1] == END else [*sampled, END]

    tokenizer = make_tokenizer()

    def follow_the_cue(prompt: list[int]) -> str:
        words = tokenizer.convert_ids_to_tokens(prompt)
        return " ".join([word for word in words if word in ("left", "right")][-1:] + ["wait"] * 5)

    generator = ScriptedGenerator(tokenizer, follow_the_cue)
    loop = AgentEnvLoop(CueEnv, tokenizer, max_prompt_length=200)
    [trajectory] = loop.run([Assignment(task=0, seed=1)], generator, SamplingParams(3, (END,)))
    assert len(trajectory) == 5 and {step.finish for step in trajectory.steps} == {"length"}
    sampled = [
        generator.generate([step.prompt_ids], SamplingParams(3, (END,)), [0])[0].ids for step in trajectory.steps
    ]
    batch = collate(merge_units([trajectory]), [trajectory], Layout([trajectory]), pad_id=0)
    trained = batch.token_ids.tolist()
    assert trained == sum(sampled, []) and END not in trained
    # The template's end of a turn is there all the same: in the next prompt, where nothing is trained on it.
    assert batch.input_ids[0, batch.value_col[1:]].tolist().count(tokenizer.convert_tokens_to_ids("assistant")) == 4
    for before, after in zip(trajectory.steps, trajectory.steps[1:], strict=False):
        assert after.prompt_ids[len(before.prompt_ids) + 3] == END
    faulty = sum(map(with_an_end, sampled), [])
    assert END in faulty and len(faulty) == len(trained) + 5


def test_a_schedule_counts_optimizer_steps(tmp_path):
    """Faulty: the schedule moves once for every step of an episode, as if it were a batch."""

    def by_step_samples(samples: list[int], max_steps: int) -> list[float]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: max(0.0, 1.0 - n / max_steps))
        rates = []
        for count in samples:
            rates.append(schedule.get_last_lr()[0])
            for _ in range(count):
                optimizer.step()
                schedule.step()
        return rates

    trainer = make_trainer(
        tmp_path, max_steps=8, logging_steps=1, learning_rate=1.0e-3, lr_scheduler_type="linear", critic="separate"
    )
    trainer.create_optimizer_and_scheduler(8)
    rates, samples = [], []
    step = trainer.optimizer.step

    def spy(*args, **kwargs):
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        return step(*args, **kwargs)

    trainer.optimizer.step = spy
    trainer.train()
    samples = [entry["steps"] for entry in trainer.state.log_history if "steps" in entry]
    assert samples and min(samples) > 8  # far more steps of episodes than optimizer steps
    expected = [1.0e-3 * (1.0 - n / 8) for n in range(8)]
    assert rates == pytest.approx(expected)
    assert by_step_samples([1] * 8, 8) == pytest.approx([rate * 1e3 for rate in expected])
    assert by_step_samples([int(samples[0])] * 8, 8)[1:] == [0.0] * 7


def test_what_merges_stays_together_in_a_mini_batch():
    """Faulty: single steps are shuffled and dealt to mini-batches; what is left of the chains merges."""

    def shuffled_steps(trajectories, minibatches):
        steps = [(i, t) for i, trajectory in enumerate(trajectories) for t in range(len(trajectory))]
        random.Random(0).shuffle(steps)
        parts = [set(steps[n::minibatches]) for n in range(minibatches)]
        tokens = 0
        for part in parts:
            kept = [
                Trajectory("", [s for t, s in enumerate(trajectory.steps) if (i, t) in part], StopReason.TERMINATED)
                for i, trajectory in enumerate(trajectories)
            ]
            tokens += sum(unit.length for unit in merge_units(kept))
        return tokens

    trajectories = grown(12, 20)
    distinct = packing_stats(trajectories, []).distinct
    updates = updates_of(trajectories, 4, 4096)
    assert sum(map(computed, updates)) == distinct
    assert [sum(batch.num_steps for batch in update) for update in updates] == [60] * 4
    assert shuffled_steps(trajectories, 1) == distinct  # the function is faulty for no other reason
    assert shuffled_steps(trajectories, 4) > 3 * distinct


def test_a_forward_pass_takes_as_many_sequences_as_fit():
    """Faulty: a forward pass for every sequence."""

    def one_sequence_each(trajectories):
        layout = Layout(trajectories)
        return [collate([unit], trajectories, layout, 0) for unit in merge_units(trajectories)]

    trajectories = grown(64, 5)
    [batches] = updates_of(trajectories, 1, 1024)
    faulty = one_sequence_each(trajectories)
    assert computed(batches) == computed(faulty)
    assert len(faulty) == 64 >= 4 * len(batches)
    assert all(batch.input_ids.numel() <= 1024 for batch in batches)
    padding = 1.0 - computed(batches) / sum(batch.input_ids.numel() for batch in batches)
    assert padding < 0.05
    # Nor does it pay to fill passes in the order of collection.
    units, layout = merge_units(trajectories), Layout(trajectories)
    rows = -(-64 // len(batches))
    unordered = [collate(units[n : n + rows], trajectories, layout, 0) for n in range(0, 64, rows)]
    assert 1.0 - computed(unordered) / sum(batch.input_ids.numel() for batch in unordered) > 2 * padding


@pytest.mark.parametrize("merge", [True, False])
def test_every_token_gets_the_advantage_of_its_own_step(merge):
    """Faulty: advantages are spread over tokens with the lengths of the steps in another order."""

    def of_another_step(batch: MicroBatch) -> torch.Tensor:
        lengths = torch.bincount(batch.token_step, minlength=batch.num_steps)
        return torch.repeat_interleave(torch.arange(batch.num_steps), lengths.sort().values)

    trajectories = grown(6, 5)
    layout = Layout(trajectories)
    advantages = torch.arange(1.0, layout.num_steps + 1)
    weights = torch.full((layout.num_steps,), 1.0 / layout.num_steps)
    expected = -(advantages * weights / layout.lengths)[np.repeat(np.arange(layout.num_steps), layout.lengths)]

    def gradient(token_step) -> torch.Tensor:
        found = torch.zeros(layout.num_tokens)
        for group in micro_batches(merge_units(trajectories, merge), 300):
            batch = collate(group, trajectories, layout, 0)
            logps = torch.zeros(len(batch.token_index), requires_grad=True)
            of_token = batch.read_steps(advantages)[token_step(batch)]
            loss, _ = policy_loss(LossConfig(), logps, of_token, batch.read_steps(weights), token_step(batch))
            loss.backward()
            batch.write_tokens(found, logps.grad)
        return found

    assert torch.allclose(gradient(lambda batch: batch.token_step), expected)
    assert not torch.allclose(gradient(of_another_step), expected, rtol=0.1)
