"""Observations to prompt ids, token in, token out."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from agent_r1_envs.spaces import as_messages
from agent_r1_trainer.prompts.foreign import Rendered, TurnMarks
from agent_r1_trainer.prompts.glue import glue_ids, glue_text, turn_end
from agent_r1_trainer.prompts.rendering import ChatRenderer, Message, PromptError
from agent_r1_trainer.prompts.thinking import leaves_thinking_open, strip_messages
from agent_r1_trainer.trajectory import TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["HistoryThinking", "Observation", "PromptBuilder", "continues"]

HistoryThinking = Literal["keep", "strip"]
Observation = str | Sequence[Message] | Sequence[int]


class PromptBuilder:
    """Builds the prompts of one episode.

    A response is a list of sampled ids, and it stays that list: it is never decoded and encoded again, nothing is cut
    from it and nothing is added to it. So when a conversation goes on, the new prompt is the old prompt's ids, the
    response's ids, and the ids of what follows. Only where the context was rewritten is it rendered afresh.

    * ``history_thinking="keep"``: a prompt continues the last one if its messages are the last messages, then the
    message of the
      reply, then new ones, told by identity: the same message objects, and a reply message whose content *is* the reply
      that was given to `next` (equal text may be a coincidence; a wrapper that rewrites a message makes a new object).
      Anything else is rendered afresh, as the chat template renders it.
    * ``history_thinking="strip"``: the thinking is taken out of all earlier replies and the messages are rendered
    afresh every turn.

    An observation is a list of chat messages (of an env with a history wrapper), a plain string (one user message and
    no history), or token ids (taken as they are).

    Args:
        tokenizer: The policy's tokenizer. Without a chat template the plain `PLAIN_TEMPLATE` is used, with a warning.
        chat_template_kwargs: Passed to the template: ``tools``, ``enable_thinking``, ``chat_template``, ...
        history_thinking: What happens to the thinking of earlier replies.
        own: Replies of the environment's action format, whose tokens are no marks of turns; see `find_turn_marks`.

    Attributes:
        split_tokens: How many marks of turns in what others wrote were split into letters so far; see
            :mod:`agent_r1_trainer.prompts.foreign`.

    Raises:
        ValueError: Unknown ``history_thinking``.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        *,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        history_thinking: HistoryThinking = "keep",
        own: str = "",
    ) -> None:
        if history_thinking not in ("keep", "strip"):
            raise ValueError(f"history_thinking must be 'keep' or 'strip', got {history_thinking!r}")
        self.history_thinking = history_thinking
        self.split_tokens = 0
        self._renderer = ChatRenderer(tokenizer, chat_template_kwargs, own=own)
        self._messages: list[Message] | None = None
        self._prompt_ids: TokenIds | None = None
        self._looks_back = False
        self._doubled = 0

    def first(self, observation: Observation) -> TokenIds:
        """Return the prompt of the first step of an episode; whatever came before is forgotten.

        Raises:
            PromptError: The chat template refuses the messages, or the observation is empty.
        """
        messages = as_messages(observation)
        if messages is None:
            ids = _as_ids(observation)
        else:
            self._renderer.check_roles(messages)
            ids = self._render(messages)
        self._messages, self._prompt_ids = messages, TokenIds(ids)
        return self._prompt_ids

    def next(self, observation: Observation, reply: str, response_ids: Sequence[int]) -> tuple[TokenIds, bool]:
        """Return the prompt of the next step; where it extends the last one it shares that one's memory.

        Args:
            observation: What the env returned for the reply.
            reply: The very string object that was passed to ``env.step``.
            response_ids: The ids that were sampled for it.

        Returns:
            The prompt's ids, and whether they start with the last prompt's ids followed by ``response_ids``.

        Raises:
            PromptError: The chat template refuses the messages.
            RuntimeError: `first` was not called.
        """
        if self._prompt_ids is None:
            raise RuntimeError("call first() before next()")
        messages = as_messages(observation)
        history = self._prompt_ids.extended(response_ids)
        if messages is None:
            ids = history.grown_to(_as_ids(observation))
        else:
            self._renderer.check_roles(messages)
            glue = self._glue(messages, reply, response_ids)
            ids = history.grown_to(self._render(messages)) if glue is None else history.extended(glue)
        self._messages, self._prompt_ids = messages, ids
        return ids, ids.starts_with(history)

    def reply_ids(self, reply: str, stop_ids: Sequence[int]) -> list[int]:
        """Return a reply to the last prompt as a policy would sample it: its text, then the end of the turn.

        The end is the id that the chat template closes an assistant's turn with, as far as it stops generation.

        Args:
            reply: The text.
            stop_ids: Ids that stop generation; where the template closes a turn with none of them, the first is taken.

        Raises:
            RuntimeError: `first` was not called.
        """
        if self._prompt_ids is None:
            raise RuntimeError("call first() before reply_ids()")
        text = None if self._messages is None else glue_text(self._renderer, self._messages, ())
        glue = [] if text is None else self._renderer.encode(text, inside=True)
        end = turn_end(self._renderer, glue)
        closes = stop_ids[0] if end is None or glue[end] not in stop_ids else glue[end]
        return [*self._renderer.encode(self._marks().cut(reply), inside=True), closes]

    def forges_turns(self, reply: str) -> bool:
        """Say whether a text that is to be a reply holds marks of turns, which no policy samples inside of one."""
        return bool(self._marks().cut(reply).cuts)

    def _marks(self) -> TurnMarks:
        return self._renderer.marks(self._messages or ())

    def _glue(self, messages: list[Message], reply: str, response_ids: Sequence[int]) -> list[int] | None:
        """Ids after the response where the messages continue the last ones, else None."""
        if self.history_thinking == "strip" or self._messages is None:
            return None
        if not continues(self._messages, messages, reply):
            return None
        count = len(self._messages)
        text = self._text_after_reply(messages[:count], messages[count + 1 :])
        if text is None:
            return None
        self.split_tokens += len(text.cuts)
        return glue_ids(self._renderer, text, response_ids)

    def _text_after_reply(self, before: list[Message], after: list[Message]) -> Rendered | None:
        """Text between a reply and the next one; see `glue_text`.

        To render the whole conversation at every turn would take the square of its length. Its head and its last turn
        say what follows a reply too, unless the template looks further back. Whether it does is seen whenever the
        conversation has doubled: then all of it is rendered, and if that gives another text, so it is from then on.
        """
        near = _head_and_last_turn(before)
        if not self._looks_back and len(before) < self._doubled:
            return glue_text(self._renderer, near, after)
        text = glue_text(self._renderer, before, after)
        if not self._looks_back and len(near) < len(before):
            self._looks_back = glue_text(self._renderer, near, after) != text
            self._doubled = 2 * len(before)
        return text

    def _render(self, messages: list[Message]) -> list[int]:
        if self.history_thinking == "strip" and any(message.get("role") == "assistant" for message in messages):
            opened = leaves_thinking_open(self._renderer.text(messages))
            messages = list(strip_messages(messages, opened))
        rendered = self._renderer.render(messages)
        self.split_tokens += len(rendered.cuts)
        return self._renderer.encode(rendered)


def continues(old: Sequence[Message], new: Sequence[Message], reply: str) -> bool:
    """Say whether ``new`` is ``old``, the message of the reply, and more: the same objects, not equal ones."""
    count = len(old)
    if len(new) <= count or any(a is not b for a, b in zip(old, new, strict=False)):
        return False
    message = new[count]
    return message.get("role") == "assistant" and message.get("content") is reply


def _head_and_last_turn(messages: list[Message]) -> list[Message]:
    """What comes before the first reply, and the last reply with what follows it."""
    replies = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
    return messages[: replies[0]] + messages[replies[-1] :] if replies else messages


def _as_ids(observation: Observation) -> list[int]:
    if len(observation) == 0:
        raise PromptError("an observation of no messages and no ids makes no prompt")
    return [int(token) for token in observation]  # type: ignore[arg-type]
