"""From a back end that answers one prompt at a time to one that answers many at once, and back."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Self

from agent_r1_trainer.generation.protocol import (
    AsyncGenerator,
    Generation,
    GenerationError,
    Generator,
    SamplingParams,
    joined,
    spread,
)

__all__ = ["BatchingGenerator", "BlockingGenerator"]

_LOGGER = logging.getLogger(__name__)
_CLOSING = 30.0  # seconds for a back end to close its connections


class BlockingGenerator:
    """A `Generator` made of an `AsyncGenerator`.

    It runs an event loop in a thread of its own, from the first question to `close`. So connections last from call to
    call, and it works where the caller's thread has a running loop already, as in a notebook.

    Args:
        asynchronous: Answers the prompts. If it has a coroutine function `aclose`, `close` awaits it.
    """

    def __init__(self, asynchronous: AsyncGenerator) -> None:
        self.asynchronous = asynchronous
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(
        self, prompt: list[int], sampling: SamplingParams, seed: int, *, episode: Hashable
    ) -> Future[Generation]:
        """Ask for one reply and go on; see `AsyncGenerator.answer`.

        Returns:
            What the reply, or the reason why there is none, will be in. Cancelling it gives the reply up.
        """
        answer = self.asynchronous.answer(prompt, sampling, seed, episode=episode)
        return asyncio.run_coroutine_threadsafe(answer, self._running())

    def generate(
        self,
        prompts: Sequence[list[int]],
        sampling: SamplingParams | Sequence[SamplingParams],
        seeds: Sequence[int],
    ) -> list[Generation]:
        """Ask for all replies at once and wait for them; see `Generator.generate`.

        Nothing says here which prompts are of one episode, so each counts as one of its own. A `GenerationError` is the
        `Generation.error` of the reply that cannot be had.
        """
        questions = list(zip(prompts, spread(sampling, len(prompts)), seeds, strict=True))
        replies = asyncio.run_coroutine_threadsafe(_answer_all(self.asynchronous, questions), self._running())
        try:
            return replies.result()
        finally:
            replies.cancel()  # Ctrl-C

    def close(self) -> None:
        """Close what the back end holds and end the thread; the next question starts a new one."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        close = getattr(self.asynchronous, "aclose", None)
        if close is not None:
            try:
                asyncio.run_coroutine_threadsafe(close(), loop).result(_CLOSING)
            except Exception as error:
                _LOGGER.warning("closing %s failed: %r", type(self.asynchronous).__name__, error)
        self._finalizer()
        thread.join(_CLOSING)
        self._loop = self._thread = None

    def __enter__(self) -> Self:
        """Return itself; the block ends with `close`."""
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run_loop, args=(self._loop,), name="agent-r1-generation", daemon=True
            )
            self._thread.start()
            self._finalizer = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
        return self._loop


async def _answer_all(
    asynchronous: AsyncGenerator, questions: Sequence[tuple[list[int], SamplingParams, int]]
) -> list[Generation]:
    async def answer(prompt: list[int], sampling: SamplingParams, seed: int) -> Generation:
        try:
            return await asynchronous.answer(prompt, sampling, seed, episode=seed)
        except GenerationError as error:
            return Generation.lost(error)

    asked = [asyncio.ensure_future(answer(*question)) for question in questions]
    try:
        return await asyncio.gather(*asked)
    finally:  # the others too where one of them raised something else
        for reply in asked:
            reply.cancel()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    prompt: list[int]
    sampling: SamplingParams
    seed: int
    reply: asyncio.Future[Generation]


class BatchingGenerator:
    """An `AsyncGenerator` made of a `Generator`: what waits is answered together, in one call.

    That is what was asked in one turn of the event loop, in whose thread the generator is called; the loop stands still
    meanwhile. A reply depends on its prompt and its seed alone, but two batches of different make-up round differently
    in the last bits.

    Args:
        generator: Answers the prompts.
    """

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._waiting: list[_Question] = []
        self._scheduled = False

    async def answer(self, prompt: list[int], sampling: SamplingParams, seed: int, *, episode: Hashable) -> Generation:
        """Answer one prompt; see `AsyncGenerator.answer`. What the generator raises, all of its batch get."""
        question = _Question(prompt, sampling, seed, asyncio.get_running_loop().create_future())
        self._waiting.append(question)
        self._schedule()
        try:
            return await question.reply
        finally:
            if question in self._waiting:  # given up before it was answered
                self._waiting.remove(question)

    def _schedule(self) -> None:
        """Answer after those who can run now have run."""
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._waiting[0].reply.get_loop().call_soon(self._answer)

    def _answer(self) -> None:
        self._scheduled = False
        waiting, self._waiting = self._waiting, []
        batches: dict[SamplingParams, list[_Question]] = {}
        for question in waiting:
            batches.setdefault(replace(question.sampling, stop_strings=()), []).append(question)
        for batch in batches.values():
            _answer_batch(self._generator, batch)


def _answer_batch(generator: Generator, batch: Sequence[_Question]) -> None:
    try:
        replies = generator.generate(
            [question.prompt for question in batch],
            joined([question.sampling for question in batch]),
            [question.seed for question in batch],
        )
    except Exception as error:
        for question in batch:
            if not question.reply.done():
                question.reply.set_exception(error)
        return
    for question, reply in zip(batch, replies, strict=True):
        if not question.reply.done():
            question.reply.set_result(reply)
