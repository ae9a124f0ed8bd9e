"""Where a run's generation back end is chosen: the trained model itself, vLLM in this process, or vLLM's servers.

A further one is a class here that keeps the policy's weights in it, and a line in `choose_backend`.
"""

from __future__ import annotations

import copy
import logging
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from torch import nn
from transformers import PreTrainedTokenizerBase

from agent_r1_trainer._compat import base_causal_lm, generation_model
from agent_r1_trainer.generation import Generator, TransformersGenerator
from agent_r1_trainer.generation.adapters import BlockingGenerator
from agent_r1_trainer.generation.transformers_generator import generation_limits
from agent_r1_trainer.generation.vllm_control import ServerError, ServerFacts, ServerNeeds, VLLMServer, at_all, unfit
from agent_r1_trainer.generation.vllm_engine import VLLMEngine, start_engine
from agent_r1_trainer.generation.vllm_server import VLLMServers
from agent_r1_trainer.generation.vllm_settings import server_urls
from agent_r1_trainer.generation.vllm_sync import WeightSync, choose_sync, send_weights
from agent_r1_trainer.generation.weights import merged_weights, untied, weights_mark
from agent_r1_trainer.generation.witness import take_witness
from agent_r1_trainer.learning.agreement import computes_exactly
from agent_r1_trainer.learning.distributed import gather_items, together
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.trainer.models import prompt_limit

__all__ = ["ColocatedBackend", "GenerationBackend", "OwnBackend", "ServerBackend", "choose_backend"]

_LOGGER = logging.getLogger(__name__)
_LOOKING = 5.0  # seconds for a server to say that it is up


class GenerationBackend(Protocol):
    """Samples replies of the policy as it is.

    Attributes:
        foreign: Whether another engine than the trainer's computes the probabilities.
    """

    foreign: bool

    def generator(self, model: nn.Module, step: int) -> AbstractContextManager[Generator]:
        """The policy as it is, ready to answer prompts. The weights must not change within the block.

        Args:
            model: The trained model, in its distributed wrapper.
            step: Of the run; other weights have another one, or were changed in place.
        """
        ...

    def metrics(self) -> dict[str, float]:
        """What happened since they were last asked for, of all ranks; every rank has to ask."""
        ...

    def close(self) -> None:
        """Free connections and folders; what needs them next opens new ones."""
        ...


def choose_backend(
    args: StepPOConfig,
    accelerator: Accelerator,
    policy: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    *,
    keeps_rows: bool,
) -> GenerationBackend:
    """The back end that the settings ask for.

    Args:
        args: The settings.
        accelerator: Of the trainer.
        policy: The model, not wrapped.
        tokenizer: Of the policy.
        keeps_rows: Whether the trained model may keep keys and values from turn to turn.

    Raises:
        ServerError: A server is not there or does not fit, with the way out.
        ImportError: vLLM is needed and not installed.
    """
    if not args.use_vllm:
        return OwnBackend(args, accelerator, tokenizer, keeps_rows=keeps_rows)
    if args.vllm_mode == "server":
        return ServerBackend(args, accelerator, policy, tokenizer)
    return ColocatedBackend(args, accelerator, policy, tokenizer)


class OwnBackend:
    """The trained model itself, within the memory of the settings and in training's precision.

    Args:
        args: The settings.
        accelerator: Of the trainer.
        tokenizer: Of the policy.
        keeps_rows: Whether keys and values may be kept from turn to turn.
    """

    foreign = False

    def __init__(
        self, args: StepPOConfig, accelerator: Accelerator, tokenizer: PreTrainedTokenizerBase, *, keeps_rows: bool
    ) -> None:
        self._args, self._accelerator, self._tokenizer = args, accelerator, tokenizer
        self._keeps_rows = keeps_rows

    @contextmanager
    def generator(self, model: nn.Module, step: int) -> Iterator[Generator]:
        """Read the model in this process; see `GenerationBackend.generator`."""
        with generation_model(model, self._accelerator) as policy, self._accelerator.autocast():
            most, cached = generation_limits(
                policy,
                (self._args.budget("generation_batch_tokens"), self._args.budget("generation_cache_tokens")),
                rows=self._keeps_rows,
            )
            yield TransformersGenerator(
                policy,
                max_rows=self._args.generation_batch_rows,
                max_tokens=most,
                max_cached_tokens=cached if self._keeps_rows else 0,
                tokenizer=self._tokenizer,
            )

    def metrics(self) -> dict[str, float]:
        """None."""
        return {}

    def close(self) -> None:
        """Nothing is open."""


