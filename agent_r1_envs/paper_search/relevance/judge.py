"""Relevance from a language model that answers True or False."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery
from agent_r1_envs.paper_search.relevance.prompts import QUESTION, check_prompt, fill_prompt
from agent_r1_envs.paper_search.relevance.score_cache import ScoreCache
from agent_r1_envs.services.endpoint import EndpointError, JsonEndpoint, chat_address

logger = logging.getLogger(__name__)

_TOP: Final = 5  # what every endpoint with log-probabilities gives
_WORDS: Final = {"true": True, "yes": True, "false": False, "no": False}
_MARKS: Final = " \t\r\n.,:;!*'\"`\u2581\u0120"


class JudgeSelector:
    """Asks a chat completions endpoint whether a paper is relevant.

    Where the reply has log-probabilities, the relevance is the probability of True among True and False as the first
    word; elsewhere it is 1 or 0 by the word that was said. A reply with neither word is a failure.

    Args:
        url: Base address of the endpoint, which ends in ``/v1``.
        model: Name of the model.
        prompt: What is asked, with places ``{query}``, ``{title}`` and ``{abstract}``.
        logprobs: Whether to ask for log-probabilities; turn it off for endpoints that refuse.
        concurrency: Most requests at a time.
        timeout: Seconds to wait for a reply.
        retries: How often a request is repeated.
        backoff: Seconds that the first pause lasts at most.
        cache_size: How many scores are remembered.
        api_key_env: The environment variable that holds the key; sent if it is set, and kept nowhere else.

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str,
        prompt: str = QUESTION,
        logprobs: bool = True,
        concurrency: int = 8,
        timeout: float = 60.0,
        retries: int = 3,
        backoff: float = 0.5,
        cache_size: int = 100_000,
        api_key_env: str = "OPENAI_API_KEY",
    ) -> None:
        if concurrency < 1 or cache_size < 0:
            raise ValueError(f"expected concurrency >= 1 and cache_size >= 0, got {concurrency} and {cache_size}")
        self.endpoint = JsonEndpoint(
            chat_address(url), timeout=timeout, retries=retries, backoff=backoff, key_env=api_key_env
        )
        self.model, self.prompt, self.logprobs, self.concurrency = model, check_prompt(prompt), logprobs, concurrency
        self.cache = ScoreCache(cache_size)
        self.failures = 0
        """Papers that were not judged."""

    def __deepcopy__(self, memo: dict[int, Any]) -> JudgeSelector:
        return self  # a copied env shares the scores

    def judge(self, query: PaperQuery, papers: Sequence[Paper]) -> list[float | None]:
        """Return the relevance of each paper; None where the endpoint failed."""

        def ask(unknown: Sequence[Paper]) -> list[float | None]:
            prompts = [fill_prompt(self.prompt, query, paper) for paper in unknown]
            with ThreadPoolExecutor(min(self.concurrency, len(prompts))) as threads:
                scores = list(threads.map(self._ask, prompts))
            self.failures += scores.count(None)
            return scores

        return self.cache.fill(query, papers, ask)

    def describe(self) -> dict[str, Any]:
        """Return name and model."""
        return {"name": "judge", "model": self.model, "logprobs": self.logprobs}

    def _ask(self, prompt: str) -> float | None:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 1 if self.logprobs else 8,
            "temperature": 0.0,
        }
        if self.logprobs:
            body |= {"logprobs": True, "top_logprobs": _TOP}
        try:
            return read_verdict(self.endpoint.post(body))
        except (EndpointError, ValueError) as error:
            logger.warning("a paper was not judged: %s", error)
            return None


def read_verdict(reply: Any) -> float:
    """Return the probability of True in a chat completion.

    Raises:
        ValueError: If the reply has another form, or says neither True nor False.
    """
    try:
        choice = reply["choices"][0]
        listed = ((choice.get("logprobs") or {}).get("content") or [{}])[0].get("top_logprobs") or []
        weights = {True: 0.0, False: 0.0}
        for entry in listed:
            verdict = _WORDS.get(str(entry["token"]).strip(_MARKS).lower())
            if verdict is not None:
                weights[verdict] += math.exp(min(float(entry["logprob"]), 0.0))
        if sum(weights.values()) > 0:
            return weights[True] / sum(weights.values())
        said = str(choice["message"]["content"] or "").strip(_MARKS).split()
    except (TypeError, KeyError, IndexError, AttributeError, ValueError) as error:
        raise ValueError(f"expected a chat completion, got {str(reply)[:200]!r} ({error!r})") from error
    verdict = _WORDS.get(said[0].strip(_MARKS).lower()) if said else None
    if verdict is None:
        raise ValueError(f"expected True or False, got {' '.join(said)[:100]!r}")
    return float(verdict)
