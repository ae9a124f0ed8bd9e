"""One prompt at a time and many at once: the same replies either way."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Hashable, Sequence

import pytest

from agent_r1_trainer.generation import (
    AsyncGenerator,
    BatchingGenerator,
    BlockingGenerator,
    Generation,
    GenerationError,
    Generator,
    SamplingParams,
    TransformersGenerator,
)
from tests.helpers.training import WORDS, make_model

SAMPLING = SamplingParams(6, (1,))


def prompts(count: int = 9, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(3, len(WORDS)) for _ in range(rng.randint(1, 20))] for _ in range(count)]


class Recorded:
    """Passes questions on to a model and remembers the batches."""

    def __init__(self) -> None:
        self.inner = TransformersGenerator(make_model(), pad_token_id=0)
        self.calls: list[tuple[list[list[int]], object, list[int]]] = []

    def generate(
        self, prompts: Sequence[list[int]], sampling: SamplingParams | Sequence[SamplingParams], seeds: Sequence[int]
    ) -> list[Generation]:
        self.calls.append((list(prompts), sampling, list(seeds)))
        return self.inner.generate(prompts, sampling, seeds)


def test_there_and_back_changes_no_token():
    batch, seeds = prompts(), list(range(9))
    generator = Recorded()
    asynchronous = BatchingGenerator(generator)
    assert isinstance(asynchronous, AsyncGenerator)
    with BlockingGenerator(asynchronous) as blocking:
        assert isinstance(blocking, Generator)
        replies = blocking.generate(batch, SAMPLING, seeds)
        assert blocking.generate([], SAMPLING, []) == []
    plain = TransformersGenerator(make_model(), pad_token_id=0).generate(batch, SAMPLING, seeds)
    assert [(reply.ids, reply.finish) for reply in replies] == [(reply.ids, reply.finish) for reply in plain]
    for reply, other in zip(replies, plain, strict=True):  # another thread may round otherwise
        assert reply.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert [(len(call[0]), call[1]) for call in generator.calls] == [(9, SAMPLING)]


def test_who_gives_up_is_not_asked_for():
    async def play() -> None:
        generator = BatchingGenerator(recorded)
        lost = asyncio.ensure_future(generator.answer([4], SAMPLING, 1, episode="b"))
        first = asyncio.ensure_future(generator.answer([3], SAMPLING, 0, episode="a"))
        lost.cancel()
        await asyncio.wait_for(first, 10)

    recorded = Recorded()
    asyncio.run(play())
    assert [call[0] for call in recorded.calls] == [[[3]]]


def test_other_ways_of_sampling_are_other_batches_and_stop_strings_are_not():
    async def ask() -> None:
        generator = BatchingGenerator(recorded)
        kinds = [SAMPLING, SamplingParams(6, (1,), stop_strings=("a",)), SamplingParams(2, (1,))]
        await asyncio.gather(
            *(generator.answer([3 + i], kind, i, episode=i) for i, kind in enumerate(kinds)), return_exceptions=True
        )

    recorded = Recorded()
    asyncio.run(ask())
    assert [call[2] for call in recorded.calls] == [[0, 1], [2]]


class Odd:
    """Fails at odd seeds; says where it is asked and whether it was closed."""

    def __init__(self) -> None:
        self.loops: set[int] = set()
        self.closed = 0
        self.cancelled = 0

    async def answer(self, prompt: list[int], sampling: SamplingParams, seed: int, *, episode: Hashable) -> Generation:
        self.loops.add(id(asyncio.get_running_loop()))
        if seed % 2:
            raise GenerationError("no server is left")
        try:
            await asyncio.sleep(60 if seed else 0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Generation(prompt, None, "stop")

    async def aclose(self) -> None:
        self.closed += 1


def test_a_reply_that_cannot_be_had_is_an_error_of_its_own():
    odd = Odd()
    before = threading.active_count()
    with BlockingGenerator(odd) as blocking:
        good = blocking.submit([5], SAMPLING, 0, episode=0)
        bad = blocking.submit([6], SAMPLING, 1, episode=1)
        assert good.result(10).ids == [5]
        with pytest.raises(GenerationError, match="no server is left"):
            bad.result(10)
        replies = blocking.generate([[5], [6]], SAMPLING, [0, 1])
        assert [(reply.ids, reply.error) for reply in replies] == [([5], ""), ([], "no server is left")]
        blocking.submit([7], SAMPLING, 2, episode=2).cancel()
        assert len(odd.loops) == 1
    assert (odd.closed, odd.cancelled) == (1, 1) and threading.active_count() == before


def test_where_one_ends_the_run_the_others_are_given_up():
    class Broken(Odd):
        async def answer(self, prompt, sampling, seed, *, episode):
            if seed == 1:
                raise MemoryError("none left")
            return await super().answer(prompt, sampling, seed, episode=episode)

    broken = Broken()
    with BlockingGenerator(broken) as blocking, pytest.raises(MemoryError, match="none left"):
        blocking.generate([[5], [6], [7]], SAMPLING, [0, 2, 1])
    assert (broken.closed, broken.cancelled) == (1, 1)


def test_it_can_be_used_again_after_close_and_in_a_running_loop():
    odd = Odd()
    blocking = BlockingGenerator(odd)

    async def inside() -> list[Generation]:
        return blocking.generate([[5]], SAMPLING, [0])

    for _ in range(2):
        assert asyncio.run(inside())[0].ids == [5]
        blocking.close()
    blocking.close()
    assert odd.closed == 2


def test_a_forgotten_one_leaves_no_thread():
    blocking = BlockingGenerator(Odd())
    blocking.generate([[5]], SAMPLING, [0])
    thread = blocking._thread
    del blocking
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_what_a_generator_raises_reaches_all_who_wait_for_it():
    class Broken:
        def generate(self, prompts, sampling, seeds):
            raise MemoryError("none left")

    with BlockingGenerator(BatchingGenerator(Broken())) as blocking:
        asked = [blocking.submit([3], SAMPLING, 0, episode=i) for i in range(3)]
        for question in asked:
            with pytest.raises(MemoryError, match="none left"):
                question.result(10)
