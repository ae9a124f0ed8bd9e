"""The whole loss against cases worked out by hand, and what must not change it."""

import math

import pytest
import torch

from agent_r1_trainer.losses import LossConfig, critic_loss, policy_loss, step_weights

LN2 = math.log(2.0)


class TestByHand:
    """Three steps of two, one and no tokens; the old log-probabilities are -1 everywhere.

    The probability of the first token doubled, that of the second halved, that of the third tripled.
    """

    old = torch.tensor([-1.0, -1.0, -1.0])
    logps = torch.tensor([-1.0 + LN2, -1.0 - LN2, -1.0 + math.log(3.0)])
    step = torch.tensor([0, 0, 1])
    advantages = torch.tensor([1.0, -2.0, 5.0])
    weights = torch.tensor([0.5, 0.5, 0.0])  # the step without tokens has no policy term

    def loss(self, **settings):
        config = LossConfig(epsilon_low=0.2, epsilon_high=0.3, **settings)
        extra = {"ref_logps": torch.full((3,), -1.0), "entropies": torch.tensor([1.0, 2.0, 3.0])}
        return policy_loss(
            config, self.logps, self.advantages[self.step], self.weights, self.step, old_logps=self.old, **extra
        )

    def test_token_ratio(self):
        # A = 1: token 0 has ratio 2, clipped to 1.3: -1.3. Token 1 has ratio 0.5 (the lower clip would be worse): -0.5.
        # A = -2: token 2 has ratio 3, the clip to 1.3 does not help: loss +6.
        loss, metrics = self.loss(ratio_level="token")
        assert loss.item() == pytest.approx(0.5 * (-1.3 - 0.5) / 2 + 0.5 * 6.0)
        means = metrics.means()
        assert means["loss/policy"] == pytest.approx(loss.item())
        assert means["ratio"] == pytest.approx(0.5 * (2.0 + 0.5) / 2 + 0.5 * 3.0)
        assert means["clip_ratio/high_mean"] == pytest.approx(0.25)
        assert means["clip_ratio/low_mean"] == 0.0
        assert means["clip_ratio/region_mean"] == pytest.approx(0.25)
        assert means["entropy"] == pytest.approx(0.5 * 1.5 + 0.5 * 3.0)
        assert means["log_ratio/max"] == pytest.approx(math.log(3.0))
        approx = [2 - 1 - LN2, 0.5 - 1 + LN2, 3 - 1 - math.log(3.0)]
        assert means["approx_kl"] == pytest.approx(0.5 * (approx[0] + approx[1]) / 2 + 0.5 * approx[2])

    def test_sequence_ratio(self):
        # The mean log-ratio of step 0 is 0: ratio 1, loss -1. Step 1 is as before.
        loss, metrics = self.loss(ratio_level="sequence")
        assert loss.item() == pytest.approx(0.5 * -1.0 + 0.5 * 6.0)
        assert metrics.means()["clip_ratio/region_mean"] == 0.0

    def test_dual_clip(self):
        # The loss of step 1 is at most -c A = 4.
        loss, metrics = self.loss(ratio_level="token", dual_clip=2.0)
        assert loss.item() == pytest.approx(0.5 * (-1.3 - 0.5) / 2 + 0.5 * 4.0)
        assert metrics.means()["clip_ratio/dual_mean"] == pytest.approx(0.5)

    def test_everything(self):
        # k3 with d = (ln 2, -ln 2, ln 3): exp(-d) - 1 + d.
        kl = [0.5 - 1 + LN2, 2 - 1 - LN2, 1 / 3 - 1 + math.log(3.0)]
        loss, metrics = self.loss(ratio_level="token", dual_clip=2.0, beta=0.1, entropy_coef=0.01)
        mean_kl = 0.5 * (kl[0] + kl[1]) / 2 + 0.5 * kl[2]
        expected = 0.5 * (-1.3 - 0.5) / 2 + 0.5 * 4.0 + 0.1 * mean_kl - 0.01 * (0.5 * 1.5 + 0.5 * 3.0)
        assert loss.item() == pytest.approx(expected)
        assert metrics.means()["kl"] == pytest.approx(mean_kl)

    def test_k2(self):
        loss, metrics = self.loss(ratio_level="sequence", beta=1.0, kl_estimator="k2")
        kl = 0.5 * (LN2**2 / 2) + 0.5 * (math.log(3.0) ** 2 / 2)
        assert loss.item() == pytest.approx(2.5 + kl)

    def test_importance_weights_touch_the_surrogate_only(self):
        config = LossConfig(ratio_level="token", epsilon_low=0.2, epsilon_high=0.3, beta=1.0, kl_estimator="k2")
        loss, metrics = policy_loss(
            config,
            self.logps,
            self.advantages[self.step],
            self.weights,
            self.step,
            old_logps=self.old,
            ref_logps=self.old,
            importance=torch.tensor([0.5, 2.0, 1.5]),
            importance_missing=torch.tensor([False, False, True]),
        )
        assert metrics.means()["importance/mean"] == pytest.approx(0.5 * (0.5 + 2.0) / 2 + 0.5 * 1.5)
        assert metrics.means()["importance/missing"] == pytest.approx(0.5)
        surrogate = 0.5 * (-1.3 * 0.5 - 0.5 * 2.0) / 2 + 0.5 * 6.0 * 1.5
        assert loss.item() == pytest.approx(surrogate + 0.5 * LN2**2 / 2 + 0.5 * math.log(3.0) ** 2 / 2)

    def test_value(self):
        # Errors 1, -2; the second value moved by 1, is held at +0.5, and its error is -2.5; the third is a filler.
        config = LossConfig(value_clip=0.5)
        values, returns = torch.tensor([1.0, 3.0, 9.0]), torch.tensor([0.0, 5.0, 0.0])
        weights, old = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([1.0, 2.0, 0.0])
        loss, metrics = critic_loss(config, values, returns, weights, old_values=old)
        assert loss.item() == pytest.approx(0.5 * 0.5 * 1.0 + 0.5 * 0.5 * 2.5**2)
        assert metrics.means()["clip_ratio/value"] == pytest.approx(0.5)
        unclipped, _ = critic_loss(LossConfig(), values, returns, weights)
        assert unclipped.item() == pytest.approx(0.5 * 0.5 * 1.0 + 0.5 * 0.5 * 4.0)
        with pytest.raises(ValueError, match="old_values"):
            critic_loss(config, values, returns, weights)


