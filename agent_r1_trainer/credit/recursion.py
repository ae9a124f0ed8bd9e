"""The backward recursions of credit, for all trajectories at once."""

import numpy as np

from agent_r1_trainer.credit.batch import Floats, Integers

__all__ = ["discounted_sums", "gae"]


def discounted_sums(x: Floats, trajectory: Integers, rate: float) -> Floats:
    """Sum what follows in the same trajectory: ``y_t = sum_l rate^l x_{t+l}``.

    The span that is summed doubles in every round, so a batch costs as many vector operations as the logarithm of its
    longest trajectory, be it of steps or of tokens.

    Args:
        x: [N] values, trajectory after trajectory.
        trajectory: [N] ascending, which trajectory each value belongs to.
        rate: Discount from one value to the next.

    Returns:
        [N] float64.

    >>> discounted_sums(np.asarray([1.0, 1.0, 1.0, 5.0]), np.asarray([0, 0, 0, 1]), 0.5).tolist()
    [1.75, 1.5, 1.0, 5.0]
    """
    sums = np.array(x, dtype=np.float64)
    span = 1
    while span < sums.size:
        same = trajectory[span:] == trajectory[:-span]
        if not same.any():
            break
        # `where` and not a product: what is not finite in one trajectory must not reach another.
        sums[:-span] += rate**span * np.where(same, sums[span:], 0.0)
        span *= 2
    return sums


def gae(
    rewards: Floats, values: Floats, trajectory: Integers, final_values: Floats, *, gamma: float, lam: float
) -> Floats:
    """Generalised advantage estimation over any kind of step (Schulman et al. 2016, arXiv 1506.02438).

    Args:
        rewards: [N] rewards, trajectory after trajectory.
        values: [N] values before each of them.
        trajectory: [N] ascending, which trajectory (0..K-1) each belongs to.
        final_values: [K] value after the last one of each trajectory.
        gamma: Discount from one to the next.
        lam: The lambda of GAE.

    Returns:
        [N] advantages, not whitened: ``sum_l (gamma lam)^l (r + gamma V' - V)_{t+l}``.
    """
    following = np.append(values[1:], 0.0)[: values.size]
    last = np.flatnonzero(np.append(trajectory[1:] != trajectory[:-1], True)[: trajectory.size])
    following[last] = final_values[trajectory[last]]
    return discounted_sums(rewards + gamma * following - values, trajectory, gamma * lam)
