"""Training over servers that fail in every way: what was injected is counted, and nothing stays behind."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.flows.test_faults import held, settled
from tests.helpers import fake_vllm
from tests.helpers.fake_vllm import HANG_UP, FakeVLLM, serving
from tests.helpers.training import make_model, make_tokenizer, make_trainer

EPISODES, TIMEOUT = 8, 5.0


class Faults(list):  # type: ignore[type-arg]
    """What becomes of each answer of a server; most stay as they are.

    Args:
        fake: The server.
        share: Of answers that do not.
        forgets: Whether the server may begin again, or be given other weights by somebody.
        late: Answers that come too late, at most.
    """

    def __init__(self, fake: FakeVLLM, share: float, *, forgets: bool, late: int) -> None:
        self.fake, self.share, self.late = fake, share, late
        self.injected: Counter[str] = Counter()
        self.kinds: dict[str, Any] = {
            "500": fake_vllm.status(500),
            "dropped": fake_vllm.hang_up,
            "null": fake_vllm.logprobs(None),
            "NaN": fake_vllm.logprobs(float("nan")),
            "other model": fake_vllm.changed(model="somebody-else"),
            "late": fake_vllm.late(TIMEOUT + 1),
        }
        if forgets:
            self.kinds |= {"restart": self.restart, "wrong version": self.other_weights}
        self.random, self.timers = random.Random(share), []
        self.lock = threading.Lock()

    def __bool__(self) -> bool:
        return True

    def pop(self, place: Any = 0) -> Any:
        with self.lock:
            kind = self.random.choice(list(self.kinds)) if self.random.random() < self.share else ""
            if not kind or (kind == "late" and self.injected["late"] == self.late):
                return lambda answer: answer
            self.injected[kind] += 1
            self.fake.spoiled.add(threading.get_ident())
            return self.kinds[kind]

    def away(self) -> Any:
        """Nobody is there for a moment, as while a server is started."""
        self.fake.down = True
        self.timers.append(threading.Timer(0.2, setattr, (self.fake, "down", False)))
        self.timers[-1].start()
        return HANG_UP

    def restart(self, answer: Any) -> Any:
        self.fake.restart()
        return self.away()

    def other_weights(self, answer: Any) -> Any:
        self.fake.restart()
        self.fake.weight_version = "another-run-1"
        return self.away()


def series(folder: Path, updates: int, *, retries: int, share: float, late: int) -> dict[str, float]:
    """Train for some updates; returns the figures."""
    make_model().save_pretrained(folder / "first")  # its bar of progress starts a thread that stays
    before = held()
    fakes = [FakeVLLM(lambda: make_model(seed=5), make_tokenizer()) for _ in range(2)]
    faults = [Faults(fake, share, forgets=place == 1, late=late) for place, fake in enumerate(fakes)]
    for fake, each in zip(fakes, faults, strict=True):
        fake.faults = each
    played = []
    with serving(*fakes):
        trainer = make_trainer(
            folder, use_vllm=True, vllm_mode="server", vllm_server_base_url=[fake.url for fake in fakes],
            vllm_retries=retries, vllm_request_timeout=TIMEOUT, rollout_batch_size=EPISODES, max_steps=updates,
            logging_steps=4, max_masked_ratio=1.0,
        )  # fmt: skip
        run = trainer.flow.run

        def running(*args: Any, **kwargs: Any) -> Any:
            trajectories = run(*args, **kwargs)
            played.extend(trajectories)
            return trajectories

        trainer.flow.run = running
        trainer.train()
    for each in faults:
        for timer in each.timers:
            timer.join()
    assert settled(before) == before
    rows = [row for row in trainer.state.log_history if "masked_ratio" in row]
    assert trainer.state.global_step == updates and len(rows) == updates // 4
    assert max(row["sampling/logp_difference/max"] for row in rows) < 1e-4  # no reply of other weights came in
    return {
        **dict(sorted((faults[0].injected + faults[1].injected).items())),
        "injected": (faults[0].injected + faults[1].injected).total(),
        "cut": sum(fake.cut for fake in fakes),
        "episodes": EPISODES * len(rows),
        "lost": EPISODES * len(rows) - len(played),
        "masked": sum(trajectory.masked for trajectory in played),
        **{name: sum(row[f"vllm/{name}"] for row in rows) for name in ("asked", "retried", "failed", "restarted")},
    }


def check(figures: dict[str, float], *, retries: int) -> None:
    assert all(figures.get(kind) for kind in ("500", "dropped", "null", "NaN", "other model"))
    assert figures["retried"] + figures["failed"] == figures["injected"] + figures["cut"]
    assert figures["masked"] == figures["failed"] and figures["lost"] == 0
    assert retries or not figures["retried"]


def test_a_short_series_of_faults(tmp_path):
    figures = series(tmp_path, 16, retries=4, share=0.3, late=0)
    check(figures, retries=4)
    assert figures["restart"] and figures["wrong version"] and figures["restarted"] and not figures["masked"]


@pytest.mark.slow
@pytest.mark.parametrize("retries", [0, 3])
def test_two_hundred_updates_with_faults(retries, tmp_path, capsys):
    figures = series(tmp_path, 200, retries=retries, share=0.05, late=4)
    with capsys.disabled():
        print(f"\nvllm_retries={retries}:", *(f"{name} {value:g}" for name, value in figures.items()))
    check(figures, retries=retries)
    assert figures["late"] and figures["restart"] and figures["wrong version"]