def random_case(seed, steps=7, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 6, (steps,), generator=generator)
    step = torch.repeat_interleave(torch.arange(steps), lengths)
    old = -torch.rand(step.numel(), generator=generator, dtype=dtype)
    logps = old + 0.5 * torch.randn(step.numel(), generator=generator, dtype=dtype)
    advantages = torch.randn(steps, generator=generator, dtype=dtype)
    weights = torch.as_tensor(step_weights("step_mean", lengths.tolist(), [steps] * steps, [9] * steps))
    return step, old, logps.requires_grad_(), advantages, weights


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_first_update_after_a_rollout(level):
    """With the old log-probabilities equal to the current ones nothing is clipped, and leaving them out is the same."""
    step, _, logps, advantages, weights = random_case(0)
    config = LossConfig(ratio_level=level, epsilon_low=3e-4, epsilon_high=4e-4, dual_clip=3.0)
    loss, metrics = policy_loss(config, logps, advantages[step], weights, step, old_logps=logps.detach())
    (gradient,) = torch.autograd.grad(loss, logps)
    means = metrics.means()
    assert means["log_ratio/max"] == 0.0 and means["clip_ratio/region_mean"] == means["clip_ratio/dual_mean"] == 0.0
    lengths = torch.bincount(step, minlength=advantages.numel())
    assert gradient == pytest.approx(-(weights * advantages / lengths.clamp(min=1))[step].float(), rel=1e-6)
    again, _ = policy_loss(config, logps, advantages[step], weights, step)
    assert torch.equal(torch.autograd.grad(again, logps)[0], gradient)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_micro_batches_add_up(level):
    step, old, logps, advantages, weights = random_case(1)
    reference = old - 0.1
    config = LossConfig(ratio_level=level, beta=0.1, dual_clip=3.0)
    whole, whole_metrics = policy_loss(
        config, logps, advantages[step], weights, step, old_logps=old, ref_logps=reference, entropies=-old
    )
    parts, metrics = torch.zeros(()), None
    for chosen in ([0, 3], [1, 2, 6], [4], [5]):
        keep = torch.isin(step, torch.tensor(chosen))
        local = torch.searchsorted(torch.tensor(chosen), step[keep])
        part, part_metrics = policy_loss(
            config,
            logps[keep],
            advantages[step[keep]],
            weights[chosen],
            local,
            old_logps=old[keep],
            ref_logps=reference[keep],
            entropies=-old[keep],
        )
        parts = parts + part
        metrics = part_metrics if metrics is None else metrics
        if metrics is not part_metrics:
            metrics.add(part_metrics)
    assert parts.item() == pytest.approx(whole.item(), rel=1e-5)
    expected = torch.autograd.grad(whole, logps)[0]
    assert torch.autograd.grad(parts, logps)[0] == pytest.approx(expected, rel=1e-5, abs=1e-8)
    assert metrics.means() == pytest.approx(whole_metrics.means(), rel=1e-6)


def test_the_loss_is_computed_in_float32():
    step, old, logps, advantages, weights = random_case(2)
    loss, _ = policy_loss(LossConfig(), logps.bfloat16(), advantages[step], weights, step, old_logps=old.bfloat16())
    assert loss.dtype == torch.float32
    loss, _ = critic_loss(LossConfig(), torch.ones(2, dtype=torch.bfloat16), torch.ones(2), torch.ones(2))
    assert loss.dtype == torch.float32


def test_a_micro_batch_without_response_tokens():
    nothing = torch.zeros(0, requires_grad=True)
    config = LossConfig(beta=0.1)
    step = torch.zeros(0, dtype=torch.int64)
    loss, metrics = policy_loss(config, nothing, torch.zeros(0), torch.zeros(2), step, ref_logps=torch.zeros(0))
    loss.backward()
    assert loss.item() == 0.0
    assert math.isnan(metrics.means()["ratio"]) and metrics.means()["log_ratio/max"] == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kl_estimator": "k1"}, "expected gradient of 0"),
        ({"kl_estimator": "k4"}, "'k2' or 'k3'"),
        ({"ratio_level": "word"}, "ratio_level"),
        ({"epsilon_low": 1.5}, "epsilon_low"),
        ({"epsilon_high": -0.1}, "epsilon_high"),
        ({"dual_clip": 1.0}, "dual_clip"),
        ({"value_clip": 0.0}, "value_clip"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        LossConfig(**settings)


def test_missing_inputs():
    step, old, logps, advantages, weights = random_case(3)
    with pytest.raises(ValueError, match="ref_logps"):
        policy_loss(LossConfig(beta=0.1), logps, advantages[step], weights, step)
    with pytest.raises(ValueError, match="entropies"):
        policy_loss(LossConfig(entropy_coef=0.1), logps, advantages[step], weights, step)
