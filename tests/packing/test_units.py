"""Merge units, plans, micro-batches and collation."""

import random

import numpy as np
import pytest
import torch

from agent_r1_trainer.packing import (
    Layout,
    Unit,
    collate,
    continues,
    filler,
    merge_units,
    micro_batches,
    packing_stats,
    plan_minibatches,
)
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory


def trajectory(*steps, **options):
    return Trajectory("t", [Step(prompt, response) for prompt, response in steps], StopReason.TERMINATED, **options)


CHAIN = trajectory(([1, 2], [3]), ([1, 2, 3, 4], [5, 6]), ([1, 2, 3, 4, 5, 6], []), ([1, 2, 3, 4, 5, 6, 7], [8]))
BROKEN = trajectory(([1, 2], [3]), ([1, 2, 9, 4], [5]), ([1, 2, 9, 4, 5], [6]), ([1], [2]))


class TestUnits:
    def test_a_chain_is_one_unit(self):
        assert merge_units([CHAIN]) == [Unit(trajectory=0, steps=range(0, 4), length=8)]

    def test_a_rewritten_prompt_starts_a_new_unit(self):
        units = merge_units([CHAIN, BROKEN])
        assert [(unit.trajectory, unit.first, unit.num_steps, unit.length) for unit in units] == [
            (0, 0, 4, 8),
            (1, 0, 1, 3),
            (1, 1, 2, 6),
            (1, 3, 1, 2),
        ]

    def test_without_merging_every_step_is_a_unit(self):
        assert [unit.length for unit in merge_units([CHAIN], merge=False)] == [3, 6, 6, 8]

    def test_ids_decide_not_the_flag(self):
        lying = trajectory(([1], [2]), ([1, 3], [4]))
        lying.steps[1].extends = True
        assert len(merge_units([lying])) == 2

    @pytest.mark.parametrize(
        ("prompt", "expected"),
        [
            ([1, 2, 3], True),
            ([1, 2, 3, 4], True),
            ([1, 2], False),
            ([1, 2, 4], False),
            ([0, 2, 3], False),
            ([1, 2, 4, 3], False),
        ],
    )
    def test_continues(self, prompt, expected):
        assert continues(Step([1, 2], [3]), Step(prompt, [])) is expected

    def test_refused(self):
        with pytest.raises(ValueError, match="masked"):
            merge_units([trajectory(([1], [2]), masked=True)])
        with pytest.raises(ValueError, match="masked"):
            Layout([trajectory(([1], [2]), masked=True)])
        with pytest.raises(ValueError, match="empty prompt"):
            merge_units([trajectory(([], [2]))])


class TestPlan:
    sizes = random.Random(0).choices([1, 1, 3, 5, 20], k=97)

    def test_a_partition_balanced_by_steps(self):
        for count in (1, 2, 4, 7):
            plan = plan_minibatches(self.sizes, count, seed=3)
            assert len(plan) == count
            assert sorted(sum(plan, [])) == list(range(97))
            loads = [sum(self.sizes[unit] for unit in units) for units in plan]
            assert max(loads) - min(loads) <= 1  # there are enough single steps to even out

    def test_no_worse_than_the_largest_unit(self):
        loads = [sum([20, 20, 20][unit] for unit in units) for units in plan_minibatches([20, 20, 20], 2, seed=0)]
        assert sorted(loads) == [20, 40]

    def test_pure_and_shuffled(self):
        plan = plan_minibatches(self.sizes, 4, seed=[1, 2, 3])
        assert plan == plan_minibatches(np.asarray(self.sizes), 4, seed=(1, 2, 3))
        np.random.seed(0)
        assert plan == plan_minibatches(self.sizes, 4, seed=[1, 2, 3])
        assert plan != plan_minibatches(self.sizes, 4, seed=[1, 2, 4])

    def test_every_unit_can_meet_every_other(self):
        plans = [plan_minibatches([5, 5, 5, 5], 2, seed=seed) for seed in range(50)]
        assert {tuple(units) for plan in plans for units in plan} >= {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}

    def test_fewer_units_than_minibatches_keep_the_number(self):
        plan = plan_minibatches([4, 2], 3, seed=0)
        assert sorted(plan) == [[], [0], [1]]
        assert plan_minibatches([], 2, seed=0) == [[], []]

    def test_errors(self):
        with pytest.raises(ValueError, match="num_minibatches"):
            plan_minibatches([1], 0, seed=0)


