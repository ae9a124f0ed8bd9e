"""Saved arrays: a folder of ``.npy`` files and a manifest that names them with their hashes; and manifests alone.

Every save writes data files under names of its own and replaces the manifest last, in one step. So a reader sees either
the old arrays or the new ones, whatever happens to the writer or to another one at the same time, and processes that
have the old files open keep them.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from agent_r1_envs.errors import DataError
from agent_r1_envs.files.fields import found
from agent_r1_envs.files.paths import read_json_object, sha256, write_json

T = TypeVar("T")
Facts = dict[str, Any]

_ENTRY: Final = {"file": str, "bytes": int, "sha256": str}


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What every folder of a kind says of itself, in a file of JSON.

    Attributes:
        what: What the folder is, in the words of errors.
        manifest: Name of the file.
        format: What its field ``format`` says.
        version: What its field ``version`` says.
        fields: The kind's own fields.
        way_out: What to do where it is missing or damaged, in the words of errors.
    """

    what: str
    manifest: str
    format: str
    version: int
    fields: Mapping[str, type]
    way_out: str = "build one and save() it"

    def facts(self, folder: Path) -> Facts:
        """Return the manifest.

        Raises:
            DataError: There is none, or it is damaged or of another version.
        """
        path = folder / self.manifest
        try:
            facts = read_json_object(path)
        except FileNotFoundError:
            raise DataError(f"{folder}: no {self.what} here ({self.manifest} is missing); {self.way_out}") from None
        except ValueError as error:
            self.damaged(path, str(error))
        if facts.get("format") != self.format:
            self.damaged(path, f'field format: expected "{self.format}"')
        if facts.get("version") != self.version:
            raise DataError(
                f"{path}: the {self.what} is of version {facts.get('version')!r}, and version {self.version} is read; "
                f"{self.way_out}"
            )
        for field, kind in self.fields.items():
            self.check(path, field, kind, facts.get(field))
        return facts

    def check(self, path: Path, field: str, kind: type, value: Any) -> None:
        """Raise the error of a damaged file if a field is not of its kind."""
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.damaged(path, f"field {field}: expected {kind.__name__}, got {found(value)}")

    def damaged(self, path: Path, reason: str) -> NoReturn:
        """Raise the error of a damaged file."""
        raise DataError(f"{path}: the {self.what} is damaged: {' '.join(reason.split())}; {self.way_out}")


@dataclass(frozen=True, kw_only=True)
class ArrayFolder(Manifest):
    """A kind of folder of arrays.

    Attributes:
        arrays: Names of the arrays.
    """

    arrays: tuple[str, ...]

    def facts(self, folder: Path) -> Facts:
        """Return the manifest; see `Manifest.facts`."""
        facts = super().facts(folder)
        path = folder / self.manifest
        self.check(path, "files", dict, facts.get("files"))
        for name in self.arrays:
            entry = facts["files"].get(name)
            self.check(path, f"files.{name}", dict, entry)
            for field, kind in _ENTRY.items():
                self.check(path, f"files.{name}.{field}", kind, entry.get(field))
        return facts

    def save(self, folder: Path, arrays: Mapping[str, npt.NDArray[Any]], facts: Facts) -> None:
        """Write arrays and facts; what an older save left is removed at the end."""
        folder.mkdir(parents=True, exist_ok=True)
        token = secrets.token_hex(8)
        files = {name: _write(folder / f"{name}-{token}.npy", arrays[name]) for name in self.arrays}
        manifest = {"format": self.format, "version": self.version, **facts, "files": files}
        replaced = self._files(folder)
        write_json(folder / self.manifest, manifest)
        for name in replaced:
            (folder / name).unlink(missing_ok=True)

    def read(self, folder: Path, use: Callable[[Facts], T]) -> T:
        """Return what ``use`` makes of the manifest; once more if the arrays were replaced meanwhile.

        Raises:
            DataError: There is no manifest, it is damaged or of another version, or ``use`` raised.
        """
        while True:
            facts = self.facts(folder)
            try:
                return use(facts)
            except DataError:
                if self.facts(folder) == facts:
                    raise

    def load(self, folder: Path, facts: Facts, *, verify: bool) -> dict[str, npt.NDArray[Any]]:
        """Map the arrays into memory.

        Args:
            folder: Where they lie.
            facts: The manifest.
            verify: Whether the hash of every file is compared; size, type and shape always are.

        Raises:
            DataError: A file is missing or damaged.
        """
        return {name: self._load(folder, facts["files"][name], verify) for name in self.arrays}

    def _load(self, folder: Path, entry: Mapping[str, Any], verify: bool) -> npt.NDArray[Any]:
        path = folder / entry["file"]
        try:
            size = path.stat().st_size
            if size != entry["bytes"]:
                self.damaged(path, f"expected {entry['bytes']} bytes, got {size}")
            if verify and sha256(path) != entry["sha256"]:
                self.damaged(path, "its content is not what was saved (SHA-256 differs)")
            # A plain view of the mapped file: every slice of a memmap object would cost microseconds more.
            array: npt.NDArray[Any] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        except DataError:
            raise
        except Exception as error:  # a damaged header lets out whatever Python's own parser raises
            self.damaged(path, str(error) or type(error).__name__)
        for field, value in _form(array).items():
            if entry.get(field, value) != value:  # older manifests do not say
                self.damaged(path, f"expected the {field} {entry[field]}, got {value}")
        return array

    def _files(self, folder: Path) -> set[str]:
        try:
            return {Path(entry["file"]).name for entry in self.facts(folder)["files"].values()}
        except (DataError, TypeError, KeyError):
            return set()


def _write(path: Path, array: npt.NDArray[Any]) -> dict[str, Any]:
    # An empty array cannot be mapped, so an unused element is appended to one.
    kept = array if array.size else np.zeros(1, array.dtype)
    with path.open("wb") as file:
        np.save(file, kept, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256(path), **_form(kept)}


def _form(array: npt.NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape)}
