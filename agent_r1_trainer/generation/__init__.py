"""Back ends that turn prompts into sampled replies: one protocol, several engines.

What a back end has to do stands in `protocol.py`; a run chooses one, and keeps the policy's weights in it, in
`agent_r1_trainer/trainer/generation_backends.py`.

The names are imported when they are first used, so that importing the package costs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_r1_envs.names import import_on_use

if TYPE_CHECKING:
    from agent_r1_trainer.generation.adapters import BatchingGenerator, BlockingGenerator
    from agent_r1_trainer.generation.protocol import (
        AsyncGenerator,
        Generation,
        GenerationError,
        Generator,
        SamplingParams,
    )
    from agent_r1_trainer.generation.transformers_generator import TransformersGenerator

__all__ = [
    "AsyncGenerator",
    "BatchingGenerator",
    "BlockingGenerator",
    "Generation",
    "GenerationError",
    "Generator",
    "SamplingParams",
    "TransformersGenerator",
]

__getattr__ = import_on_use(
    __name__,
    {
        "adapters": ["BatchingGenerator", "BlockingGenerator"],
        "protocol": ["AsyncGenerator", "Generation", "GenerationError", "Generator", "SamplingParams"],
        "transformers_generator": ["TransformersGenerator"],
    },
)