class TestMicroBatches:
    def test_budget(self):
        rng = random.Random(1)
        units = [Unit(i, range(1), rng.randint(1, 300)) for i in range(200)]
        groups = micro_batches(units, token_budget=1000)
        assert sorted(unit.trajectory for group in groups for unit in group) == list(range(200))
        assert all(len(group) * max(unit.length for unit in group) <= 1000 for group in groups)
        padded = sum(len(group) * max(unit.length for unit in group) for group in groups)
        assert padded < 1.1 * sum(unit.length for unit in units)

    def test_padding_is_bounded_however_large_the_budget(self):
        units = [Unit(i, range(1), length) for i, length in enumerate([100, 80, 75, 74, 40, 10])]
        groups = micro_batches(units, token_budget=10**6)
        assert [[unit.length for unit in group] for group in groups] == [[100, 80, 75], [74], [40], [10]]
        assert len(micro_batches(units, token_budget=10**6, max_padding=1.0)) == 1

    def test_a_unit_over_the_budget_stands_alone(self):
        groups = micro_batches([Unit(0, range(1), 5), Unit(1, range(1), 50), Unit(2, range(1), 5)], token_budget=10)
        assert [[unit.length for unit in group] for group in groups] == [[50], [5, 5]]

    def test_rows(self):
        groups = micro_batches([Unit(i, range(1), 2) for i in range(5)], token_budget=100, max_rows=2)
        assert [len(group) for group in groups] == [2, 2, 1]

    def test_nothing_and_errors(self):
        assert micro_batches([], token_budget=1) == []
        for arguments in ({"token_budget": 0}, {"token_budget": 1, "max_rows": 0}):
            with pytest.raises(ValueError, match="at least 1"):
                micro_batches([], **arguments)
        with pytest.raises(ValueError, match="max_padding"):
            micro_batches([], token_budget=1, max_padding=1.5)


