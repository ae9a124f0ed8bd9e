"""Messages to text and ids through the tokenizer's chat template."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_r1_trainer.prompts.foreign import Rendered, TurnMarks, find_turn_marks

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["PLAIN_TEMPLATE", "ChatRenderer", "Message", "PromptError"]

Message = Mapping[str, Any]
"""A chat message: at least ``role`` and ``content``."""

PLAIN_TEMPLATE = (
    "{% for message in messages %}"
    "{{ message['role'] + ': ' + message['content'] }}"
    "{% if message['role'] == 'assistant' and eos_token is defined %}{{ eos_token }}{% endif %}"
    "{{ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
"""Used where the tokenizer has no chat template: ``role: content`` lines, replies closed by the end token."""


class PromptError(ValueError):
    """The chat template cannot render the messages that the environment and its wrappers gave."""


class ChatRenderer:
    """Renders and encodes messages exactly as ``tokenizer.apply_chat_template`` does.

    Args:
        tokenizer: Any transformers tokenizer.
        chat_template_kwargs: Passed to every rendering: ``tools``, ``enable_thinking``, ``chat_template`` (to replace
            the tokenizer's own, for example by its training form), ...
        own: Replies of the environment's action format, whose tokens are no marks of turns; see `find_turn_marks`.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        chat_template_kwargs: Mapping[str, Any] | None = None,
        *,
        own: str = "",
    ) -> None:
        self.tokenizer = tokenizer
        self.kwargs = dict(chat_template_kwargs or {})
        if not self.kwargs.get("chat_template") and not getattr(tokenizer, "chat_template", None):
            warnings.warn(
                f"{type(tokenizer).__name__} has no chat template; using plain 'role: content' lines. Set "
                "tokenizer.chat_template, or pass chat_template_kwargs={'chat_template': ...}",
                stacklevel=3,
            )
            self.kwargs["chat_template"] = PLAIN_TEMPLATE
        self.special_ids = special_ids(tokenizer)
        self._template = tokenizer.get_chat_template(self.kwargs.get("chat_template"), self.kwargs.get("tools"))
        self._own = own
        self._marks: dict[frozenset[str], TurnMarks] = {}
        self._options = {key: value for key, value in self.kwargs.items() if key != "chat_template"}
        self._suspects_options: dict[TurnMarks, bool] = {}
        self._checked_roles: set[str] = set()

    def text(self, messages: Sequence[Message], *, generation_prompt: bool = True) -> str:
        """Render messages to text.

        Raises:
            PromptError: The template refuses them (many do if roles do not alternate, or for a role they do not know).
        """
        return self._text(messages, self.kwargs, generation_prompt)

    def render(self, messages: Sequence[Message], *, generation_prompt: bool = True) -> Rendered:
        """Render messages, and find where to cut the text so that none of them holds a mark of the template's turns.

        Raises:
            PromptError: See `text`.
        """
        marks = self.marks(messages)
        contents = [{key: value for key, value in message.items() if key != "role"} for message in messages]
        if marks not in self._suspects_options:  # tools are long, and the same in every prompt
            self._suspects_options[marks] = marks.suspects(self._options)
        if self._suspects_options[marks] or marks.suspects(contents):
            word = unused_word([messages, self.kwargs, self._template], "SEPARATOR")
            contents, options = marks.mark([contents, self._options], word)
            marked = [{"role": m.get("role"), **content} for m, content in zip(messages, contents, strict=True)]
            text = self._text(marked, {**options, "chat_template": self._template}, generation_prompt)
            rendered = marks.collect(text, word)
            if rendered.cuts:
                return rendered
        return Rendered(self.text(messages, generation_prompt=generation_prompt))

    def marks(self, messages: Sequence[Message]) -> TurnMarks:
        """The marks that the template puts around messages of these roles."""
        roles = frozenset(str(message.get("role")) for message in messages)
        if roles not in self._marks:
            self._marks[roles] = find_turn_marks(self.tokenizer, self._template, roles, self._own)
        return self._marks[roles]

    def _text(self, messages: Sequence[Message], kwargs: Mapping[str, Any], generation_prompt: bool) -> str:
        try:
            rendered = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=generation_prompt,
                **kwargs,
            )
        except Exception as error:  # jinja's errors, and whatever a template's own expressions raise
            roles = ", ".join(str(message.get("role")) for message in messages)
            raise PromptError(f"the chat template cannot render messages of roles [{roles}]: {error}") from error
        assert isinstance(rendered, str)
        return rendered

    def check_roles(self, messages: Sequence[Message]) -> None:
        """Make sure that the template shows messages of every role: some silently drop roles that they do not know.

        Each role is tried once, by rendering the messages with a marker as the content of one that has it.

        Raises:
            PromptError: The content of some message does not get into the prompt, or a role holds a mark of turns.
        """
        for index, message in enumerate(messages):
            role = str(message.get("role"))
            if role in self._checked_roles:
                continue
            if self.marks(messages).cut(role).cuts:
                raise PromptError(f"the role {role!r} of a message holds a mark of the chat template's turns")
            if not isinstance(message.get("content"), str):
                continue
            marker = unused_word(messages)
            if marker not in self.text([*messages[:index], {**message, "content": marker}, *messages[index + 1 :]]):
                raise PromptError(
                    f"the chat template drops messages of role {role!r}, so the model would never see them; choose a "
                    "role that it knows (for example observation_role='user') or another template"
                )
            self._checked_roles.add(role)

    def encode(self, rendered: Rendered, *, inside: bool = False) -> list[int]:
        """Encode text piece by piece; special tokens are those that a piece spells out.

        Args:
            rendered: The text and its cuts.
            inside: It continues another text. Some tokenizers put a space before the first word of whatever they
                encode, which then has no place there.
        """
        ids: list[int] = []
        for number, piece in enumerate(rendered.pieces):
            ids += self._encode_inside(piece) if inside or number else self._encode(piece)
        return ids

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _encode_inside(self, text: str) -> list[int]:
        plain = self._encode(text)
        anchor = self._encode("a")
        if not plain or plain[0] in self.special_ids or self.tokenizer.unk_token_id in anchor:
            return plain
        anchored = self._encode("a" + text)
        return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else plain


def unused_word(values: Sequence[Any], word: str = "PLACEHOLDER") -> str:
    """Return a word that occurs in none of the values and that no template trims or splits."""
    everything = repr(values)
    while word in everything:
        word += "X"
    return word


def special_ids(tokenizer: "PreTrainedTokenizerBase") -> frozenset[int]:
    """Ids of the tokenizer's special tokens and of all that were added: those among which a turn-end id can be.

    Not every chat model declares its turn marks as special.
    """
    ids = set(tokenizer.all_special_ids)
    ids.update(number for number, token in tokenizer.added_tokens_decoder.items() if str(token).strip())
    ids.discard(tokenizer.unk_token_id)
    return frozenset(ids)
