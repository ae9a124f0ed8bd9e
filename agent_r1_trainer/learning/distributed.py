"""The few collective operations of the trainer; with one process they cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import gather_object

from agent_r1_trainer.environments.contract import error_text
from agent_r1_trainer.files import FileLock, LockError
from agent_r1_trainer.losses import MetricSums

T = TypeVar("T")

__all__ = [
    "any_rank",
    "gather_items",
    "held_by_main",
    "largest",
    "own_share",
    "reduce_metrics",
    "together",
]


def gather_items(accelerator: Accelerator | PartialState, items: Sequence[T]) -> list[T]:
    """The items of all ranks, in the order of the ranks; every rank gets the same list."""
    return list(items) if accelerator.num_processes == 1 else list(gather_object(list(items)))


@contextmanager
def held_by_main(accelerator: Accelerator | PartialState, lock: FileLock) -> Iterator[None]:
    """Hold a lock in the main process for the length of the block; where it cannot be had, every rank raises.

    Raises:
        LockError: Somebody else has it.
        OSError: Its folder cannot be made; of other ranks this is a `LockError` too.
    """
    problem: Exception | None = None
    if accelerator.is_main_process:
        try:
            lock.acquire()
        except (LockError, OSError) as error:
            problem = error
    try:
        words = "".join(gather_items(accelerator, [str(problem) or repr(problem) if problem else ""]))
        if words:
            raise problem or LockError(words)
        yield
    finally:
        if accelerator.is_main_process and problem is None:
            lock.release()


def own_share(accelerator: Accelerator, items: Sequence[T]) -> list[T]:
    """This rank's contiguous share of `items`: `gather_items` of the shares gives the whole again, in order."""
    rank, ranks = accelerator.process_index, accelerator.num_processes
    return list(items[len(items) * rank // ranks : len(items) * (rank + 1) // ranks])


def largest(accelerator: Accelerator, counts: Sequence[int]) -> list[int]:
    """The largest of the ranks' numbers, entry by entry."""
    if accelerator.num_processes == 1:
        return list(counts)
    mine = torch.tensor([list(counts)], dtype=torch.int64, device=accelerator.device)
    gathered: Any = accelerator.gather(mine)
    return gathered.max(dim=0).values.tolist()


def any_rank(accelerator: Accelerator, flag: bool) -> bool:
    """Whether the flag is set on any rank."""
    return bool(largest(accelerator, [int(flag)])[0])


def reduce_metrics(accelerator: Accelerator, metrics: MetricSums) -> MetricSums:
    """Add the metrics of all ranks."""
    if accelerator.num_processes == 1:
        return metrics
    pairs, maxima = metrics.stack()
    mine = torch.cat([pairs.flatten(), maxima]).to(accelerator.device)[None]
    gathered: Any = accelerator.gather(mine)
    split = pairs.numel()
    return metrics.unstack(gathered[:, :split].sum(dim=0).view(-1, 2), gathered[:, split:].max(dim=0).values)


def together(accelerator: Accelerator, act: Callable[[], T]) -> T:
    """Do something that may fail on one rank alone; then all raise, and none waits for the failed one in vain.

    Args:
        accelerator: The ranks agree through it once each is done.
        act: What to do, without collective operations of its own.

    Raises:
        Exception: What it raised here.
        RuntimeError: It raised on another rank; the message has its words.
    """
    if accelerator.num_processes == 1:
        return act()
    results: list[T] = []
    problem: Exception | None = None
    try:
        results.append(act())
    except Exception as error:
        problem = error
    problems = gather_items(accelerator, [error_text(problem) if problem is not None else ""])
    if problem is not None:
        raise problem
    for rank, words in enumerate(problems):
        if words:
            raise RuntimeError(f"process {rank} failed: {words}")
    return results[0]
