"""Files as streams of rows: a JSON list, JSON lines or parquet, told apart by their content; gzip is unpacked."""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO, cast

from agent_r1_envs.errors import DataError
from agent_r1_envs.files.fields import Row, found
from agent_r1_envs.files.json_list import ListReader, ObjectReader

__all__ = ["json_list", "json_object", "open_unpacked", "read_rows"]

_PARQUET_MAGIC: Final = b"PAR1"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_DAMAGED_GZIP: Final = (EOFError, zlib.error, gzip.BadGzipFile)
# What is not read, by its first bytes, and what to do about it.
_OTHERS: Final = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"BZh": "a bzip2 file: unpack it first",
    b"\xfd7zXZ": "an xz file: unpack it first",
    b"(\xb5/\xfd": "a zstd file: unpack it first",
    b"ARROW1": "an Arrow file: save it as parquet or JSON lines",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
    b"version https://git-lfs": "a pointer of Git LFS: fetch the file itself with git lfs pull",
}


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file for reading bytes; one that is packed with gzip gives what is in it."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP_MAGIC
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file without holding all of them.

    Raises:
        DataError: The file is missing, empty, damaged, or of no known container.
    """
    try:
        with open_unpacked(path) as file:
            head = file.read(4096)
    except (OSError, *_DAMAGED_GZIP) as error:
        raise _unreadable(path, error) from error
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(_PARQUET_MAGIC):
        return _parquet(path)
    if start.startswith(b"["):
        return (_row(path, number, value, "row") for number, value in json_list(path))
    if start.startswith(b"{"):
        return _json_lines(path)
    other = next((what for magic, what in _OTHERS.items() if head.startswith(magic)), None)
    what = "nothing" if not start else other or f"{start[:20]!r}"
    raise DataError(f"{path}: expected a JSON list, JSON lines or a parquet file, found {what} at its beginning")


def json_list(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the numbered elements of a JSON list, whatever they are, without holding all of them.

    Raises:
        DataError: The file cannot be read, or is no JSON list; the message names the row.
    """
    return enumerate(_elements(path, ListReader))


def json_object(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a JSON object, without holding all of them.

    Raises:
        DataError: The file cannot be read, or is no JSON object; the message names the place.
    """
    return _elements(path, ObjectReader)


def _elements(path: Path, reader: Callable[[Path, TextIO], Iterable[Any]]) -> Iterator[Any]:
    try:
        with open_unpacked(path) as file:
            try:
                yield from reader(path, io.TextIOWrapper(file, encoding="utf-8-sig"))
            except UnicodeDecodeError as error:
                place = file.tell() - len(error.object) + error.start
                raise DataError(f"{path}: expected UTF-8 text, found {error.reason} at byte {place}") from None
    except (OSError, *_DAMAGED_GZIP) as error:
        raise _unreadable(path, error) from error


def _json_lines(path: Path) -> Iterator[Row]:
    try:
        with open_unpacked(path) as file:
            for number, line in enumerate(file, start=1):
                if line.isspace():
                    continue
                try:
                    value = json.loads(line.decode("utf-8-sig"))
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{path}, line {number}: expected a JSON object, found bad JSON: {error}") from None
                yield _row(path, number, value, "line")
    except (OSError, *_DAMAGED_GZIP) as error:
        raise _unreadable(path, error) from error


def _parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"reading {path} needs pyarrow: pip install pyarrow") from None
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for value in batch.to_pylist():
                    yield Row(path, number, value)
                    number += 1
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{path}, after row {number}: expected a parquet file, found damage: {error}") from error


def _row(path: Path, number: int, value: Any, unit: str) -> Row:
    if not isinstance(value, Mapping):
        raise DataError(f"{path}, {unit} {number}: expected a JSON object, found {found(value)}")
    return Row(path, number, value, unit)


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: cannot read the file: {getattr(error, 'strerror', None) or error}")
