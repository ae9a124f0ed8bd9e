"""Reading data files: paths, streams of rows, and fields whose errors say where and what.

>>> from pathlib import Path
>>> from agent_r1_envs.files import Row
>>> Row(Path("questions.json"), 3, {"question": 7}).text("question")
Traceback (most recent call last):
    ...
agent_r1_envs.errors.DataError: questions.json, row 3, field question: expected a string, found the int 7
"""

from agent_r1_envs.files.fields import Row, check_strings, found
from agent_r1_envs.files.json_list import ListReader, ObjectReader
from agent_r1_envs.files.paths import (
    cache_folder,
    expand,
    files_of_split,
    read_json_object,
    resolve,
    sha256,
    sha256_of_all,
    write_json,
    written_whole,
)
from agent_r1_envs.files.rows import json_list, json_object, open_unpacked, read_rows

__all__ = [
    "ListReader",
    "ObjectReader",
    "Row",
    "cache_folder",
    "check_strings",
    "expand",
    "files_of_split",
    "found",
    "json_list",
    "json_object",
    "open_unpacked",
    "read_json_object",
    "read_rows",
    "resolve",
    "sha256",
    "sha256_of_all",
    "write_json",
    "written_whole",
]
