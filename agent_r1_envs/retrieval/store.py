"""Saved indexes: postings, vocabulary and passages as a folder of arrays (:mod:`agent_r1_envs.files.arrays`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt

from agent_r1_envs.errors import DataError
from agent_r1_envs.files.arrays import ArrayFolder, Facts
from agent_r1_envs.retrieval.postings import Postings
from agent_r1_envs.retrieval.texts import SortedWords, StoredPassages, TextTable
from agent_r1_envs.retrieval.words import tokenizer_name

if TYPE_CHECKING:
    from agent_r1_envs.retrieval.okapi import OkapiRetriever

_TABLES: Final = ("words", "ids", "titles", "texts")
_FOLDER: Final = ArrayFolder(
    what="index",
    manifest="manifest.json",
    format="agent-r1-okapi",
    version=1,
    fields={"parameters": dict, "passages": int, "tokenizer": str, "content_hash": str},
    arrays=(
        "starts",
        "documents",
        "impacts",
        "numbers",
        *(f"{table}_{part}" for table in _TABLES for part in ("blob", "offsets")),
    ),
)


def save_index(index: OkapiRetriever, folder: Path) -> None:
    """Write ``index`` to ``folder`` (made if missing); see :meth:`OkapiRetriever.save`."""
    postings = index._postings
    vocabulary = postings.vocabulary
    ordered = SortedWords.of(vocabulary) if isinstance(vocabulary, dict) else vocabulary
    assert isinstance(ordered, SortedWords)
    arrays: dict[str, npt.NDArray[Any]] = {
        "starts": postings.starts,
        "documents": postings.documents,
        "impacts": postings.impacts,
        "numbers": ordered.numbers,
    }
    tables = {
        "words": ordered.table,
        "ids": TextTable.of([p.id for p in index.passages]),
        "titles": TextTable.of([p.title for p in index.passages]),
        "texts": TextTable.of([p.text for p in index.passages]),
    }
    for name, table in tables.items():
        arrays[f"{name}_blob"], arrays[f"{name}_offsets"] = table.blob, table.offsets
    facts = {
        "content_hash": index.content_hash,
        "passages": len(index),
        "parameters": index.parameters,
        "tokenizer": tokenizer_name(index.tokenizer),
    }
    _FOLDER.save(folder, arrays, facts)


def open_index(folder: Path, tokenizer: str, verify: bool) -> tuple[StoredPassages, Postings, dict[str, float], str]:
    """Map a saved index into memory; see :meth:`OkapiRetriever.open`.

    Returns:
        The passages, the postings, the parameters and the content hash.

    Raises:
        DataError: The index is missing, damaged, of another version or of another tokenizer.
    """

    def use(facts: Facts) -> tuple[StoredPassages, Postings, dict[str, float], str]:
        if facts["tokenizer"] != tokenizer:
            raise DataError(
                f"{folder / _FOLDER.manifest}: built with the tokenizer {facts['tokenizer']}, opened with {tokenizer}; "
                "pass the same one as tokenizer="
            )
        arrays = _FOLDER.load(folder, facts, verify=verify)
        words, ids, titles, texts = (TextTable(arrays[f"{t}_blob"], arrays[f"{t}_offsets"]) for t in _TABLES)
        vocabulary, size = SortedWords(words, arrays["numbers"]), facts["passages"]
        postings = Postings(vocabulary, arrays["starts"], arrays["documents"], arrays["impacts"], size)
        return StoredPassages(ids, titles, texts), postings, facts["parameters"], facts["content_hash"]

    return _FOLDER.read(folder, use)
