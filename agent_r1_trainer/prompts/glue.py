"""The ids that a chat template puts between a reply and the next generation prompt.

Templates are programs, so nobody can say in general where a reply ends in their output. But everyone can ask: render
the same conversation with a marker in place of the reply, and read what follows the marker. That works whatever the
template does to the messages before it (default system prompts, tools, thinking that is stripped from older turns)
and whatever it does to the reply itself (trimming, splitting at ``</think>``), because the reply is not rendered at
all.
"""

from collections.abc import Sequence

from agent_r1_trainer.prompts.foreign import Rendered
from agent_r1_trainer.prompts.rendering import ChatRenderer, Message, PromptError, unused_word

__all__ = ["closing_ids", "glue_ids", "glue_text", "turn_end"]


def glue_text(
    renderer: ChatRenderer, before: Sequence[Message], after: Sequence[Message], *, generation_prompt: bool = True
) -> Rendered | None:
    """Text between a reply and the next one: the end of the turn, the new messages, the generation prompt.

    Args:
        renderer: The template.
        before: Messages that the reply answered.
        after: Messages that came after the reply.
        generation_prompt: Whether the next reply is asked for.

    Returns:
        The text, or None where the template cannot say: it refuses the marker, drops the reply, or repeats it.
    """
    marker = unused_word([*before, *after])
    try:
        rendered = renderer.render(
            [*before, {"role": "assistant", "content": marker}, *after], generation_prompt=generation_prompt
        )
    except PromptError:
        return None
    return rendered.after(marker)


def glue_ids(renderer: ChatRenderer, text: Rendered, response_ids: Sequence[int]) -> list[int]:
    """Ids of the glue after a sampled response.

    Args:
        renderer: The template and its tokenizer.
        text: From `glue_text`.
        response_ids: The response, which is never changed.

    Returns:
        All ids of the glue if the response does not end in the turn-end id (a length stop, another stop id: the turn
        end then belongs to the prompt); else those after the turn end, or after as much of it as the response has
        where the template closes a turn with several ids.
    """
    ids = renderer.encode(text, inside=True)
    end = turn_end(renderer, ids)
    if end is None:
        return ids
    for count in range(_run(renderer, ids[end:]), 0, -1):
        if list(response_ids[-count:]) == ids[end : end + count]:
            return ids[end + count :]
    return ids


def turn_end(renderer: ChatRenderer, ids: Sequence[int]) -> int | None:
    """Position of the turn-end id in the glue: its first special id, if only white space comes before; else None."""
    for position, token in enumerate(ids):
        if token in renderer.special_ids:
            return position
        if str(renderer.tokenizer.decode([token])).strip():
            return None
    return None


def closing_ids(renderer: ChatRenderer) -> list[int]:
    """The ids with which the template closes an assistant's turn, one after the other; none where it uses plain text.

    The end of a conversation is asked first: some templates close a last reply with another token than earlier ones
    (``<|return|>`` and ``<|end|>``, of which a reply may hold the latter). Others close a turn by opening the next.
    """
    question, more = ({"role": "user", "content": content} for content in ("Why?", "Go on."))
    for after in ([], [more]):
        text = glue_text(renderer, [question], after, generation_prompt=bool(after))
        ids = [] if text is None else renderer.encode(text, inside=True)
        end = turn_end(renderer, ids)
        if end is not None:
            return [ids[end]] if after else ids[end : end + _run(renderer, ids[end:])]
    return []


def _run(renderer: ChatRenderer, ids: Sequence[int]) -> int:
    """How many special ids there are before the first other one."""
    return next((count for count, token in enumerate(ids) if token not in renderer.special_ids), len(ids))
