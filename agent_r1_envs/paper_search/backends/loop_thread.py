"""An event loop in a thread of its own, for asynchronous clients behind a synchronous interface."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines from any thread, also from one that has a running loop, and after a fork.

    The thread starts with the first coroutine and is a daemon; it ends with :meth:`close`, or when the object goes.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._lock = threading.Lock()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop of this process."""
        if self._process != os.getpid():  # the parent's lock may be held for ever, its thread is not here
            self._lock, self._loop, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="papers-client", daemon=True).start()
                weakref.finalize(self, _stop, self._loop, self._process)
            return self._loop

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result; an interrupt of the caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread; the next coroutine starts a new one."""
        if self._loop is not None and self._process == os.getpid():
            _stop(self._loop, self._process)
        self._loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, process: int) -> None:
    if process == os.getpid() and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
