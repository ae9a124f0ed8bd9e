"""One `vllm serve` as its owner sees it: what it is, whether it fits the policy, and which weights it holds.

Everything here is asked seldom and waited for. Replies are asked for elsewhere, many at a time.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import httpx

from agent_r1_envs.services.endpoint import trusts_environment
from agent_r1_envs.services.per_process import PerProcess
from agent_r1_envs.services.retry import excerpt
from agent_r1_envs.services.secrecy import hide, public_address
from agent_r1_trainer.generation.vllm_settings import base_address

T = TypeVar("T")

__all__ = ["KEY", "ServerError", "ServerFacts", "ServerNeeds", "VLLMServer", "at_all", "request_headers", "unfit"]

KEY = "VLLM_API_KEY"
"""The environment variable that holds the key of servers that were started with one."""
_OLDEST = (0, 31)
"""The oldest vLLM whose servers are known to have all that is asked for."""
_DEV = "VLLM_SERVER_DEV_MODE=1"


class ServerError(RuntimeError):
    """A server refuses, fails or does not fit; the message names it and has its words."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server is.

    Attributes:
        version: Of vLLM.
        model: Its own name for the model that it serves.
        window: Most tokens of a prompt with its reply.
        vocabulary: Size of the vocabulary, 0 where the server does not say.
        dtype: That it computes in, as `bfloat16`.
        logprobs_mode: Which log-probabilities it gives.
        adapters: Whether it takes LoRA adapters.
        transfer: Back end of its weight transfer, empty without one.
        workers: Processes that hold the model's weights.
    """

    version: str
    model: str
    window: int
    vocabulary: int
    dtype: str
    logprobs_mode: str
    adapters: bool
    transfer: str
    workers: int


@dataclass(frozen=True, slots=True)
class ServerNeeds:
    """What a run asks of its servers.

    Attributes:
        window: Tokens of the longest prompt with the longest reply.
        vocabulary: Rows of the policy's embedding.
    """

    window: int
    vocabulary: int


class VLLMServer:
    """One server.

    Args:
        url: Base address, such as `http://node1:8000`.
        timeout: Seconds that a request may take; loading weights takes longest.
    """

    def __init__(self, url: str, *, timeout: float = 600.0) -> None:
        self.url = base_address(url)
        self._timeout = timeout
        self._client: PerProcess[httpx.Client] = PerProcess()

    @property
    def address(self) -> str:
        """The address without what is secret in it, for messages."""
        return public_address(self.url)

    def hide(self, said: str) -> str:
        """What the server, or the way to it, says, without the key and the password that it was sent."""
        password = urlsplit(self.url).password or ""
        return hide(said, [os.environ.get(KEY, "").strip(), password, unquote(password)])

    def get(self, path: str, **params: Any) -> Any:
        """Get a path; returns the JSON.

        Raises:
            ServerError: It cannot be had.
        """
        return self._ask("GET", path, params=params)

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None, **params: Any
    ) -> Any:
        """Post JSON to a path; returns the JSON of the answer, or None if it has none.

        Args:
            path: Where.
            body: What.
            timeout: Seconds; None for those of all requests.
            params: Of the query.

        Raises:
            ServerError: The server does not do it.
        """
        seconds = self._timeout if timeout is None else timeout
        return self._ask("POST", path, params=params, json=dict(body or {}), timeout=seconds)

    def wait(self, patience: float) -> None:
        """Wait until the server is up.

        Args:
            patience: Seconds.

        Raises:
            ServerError: It is not.
        """
        until = time.monotonic() + patience
        while True:
            try:
                self._ask("GET", "/health", timeout=min(10.0, self._timeout))
                return
            except ServerError as error:
                if time.monotonic() >= until:
                    raise ServerError(
                        f"{error}. After {patience:g} s (vllm_server_timeout) there is no vLLM server that answers at "
                        f"{self.address}: start it (docs/vllm.md has the command), or name another address in "
                        "vllm_server_base_url"
                    ) from None
            time.sleep(min(1.0, patience / 10))

    def is_up(self, patience: float) -> bool:
        """Whether the server answers within some seconds."""
        try:
            self._ask("GET", "/health", timeout=patience)
        except ServerError:
            return False
        return True

    def facts(self) -> ServerFacts:
        """Look at the server.

        Raises:
            ServerError: It does not say what it is; the message has the way out.
        """
        version = str(self.get("/version").get("version", ""))
        if _release(version) < _OLDEST:
            raise ServerError(
                f"{self.address} runs vLLM {version}: training needs {_dotted(_OLDEST)} or later, which counts the "
                "versions of its weights; pip install -U vllm there"
            )
        try:
            config = self.get("/server_info", config_format="json")["vllm_config"]
            self.get("/weight_info")
        except ServerError as error:
            raise ServerError(
                f"{error}. Weights can only be sent to a server that was started with {_DEV} in its environment"
            ) from None
        model, parallel = config["model_config"], config.get("parallel_config") or {}
        transfer = config.get("weight_transfer_config") or {}
        served = self.get("/v1/models")["data"][0]
        return ServerFacts(
            version=version,
            model=str(served["id"]),
            window=int(served.get("max_model_len") or model["max_model_len"]),
            vocabulary=_vocabulary(self, str(served["id"])),
            dtype=str(model["dtype"]).removeprefix("torch."),
            logprobs_mode=str(model["logprobs_mode"]),
            adapters=bool(config.get("lora_config")),
            transfer=str(transfer.get("backend") or ""),
            workers=int(parallel.get("world_size") or 1) * int(parallel.get("data_parallel_size") or 1),
        )

    def weight_version(self) -> str:
        """What the weights were called when they were sent; a server that was started anew says "default"."""
        return str(self.get("/weight_info")["weight_version"])

    def set_weight_version(self, version: str) -> None:
        """Call the weights that the server holds now."""
        self.post("/update_weight_version", {"new_version": version})

    def forget_prompts(self) -> None:
        """Empty the prefix cache, which holds what the former weights computed.

        Raises:
            ServerError: It is in use and stays.
        """
        answer = self.post("/reset_prefix_cache", reset_running_requests="true")
        if isinstance(answer, dict) and answer.get("success") is False:
            raise ServerError(f"{self.address} keeps its prefix cache, which belongs to the former weights: {answer}")

    def close(self) -> None:
        """Close the connections."""
        if client := self._client.take():
            client.close()

    def _ask(self, method: str, path: str, **arguments: Any) -> Any:
        try:
            try:
                response = self._http().request(method, f"{self.url}{path}", **arguments)
            except (httpx.RemoteProtocolError, httpx.ReadError):
                if method != "GET":
                    raise
                # A connection from before the server was started anew; a question may be asked twice.
                response = self._http().request(method, f"{self.url}{path}", **arguments)
        except httpx.HTTPError as error:
            said = self.hide(f"{type(error).__name__}: {error}")
            raise ServerError(f"{self.address}{path}: {said}".rstrip(": ")) from None
        if not response.is_success:
            raise ServerError(f"{self.address}{path}: HTTP {response.status_code}: {self.hide(excerpt(response))}")
        try:
            return response.json()
        except ValueError:  # some say nothing but 200
            return None

    def _http(self) -> httpx.Client:
        return self._client.get(
            lambda: httpx.Client(
                timeout=self._timeout, headers=request_headers(), trust_env=trusts_environment(self.url)
            )
        )


def request_headers() -> dict[str, str]:
    """Headers of every request: the key of the environment, if there is one."""
    key = os.environ.get(KEY, "").strip()
    return {"authorization": f"Bearer {key}"} if key else {}


def unfit(facts: ServerFacts, needs: ServerNeeds) -> str:
    """Say why a server cannot sample for a run, and the way out; empty where it can."""
    if facts.window < needs.window:
        return (
            f"it takes {facts.window} tokens, and a prompt with its reply may have {needs.window}: start it with "
            f"--max-model-len {needs.window}, or lower max_prompt_length or max_completion_length"
        )
    if facts.vocabulary and facts.vocabulary > needs.vocabulary:
        return (
            f"its model has a vocabulary of {facts.vocabulary}, the policy of {needs.vocabulary}: serve the model that "
            "is trained"
        )
    if facts.vocabulary and facts.vocabulary < needs.vocabulary:
        return (
            f"its model has a vocabulary of {facts.vocabulary}, the policy of {needs.vocabulary}: serve the model that "
            "is trained, in a folder with the resized embedding if tokens were added"
        )
    if facts.logprobs_mode != "processed_logprobs":
        return (
            f"it gives {facts.logprobs_mode}, which are not those of the distribution that is sampled from: start it "
            "with --logprobs-mode processed_logprobs"
        )
    return ""


def at_all(servers: Sequence[VLLMServer], act: Callable[[VLLMServer], T]) -> list[T]:
    """Do something at all servers at once; what it returns for each, in order.

    Args:
        servers: Where.
        act: Called with each.

    Raises:
        ServerError: What the first of them raised, once all are done.
    """
    if not servers:
        return []
    with ThreadPoolExecutor(len(servers), thread_name_prefix="agent-r1-vllm") as pool:
        asked = [pool.submit(act, server) for server in servers]
    return [each.result() for each in asked]


def _release(version: str) -> tuple[int, ...]:
    numbers = version.split("+")[0].split(".")[:2]
    return tuple(int(number) if number.isdigit() else 0 for number in numbers)


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def _vocabulary(server: VLLMServer, model: str) -> int:
    """Size of the vocabulary, which only a refusal says: that of a bias on a token that no model has."""
    body = {"model": model, "prompt": [0], "max_tokens": 1, "logit_bias": {str(2**31 - 1): 0.0}}
    try:
        server.post("/v1/completions", body)
    except ServerError as error:
        said = re.search(r"[Vv]ocabulary size: (\d+)", str(error))
        return int(said[1]) if said else 0
    return 0