class ServerBackend:
    """vLLM servers, which the main process sends the weights to when they have changed.

    Args:
        args: The settings.
        accelerator: Of the trainer.
        policy: The model, not wrapped.
        tokenizer: Of the policy.

    Raises:
        ServerError: A server is not there or does not fit, with the way out.
        ValueError: The weights cannot be sent as the settings ask for.
    """

    foreign = True

    def __init__(
        self, args: StepPOConfig, accelerator: Accelerator, policy: nn.Module, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self._args, self._accelerator, self._tokenizer = args, accelerator, tokenizer
        self._servers = [VLLMServer(url, timeout=args.vllm_request_timeout) for url in server_urls(args)]
        self._replies = VLLMServers(
            self._servers,
            tokenizer=tokenizer,
            timeout=args.vllm_request_timeout,
            retries=args.vllm_retries,
            patience=args.vllm_server_timeout,
            first=accelerator.process_index,
        )
        self._generator = BlockingGenerator(self._replies)
        self._sync: WeightSync | None = None
        self._facts: dict[str, ServerFacts] = {}
        self._mark: tuple[int, tuple[int, ...]] | None = None
        self._run = uuid.uuid4().hex[:8]
        self._sent = 0
        self._counts = {"vllm/sync_seconds": 0.0, "vllm/servers": 0.0, "vllm/restarted": 0.0}
        self._on_main(lambda: self._look(policy))

    @contextmanager
    def generator(self, model: nn.Module, step: int) -> Iterator[Generator]:
        """Send the weights, if they have changed, and ask the servers; see `GenerationBackend.generator`."""
        with generation_model(model, self._accelerator) as policy:
            mark = (step, weights_mark(policy))
            if mark != self._mark:
                version, name, alive = self._on_main(lambda: self._send(policy))
                self._replies.hold(version, name, alive)
                self._mark = mark
        yield self._generator

    def metrics(self) -> dict[str, float]:
        """Replies asked for again or never had, servers that lost the weights; see `GenerationBackend.metrics`."""
        mine = dict(self._replies.counts)
        self._replies.counts.clear()
        ranks = gather_items(self._accelerator, [(mine, self._counts)])
        return {**_counted([counts for counts, _ in ranks]), **ranks[0][1]}

    def close(self) -> None:
        """Close the connections and delete what was sent; the next rollout sends the weights again."""
        self._generator.close()
        if self._sync is not None:
            self._sync.close()
        for server in self._servers:
            server.close()
        self._mark = None

    def _on_main(self, act: Any) -> Any:
        """What the main process gets by something that may fail, on every rank; where it fails, all raise."""
        results = [None]

        def run() -> None:
            if self._accelerator.is_main_process:
                results[0] = act()

        together(self._accelerator, run)
        return gather_items(self._accelerator, results)[0]

    def _look(self, policy: nn.Module) -> None:
        """Make sure that all servers are there and fit."""
        at_all(self._servers, lambda server: server.wait(self._args.vllm_server_timeout))
        facts = at_all(self._servers, VLLMServer.facts)
        longest = prompt_limit(policy, self._args) + self._args.max_completion_length
        needs = ServerNeeds(longest, policy.get_input_embeddings().num_embeddings)  # type: ignore[operator]
        for server, fact in zip(self._servers, facts, strict=True):
            if problem := unfit(fact, needs):
                raise ServerError(f"the vLLM server at {server.address} cannot sample for this run: {problem}")
        self._facts = {server.url: fact for server, fact in zip(self._servers, facts, strict=True)}
        folder = self._args.vllm_sync_dir or str(Path(self._args.output_dir or ".") / "vllm_weights")
        self._sync = choose_sync(
            self._args.vllm_sync_mode,
            policy,
            facts,
            folder=Path(folder) / self._run,
            port=self._args.vllm_group_port,
            device=self._accelerator.device,
        )

    def _send(self, policy: nn.Module) -> tuple[str, str, list[str]]:
        """Send the weights to the servers that are up; returns their version, their name and the servers."""
        assert self._sync is not None
        started = time.perf_counter()
        alive = self._alive()
        if self._sent:
            self._note_restarts(alive)
        self._sent += 1
        version = f"{self._run}-{self._sent}"
        exact = self._accelerator.mixed_precision == "no" and computes_exactly(policy)
        with self._accelerator.autocast():
            witness = take_witness(policy, self._tokenizer, exact=exact)
        facts = [self._facts[server.url] for server in alive]
        name = send_weights(self._sync, policy, alive, facts, version, witness)
        self._counts |= {
            "vllm/sync_seconds": time.perf_counter() - started,
            "vllm/servers": float(len(alive)),
        }
        return version, name, [server.url for server in alive]

    def _alive(self) -> list[VLLMServer]:
        """The servers that are up; where none is, the first that comes back in time.

        Raises:
            ServerError: None does.
        """
        until = time.monotonic() + self._args.vllm_server_timeout
        while True:
            up = at_all(self._servers, lambda server: server.is_up(_LOOKING))
            alive = [server for server, there in zip(self._servers, up, strict=True) if there]
            for server in self._servers:
                if alive and server not in alive:
                    _LOGGER.warning("the vLLM server at %s is down; this rollout goes on without it", server.address)
            if alive:
                return alive
            if time.monotonic() >= until:
                raise ServerError(
                    f"no vLLM server is up: waited {self._args.vllm_server_timeout:g} s (vllm_server_timeout) for "
                    + ", ".join(server.address for server in self._servers)
                )
            time.sleep(0.5)

    def _note_restarts(self, alive: Sequence[VLLMServer]) -> None:
        """Say which servers do not hold what they were sent last: replies of theirs may be of other weights."""
        expected = f"{self._run}-{self._sent}"
        found = at_all(alive, VLLMServer.weight_version)
        others = [(server, version) for server, version in zip(alive, found, strict=True) if version != expected]
        for server, version in others:
            if version == "default":
                reason = "it was started anew"
            elif version.startswith(self._run):
                reason = "it was down when they were sent"
            else:
                reason = "another run sends weights there"
            _LOGGER.warning(
                "the vLLM server at %s holds weights called %r, not %r: %s", server.address, version, expected, reason
            )
        self._counts["vllm/restarted"] = float(len(others))


def _counted(ranks: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """What became of the replies of all ranks, as metrics."""
    names = ("asked", "retried", "failed", "lost")
    return {f"vllm/{name}": float(sum(counts.get(name, 0) for counts in ranks)) for name in names}


class ColocatedBackend:
    """vLLM's engine in each process, awake for the length of a rollout.

    Args:
        args: The settings.
        accelerator: Of the trainer.
        policy: The model, not wrapped.
        tokenizer: Of the policy.

    Raises:
        ImportError: vLLM is not installed.
        ValueError: The engine's context is too short, or it cannot hold what adapters make of the policy.
    """

    foreign = True

    def __init__(
        self, args: StepPOConfig, accelerator: Accelerator, policy: nn.Module, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self._accelerator = accelerator
        if problem := untied(policy):
            raise ValueError(f"vllm_mode='colocate' cannot run this policy: {problem}")
        longest = prompt_limit(policy, args) + args.max_completion_length
        window = args.vllm_max_model_length or longest
        if window < longest:
            raise ValueError(
                f"vllm_max_model_length={window} is too short: a prompt with its reply may have {longest} tokens. "
                "Leave it out, or lower max_prompt_length or max_completion_length"
            )
        on_gpu = accelerator.device.type == "cuda"
        sleeps = on_gpu if args.vllm_enable_sleep_mode is None else args.vllm_enable_sleep_mode
        if sleeps and not on_gpu:
            raise ValueError("vllm_enable_sleep_mode=True needs a GPU: leave it out on a CPU")
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(accelerator.mixed_precision)
        base = base_causal_lm(policy)
        self._dtype = base.dtype if dtype is None else dtype
        settings: dict[str, Any] = {
            "dtype": str(self._dtype).removeprefix("torch."),
            "max_model_len": window,
            "seed": accelerator.process_index,
            "model_impl": args.vllm_model_impl,
            "load_format": "dummy",  # the policy's weights are sent before the first reply
        }
        if on_gpu:
            settings |= {"gpu_memory_utilization": args.vllm_gpu_memory_utilization, "enable_sleep_mode": sleeps}
        with tempfile.TemporaryDirectory(prefix="agent-r1-vllm-") as folder:
            config = copy.deepcopy(base.config)
            config.architectures = [type(base).__name__]  # which only saved models have
            config.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            llm = start_engine(folder, ranks=accelerator.num_processes, **settings)
        self._engine = VLLMEngine(llm, tokenizer, sleeps=sleeps, again=args.vllm_retries > 0)
        self._mark: tuple[int, tuple[int, ...]] | None = None
        self._sleeps = sleeps
        self._seconds = 0.0
        self._engine.sleep()

    @contextmanager
    def generator(self, model: nn.Module, step: int) -> Iterator[Generator]:
        """Wake the engine with the policy's weights, and let it sleep afterwards; see `GenerationBackend.generator`."""
        started = time.perf_counter()
        with generation_model(model, self._accelerator) as policy:
            mark = (step, weights_mark(policy))
            if self._sleeps or mark != self._mark:
                self._mark = None
                self._engine.wake(merged_weights(policy, self._dtype, as_saved=True))
                self._mark = mark
        self._seconds = time.perf_counter() - started
        try:
            yield self._engine
        finally:
            self._engine.sleep()

    def metrics(self) -> dict[str, float]:
        """Replies asked for again or never had, seconds that the weights took; see `GenerationBackend.metrics`."""
        ranks = gather_items(self._accelerator, [(dict(self._engine.counts), self._seconds)])
        self._engine.counts.clear()
        return {**_counted([counts for counts, _ in ranks]), "vllm/sync_seconds": max(seconds for _, seconds in ranks)}

    def close(self) -> None:
        """The engine stays: a process can start one only once."""
