"""A word-level tokenizer for the closed language of the embedded encyclopedia.

One word is one token, so that a name of two words is copied in two steps: the skill that a model of three layers can
learn in a minute. Spaces are not tokens; decoding puts them back by the rules of the language, so that a sampled
``search [ Ada Barlow ]`` reads ``search[Ada Barlow]``, which the environment's grammar parses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["CHAT_TEMPLATE", "COMMANDS", "END", "PAD", "UNKNOWN", "build_tokenizer"]

PAD: Final = "<|pad|>"
UNKNOWN: Final = "<|unknown|>"
END: Final = "<|end|>"
"""Ends every turn, the model's own included."""

ROLES: Final = ("system", "user", "assistant", "tool")
COMMANDS: Final = ("search", "answer", "lookup", "finish")
_PUNCTUATION: Final = "\n . , : ; ? ! ' ( ) [ ]".split(" ")
_NUMBERS: Final = tuple(str(number) for number in range(1, 51))

# A conversation is rendered turn by turn with nothing that depends on later turns, so every prompt is a strict prefix
# of the next one.
CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

_WORD: Final = r"\w+|[^\w\s]|\n"
_SPACES: Final = r"[^\S\n]+"


def build_tokenizer(words: Iterable[str], commands: Sequence[str] = COMMANDS) -> PreTrainedTokenizerFast:
    """Make a tokenizer that knows `words`, the commands, punctuation and the numbers 1 to 50.

    Args:
        words: Words of the language; case matters, duplicates and order do not. One made of several marks, such as
            `-=`, is a token too.
        commands: Names that a bracket follows without a space.

    Returns:
        A fast tokenizer with its own chat template. The end of a turn is the end-of-sequence token. Text made of known
        words, spaced as English is, survives encoding and decoding unchanged.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, UNKNOWN, END, *(f"<|{role}|>" for role in ROLES)]
    known = [*_PUNCTUATION, *commands, *_NUMBERS]
    others = sorted(set(words) - {*special, *known})
    vocabulary = [*special, *known, *others]
    marks = [re.escape(word) for word in others if not re.fullmatch(_WORD, word)]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(vocabulary)}, UNKNOWN))
    word = Regex("|".join([*marks, _WORD]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPACES), "removed"),
            pre_tokenizers.Split(word, "isolated"),
        ]
    )
    calls = [decoders.Replace(Regex(rf"(?<={'|'.join(commands)}) (?=\[)"), "")] if commands else []
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix=PAD, cleanup=False),  # joins words with spaces; no word starts with the prefix
            decoders.Fuse(),
            decoders.Replace(Regex(r" (?=[.,:;?!')\]\n])"), ""),
            decoders.Replace(Regex(r"(?<=[(\['\n]) "), ""),
            *calls,
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=special[3:],
        chat_template=CHAT_TEMPLATE,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
