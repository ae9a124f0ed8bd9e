"""When a request to a service is sent again, and after which pause: one rule for every client of this project."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

__all__ = ["PassingFailure", "RetryPolicy", "excerpt", "is_passing", "read_json", "retry_after"]

_LATER: Final = frozenset({408, 409, 425, 429})
_MOST_DOUBLINGS: Final = 30
_EXCERPT: Final = 200


class PassingFailure(Exception):  # noqa: N818  (no failure of the program: the next try may do)
    """What may be different the next time; the text says what happened.

    Attributes:
        asked: Seconds that the service asks to wait, 0 where it asks for nothing.
        status: The status of the reply, 0 where there was none.
    """

    def __init__(self, problem: str, asked: float = 0.0, status: int = 0) -> None:
        super().__init__(problem)
        self.asked, self.status = asked, status


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is sent again, and how long the pauses are.

    Attributes:
        retries: How often a request is repeated after the first failure.
        backoff: Seconds that the first pause lasts at most; each further one may be twice as long.
        longest_pause: Seconds; a longer ``Retry-After`` is cut to it.

    Raises:
        ValueError: A value is out of range.
    """

    retries: int = 4
    backoff: float = 0.5
    longest_pause: float = 60.0

    def __post_init__(self) -> None:
        if not (self.retries >= 0 and self.backoff >= 0 and self.longest_pause >= 0):
            raise ValueError(
                "expected retries >= 0, backoff >= 0 and longest_pause >= 0, "
                f"got {self.retries}, {self.backoff}, {self.longest_pause}"
            )

    def pause(self, attempt: int, asked: float = 0.0) -> float:
        """Return the seconds to wait after a try, drawn so that many clients do not come back at the same moment.

        Args:
            attempt: Number of the try that failed, from 0.
            asked: Seconds that the service asked for.
        """
        own = self.backoff * 2 ** min(attempt, _MOST_DOUBLINGS) * random.uniform(0.5, 1.0)
        return min(max(own, asked * random.uniform(1.0, 1.1)), self.longest_pause)


def is_passing(status: int) -> bool:
    """Tell whether a status says "later": 408, 409, 425, 429 and 5xx."""
    return status in _LATER or status >= 500


def read_json(response: httpx.Response) -> Any:
    """Return the JSON of a reply.

    A page where JSON was promised, an empty body or half of one comes from a proxy or from a service that is starting,
    whatever the status says: the same request may do better.

    Raises:
        PassingFailure: The status says "later", or a reply of success is no JSON.
    """
    status = response.status_code
    if is_passing(status):
        asked = retry_after(response.headers.get("retry-after", ""))
        raise PassingFailure(f"HTTP {status}: {excerpt(response)}", asked, status)
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        if not response.is_success:
            return None
        raise PassingFailure(f"HTTP {status} and no JSON: {excerpt(response)}", status=status) from None


def excerpt(response: httpx.Response) -> str:
    """Return the beginning of what a service said, for a message."""
    return repr(response.text[:_EXCERPT])


def retry_after(value: str) -> float:
    """Return the seconds that a ``Retry-After`` asks for, as a number or as a date; 0 for none that can be read.

    >>> retry_after("2"), retry_after("0.5"), retry_after("soon")
    (2.0, 0.5, 0.0)
    """
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError, IndexError):
            return 0.0
    return max(seconds, 0.0) if seconds < float("inf") else 0.0
