"""The streaming reader against the whole-file parser, cut at every place."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_r1_envs.errors import DataError
from agent_r1_envs.files import ListReader, json_list

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 1]), st.integers(1, 9))
def test_equals_json_loads_whatever_the_chunks(values: list[Any], indent: int | None, chunk: int) -> None:
    text = "\n" + json.dumps(values, indent=indent) + " "
    assert list(ListReader(Path("x.json"), io.StringIO(text), chunk)) == values


@given(st.text(alphabet='[]{},:"1e-. a', max_size=30), st.integers(1, 4))
def test_raises_only_data_errors_and_only_where_json_does(text: str, chunk: int) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    reader = ListReader(Path("x.json"), io.StringIO(text), chunk)
    if isinstance(expected, list):
        assert list(reader) == expected
    else:
        with pytest.raises(DataError, match=r"^x\.json"):
            list(reader)


@pytest.mark.parametrize("before", [0, 3, 70_000, 2_000_000])
def test_bad_bytes_are_named_by_their_place_in_the_file(tmp_path: Path, before: int) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'["' + b"a" * before + b'\xff"]')
    with pytest.raises(DataError, match=f"x.json: expected UTF-8 text, found invalid start byte at byte {before + 2}$"):
        list(json_list(path))


def test_elements_of_any_kind_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('\ufeff[{"a": 1}, 2, null]', encoding="utf-8")
    assert list(json_list(path)) == [(0, {"a": 1}), (1, 2), (2, None)]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.json"):
        with pytest.raises(DataError, match=f"{path}: cannot read the file: "):
            list(json_list(path))
