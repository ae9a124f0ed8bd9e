"""Ratios, clips, KL estimators, importance weights, step weights and metrics, each against its definition."""

import math
from typing import get_args

import numpy as np
import pytest
import torch

from agent_r1_trainer.losses import (
    MAX_LOG_RATIO,
    Aggregation,
    MetricSums,
    clipped_surrogate,
    importance_weights,
    kl_in_loss,
    kl_in_reward,
    log_ratios,
    segment_mean,
    segment_sum,
    step_weights,
    token_weights,
)

LENGTHS = [3, 0, 1, 5, 0]
STEP = torch.repeat_interleave(torch.arange(5), torch.tensor(LENGTHS))
SPANS = torch.split(torch.arange(9), LENGTHS)


def random(seed, count=9):
    return torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class TestSegments:
    def test_sum_and_mean(self):
        x = random(0)
        assert segment_sum(x, STEP, 5).tolist() == pytest.approx([x[span].sum().item() for span in SPANS])
        means = [x[span].mean().item() if len(span) else 0.0 for span in SPANS]
        assert segment_mean(x, STEP, 5).tolist() == pytest.approx(means)

    def test_token_weights_give_means_of_means(self):
        x, weights = random(1), torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0], dtype=torch.float64)
        expected = sum(w * x[span].mean() for w, span in zip(weights, SPANS, strict=True) if len(span))
        assert (token_weights(weights, STEP) * x).sum().item() == pytest.approx(expected.item())

    def test_interleaved_tokens(self):
        step = torch.tensor([1, 0, 1, 0])
        assert segment_sum(torch.tensor([1.0, 2.0, 3.0, 4.0]), step, 2).tolist() == [6.0, 4.0]


class TestRatios:
    def test_sequence_gradient_is_that_of_its_definition(self):
        """rho_i = exp(mean_j z_j), clipped and averaged over steps, differentiated by autograd."""
        logps, old, advantages = random(2).requires_grad_(), random(3), random(4, 5)
        weights = torch.tensor([0.5, 0.0, 0.3, 0.2, 0.0], dtype=torch.float64)

        direct = torch.zeros((), dtype=torch.float64)
        for i, span in enumerate(SPANS):
            if len(span):
                rho = torch.exp((logps[span] - old[span]).mean())
                direct = direct - weights[i] * torch.min(rho * advantages[i], rho.clamp(0.8, 1.2) * advantages[i])

        log_ratio = log_ratios(logps, old, STEP, 5, "sequence")
        loss, *_ = clipped_surrogate(log_ratio, advantages[STEP], epsilon_low=0.2, epsilon_high=0.2)
        total = (token_weights(weights, STEP) * loss).sum()
        assert total.item() == pytest.approx(direct.item(), rel=1e-12)
        expected = torch.autograd.grad(direct, logps)[0]
        assert expected.abs().max() > 0
        assert torch.autograd.grad(total, logps)[0] == pytest.approx(expected, rel=1e-10, abs=1e-14)

    def test_token_gradient_is_that_of_its_definition(self):
        logps, old = random(2).requires_grad_(), random(3)
        ratio = log_ratios(logps, old, STEP, 5, "token").exp()
        gradient = torch.autograd.grad(ratio.sum(), logps)[0]
        assert gradient == pytest.approx(torch.exp(logps - old).detach(), rel=1e-12)

    @pytest.mark.parametrize("level", ["token", "sequence"])
    @pytest.mark.parametrize("shift", [50.0, -50.0])
    def test_clamp(self, level, shift):
        old = random(3)
        logps = (old + shift).requires_grad_()
        log_ratio = log_ratios(logps, old, STEP, 5, level)
        assert log_ratio.tolist() == pytest.approx([math.copysign(MAX_LOG_RATIO, shift)] * 9)
        assert torch.autograd.grad(log_ratio.exp().sum(), logps)[0].tolist() == [0.0] * 9

    def test_unknown_level(self):
        with pytest.raises(ValueError, match="'token' or 'sequence'"):
            log_ratios(random(0), random(1), STEP, 5, "word")


