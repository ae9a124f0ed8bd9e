"""What a sampled reply says, and whether a tokenizer can say what an environment's action format asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import gymnasium
from agent_r1_wrappers.formats.action_format import read_reply, sample_replies

from agent_r1_trainer.prompts.rendering import ChatRenderer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["check_replies", "reply_text"]


def reply_text(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], stop_ids: Sequence[int]) -> str:
    """Return what a reply says: all of it but the stop token that ended it and padding.

    Other special tokens stay. Whether a tokenizer counts ``<tool_call>``, ``<think>`` or the marks of channels as
    special is an accident of how they were added; to the environment they are what the policy said.

    Args:
        tokenizer: Of the policy.
        ids: The reply as it was sampled.
        stop_ids: Ids that end a reply.
    """
    said = ids[:-1] if ids and ids[-1] in stop_ids else ids
    said = [token for token in said if token != tokenizer.pad_token_id]
    return str(tokenizer.decode(said, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def check_replies(
    env: gymnasium.Env, tokenizer: PreTrainedTokenizerBase, stop_ids: Sequence[int], renderer: ChatRenderer
) -> None:
    """Make sure that the action formats of an environment read their own replies after the tokenizer wrote them.

    Where that fails every right reply would be malformed, and the run would only show that nothing is ever right.
    Stacks without an action format, and tokenizers that cannot even write the commands tried, say nothing.

    Args:
        env: The environment with its wrappers; it is not reset.
        tokenizer: Of the policy.
        stop_ids: Ids that end a reply.
        renderer: Of the same tokenizer.

    Raises:
        ValueError: A reply comes back as another text with another meaning.
    """

    def through(text: str) -> str:
        ids = renderer.encode(renderer.marks(()).cut(text), inside=True)
        end = next((place for place, token in enumerate(ids) if token in stop_ids), len(ids))
        return reply_text(tokenizer, ids[: end + 1], stop_ids)

    for command, reply in sample_replies(env).items():
        if through(command).strip() != command:
            continue
        back = through(reply)
        found = read_reply(env, back)
        if found != command:
            reason = getattr(found, "reason", f"the command is {str(found)!r}")
            raise ValueError(
                f"the tokenizer does not write what the action format of {env} reads: the reply {reply!r} comes back "
                f"as {back!r} ({reason}). Take another action format or tokenizer. A token in stop_token_ids is no "
                "part of a reply: where the format needs it, put its text into stop_strings instead"
            )
