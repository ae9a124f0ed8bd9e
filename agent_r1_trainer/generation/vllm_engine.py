"""vLLM's engine in this process: many replies at once, of a model on the disk or of the policy that is trained."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from agent_r1_trainer.generation.protocol import Generation, SamplingParams, spread
from agent_r1_trainer.generation.vllm_requests import BadAnswerError, checked_reply, finished

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["VLLMEngine", "start_engine", "vllm_class"]


_ON_CPU = {
    "enforce_eager": True,
    "enable_chunked_prefill": False,  # a prompt read in parts takes back a random number, which CPUs cannot
}


def vllm_class() -> Any:
    """Return `vllm.LLM`, set to run in this process.

    Raises:
        ImportError: vLLM is not installed.
    """
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # weights are handed over within the process
    try:
        from vllm import LLM
    except ModuleNotFoundError as error:
        raise ImportError(
            "use_vllm with vllm_mode='colocate' and the agent vllm:MODEL need vLLM: pip install 'agent-r1[vllm]'. A "
            "server needs it only where it runs (vllm_mode='server')",
            name=error.name,
        ) from error
    return LLM


def start_engine(folder: str | Path, *, ranks: int = 1, **settings: Any) -> Any:
    """Start vLLM's engine in this process.

    Args:
        folder: Of a model, or its name.
        ranks: Processes of the run. Each has an engine of its own; they share one group of processes.
        settings: Arguments of `vllm.LLM`.

    Raises:
        ImportError: vLLM is not installed.
    """
    engine = vllm_class()
    if ranks > 1:
        settings["distributed_executor_backend"] = "external_launcher"
    if not torch.cuda.is_available():
        settings = _ON_CPU | settings
    return engine(
        str(folder),
        logprobs_mode="processed_logprobs",
        enable_prefix_caching=True,
        generation_config="vllm",
        **settings,
    )


class VLLMEngine:
    """A `Generator` on an engine in this process.

    Args:
        llm: Of `start_engine`.
        tokenizer: Reads the replies; needed where there are stop strings.
        sleeps: Whether the engine was started with sleep mode.
        again: Whether replies that nobody can learn from are asked for once more, where others of the call were good.
            Where none is, the weights are to blame, which say the same every time.

    Attributes:
        counts: Since they were last read: `asked`, `retried` and `failed` replies.
    """

    def __init__(
        self, llm: Any, tokenizer: PreTrainedTokenizerBase | None = None, *, sleeps: bool = False, again: bool = True
    ) -> None:
        self._llm, self._tokenizer, self._sleeps, self._again = llm, tokenizer, sleeps, again
        self.counts: Counter[str] = Counter()

    def generate(
        self,
        prompts: Sequence[list[int]],
        sampling: SamplingParams | Sequence[SamplingParams],
        seeds: Sequence[int],
    ) -> list[Generation]:
        """Answer every prompt; see `Generator.generate`.

        Raises:
            ValueError: A prompt is empty, or there are stop strings and no tokenizer.
        """
        each = spread(sampling, len(prompts))
        if not all(prompts):
            raise ValueError("cannot answer an empty prompt: the model needs at least one token")
        if any(row.stop_strings for row in each) and self._tokenizer is None:
            raise ValueError("stop_strings need a tokenizer that reads the replies: VLLMEngine(tokenizer=...)")
        self.counts["asked"] += len(prompts)
        replies = self._ask(prompts, each, seeds)
        bad = [row for row, reply in enumerate(replies) if reply.error]
        if self._again and len(bad) < len(replies):
            self.counts["retried"] += len(bad)
            others = self._ask([prompts[row] for row in bad], [each[row] for row in bad], [seeds[row] for row in bad])
            for row, reply in zip(bad, others, strict=True):
                replies[row] = reply
        self.counts["failed"] += sum(bool(reply.error) for reply in replies)
        return replies

    def wake(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Take memory and new weights, and forget what the former ones computed.

        Args:
            weights: By the names of a saved model.
        """
        if self._sleeps:
            self._llm.wake_up(tags=["weights"])
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
        if self._sleeps:
            self._llm.wake_up(tags=["kv_cache"])
        self._llm.reset_prefix_cache()

    def sleep(self) -> None:
        """Give the memory back, weights included."""
        if self._sleeps:
            self._llm.sleep(level=2)

    def _ask(
        self, prompts: Sequence[list[int]], sampling: Sequence[SamplingParams], seeds: Sequence[int]
    ) -> list[Generation]:
        if not prompts:
            return []
        params = [_params(one, seed) for one, seed in zip(sampling, seeds, strict=True)]
        answers = self._llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], params, use_tqdm=False)
        return [self._read(answer.outputs[0], one) for answer, one in zip(answers, sampling, strict=True)]

    def _read(self, output: Any, sampling: SamplingParams) -> Generation:
        ids = list(output.token_ids)
        logprobs = [row[token].logprob for token, row in zip(ids, output.logprobs, strict=True)]
        try:
            ids, logprobs = checked_reply(ids, logprobs, sampling)
        except BadAnswerError as error:
            return Generation.lost(f"vLLM's engine: {error}")
        return finished(ids, logprobs, sampling, self._tokenizer, ended=output.finish_reason == "stop")


def _params(sampling: SamplingParams, seed: int) -> Any:
    from vllm import SamplingParams as VLLMSamplingParams

    return VLLMSamplingParams(
        max_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k or -1,
        seed=seed,
        logprobs=0,
        stop_token_ids=list(sampling.stop_token_ids),
        stop=list(sampling.stop_strings) or None,
        include_stop_str_in_output=bool(sampling.stop_strings),
        ignore_eos=True,
        detokenize=bool(sampling.stop_strings),
        skip_special_tokens=False,
        spaces_between_special_tokens=False,
    )
