"""Relevance from a classifier behind vLLM's ``/classify``."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from agent_r1_envs.paper_search.papers.data import Paper, PaperQuery
from agent_r1_envs.paper_search.relevance.prompts import QUESTION, check_prompt, fill_prompt
from agent_r1_envs.paper_search.relevance.score_cache import ScoreCache
from agent_r1_envs.services.endpoint import EndpointError, JsonEndpoint

logger = logging.getLogger(__name__)


class ClassifierSelector:
    """Asks ``POST /classify`` with ``{"input": ..., "activation": false, "model": ...}``.

    The last class of a reply, ``probs[-1]``, is the probability that the paper is NOT relevant. A batch is sent as a
    list; one prompt alone is sent as a string, and the last item of the reply counts, as in PaperScout. Failures that
    pass are tried again as :class:`~agent_r1_envs.services.endpoint.JsonEndpoint` says; a batch that fails for good is
    not judged.

    Args:
        url: Address of the endpoint; an address without a path gets ``/classify``.
        model: Name of the model.
        prompt: What is asked, with places ``{query}``, ``{title}`` and ``{abstract}``. A trained classifier needs the
            prompt that it was trained on.
        batch_size: Most prompts in one request.
        timeout: Seconds to wait for a reply.
        retries: How often a request is repeated.
        backoff: Seconds that the first pause lasts at most.
        cache_size: How many scores are remembered.

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str,
        prompt: str = QUESTION,
        batch_size: int = 16,
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.5,
        cache_size: int = 100_000,
    ) -> None:
        if batch_size < 1 or cache_size < 0:
            raise ValueError(f"expected batch_size >= 1 and cache_size >= 0, got {batch_size} and {cache_size}")
        self.endpoint = JsonEndpoint(url, path="/classify", timeout=timeout, retries=retries, backoff=backoff)
        self.model, self.prompt, self.batch_size = model, check_prompt(prompt), batch_size
        self.cache = ScoreCache(cache_size)
        self.failures = 0
        """Requests that failed for good."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ClassifierSelector:
        return self  # a copied env shares the scores

    def judge(self, query: PaperQuery, papers: Sequence[Paper]) -> list[float | None]:
        """Return the relevance of each paper; None where the service failed."""

        def ask(unknown: Sequence[Paper]) -> list[float | None]:
            scores: list[float | None] = []
            for begin in range(0, len(unknown), self.batch_size):
                batch = unknown[begin : begin + self.batch_size]
                scores += self._ask([fill_prompt(self.prompt, query, paper) for paper in batch])
            return scores

        return self.cache.fill(query, papers, ask)

    def describe(self) -> dict[str, Any]:
        """Return name and model."""
        return {"name": "classifier", "model": self.model}

    def _ask(self, prompts: list[str]) -> Sequence[float | None]:
        body = {"input": prompts if len(prompts) > 1 else prompts[0], "activation": False, "model": self.model}
        try:
            return _read(self.endpoint.post(body), len(prompts))
        except (EndpointError, ValueError) as error:
            self.failures += 1
            logger.warning("%d papers were not judged: %s", len(prompts), error)
            return [None] * len(prompts)


def _read(reply: Any, count: int) -> list[float]:
    """Return one minus the probability of the last class, of each of the last ``count`` items.

    Raises:
        ValueError: If the reply has another form, or what it holds is no probability.
    """
    try:
        items = reply["data"][-count:]
        if len(items) != count:
            raise ValueError(f"expected {count} items, got {len(items)}")
        if all(isinstance(item.get("index"), int) for item in items):
            items = sorted(items, key=lambda item: item["index"])
        scores = [1.0 - float(item["probs"][-1]) for item in items]
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"expected a reply of /classify, got {str(reply)[:200]!r} ({error!r})") from error
    if not all(math.isfinite(score) and 0 <= score <= 1 for score in scores):
        raise ValueError(f"expected probabilities from 0 to 1, got {[1 - score for score in scores][:5]}")
    return scores