class TestSurrogate:
    @pytest.mark.parametrize("dual_clip", [None, 1.5, 3.0])
    def test_against_the_definition(self, dual_clip):
        for ratio in (0.01, 0.5, 0.79, 0.81, 1.0, 1.29, 1.31, 2.0, 10.0):
            for advantage in (-2.0, -0.5, 0.0, 0.5, 2.0):
                clipped = min(max(ratio, 0.8), 1.3)
                expected = max(-ratio * advantage, -clipped * advantage)
                if advantage < 0 and dual_clip is not None:
                    expected = min(expected, -dual_clip * advantage)
                z = torch.tensor([math.log(ratio)], requires_grad=True)
                loss, low, high, dual = clipped_surrogate(
                    z, torch.tensor([advantage]), epsilon_low=0.2, epsilon_high=0.3, dual_clip=dual_clip
                )
                assert loss.item() == pytest.approx(expected, abs=1e-6)
                gradient = torch.autograd.grad(loss.sum(), z)[0].item()
                stopped = bool(low.any() or high.any() or dual.any())
                assert gradient == pytest.approx(0.0 if stopped else -ratio * advantage, rel=1e-5, abs=1e-7)

    def test_dual_clip_bounds_a_runaway_token(self):
        z = torch.tensor([20.0], requires_grad=True)
        loss, *_ = clipped_surrogate(z, torch.tensor([-1.0]), epsilon_low=0.2, epsilon_high=0.2, dual_clip=3.0)
        assert loss.item() == 3.0
        assert torch.autograd.grad(loss.sum(), z)[0].item() == 0.0


class TestKL:
    def test_k2_has_the_gradient_of_the_reverse_kl(self):
        """In expectation over the policy's own samples, exactly, on a small distribution; k1's is 0."""
        scores, reference = random(0, 6).requires_grad_(), torch.log_softmax(random(1, 6), 0)
        logps = torch.log_softmax(scores, 0)
        probabilities = logps.detach().exp()
        exact = torch.autograd.grad((logps.exp() * (logps - reference)).sum(), scores, retain_graph=True)[0]
        k2 = torch.autograd.grad((probabilities * kl_in_loss(logps, reference, "k2")).sum(), scores, retain_graph=True)[
            0
        ]
        k1 = torch.autograd.grad((probabilities * (logps - reference)).sum(), scores)[0]
        assert k2 == pytest.approx(exact, rel=1e-9, abs=1e-12)
        assert k1.abs().max() < 1e-12 < exact.abs().max()

    def test_k3_is_an_unbiased_positive_estimate(self):
        logps, reference = torch.log_softmax(random(0, 6), 0), torch.log_softmax(random(1, 6), 0)
        terms = kl_in_loss(logps, reference, "k3")
        assert (terms >= 0).all()
        assert (logps.exp() * terms).sum().item() == pytest.approx((logps.exp() * (logps - reference)).sum().item())

    def test_k1_is_refused_with_the_reason(self):
        with pytest.raises(ValueError, match="expected gradient of 0"):
            kl_in_loss(random(0), random(1), "k1")

    def test_k1_in_the_reward_is_summed_inside_a_step(self):
        old, reference = random(0).requires_grad_(), random(1)
        penalty = kl_in_reward(old, reference, STEP, 5)
        assert not penalty.requires_grad
        assert penalty.tolist() == pytest.approx([(old - reference)[span].sum().item() for span in SPANS])

    def test_far_from_the_reference_k3_stays_finite(self):
        assert torch.isfinite(kl_in_loss(torch.tensor([-500.0]), torch.tensor([-1.0]), "k3")).all()


class TestImportance:
    old = torch.tensor([-1.0, -1.0, -1.0, -2.0, -2.0])
    step = torch.tensor([0, 0, 0, 1, 1])

    def test_token(self):
        sampler = torch.tensor([-1.5, -1.0, -0.5, -5.0, -2.1])
        weights, missing = importance_weights(self.old, sampler, self.step, 2, level="token", cap=2.0)
        assert weights.tolist() == pytest.approx([math.exp(0.5), 1.0, math.exp(-0.5), 2.0, math.exp(0.1)])
        assert not missing.any()

    def test_sequence(self):
        sampler = torch.tensor([-1.5, -1.0, -0.9, -5.0, -2.1])
        weights, _ = importance_weights(self.old, sampler, self.step, 2, level="sequence", cap=2.0)
        assert weights.tolist() == pytest.approx([math.exp(0.4)] * 3 + [2.0] * 2)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("level", ["token", "sequence"])
    def test_missing_counts_as_one(self, value, level):
        sampler = torch.tensor([-1.5, value, -1.0, value, value])
        weights, missing = importance_weights(self.old, sampler, self.step, 2, level=level, cap=2.0)
        assert missing.tolist() == [False, True, False, True, True]
        first = [math.exp(0.5), 1.0, 1.0] if level == "token" else [math.exp(0.5)] * 3
        assert weights.tolist() == pytest.approx([*first, 1.0, 1.0])

    def test_no_gradient_and_no_overflow(self):
        old = self.old.clone().requires_grad_()
        weights, _ = importance_weights(old, old.detach() - 1e4, self.step, 2, level="sequence")
        assert not weights.requires_grad and weights.tolist() == [2.0] * 5

    def test_unknown_level(self):
        with pytest.raises(ValueError, match="importance weights"):
            importance_weights(self.old, self.old, self.step, 2, level="word")


