"""What every generation back end takes and gives.

A new one implements `Generator` or `AsyncGenerator` and is plugged in by `choose_backend`, in
`agent_r1_trainer/trainer/generation_backends.py`. The contract that it is held to is
`tests/helpers/generation_contract.py`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

__all__ = ["AsyncGenerator", "Generation", "GenerationError", "Generator", "SamplingParams", "joined", "spread"]


class GenerationError(RuntimeError):
    """A reply could not be had; it costs the episode that waits for it."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How replies are sampled.

    Attributes:
        max_new_tokens: Longest reply, in tokens.
        stop_token_ids: A reply ends with the first of these; it is part of the reply, since the policy sampled it.
        temperature: Logits are divided by it. 0 takes the most likely token.
        top_p: Keep the most likely tokens that together have at least this probability. 1 keeps all.
        top_k: Keep this many most likely tokens. 0 keeps all.
        stop_strings: A reply also ends with the token that completes the first of these; it is part of the reply.

    Truncation by `top_p` or `top_k` makes the sampled distribution differ from the one the trainer scores, so training
    leaves both off.
    """

    max_new_tokens: int
    stop_token_ids: tuple[int, ...] = ()
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be a number of at least 0, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must not be negative (0 keeps all tokens), got {self.top_k}")
        if isinstance(self.stop_strings, str) or not all(isinstance(s, str) and s for s in self.stop_strings):
            raise ValueError(f"stop_strings must be strings, none of them empty, got {self.stop_strings!r}")

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0


def spread(sampling: SamplingParams | Sequence[SamplingParams], count: int) -> list[SamplingParams]:
    """How to sample each of `count` replies, whether that was said for all alike or for each."""
    return [sampling] * count if isinstance(sampling, SamplingParams) else list(sampling)


def joined(each: Sequence[SamplingParams]) -> SamplingParams | Sequence[SamplingParams]:
    """How to sample some replies, as `Generator.generate` takes it: once where it is the same for all."""
    return each[0] if len(set(each)) == 1 else each


@dataclass(frozen=True, slots=True)
class Generation:
    """One sampled reply.

    Attributes:
        ids: The tokens exactly as sampled, the stop token included when one was sampled. Nothing is appended or cut.
        logprobs: Their log-probabilities under the distribution they were drawn from (temperature and truncation
            applied), fp32; None if the back end has none. For greedy replies, under the softmax at temperature 1.
        finish: "stop" if the last token is a stop token or completes a stop string, "length" if the reply ran out of
            tokens.
        error: Why the reply cannot be had, or empty; it costs the episode that waits for it.
    """

    ids: list[int]
    logprobs: list[float] | None
    finish: Literal["stop", "length"]
    error: str = ""

    @classmethod
    def lost(cls, reason: str | GenerationError) -> Generation:
        """What stands in the place of a reply that cannot be had; with a reason even where none was given."""
        return cls([], None, "length", error=str(reason) or "no reason was given")


@runtime_checkable
class Generator(Protocol):
    """Anything that answers prompts."""

    def generate(
        self,
        prompts: Sequence[list[int]],
        sampling: SamplingParams | Sequence[SamplingParams],
        seeds: Sequence[int],
    ) -> list[Generation]:
        """Answer every prompt.

        Args:
            prompts: Token ids, one list a prompt, none empty.
            sampling: How to sample, for all prompts alike or for each; those of one call differ in `stop_strings` only.
            seeds: One seed a prompt: the reply is a function of the prompt and its seed, not of its neighbours.

        Returns:
            One reply a prompt, in order; `Generation.lost` in the place of one that cannot be had, and alone.
        """
        ...


@runtime_checkable
class AsyncGenerator(Protocol):
    """Anything that answers each prompt by itself, many at a time.

    Whoever asks runs one event loop as long as the back end lives, so connections may stay open between calls. A back
    end with a coroutine function `aclose` has it awaited in that loop at the end; see `BlockingGenerator`.
    """

    async def answer(self, prompt: list[int], sampling: SamplingParams, seed: int, *, episode: Hashable) -> Generation:
        """Answer one prompt.

        Args:
            prompt: Token ids, not empty.
            sampling: How to sample.
            seed: The reply is a function of prompt and seed, not of what else is asked at the time.
            episode: The replies of an episode share it, so that a back end can keep them on one server.

        Raises:
            GenerationError: The reply cannot be had, which costs the episode. Any other exception ends the run.
        """
        ...
