"""What others wrote is text: it never becomes one of the tokens that tell turns apart.

A chat template is filled in as text and encoded as a whole, so a retrieved page that holds ``<|im_end|>`` and
``<|im_start|>assistant`` would end its turn and open one of the policy's. Whatever is put into a template is searched
for such marks first. Where there is one, a place to cut is noted inside of it, and the rendered text is encoded in
pieces: the letters stay what they were, the token does not come about. Where there is none, nothing is touched.

Marks are the tokens that the template itself writes around messages, and those that begin and end a text. Tokens that
replies are made of, ``<tool_call>``, ``<think>`` and what else the environment's action format writes, are no marks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_r1_trainer.prompts.thinking import THINKING_TAGS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Rendered", "TurnMarks", "find_turn_marks"]

_OF_REPLIES = frozenset({*THINKING_TAGS, "<tool_call>", "</tool_call>"})
_REPLACEMENT = "\ufffd"
_LOOKS_LIKE_A_MARK = re.compile(r"[^\w\s].+[^\w\s]", re.DOTALL)
_USUAL_ROLES = frozenset({"system", "user", "assistant"})


@dataclass(frozen=True, slots=True)
class Rendered:
    """Text to encode.

    Attributes:
        text: All of it.
        cuts: Positions where it is cut before it is encoded, ascending.
    """

    text: str
    cuts: tuple[int, ...] = ()

    @property
    def pieces(self) -> list[str]:
        """The text between the cuts."""
        ends = (*self.cuts, len(self.text))
        return [self.text[begin:end] for begin, end in zip((0, *self.cuts), ends, strict=True)]

    def after(self, word: str) -> Rendered | None:
        """What follows a word; None unless it is there once."""
        _, found, tail = self.text.partition(word)
        start = len(self.text) - len(tail)
        return (
            Rendered(tail, tuple(cut - start for cut in self.cuts if cut > start))
            if found and word not in tail
            else None
        )


class TurnMarks:
    """The tokens with which a template tells turns apart, and where they occur in what others wrote.

    Args:
        tokenizer: Their tokenizer.
        ids: Their ids.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ids: Collection[int]) -> None:
        self.texts = frozenset(filter(None, map(str, tokenizer.convert_ids_to_tokens(list(ids)))))
        self._tokenizer, self._ids = tokenizer, frozenset(ids)
        self._pattern = re.compile(
            f"(?=({'|'.join(map(re.escape, sorted(self.texts, key=len, reverse=True))) or '(?!)'}))"
        )
        self._heads = {text[:count] for text in self.texts for count in range(1, len(text))}
        self._tails = {text[count:] for text in self.texts for count in range(1, len(text))}
        self._firsts, self._lasts = {text[0] for text in self.texts}, {text[-1] for text in self.texts}
        self._longest = max(map(len, self.texts), default=0)
        self._normalizer = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
        self._normal = frozenset(map(self._normalize, self.texts))

    def suspects(self, value: Any) -> bool:
        """Say whether some text within a value holds a mark, or begins or ends with a part of one."""
        if isinstance(value, str):
            return bool(self._places(value) or self._edges(value))
        if isinstance(value, Mapping):
            return any(self.suspects(key) or self.suspects(item) for key, item in value.items())
        return isinstance(value, (list, tuple)) and any(map(self.suspects, value))

    def cut(self, text: str) -> Rendered:
        """Return a text that stands for itself with its cuts."""
        places = self._places(text)
        return Rendered(self._without_short_marks(text), tuple(places))

    def mark(self, value: Any, word: str) -> Any:
        """Return a value in whose texts ``word`` stands at the places to cut: with 1 inside marks, with 0 at edges.

        Values that hold nothing of the kind are returned as they are.
        """
        if isinstance(value, str):
            places = dict.fromkeys(self._edges(value), f"{word}0") | dict.fromkeys(self._places(value), f"{word}1")
            text = self._without_short_marks(value)
            for place in sorted(places, reverse=True):
                text = text[:place] + places[place] + text[place:]
            return text if places else value
        if isinstance(value, Mapping):
            items = {self.mark(key, word): self.mark(item, word) for key, item in value.items()}
            return items if self.suspects(value) else value
        if isinstance(value, (list, tuple)):
            return [self.mark(item, word) for item in value] if self.suspects(value) else value
        return value

    def collect(self, text: str, word: str) -> Rendered:
        """Take the words of `mark` out of a text, and note where it is to be cut.

        The edge of a content is a place to cut only where a mark would come about across it.
        """
        pieces = re.split(f"{re.escape(word)}([01])", text)
        whole, cuts, position = "".join(pieces[0::2]), [], 0
        for piece, kind in zip(pieces[0::2], pieces[1::2], strict=False):
            position += len(piece)
            if kind == "1" or self._spans(whole, position):
                cuts.append(position)
        return Rendered(whole, tuple(dict.fromkeys(cuts)))

    def _places(self, text: str) -> list[int]:
        """Positions inside each mark in a text, behind its first character; before it if that is all there is."""
        places: set[int] = set()
        if any(mark in text for mark in self.texts):
            places = {match.start() + (len(match[1]) > 1) for match in self._pattern.finditer(text)}
        if self._normalizer is not None:
            for begin, piece in zip((0, *sorted(places)), Rendered(text, tuple(sorted(places))).pieces, strict=True):
                places.update(begin + place for place in self._hidden(piece))
        return sorted(places)

    def _hidden(self, text: str) -> list[int]:
        """Positions inside what becomes a mark only when the tokenizer normalises it: before its last character."""
        if not any(mark in self._normalize(text) for mark in self._normal):
            return []
        places, begin = [], 0
        while self._becomes_mark(text[begin:]):
            low, high = 0, len(text) - begin  # a beginning of this length makes none, and one that does
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if self._becomes_mark(text[begin : begin + middle]) else (middle, high)
            begin += max(low, 1)
            places.append(begin)
        return places

    def _becomes_mark(self, text: str) -> bool:
        return not self._ids.isdisjoint(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _edges(self, text: str) -> list[int]:
        """The ends of a text, white space aside, that may be a part of a mark whose rest is elsewhere."""
        begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
        counts, edges = range(1, min(self._longest, end - begin + 1)), []
        near = text[begin : begin + self._longest]
        if any(last in near for last in self._lasts) and any(near[:count] in self._tails for count in counts):
            edges.append(begin)
        near = text[max(end - self._longest, begin) : end]
        if any(first in near for first in self._firsts) and any(near[-count:] in self._heads for count in counts):
            edges.append(end)
        return edges

    def _spans(self, text: str, place: int) -> bool:
        begin = max(place - self._longest + 1, 0)
        near = text[begin : place + self._longest - 1]
        return any(begin + m.start() < place < begin + m.start() + len(m[1]) for m in self._pattern.finditer(near))

    def _normalize(self, text: str) -> str:
        return text if self._normalizer is None else str(self._normalizer.normalize_str(text))

    def _without_short_marks(self, text: str) -> str:
        """A mark of one character cannot be cut: it is replaced."""
        for mark in self.texts:
            if len(mark) == 1:
                text = text.replace(mark, _REPLACEMENT)
        return text


def find_turn_marks(
    tokenizer: PreTrainedTokenizerBase, template: str, roles: Collection[str], own: str = ""
) -> TurnMarks:
    """Find the marks of a chat template.

    Args:
        tokenizer: The tokenizer.
        template: Its chat template.
        roles: Of the messages. What a template writes around a role that nobody has does not tell turns apart.
        own: Replies of the environment's action format: the tokens that it writes are no marks.
    """
    named = ("bos_token", "eos_token", "pad_token", "cls_token", "sep_token")
    declared = tuple(getattr(tokenizer, f"{name}_id", None) for name in named)
    return _turn_marks(tokenizer, template, frozenset(roles) - _USUAL_ROLES, own, declared, len(tokenizer))


@functools.lru_cache(maxsize=64)
def _turn_marks(
    tokenizer: PreTrainedTokenizerBase,
    template: str,
    roles: frozenset[str],
    own: str,
    declared: tuple[int | None, ...],
    size: int,
) -> TurnMarks:
    added = {number: token for number, token in tokenizer.added_tokens_decoder.items() if token.content.strip()}
    marks = {number for number, token in added.items() if token.special and token.content in template}
    for text in _probes(tokenizer, template, roles):
        for number in {*tokenizer(text, add_special_tokens=False)["input_ids"]} & added.keys():
            if added[number].special or _LOOKS_LIKE_A_MARK.fullmatch(added[number].content):
                marks.add(number)
    marks -= {number for number, token in added.items() if token.content in _OF_REPLIES or token.content in own}
    marks |= {number for number in declared if number is not None}
    return TurnMarks(tokenizer, marks - {tokenizer.unk_token_id})


def _probes(tokenizer: PreTrainedTokenizerBase, template: str, roles: Collection[str]) -> list[str]:
    """Conversations of plain words as the template renders them, as far as it does."""
    turns = [["user", "assistant", "user"], ["system", "user", "assistant", "user"], ["user", "assistant"]]
    turns += [["user", "assistant", role, *more] for role in sorted(roles) for more in ([], ["assistant", "user"])]
    turns += [[role, "user"] for role in sorted(roles)]
    texts = []
    for names in turns:
        messages = [{"role": name, "content": "word"} for name in names]
        try:
            text = tokenizer.apply_chat_template(
                messages, tokenize=False, chat_template=template, add_generation_prompt=names[-1] != "assistant"
            )
        except Exception:  # noqa: S112  jinja's errors, and whatever a template's own expressions raise
            continue
        texts.append(str(text))
    return texts
