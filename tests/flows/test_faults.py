"""Training over environments that raise, hang and die: what was injected is counted, and nothing stays behind."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers.cues import CueEnv
from tests.helpers.fault_envs import RELEASE, DelayedEnv, FaultyEnv, notes
from tests.helpers.training import make_trainer, measured, weights

RUN: dict[str, Any] = {"rollout_batch_size": 8, "max_steps": 8, "logging_steps": 4}


@pytest.fixture
def released() -> Iterator[None]:
    RELEASE.clear()
    yield
    RELEASE.set()


def held() -> dict[str, int]:
    """What a process holds that an environment may leave behind."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # the descriptor of the listing itself
            pass
    return {
        "threads": threading.active_count(),
        "processes": len(multiprocessing.active_children()),
        "sockets and pipes": sum(link.startswith(("socket:", "pipe:")) for link in links),
    }


def settled(before: dict[str, int]) -> dict[str, int]:
    """What is held, once what is ending has ended."""
    until = time.monotonic() + 20
    while held() != before and time.monotonic() < until:
        time.sleep(0.01)
    return held()


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
def test_training_is_the_same_wherever_the_environments_work(workers, tmp_path):
    runs = []
    for folder, settings in (("step", {}), (workers, {"env_workers": workers, "env_retries": 1})):
        trainer = make_trainer(tmp_path / folder, env=CueEnv if folder == "step" else DelayedEnv, **RUN, **settings)
        trainer.train()
        runs.append((weights(trainer), measured(trainer)))
    assert all(torch.equal(value, runs[1][0][name]) for name, value in runs[0][0].items())
    assert runs[0][1] == runs[1][1]
    logged = next(row for row in trainer.state.log_history if "reward" in row)
    assert logged["rollout/tokens_per_second"] > 0 and 0 < logged["rollout/environment_share"] < 1
    assert [logged[f"rollout/{name}"] for name in ("retried", "timeouts", "crashes", "hung_threads")] == [0] * 4


def series(folder: Path, workers: str, updates: int, *, retries: int, share: float, timeout: float) -> dict[str, float]:
    """Train for some updates; returns the figures."""
    processes = workers == "processes"
    folder.mkdir()
    env = partial(FaultyEnv, str(folder), share=share, own_process=processes)
    if processes:  # the first one starts what all processes come from
        make_trainer(folder / "first", env=CueEnv, **{**RUN, "max_steps": 4}, env_workers=workers).train()
    before = held()
    trainer = make_trainer(
        folder / "run",
        env=env,
        **{**RUN, "max_steps": updates, "logging_steps": 4},  # a rollout is four updates
        env_workers=workers,
        env_timeout=timeout,
        env_retries=retries,
        max_masked_ratio=1.0,
    )
    trainer.flow._crew._max_hung = 1000  # so that a long series in threads is not stopped
    trainer.train()
    rows = [row for row in trainer.state.log_history if "masked_ratio" in row]
    hung = trainer.flow.hung_threads
    RELEASE.set()
    assert settled(before) == before
    injected = {kind: notes(folder, f"fault-{kind}") for kind in ("raise", "hang", "die")}
    episodes = 8 * len(rows)
    masked = round(sum(8 * row["masked_ratio"] for row in rows))
    figures = {
        **injected,
        "episodes": episodes,
        "retried": sum(row["rollout/retried"] for row in rows),
        "masked": masked,
        "timeouts": sum(row["rollout/timeouts"] for row in rows),
        "crashes": sum(row["rollout/crashes"] for row in rows),
        "hung_threads": hung,
        "built": notes(folder, "built"),
        "closed": notes(folder, "closed"),
    }
    assert trainer.state.global_step == updates and len(rows) == updates // 4
    return figures


def check(figures: dict[str, float], *, retries: int, processes: bool) -> None:
    injected = figures["raise"] + figures["hang"] + figures["die"]
    assert all(figures[kind] for kind in ("raise", "hang", "die"))
    assert (figures["retried"], figures["masked"]) == ((injected, 0) if retries else (0, injected))
    assert (figures["timeouts"], figures["crashes"]) == (figures["hang"], figures["die"])
    assert figures["hung_threads"] == (0 if processes else figures["hang"])
    gone = figures["hang"] + figures["die"] if processes else 0  # with their processes
    assert figures["built"] == figures["closed"] + gone


@pytest.mark.parametrize(("workers", "retries"), [("threads", 1), ("processes", 0)])
def test_a_short_series_of_faults(workers, retries, tmp_path, released):
    timeout = 3.0 if workers == "processes" else 0.75  # the first reset of a process may be slow
    figures = series(tmp_path / "series", workers, 8, retries=retries, share=0.5, timeout=timeout)
    check(figures, retries=retries, processes=workers == "processes")


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("retries", [0, 1])
def test_two_hundred_updates_with_faults(workers, retries, tmp_path, released, capsys):
    figures = series(tmp_path / "series", workers, 200, retries=retries, share=0.1, timeout=2.0)
    with capsys.disabled():
        print(f"\n{workers}, env_retries={retries}:", *(f"{name} {value:g}" for name, value in figures.items()))
    check(figures, retries=retries, processes=workers == "processes")
