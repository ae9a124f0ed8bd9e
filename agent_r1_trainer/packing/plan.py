"""Which units make up a mini-batch, and which units share a forward pass."""

from collections.abc import Sequence

import numpy as np

from agent_r1_trainer.packing.units import Unit

__all__ = ["micro_batches", "plan_minibatches"]


def plan_minibatches(unit_steps: Sequence[int], num_minibatches: int, seed: int | Sequence[int]) -> list[list[int]]:
    """Divide the units of the GLOBAL batch into mini-batches of about equal numbers of steps.

    A pure function of its arguments: give every rank the same list (in an order that does not depend on which rank
    holds which unit: by group, sample and first step) and the plan is the same on every rank and for every number of
    ranks. Each rank then trains on those units of a mini-batch that it holds.

    The units are shuffled, then dealt out, the largest first (in shuffled order among equals), each to the mini-batch
    that has the fewest steps so far.

    Args:
        unit_steps: Number of steps of each unit.
        num_minibatches: How many mini-batches; it is also the number of optimizer steps of one epoch, so the result
            always has this many entries. Some are empty if there are fewer units than mini-batches.
        seed: A seed, or several numbers that make one (run seed, batch number, epoch); never negative.

    Returns:
        For each mini-batch the indices of its units, ascending. Each unit occurs once. Step counts of two mini-batches
        differ by no more than the largest unit.

    Raises:
        ValueError: ``num_minibatches`` is below 1.
    """
    if num_minibatches < 1:
        raise ValueError(f"num_minibatches must be at least 1, got {num_minibatches}")
    sizes = np.asarray(unit_steps, dtype=np.int64)
    shuffled = np.random.default_rng(seed).permutation(sizes.size)
    largest_first = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    plan: list[list[int]] = [[] for _ in range(num_minibatches)]
    load = [0] * num_minibatches
    for unit in largest_first.tolist():
        lightest = min(range(num_minibatches), key=load.__getitem__)
        plan[lightest].append(unit)
        load[lightest] += int(sizes[unit])
    return [sorted(units) for units in plan]


def micro_batches(
    units: Sequence[Unit], token_budget: int, *, max_rows: int | None = None, max_padding: float = 0.25
) -> list[list[Unit]]:
    """Group units of similar length so that no group costs more than a budget of tokens, padding included.

    The cost of a group is its number of rows times its longest unit. A unit that is longer than the budget gets a group
    of its own (it has to be computed somehow).

    Args:
        units: Any units.
        token_budget: Largest cost of a group.
        max_rows: Largest number of rows of a group, None for no limit.
        max_padding: Largest share of a row that may be padding: a unit much shorter than the longest of a group starts
            the next one, since one more pass over few tokens is cheaper than a pass over padding. 1 for no limit.

    Returns:
        The groups, longest units first, so that running out of memory shows at once; ties keep their order.

    Raises:
        ValueError: A budget or a number of rows below 1, or a share of padding outside 0 to 1.
    """
    if token_budget < 1 or (max_rows is not None and max_rows < 1):
        raise ValueError(f"token_budget and max_rows must be at least 1, got {token_budget} and {max_rows}")
    if not 0.0 <= max_padding <= 1.0:
        raise ValueError(f"max_padding must be between 0 and 1, got {max_padding}")
    groups: list[list[Unit]] = []
    for unit in sorted(units, key=lambda unit: -unit.length):
        group = groups[-1] if groups else []
        rows = len(group) + 1
        fits = (
            bool(group)
            and group[0].length * rows <= token_budget
            and (max_rows is None or rows <= max_rows)
            and unit.length >= (1.0 - max_padding) * group[0].length
        )
        if fits:
            group.append(unit)
        else:
            groups.append([unit])
    return groups
