"""Where thinking ends in a reply."""

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


class UnclosedThinkingError(ValueError):
    """The reply opens thinking and never closes it."""


def opens_thinking(reply: str) -> bool:
    """Return whether the reply begins with ``<think>``."""
    return reply.lstrip().startswith(THINK_OPEN)


def thinking_end(reply: str) -> int:
    """Return the position behind the first ``</think>``, 0 if there is none.

    A template may have opened the thinking in the prompt, so the reply need not.

    Raises:
        UnclosedThinkingError: If the reply begins with ``<think>`` and does not close it.
    """
    end = reply.find(THINK_CLOSE)
    if end >= 0:
        return end + len(THINK_CLOSE)
    if opens_thinking(reply):
        raise UnclosedThinkingError("<think> is not closed by </think>")
    return 0
