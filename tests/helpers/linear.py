"""A guard against readers that take quadratic time, which is no measurement of speed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def linear_time(what: object = "") -> Iterator[None]:
    """Fail if the body takes more than 20 CPU-seconds of this thread.

    A quadratic reader needs many minutes for a megabyte and a linear one at most about a second; CPU time does not
    count what else the machine is busy with.
    """
    start = time.thread_time()
    yield
    assert time.thread_time() - start < 20, what
