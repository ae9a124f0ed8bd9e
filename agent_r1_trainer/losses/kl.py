"""The KL divergence to a reference policy (Schulman 2020), where it enters: in the loss, or in the reward.

In the loss (`kl_in="loss"`) it is a term of every token, which `policy_loss` adds. In the reward (`kl_in="reward"`) it
is taken off every step before credit is assigned, in `agent_r1_trainer/learning/make_experience.py`.
"""

from typing import Literal

from torch import Tensor

from agent_r1_trainer.losses.tokens import MAX_LOG_RATIO, segment_sum

__all__ = ["KLEstimator", "check_loss_estimator", "kl_in_loss", "kl_in_reward"]

KLEstimator = Literal["k2", "k3"]


def check_loss_estimator(estimator: str) -> None:
    """Refuse an estimator that is no use inside a loss.

    Raises:
        ValueError: ``k1``, with the reason, or an unknown name.
    """
    if estimator == "k1":
        raise ValueError(
            "k1 in the loss has an expected gradient of 0 (it is the score function): it would not hold the policy "
            "near the reference. Use k2 (the exact gradient of the reverse KL) or k3, or k1 in the reward."
        )
    if estimator not in ("k2", "k3"):
        raise ValueError(f"the KL estimator in the loss must be 'k2' or 'k3', got {estimator!r}")


def kl_in_loss(logps: Tensor, ref_logps: Tensor, estimator: KLEstimator) -> Tensor:
    """KL term of each token, with gradient.

    With ``d = logp - ref_logp``: ``k2 = d^2 / 2`` has the exact gradient of the reverse KL; ``k3 = exp(-d) - 1 + d``
    is the usual choice, positive and of low variance, but its gradient is biased.

    Args:
        logps: [M] log-probabilities under the policy, with gradient.
        ref_logps: [M] under the reference, constant.
        estimator: ``"k2"`` or ``"k3"``.

    Returns:
        [M] the terms, never negative.

    Raises:
        ValueError: Another estimator; for ``k1`` with the reason why it is refused.
    """
    check_loss_estimator(estimator)
    d = logps - ref_logps
    if estimator == "k2":
        return 0.5 * d * d
    d = d.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return (-d).exp() - 1.0 + d


def kl_in_reward(old_logps: Tensor, ref_logps: Tensor, token_step: Tensor, num_steps: int) -> Tensor:
    """The k1 estimate of each step, to be subtracted (times beta) from its reward.

    Args:
        old_logps: [M] log-probabilities under the policy that collected the batch.
        ref_logps: [M] under the reference.
        token_step: [M] step of each token.
        num_steps: S.

    Returns:
        [S] the sum of ``old_logp - ref_logp`` inside each step, without gradient.
    """
    return segment_sum((old_logps - ref_logps).detach(), token_step, num_steps)
