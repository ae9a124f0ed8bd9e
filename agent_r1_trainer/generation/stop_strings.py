"""Ending a reply at the token that completes a stop string.

The string belongs to the reply: the policy sampled it, token by token, and the environment reads it. So nothing is cut
off and nothing added; a last token that says more than the string stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_r1_trainer.prompts.replies import reply_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["StopStrings"]

_MARGIN = 4  # tokens; the first ones of a piece may be decoded in another way than in the middle of a reply
_INCOMPLETE = "\ufffd"  # of a token that holds a part of a character


class StopStrings:
    """Follows replies that grow token by token.

    Args:
        tokenizer: Reads them.
        strings: The stop strings of each reply.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, strings: Sequence[Sequence[str]]) -> None:
        self._tokenizer = tokenizer
        self._strings = [tuple(row) for row in strings]
        self._said: list[list[int]] = [[] for _ in strings]
        self._windows = [max((len(string.encode()) for string in row), default=0) + _MARGIN for row in strings]
        self._lasts = {string[-1] for row in strings for string in row}
        self._may_end: dict[int, bool] = {}

    def completed(self, row: int, token: int) -> bool:
        """Take in the next token of a reply, and say whether its text now holds one of its stop strings.

        Args:
            row: The reply.
            token: Its next token.
        """
        if not self._strings[row]:
            return False
        said = self._said[row]
        if token != self._tokenizer.pad_token_id:  # which is no part of the text
            said.append(token)
        if not self._ends_one(token):
            return False
        text = reply_text(self._tokenizer, said[-self._windows[row] :], ())
        return any(string in text for string in self._strings[row])

    def _ends_one(self, token: int) -> bool:
        """Whether a token has the last character of a stop string, so that few tokens need a look at the text."""
        if token not in self._may_end:
            text = reply_text(self._tokenizer, [token], ())
            self._may_end[token] = any(last in text or last.isspace() or _INCOMPLETE in text for last in self._lasts)
        return self._may_end[token]