class TestCollate:
    trajectories = [CHAIN, BROKEN]
    layout = Layout(trajectories)

    def test_layout(self):
        assert (self.layout.num_steps, self.layout.num_tokens) == (8, 8)
        assert self.layout.lengths.tolist() == [1, 2, 0, 1, 1, 1, 1, 1]
        assert self.layout.trajectory.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
        assert self.layout.step(1, 2) == 6
        assert [self.layout.first_token(step) for step in range(8)] == [0, 1, 3, 3, 4, 5, 6, 7]

    def test_spans_and_value_positions(self):
        units = merge_units(self.trajectories)
        batch = collate([units[0], units[2]], self.trajectories, self.layout, pad_id=0)
        assert batch.input_ids.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 9, 4, 5, 6, 0, 0]]
        assert batch.attention_mask.tolist() == [[1] * 8, [1] * 6 + [0] * 2]
        owners = torch.full_like(batch.input_ids, -1)
        owners[batch.token_row, batch.token_col] = batch.token_step
        assert owners.tolist() == [[-1, -1, 0, -1, 1, 1, -1, 3], [-1, -1, -1, -1, 4, 5, -1, -1]]
        assert batch.labels.tolist() == [
            [-100, -100, 3, -100, 5, 6, -100, 8],
            [-100, -100, -100, -100, 5, 6, -100, -100],
        ]
        assert batch.token_ids.tolist() == [3, 5, 6, 8, 5, 6]
        assert batch.token_step.tolist() == [0, 1, 1, 3, 4, 5]
        assert list(zip(batch.value_row.tolist(), batch.value_col.tolist(), strict=True)) == [
            (0, 1),
            (0, 3),
            (0, 5),
            (0, 6),
            (1, 3),
            (1, 4),
        ]
        assert batch.step_index.tolist() == [0, 1, 2, 3, 5, 6]
        assert batch.token_index.tolist() == [0, 1, 2, 3, 5, 6]
        assert batch.num_steps == 6 and batch.real

    def test_flat_vectors_go_through_any_division(self):
        steps, tokens = torch.arange(8.0), torch.arange(8.0) + 0.5
        back_steps, back_tokens = torch.full((8,), -1.0), torch.full((8,), -1.0)
        for merge in (True, False):
            for group in micro_batches(merge_units(self.trajectories, merge), token_budget=12):
                batch = collate(group, self.trajectories, self.layout, pad_id=0)
                batch.write_steps(back_steps, batch.read_steps(steps))
                batch.write_tokens(back_tokens, batch.read_tokens(tokens))
            assert torch.equal(back_steps, steps) and torch.equal(back_tokens, tokens)

    def test_writing_detaches(self):
        batch = collate(merge_units([CHAIN]), [CHAIN], Layout([CHAIN]), pad_id=0)
        flat = torch.zeros(4)
        batch.write_steps(flat, torch.ones(4, requires_grad=True) * 2)
        assert flat.tolist() == [2.0] * 4 and not flat.requires_grad

    def test_filler(self):
        batch = filler(pad_id=7)
        flat = torch.ones(3)
        assert batch.read_steps(flat).tolist() == [0.0] and batch.read_tokens(flat).tolist() == [0.0]
        batch.write_steps(flat, torch.full((1,), 9.0))
        batch.write_tokens(flat, torch.full((1,), 9.0))
        assert flat.tolist() == [1.0] * 3 and not batch.real
        assert batch.read_steps(torch.zeros(0)).tolist() == [0.0]  # a rank without any step of its own
        assert batch.to("cpu").real is False

    def test_no_units(self):
        with pytest.raises(ValueError, match="filler"):
            collate([], self.trajectories, self.layout, pad_id=0)

    def test_sampler_logps(self):
        given = trajectory(([1], [2, 3]), ([1], [2]), ([1], [2]), ([1], [2]))
        given.steps[0].logprobs = [-1.0, None]
        given.steps[1].logprobs = [-2.0]
        given.steps[3].logprobs = [-2.0, -3.0]  # does not match its ids
        logps = Layout([given]).sampler_logps([given])
        assert logps.isnan().tolist() == [False, True, False, True, True]
        assert logps[[0, 2]].tolist() == [-1.0, -2.0]


class TestStats:
    def test_chain_and_break(self):
        trajectories = [CHAIN, BROKEN]
        merged = packing_stats(trajectories, micro_batches(merge_units(trajectories), token_budget=16))
        # CHAIN: 8 positions. BROKEN: 1 2 3 / 9 4 5 6 hanging under 1 2; its last sequence 1 2 is in the tree already.
        assert (merged.distinct, merged.computed, merged.unmerged) == (15, 19, 39)
        assert merged.padded == 2 * 8 + 3 + 2  # the units of 3 and 2 tokens are too unlike to share a pass
        assert merged.computed / merged.distinct == pytest.approx(19 / 15)
        single = packing_stats(trajectories, micro_batches(merge_units(trajectories, merge=False), token_budget=8))
        assert single.computed == single.unmerged == 39

    def test_twenty_turns_cost_a_tenth(self):
        steps, prompt = [], list(range(30))
        for turn in range(20):
            response = [100 + turn] * 10
            steps.append((prompt, response))
            prompt = [*prompt, *response, *[200 + turn] * 20]
        long = trajectory(*steps)
        stats = packing_stats([long], micro_batches(merge_units([long]), token_budget=1000))
        assert stats.computed == stats.distinct
        assert stats.unmerged / stats.computed > 10

    def test_distinct_is_the_size_of_the_prefix_tree(self):
        rng = random.Random(5)
        for _ in range(50):
            steps = [([rng.randrange(2) for _ in range(rng.randint(1, 9))], [rng.randrange(2)]) for _ in range(6)]
            prefixes = {tuple((p + r)[:end]) for p, r in steps for end in range(1, len(p) + 2)}
            assert packing_stats([trajectory(*steps)], []).distinct == len(prefixes)

    def test_nothing(self):
        assert packing_stats([], []).computed == 0
