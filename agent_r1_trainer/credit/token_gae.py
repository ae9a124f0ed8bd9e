"""Generalised advantage estimation over the tokens of an agent: the PPO baseline."""

import numpy as np

from agent_r1_trainer.credit.batch import Credit, CreditBatch, Floats
from agent_r1_trainer.credit.recursion import gae
from agent_r1_trainer.credit.registry import register
from agent_r1_trainer.credit.whitening import whiten

__all__ = ["token_gae"]


@register("token_gae", needs_values=True, level="token")
def token_gae(batch: CreditBatch, *, gamma: float, lam: float) -> Credit:
    """Token GAE across the steps of a trajectory, whitened over all response tokens of the batch as in `step_gae`.

    PPO as it is used for language models (Schulman et al. 2017, arXiv 1707.06347), over several turns: every sampled
    token is an action with a value of its own. What the environment says between two replies is skipped, so the token
    after the last one of a reply is the first one of the next. A step's reward is earned by its last token, that of a
    step without a token by the trajectory's token before it, or by nobody if there is none.

    Args:
        batch: The steps of all ranks, with ``token_values``.
        gamma: Discount per TOKEN: one below 1 makes long replies pay, so 1 is usual.
        lam: The lambda of GAE, per token too.

    Returns:
        Whitened advantages [M] and targets of the critic [M].

    Raises:
        ValueError: The batch has no ``token_values``.

    Two replies of two tokens and one token, with values (2, 4) and 4, reward 8 after the second, gamma and lambda 1/2.
    ``delta = (0 + 2 - 2, 0 + 2 - 4, 8 - 4) = (0, -2, 4)``; backwards ``A = (0 - 1/4, -2 + 1, 4) = (-1/4, -1, 4)``:

    >>> from agent_r1_trainer.credit import CreditBatch, token_gae
    >>> batch = CreditBatch(
    ...     rewards=[0, 8], values=[2, 4], trajectory=[0, 0], final_values=[0], groups=[0],
    ...     response_lengths=[2, 1], token_values=[2, 4, 4],
    ... )
    >>> credit = token_gae(batch, gamma=0.5, lam=0.5)
    >>> (credit.returns - batch.token_values).tolist(), credit.returns.tolist()
    ([-0.25, -1.0, 4.0], [1.75, 3.0, 8.0])
    >>> credit.advantages.round(3).tolist()
    [-0.53, -0.871, 1.4]
    """
    values = batch.token_values
    if values is None:
        if batch.num_tokens:
            raise ValueError("token_gae needs the value at every response token: set token_values of the CreditBatch")
        values = np.zeros(0)
    owner = batch.owners("token")
    advantages = gae(_token_rewards(batch), values, owner, batch.final_values, gamma=gamma, lam=lam)
    scales = None if batch.scales is None else batch.scales[owner]
    return Credit(advantages=whiten(advantages, scales), returns=advantages + values)


def _token_rewards(batch: CreditBatch) -> Floats:
    """[M] reward of each response token."""
    owner = batch.owners("token")
    # The last token of the step; for a step without one, whatever token comes before it, maybe another trajectory's.
    last = np.cumsum(batch.response_lengths) - 1
    has = last >= 0
    has[has] = owner[last[has]] == batch.trajectory[has]
    return np.bincount(last[has], weights=batch.rewards[has], minlength=owner.size).astype(np.float64)
