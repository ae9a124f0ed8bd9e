"""Messages to text and ids through the tokenizer's chat template."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", chat_template_kwargs: Mapping[str, Any] | None = None
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
        self._checked_roles: set[str] = set()

    def text(self, messages: Sequence[Message], *, generation_prompt: bool = True) -> str:
        """Render messages to text.

        Raises:
            PromptError: The template refuses them (many do if roles do not alternate, or for a role they do not know).
        """
        try:
            rendered = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=generation_prompt,
                **self.kwargs,
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
            PromptError: The content of some message does not get into the prompt.
        """
        for index, message in enumerate(messages):
            role = str(message.get("role"))
            if role in self._checked_roles or not isinstance(message.get("content"), str):
                continue
            marker = unused_word(messages)
            if marker not in self.text([*messages[:index], {**message, "content": marker}, *messages[index + 1 :]]):
                raise PromptError(
                    f"the chat template drops messages of role {role!r}, so the model would never see them; choose a "
                    "role that it knows (for example observation_role='user') or another template"
                )
            self._checked_roles.add(role)

    def encode(self, text: str) -> list[int]:
        """Encode rendered text; special tokens are those that the text spells out."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return list(ids)

    def encode_inside(self, text: str) -> list[int]:
        """Encode text as a continuation: some tokenizers put a space before the first word of whatever they encode."""
        plain = self.encode(text)
        anchor = self.encode("a")
        if not plain or plain[0] in self.special_ids or self.tokenizer.unk_token_id in anchor:
            return plain
        anchored = self.encode("a" + text)
        return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else plain

    def ids(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the messages with the generation prompt: ``apply_chat_template(..., add_generation_prompt=True)``."""
        return self.encode(self.text(messages))


def unused_word(messages: Sequence[Message]) -> str:
    """Return a word that occurs in none of the messages and that no template trims or splits."""
    everything = repr(messages)
    word = "PLACEHOLDER"
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
