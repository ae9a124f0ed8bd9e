"""The ids that a chat template puts between a reply and the next generation prompt.

Templates are programs, so nobody can say in general where a reply ends in their output. But everyone can ask: render
the same conversation with a marker in place of the reply, and read what follows the marker. That works whatever the
template does to the messages before it (default system prompts, tools, thinking that is stripped from older turns)
and whatever it does to the reply itself (trimming, splitting at ``</think>``), because the reply is not rendered at
all.
"""

from collections.abc import Sequence

from agent_r1_trainer.prompts.rendering import ChatRenderer, Message, PromptError, unused_word

__all__ = ["encode_inside", "glue_ids", "glue_text", "turn_end"]


def glue_text(renderer: ChatRenderer, before: Sequence[Message], after: Sequence[Message]) -> str | None:
    """Text between a reply and the next one: the end of the turn, the new messages, the generation prompt.

    Args:
        renderer: The template.
        before: Messages that the reply answered.
        after: Messages that came after the reply.

    Returns:
        The text, or None where the template cannot say: it refuses the marker, drops the reply, or repeats it.
    """
    marker = unused_word([*before, *after])
    try:
        text = renderer.text([*before, {"role": "assistant", "content": marker}, *after])
    except PromptError:
        return None
    head, found, tail = text.partition(marker)
    return tail if found and marker not in tail else None


def glue_ids(renderer: ChatRenderer, text: str, response_ids: Sequence[int]) -> list[int]:
    """Ids of the glue after a sampled response.

    Args:
        renderer: The template and its tokenizer.
        text: From `glue_text`.
        response_ids: The response, which is never changed.

    Returns:
        All ids of the glue if the response does not end in the turn-end id (a length stop, another stop id: the turn
        end then belongs to the prompt); else those after the turn end.
    """
    ids = encode_inside(renderer, text)
    end = turn_end(renderer, ids)
    if end is not None and response_ids and response_ids[-1] == ids[end]:
        return ids[end + 1 :]
    return ids


def turn_end(renderer: ChatRenderer, ids: Sequence[int]) -> int | None:
    """Position of the turn-end id in the glue: its first special id, if only white space comes before; else None."""
    for position, token in enumerate(ids):
        if token in renderer.special_ids:
            return position
        if str(renderer.tokenizer.decode([token])).strip():
            return None
    return None


def encode_inside(renderer: ChatRenderer, text: str) -> list[int]:
    """Encode text as a continuation: some tokenizers put a space before the first word of whatever they encode."""
    plain = renderer.encode(text)
    anchor = renderer.encode("a")
    if not plain or plain[0] in renderer.special_ids or renderer.tokenizer.unk_token_id in anchor:
        return plain
    anchored = renderer.encode("a" + text)
    return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else plain
