"""The embedded panel: a few thousand synthetic questions, made when first used and shared by the process."""

import hashlib
import json
from typing import Any

from agent_r1_envs.cache import make_once
from agent_r1_envs.hotpotqa.data import Paragraph, Question
from agent_r1_envs.hotpotqa.generator import PANEL, generate
from agent_r1_envs.hotpotqa.lexicon import Split
from agent_r1_envs.tasks import TaskSet


def load_panel(split: str) -> TaskSet[Question]:
    """Return the embedded tasks of a split; its content hash is that of the canonical JSON of the rows.

    Raises:
        ValueError: There is no such split.
    """
    if split not in PANEL:
        raise ValueError(f"split must be one of {', '.join(PANEL)}; got {split!r}")
    return make_once(("hotpotqa panel", split), lambda: _make_panel(split))


def question_of(row: dict[str, Any]) -> Question:
    """Make the task of a generated row."""
    return Question(
        id=row["_id"],
        question=row["question"],
        answers=(row["answer"],),
        type=row["type"],
        level=row["level"],
        supporting=tuple((title, sentence) for title, sentence in row["supporting_facts"]),
        paragraphs=tuple(Paragraph(title, tuple(sentences)) for title, sentences in row["context"]),
        dataset="synthetic",
    )


def _make_panel(split: Split) -> TaskSet[Question]:
    tasks, seed = PANEL[split]
    rows = generate(split, tasks=tasks, seed=seed)
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
    return TaskSet(
        [question_of(row) for row in rows],
        dataset="synthetic",
        split=split,
        ids=[row["_id"] for row in rows],
        content_hash=digest,
    )
