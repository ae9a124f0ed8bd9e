"""Files as streams of rows: a JSON list, JSON lines or parquet, told apart by their content."""

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agent_r1_envs.errors import DataError
from agent_r1_envs.hotpotqa.fields import Row, found
from agent_r1_envs.hotpotqa.json_list import ListReader

_PARQUET_MAGIC: Final = b"PAR1"


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file without holding all of them.

    Raises:
        DataError: The file is missing, empty, damaged, or of no known container.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise DataError(f"{path}: cannot read the file: {error.strerror or error}") from error
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(_PARQUET_MAGIC):
        return _parquet(path)
    if start.startswith(b"["):
        return _json_list(path)
    if start.startswith(b"{"):
        return _json_lines(path)
    what = "nothing" if not start else f"{start[:20]!r}"
    raise DataError(f"{path}: expected a JSON list, JSON lines or a parquet file, found {what} at its beginning")


def _json_list(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        try:
            for number, value in enumerate(ListReader(path, io.TextIOWrapper(file, encoding="utf-8-sig"))):
                yield _row(path, number, value, "row")
        except UnicodeDecodeError as error:
            place = file.tell() - len(error.object) + error.start
            raise DataError(f"{path}: expected UTF-8 text, found {error.reason} at byte {place}") from None


def _json_lines(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.isspace():
                continue
            try:
                value = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: expected a JSON object, found bad JSON: {error}") from None
            yield _row(path, number, value, "line")


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
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}, after row {number}: expected a parquet file, found damage: {error}") from error


def _row(path: Path, number: int, value: Any, unit: str) -> Row:
    if not isinstance(value, Mapping):
        raise DataError(f"{path}, {unit} {number}: expected a JSON object, found {found(value)}")
    return Row(path, number, value, unit)
