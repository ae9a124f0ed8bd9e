"""Replies from any number of vLLM servers.

Every rank asks for its own episodes, so ranks of different numbers of episodes, none too, wait for nobody. An episode
stays with one server, whose prefix cache holds what it has read. A server that dies or answers badly is asked again
only once it says that it still holds the weights that were sent; until then its episodes go elsewhere.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import httpx

from agent_r1_envs.services.endpoint import trusts_environment
from agent_r1_envs.services.retry import RetryPolicy, excerpt
from agent_r1_trainer.generation.protocol import Generation, GenerationError, SamplingParams
from agent_r1_trainer.generation.vllm_control import VLLMServer, request_headers
from agent_r1_trainer.generation.vllm_requests import BadAnswerError, completion_request, read_completion

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["VLLMServers"]

_CONNECTING = 10.0  # seconds
_EPISODES = 65_536  # whose servers are remembered


@dataclass(slots=True, eq=False)
class _Place:
    """A server and what is known of it.

    Attributes:
        server: Where.
        model: What it calls the policy.
        state: "doubtful" after a failure, until it was looked at; "lost" once it holds other weights than were sent.
        asked: Replies that it owes.
        look_at: When it may be looked at again.
        looks: How often it was looked at in vain.
    """

    server: VLLMServer
    model: str
    state: Literal["ready", "doubtful", "lost"] = "ready"
    asked: int = 0
    look_at: float = 0.0
    looks: int = 0


class VLLMServers:
    """An `AsyncGenerator` on vLLM servers.

    Args:
        servers: At least one.
        tokenizer: Reads the replies; needed where there are stop strings.
        timeout: Seconds that a reply may take.
        retries: How often a request is sent again, elsewhere if there is another server.
        patience: Seconds that a reply waits, in all its tries, while there is no server that could be asked.
        first: The server that the first episode goes to; ranks begin with different ones.

    Attributes:
        counts: Since they were last read: `asked`, `retried`, `failed` replies and `lost` servers.
    """

    def __init__(
        self,
        servers: Sequence[VLLMServer],
        *,
        tokenizer: PreTrainedTokenizerBase | None = None,
        timeout: float = 600.0,
        retries: int = 3,
        patience: float = 240.0,
        first: int = 0,
    ) -> None:
        if not servers:
            raise ValueError("expected one vLLM server at least, in vllm_server_base_url")
        places = [_Place(server, "") for server in servers]
        start = first % len(places)
        self._places = places[start:] + places[:start]
        self._tokenizer = tokenizer
        self._timeout, self._patience = timeout, patience
        self._policy = RetryPolicy(retries, backoff=0.2, longest_pause=5.0)
        self._version: str | None = None
        self._homes: dict[Hashable, _Place] = {}
        self._client: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None
        self.counts: Counter[str] = Counter()

    def hold(self, version: str | None, model: str, urls: Sequence[str] | None = None) -> None:
        """Say which weights the servers hold from now on.

        Args:
            version: What the servers call them, which is looked up after a failure; None if they were never sent any.
            model: What the servers call the policy.
            urls: Of the servers that hold them; None for all.
        """
        self._version = version
        self._homes.clear()
        for place in self._places:
            held = urls is None or place.server.url in urls
            place.model, place.state = model, "ready" if held else "lost"
            place.look_at, place.looks = 0.0, 0

    async def answer(self, prompt: list[int], sampling: SamplingParams, seed: int, *, episode: Hashable) -> Generation:
        """Answer one prompt; see `AsyncGenerator.answer`.

        Raises:
            GenerationError: No server gave a reply that can be used.
            ValueError: The prompt is empty, or there are stop strings and no tokenizer.
        """
        if not prompt:
            raise ValueError("cannot answer an empty prompt: the model needs at least one token")
        if sampling.stop_strings and self._tokenizer is None:
            raise ValueError("stop_strings need a tokenizer that reads the replies: VLLMServers(tokenizer=...)")
        self.counts["asked"] += 1
        failed: _Place | None = None
        problem, waited = "", 0.0
        for attempt in range(self._policy.retries + 1):
            try:
                place, waited = await self._choose(episode, failed, waited)
                return await self._ask(place, prompt, sampling, seed)
            except _Unanswered as failure:
                failed, problem = failure.place, str(failure)
            except GenerationError:
                self.counts["failed"] += 1
                raise
            if attempt < self._policy.retries:
                self.counts["retried"] += 1
                await asyncio.sleep(self._policy.pause(attempt))
        self.counts["failed"] += 1
        raise GenerationError(f"no reply after {self._policy.retries + 1} tries, the last time: {problem}")

    async def aclose(self) -> None:
        """Close the connections; the next question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client[1].aclose()

    async def _ask(self, place: _Place, prompt: list[int], sampling: SamplingParams, seed: int) -> Generation:
        """Ask a server once.

        Raises:
            _Unanswered: It gave nothing that can be used.
        """
        body = completion_request(place.model, prompt, sampling, seed)
        place.asked += 1
        try:
            response = await self._http().post(f"{place.server.url}/v1/completions", json=body)
            if not response.is_success:
                raise BadAnswerError(f"HTTP {response.status_code}: {excerpt(response)}")
            return read_completion(response.json(), place.model, sampling, self._tokenizer)
        except (BadAnswerError, ValueError) as error:
            said = str(error)
        except httpx.HTTPError as error:
            said = f"{type(error).__name__}: {error}".rstrip(": ")
        finally:
            place.asked -= 1
        if place.state == "ready":
            place.state, place.look_at, place.looks = "doubtful", 0.0, 0
        raise _Unanswered(f"{place.server.address}: {place.server.hide(said)}", place)

    async def _choose(self, episode: Hashable, failed: _Place | None, waited: float) -> tuple[_Place, float]:
        """The server of an episode: its own, else the one that owes least; after a failure another, if there is one.

        Args:
            episode: Whose.
            failed: The server that gave no reply, or None.
            waited: Seconds that this reply has waited for servers already.

        Returns:
            The server, and the seconds that were waited in all.

        Raises:
            GenerationError: There is none, and none comes back in time.
        """
        started = time.monotonic() - waited
        while True:
            await self._look_again()
            ready = [place for place in self._places if place.state == "ready"]
            others = [place for place in ready if place is not failed] or ready
            if others:
                home = self._homes.get(episode)
                if home is None or home not in others:
                    home = min(others, key=lambda place: place.asked)
                    if len(self._homes) >= _EPISODES:
                        self._homes.clear()
                    self._homes[episode] = home
                return home, time.monotonic() - started
            states = ", ".join(f"{place.server.address} is {place.state}" for place in self._places)
            if all(place.state == "lost" for place in self._places):
                raise GenerationError(
                    f"no server holds the policy any more: {states}; they get it before the next rollout"
                )
            if time.monotonic() - started >= self._patience:
                raise GenerationError(f"no server for {self._patience:g} s: {states}")
            await asyncio.sleep(min(0.05, self._patience / 10))

    async def _look_again(self) -> None:
        """Look at the doubtful servers whose time has come, each of them once, whoever asks."""
        for place in self._places:
            if place.state != "doubtful" or time.monotonic() < place.look_at:
                continue
            place.look_at = math.inf
            try:
                place.state = await self._look(place)
            finally:
                place.look_at = time.monotonic() + self._policy.pause(place.looks)
                place.looks += 1

    async def _look(self, place: _Place) -> Literal["ready", "doubtful", "lost"]:
        path = "/health" if self._version is None else "/weight_info"
        try:
            response = await self._http().get(f"{place.server.url}{path}", timeout=_CONNECTING)
            if not response.is_success:
                return "doubtful"
            if self._version is None or response.json()["weight_version"] == self._version:
                return "ready"
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return "doubtful"
        self.counts["lost"] += 1
        return "lost"

    def _http(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            trusted = all(trusts_environment(place.server.url) for place in self._places)
            client = httpx.AsyncClient(
                timeout=httpx.Timeout(self._timeout, connect=min(_CONNECTING, self._timeout), pool=None),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
                headers=request_headers(),
                trust_env=trusted,
            )
            self._client = (loop, client)
        return self._client[1]


class _Unanswered(Exception):  # noqa: N818  (no failure of the program: the next try may do)
    def __init__(self, problem: str, place: _Place) -> None:
        super().__init__(problem)
        self.place = place
