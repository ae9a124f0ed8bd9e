r"""The text form of a document in the ``/retrieve`` protocol: a quoted title, a line break, the text.

Search-R1 and the projects after it index strings such as ``"Lorin"\nLorin is a town.`` and return them whole. Servers
differ in small ways (no quotes, no title), so reading is lenient: it never fails on a string.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from agent_r1_envs.retrieval.types import Passage


def parse_contents(contents: str) -> tuple[str, str]:
    r"""Read a title and a text from one string.

    The first line is the title, less one pair of double quotes around it. A string of one line is a text without a
    title, unless it is quoted.

    >>> parse_contents('"Lorin"\nLorin is a town.\nIt is old.')
    ('Lorin', 'Lorin is a town.\nIt is old.')
    >>> parse_contents("Lorin is a town.")
    ('', 'Lorin is a town.')
    """
    first, line_break, rest = contents.partition("\n")
    quoted = first.strip()
    if len(quoted) >= 2 and quoted[0] == quoted[-1] == '"':
        return quoted[1:-1], rest
    return (first, rest) if line_break else ("", contents)


def read_document(document: Any) -> Passage:
    """Make a passage of a server's document: ``{"contents": ..}`` or ``{"title": .., "text": ..}``, with or without id.

    A document without an id is named by a hash of its words, so that equal documents are recognised.

    Raises:
        ValueError: It holds neither form; the message says what it holds.
    """
    if not isinstance(document, Mapping):
        raise ValueError(f"expected a document, got {type(document).__name__}")
    contents, title, text = document.get("contents"), document.get("title"), document.get("text")
    if isinstance(contents, str):
        parsed_title, text = parse_contents(contents)
        title = title if isinstance(title, str) else parsed_title
    elif not isinstance(text, str):
        raise ValueError(f"expected a document with 'contents' or 'text', got the fields {sorted(map(str, document))}")
    title = title if isinstance(title, str) else ""
    identity = document.get("id", document.get("docid"))
    if not isinstance(identity, str | int):
        identity = hashlib.sha256(f"{title}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Passage(str(identity), title, text)
