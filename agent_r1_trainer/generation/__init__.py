"""Back ends that turn prompts into sampled replies: one protocol, several engines.

The names are imported when they are first used, so that importing the package costs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_r1_trainer.generation.protocol import Generation, Generator, SamplingParams
    from agent_r1_trainer.generation.transformers_generator import TransformersGenerator

__all__ = ["Generation", "Generator", "SamplingParams", "TransformersGenerator"]

_HOME = {
    "Generation": "protocol",
    "Generator": "protocol",
    "SamplingParams": "protocol",
    "TransformersGenerator": "transformers_generator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
