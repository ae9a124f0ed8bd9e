"""The official files: where they lie in a folder, and what they hold."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from agent_r1_envs.errors import DataError
from agent_r1_envs.files import Row, found, resolve, sha256

# What the files of a folder are called; the first match wins, so the full catalogue goes before the thousand.
_PATTERNS: Final = {
    "products": ("items_shuffle.json", "items_shuffle_1000.json", "products.json"),
    "attributes": ("items_ins_v2.json", "items_ins_v2_1000.json", "attributes.json"),
    "human": ("items_human_ins.json", "items_human_ins*.json", "human.json"),
}
_EDGE: Final = 65_536


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a catalogue.

    Attributes:
        products: A JSON list of products.
        attributes: An object of attributes and synthetic instructions by asin; None if there is none.
        human: An object of lists of instructions by asin; None if there is none.
        nouns: An object of lists of nouns by asin; None to find the nouns.
    """

    products: Path
    attributes: Path | None = None
    human: Path | None = None
    nouns: Path | None = None

    def signature(self) -> str:
        """Return a hash of names, sizes, times and the first and last 64 KiB: equal as long as no file was changed."""
        digest = hashlib.sha256()
        for field in fields(self):
            path: Path | None = getattr(self, field.name)
            if path is None:
                continue
            status = path.stat()
            digest.update(f"{field.name} {path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
            with path.open("rb") as file:
                digest.update(file.read(_EDGE))
                file.seek(max(status.st_size - _EDGE, 0))
                digest.update(file.read(_EDGE))
        return digest.hexdigest()

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: sha256(path) for name, path in named.items() if path is not None}


def find_sources(data: str | Path | Mapping[str, str], nouns: str | Path | None = None) -> Sources:
    """Find the files of a catalogue.

    Args:
        data: A folder with files under their official names, which takes the full ones before the thousand; a file of
            products alone; or the path of each: ``{"products": .., "attributes": .., "human": ..}``.
        nouns: A file of nouns by asin.

    Raises:
        DataError: A file is missing.
    """
    noun_file = None if nouns is None else resolve(nouns)
    if isinstance(data, Mapping):
        unknown = set(data) - set(_PATTERNS)
        if unknown or "products" not in data:
            raise ValueError(f"data names the files {', '.join(_PATTERNS)}, products at least; got {sorted(data)}")
        return Sources(**{name: resolve(path) for name, path in data.items()}, nouns=noun_file)
    path = resolve(data)
    if path.is_file():
        return Sources(path, nouns=noun_file)
    files = {name: next(_matches(path, patterns), None) for name, patterns in _PATTERNS.items()}
    products = files.pop("products")
    if products is None:
        raise DataError(f"{path}: expected one of {', '.join(_PATTERNS['products'])}, found none")
    return Sources(products, **files, nouns=noun_file)


class ByAsin:
    """A file with something by asin, or nothing where there is no file."""

    def __init__(self, path: Path | None, values: Mapping[str, Any] | None = None) -> None:
        self._path = path or Path("(generated)")
        self._values = _read_object(path) if values is None and path is not None else values or {}

    def __contains__(self, asin: str) -> bool:
        return asin in self._values

    def entry(self, asin: str) -> Row:
        """Return the object of a product.

        Raises:
            DataError: It is no object.
        """
        return Row(self._path, 0, self._values, "product").nested(asin, self._values[asin])

    def entries(self, asin: str) -> list[Row]:
        """Return the objects in the list of a product, none if it has no list.

        Raises:
            DataError: It is no list of objects.
        """
        row = Row(self._path, 0, self._values, "product")
        if asin not in self._values:
            return []
        return [row.nested(f"{asin}[{number}]", value) for number, value in enumerate(row.items(asin, "objects"))]

    def strings(self, asin: str) -> tuple[str, ...]:
        """Return the strings in the list of a product.

        Raises:
            DataError: It is no list of strings, or the product has none.
        """
        return tuple(Row(self._path, 0, self._values).strings(asin))


def _read_object(path: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected a JSON object by product id, found: {error}") from error
    if not isinstance(values, dict):
        raise DataError(f"{path}: expected a JSON object by product id, found {found(values)}")
    return values


def _matches(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(folder.glob(pattern))
