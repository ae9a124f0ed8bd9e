"""How a model was shown its context in training, kept beside its weights so that others show it the same."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_r1_envs.files import write_json

__all__ = ["ContextSettings"]

FILE = "agent_r1_context.json"


@dataclass(frozen=True)
class ContextSettings:
    """What a flow has to know of a model's training.

    Attributes:
        recipe: Wrappers around an env with plain text observations: ``"default"``, ``"tools"``,
            ``"native"`` or ``"none"``.
        history_thinking: ``"keep"`` or ``"strip"`` the thinking in earlier replies.
        chat_template_kwargs: Arguments of the chat template.
        stop_token_ids: Ids that end a reply beside those that model, tokenizer and template declare.
        stop_strings: Strings that end a reply beside those of the environment.
    """

    recipe: Literal["default", "tools", "native", "none"] = "default"
    history_thinking: Literal["keep", "strip"] = "keep"
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    stop_token_ids: list[int] = field(default_factory=list)
    stop_strings: list[str] = field(default_factory=list)

    def save(self, folder: str | Path) -> None:
        """Write the settings into the folder of a model."""
        write_json(Path(folder) / FILE, asdict(self))

    @classmethod
    def load(cls, model: str | Path) -> ContextSettings:
        """Read the settings of a model; one without any, or a name on a hub, gets the defaults.

        Raises:
            ValueError: The file is damaged.
        """
        path = Path(model) / FILE
        if not path.is_file():
            return cls()
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: expected the settings of a context: {error}") from error
