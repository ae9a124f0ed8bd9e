"""A transformers model on this machine, many episodes in one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agent_r1_trainer.bench.records import EpisodeRecord, Job
from agent_r1_trainer.flows import AgentEnvLoop, Assignment
from agent_r1_trainer.generation import SamplingParams, TransformersGenerator
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["play_local"]

_CHUNK = 4  # times the concurrency: episodes between two writes to the log


def play_local(
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    model: str,
    jobs: Sequence[Job],
    concurrency: int,
    sampling: Mapping[str, Any],
) -> Iterator[EpisodeRecord]:
    """Play every job with a causal language model, ``concurrency`` episodes at a time.

    Args:
        make_env: Builds an env.
        model: Name on the hub, or a folder that ``save_pretrained`` wrote.
        jobs: The episodes.
        concurrency: Rows of a batch.
        sampling: ``temperature`` and ``max_tokens``.
    """
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    if torch.cuda.is_available():
        network = network.to("cuda")
    generator = TransformersGenerator(network, pad_token_id=tokenizer.pad_token_id or 0)
    params = SamplingParams(
        max_new_tokens=sampling["max_tokens"],
        temperature=sampling["temperature"],
        stop_token_ids=_stop_ids(network, tokenizer),
    )
    room = getattr(network.config, "max_position_embeddings", 32_768) - params.max_new_tokens
    loop = AgentEnvLoop(make_env, tokenizer, max_prompt_length=room, concurrency=concurrency)
    try:
        for begin in range(0, len(jobs), _CHUNK * concurrency):
            batch = jobs[begin : begin + _CHUNK * concurrency]
            played = loop.run([Assignment(job.task, job.seed) for job in batch], generator, params)
            yield from map(_record, batch, played)
    finally:
        loop.close()


def _stop_ids(network: Any, tokenizer: Any) -> tuple[int, ...]:
    configured = getattr(network.generation_config, "eos_token_id", None)
    ids = configured if isinstance(configured, list) else [configured]
    return tuple(sorted({i for i in [*ids, tokenizer.eos_token_id] if i is not None}))


def _record(job: Job, trajectory: Trajectory) -> EpisodeRecord:
    steps = [
        {"action": s.text, "reward": s.reward, **({"invalid": "the env refused it"} if s.invalid else {})}
        for s in trajectory.steps
    ]
    return EpisodeRecord(
        episode=job.episode,
        task_id=trajectory.task_id,
        seed=job.seed,
        success=trajectory.success,
        score=0.0 if trajectory.error else trajectory.score,
        reward=trajectory.total_reward,
        turns=len(trajectory),
        invalid=sum(s.invalid for s in trajectory.steps),
        stop=str(trajectory.stop),
        error=trajectory.error,
        reward_info=trajectory.reward_info,
        steps=steps,
    )