class TestStepWeights:
    # Trajectory A has steps of 3, 1 and 2 tokens, trajectory B one step of 4 tokens.
    lengths, steps, tokens = [3, 1, 2, 4], [3, 3, 3, 1], [6, 6, 6, 4]

    @pytest.mark.parametrize(
        ("aggregation", "expected"),
        [
            ("step_mean", [1 / 4] * 4),
            ("token_mean", [3 / 10, 1 / 10, 2 / 10, 4 / 10]),
            ("token_sum", [3 / 40, 1 / 40, 2 / 40, 4 / 60]),
            ("trajectory_mean", [3 / 12, 1 / 12, 2 / 12, 1 / 2]),
            ("trajectory_step_mean", [1 / 6, 1 / 6, 1 / 6, 1 / 2]),
            ("trajectory_step_sum", [1 / 2] * 4),
        ],
    )
    def test_whole_trajectories(self, aggregation, expected):
        divisors = [40.0, 40.0, 40.0, 60.0]
        assert step_weights(aggregation, self.lengths, self.steps, self.tokens, divisors) == pytest.approx(expected)

    def test_a_token_of_a_trajectory_weighs_the_same_in_a_short_reply_and_in_a_long_one(self):
        """The mean of the means of the steps weighs a reply of one token 100 times a token of one of 100."""
        lengths, steps, tokens = np.array([1, 100]), [2, 2], [101, 101]
        per_token = step_weights("trajectory_mean", lengths, steps, tokens) / lengths
        assert per_token == pytest.approx([1 / 101, 1 / 101])
        per_token = step_weights("trajectory_step_mean", lengths, steps, tokens) / lengths
        assert per_token == pytest.approx([1 / 2, 1 / 200])

    def test_part_of_a_trajectory_counts_as_a_part(self):
        # Two thirds of A and all of B: K = 2/3 + 1.
        part, steps, tokens = [3, 1, 4], [3, 3, 1], [6, 6, 4]
        assert step_weights("trajectory_mean", part, steps, tokens) == pytest.approx([0.3, 0.1, 0.6])
        assert step_weights("trajectory_step_mean", part, steps, tokens) == pytest.approx([0.2, 0.2, 0.6])
        assert step_weights("trajectory_step_sum", part, steps, tokens) == pytest.approx([0.6, 0.6, 0.6])

    @pytest.mark.parametrize("aggregation", get_args(Aggregation))
    def test_steps_without_tokens_weigh_nothing(self, aggregation):
        weights = step_weights(aggregation, [0, 2, 2, 0], [1, 1, 1, 0], [2, 2, 2, 0], [9.0] * 4)
        assert weights[0] == weights[3] == 0.0
        if aggregation not in ("trajectory_step_sum", "token_sum"):
            assert weights.sum() == pytest.approx(1.0)
        assert step_weights(aggregation, [0, 0], [0, 0], [0, 0], [9.0, 9.0]).tolist() == [0.0, 0.0]
        assert step_weights(aggregation, [], [], [], []).tolist() == []

    def test_errors(self):
        with pytest.raises(ValueError, match="step_mean, token_mean"):
            step_weights("mean", [1], [1], [1])
        with pytest.raises(ValueError, match="trajectory_steps has"):
            step_weights("step_mean", [1, 2], [1], [1, 2])
        with pytest.raises(ValueError, match="divisors"):
            step_weights("token_sum", [1], [1], [1])


class TestMetrics:
    def test_ranks_add_up(self):
        x, weights = random(0, 12), random(1, 12).abs()
        whole = MetricSums()
        whole.record("a", x, weights)
        whole.record_max("m", x.abs())
        ranks = []
        for part in torch.split(torch.arange(12), [5, 4, 3]):
            ranks.append(MetricSums())
            ranks[-1].record("a", x[part], weights[part])
            ranks[-1].record_max("m", x[part].abs())
        pairs = torch.stack([rank.stack()[0] for rank in ranks]).sum(0)
        maxima = torch.stack([rank.stack()[1] for rank in ranks]).amax(0)
        assert ranks[0].unstack(pairs, maxima).means() == pytest.approx(whole.means())
        ranks[0].add(ranks[1])
        ranks[0].add(ranks[2])
        assert ranks[0].means() == pytest.approx(whole.means())

    def test_weight_zero_hides_what_is_not_finite(self):
        metrics = MetricSums()
        metrics.record("a", torch.tensor([1.0, math.nan]), torch.tensor([1.0, 0.0]))
        metrics.record("a", torch.tensor([3.0]), torch.tensor([1.0]))
        assert metrics.means() == {"a": 2.0}

    def test_empty(self):
        pairs, maxima = MetricSums().stack()
        assert pairs.shape == (0, 2) and maxima.shape == (0,)
        assert MetricSums().unstack(pairs, maxima).means() == {}
