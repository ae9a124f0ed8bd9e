"""Replies on disk, so that a run can be repeated without the service."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from agent_r1_envs.files import expand

Mode = Literal["auto", "record", "replay"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Reply:
    """A final reply of the service.

    Attributes:
        status: 200, or 404 for a paper that it does not have.
        body: The JSON.
    """

    status: int
    body: Any


class Recordings:
    """A folder with one file a request, named by a hash of path and parameters.

    Neither the address of the service nor any header is part of it, so a key cannot get there.

    Args:
        folder: The folder; made when the first reply is written.
        mode: ``"auto"`` asks the service for what is not there and writes it down, ``"record"`` asks for everything,
            ``"replay"`` asks for nothing.

    Raises:
        ValueError: If the mode is none.
    """

    def __init__(self, folder: str | os.PathLike[str], mode: Mode = "auto") -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
        self.folder, self.mode = expand(folder), mode

    @property
    def offline(self) -> bool:
        """Whether the service is never asked."""
        return self.mode == "replay"

    def get(self, path: str, params: Mapping[str, str]) -> Reply | None:
        """Return a reply that was written down; None if there is none, if it is damaged, or with ``"record"``."""
        if self.mode == "record":
            return None
        try:
            row = json.loads(self._file(path, params).read_text(encoding="utf-8"))
            return Reply(int(row["status"]), row["body"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, path: str, params: Mapping[str, str], reply: Reply) -> None:
        """Write a reply down, in one step, so that readers never see half of it."""
        file = self._file(path, params)
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_name(f"{file.name}.{secrets.token_hex(4)}.tmp")
        row = {"path": path, "params": dict(params), "status": reply.status, "body": reply.body}
        scratch.write_text(json.dumps(row), encoding="utf-8")
        os.replace(scratch, file)

    def _file(self, path: str, params: Mapping[str, str]) -> Path:
        request = json.dumps([path, sorted(params.items())], ensure_ascii=True)
        name = hashlib.sha256(request.encode("ascii")).hexdigest()
        return self.folder / name[:2] / f"{name[:40]}.json"
