"""A model on this machine, run by transformers or vLLM, many episodes in one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gymnasium
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

from agent_r1_trainer.bench.episode import EpisodeRecord, Job, PlayedTurn
from agent_r1_trainer.bench.sampling import local_params
from agent_r1_trainer.flows import AgentEnvLoop, Assignment
from agent_r1_trainer.generation import Generator, TransformersGenerator
from agent_r1_trainer.generation.vllm_engine import VLLMEngine, start_engine, vllm_class
from agent_r1_trainer.learning.probe import Probe
from agent_r1_trainer.model_folders import loading_errors
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.trainer.models import stop_token_ids
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["play_local"]

_CHUNK = 4  # times the concurrency: episodes between two writes to the log
_WINDOW = 32_768  # of a model that declares none, and the longest that vLLM is asked for
_AT_ONCE = 1_024  # episodes that vLLM plays


def play_local(
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    model: str,
    jobs: Sequence[Job],
    concurrency: int,
    sampling: Mapping[str, Any],
    *,
    vllm: bool = False,
) -> Iterator[EpisodeRecord]:
    """Play every job with a causal language model, ``concurrency`` episodes at a time.

    Args:
        make_env: Builds an env.
        model: Name on the hub, or a folder that ``save_pretrained`` wrote.
        jobs: The episodes.
        concurrency: Rows of a batch; vLLM plays all episodes at once.
        sampling: As :func:`~agent_r1_trainer.bench.sampling.local_params` takes them.
        vllm: Run the model with vLLM's engine instead of transformers.

    Raises:
        ImportError: vLLM is asked for and not installed.
        ValueError: A reply of ``max_tokens`` leaves no room for a prompt, or the model cannot be read token by token.
    """
    if vllm:
        vllm_class()  # first: a hub that does not answer takes most of a minute
    context = ContextSettings.load(model)
    with loading_errors(model):
        tokenizer = AutoTokenizer.from_pretrained(model)
        network = _declared(model) if vllm else AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    stops = stop_token_ids(
        network, tokenizer, more=context.stop_token_ids, chat_template_kwargs=context.chat_template_kwargs
    )
    params = local_params(sampling, stops)
    params = replace(params, stop_strings=(*context.stop_strings, *params.stop_strings))
    window = getattr(network.config.get_text_config(), "max_position_embeddings", _WINDOW)
    if vllm:
        window, concurrency = min(window, _WINDOW), min(len(jobs), _AT_ONCE) or 1
    if window <= params.max_new_tokens:
        raise ValueError(f"--max-tokens {params.max_new_tokens} leaves no room for a prompt in a context of {window}")
    loop = AgentEnvLoop(
        make_env,
        tokenizer,
        max_prompt_length=window - params.max_new_tokens,
        concurrency=concurrency,
        history_thinking=context.history_thinking,
        chat_template_kwargs=context.chat_template_kwargs,
    )
    try:
        generator = _engine(model, tokenizer, window) if vllm else _transformers(network, tokenizer)
        loop.check(params)
        for begin in range(0, len(jobs), _CHUNK * concurrency):
            batch = jobs[begin : begin + _CHUNK * concurrency]
            played = loop.run([Assignment(job.task, job.seed) for job in batch], generator, params)
            yield from map(_record, batch, played)
    finally:
        loop.close()


def _transformers(network: Any, tokenizer: PreTrainedTokenizerBase) -> Generator:
    network = network.to("cuda" if torch.cuda.is_available() else "cpu")
    kept = {} if Probe(network, tokenizer).find_reading() else {"max_cached_tokens": 0}
    return TransformersGenerator(network, tokenizer=tokenizer, **kept)


def _engine(model: str, tokenizer: PreTrainedTokenizerBase, window: int) -> Generator:
    return VLLMEngine(start_engine(model, max_model_len=window), tokenizer)


def _declared(model: str) -> Any:
    """What a model says of itself, without its weights."""
    try:
        generation = GenerationConfig.from_pretrained(model)
    except OSError:  # it has none
        generation = None
    return SimpleNamespace(config=AutoConfig.from_pretrained(model), generation_config=generation)


def _record(job: Job, trajectory: Trajectory) -> EpisodeRecord:
    steps = [
        PlayedTurn(
            action=step.text,
            reward=step.reward,
            invalid="refused" if step.invalid else None,
            usage={"prompt_tokens": len(step.prompt_ids), "completion_tokens": len(step.response_ids)},
        )
        for step in trajectory.steps
    ]
    return EpisodeRecord(
        episode=job.episode,
        task_id=trajectory.task_id,
        seed=job.seed,
        success=trajectory.success,
        score=0.0 if trajectory.error else trajectory.score,
        reward=trajectory.total_reward,
        turns=len(trajectory),
        invalid=sum(step.invalid for step in trajectory.steps),
        stop=str(trajectory.stop),
        error=trajectory.error,
        reward_info=trajectory.reward_info,
        protocol=trajectory.info.get("protocol", {}),
        steps=steps,
    )
