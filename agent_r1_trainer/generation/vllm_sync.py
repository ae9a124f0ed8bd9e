"""Sending the policy's weights to vLLM servers, once a rollout, in one of three ways.

`nccl`: from GPU to GPU by vLLM's own weight transfer, one broadcast for all servers. `adapter`: a LoRA adapter in a
folder that the servers read. `disk`: the whole model in such a folder, which works everywhere.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn

from agent_r1_trainer._compat import base_causal_lm, is_peft_model
from agent_r1_trainer.generation.sent_folder import SentFolder
from agent_r1_trainer.generation.vllm_control import ServerError, ServerFacts, VLLMServer, at_all
from agent_r1_trainer.generation.vllm_requests import BadAnswerError, token_logprobs
from agent_r1_trainer.generation.weights import adapted_ends, merged_weights, untied
from agent_r1_trainer.generation.witness import Witness

__all__ = ["AdapterSync", "DiskSync", "NcclSync", "SyncMode", "WeightSync", "choose_sync", "send_weights"]

SyncMode = Literal["auto", "nccl", "adapter", "disk"]

_RESUMING = 10.0
"""Seconds that a server may take to go on after a failure."""
_LEAVING = 30.0
"""Seconds that a thread which broadcasts may take to get out of a layer that it is merging."""
_REASON = 5.0
"""Seconds that servers may take to say why a broadcast failed."""
_PLAIN = frozenset(
    "peft_type task_type base_model_name_or_path revision inference_mode auto_mapping peft_version r lora_alpha "
    "use_rslora lora_dropout fan_in_fan_out init_lora_weights ensure_weight_tying target_modules exclude_modules "
    "layers_to_transform layers_pattern runtime_config".split()
)
"""Fields of a LoraConfig that vLLM reads, or need not read. What others do to an adapter it would leave out."""
_BESIDE_THE_BASE = (True, False, "gaussian", "orthogonal")
"""Ways to initialise an adapter that leave the weights below it as they are, which servers have from elsewhere."""


class WeightSync(Protocol):
    """A way to send weights."""

    def send(self, policy: nn.Module, servers: Sequence[VLLMServer], version: str) -> str:
        """Make all servers hold the policy's weights.

        Args:
            policy: Not wrapped by DDP or the like.
            servers: Where; none of them is answering.
            version: A name for these weights.

        Returns:
            What the servers call the policy from now on; empty for their own name.

        Raises:
            ServerError: A server does not take them.
        """
        ...

    def close(self) -> None:
        """Free connections and folders."""
        ...


def choose_sync(
    mode: SyncMode,
    policy: nn.Module,
    facts: Sequence[ServerFacts],
    *,
    folder: Path,
    port: int,
    device: torch.device,
) -> WeightSync:
    """The way that the settings ask for, or the quickest that policy and servers know.

    Args:
        mode: The setting.
        policy: Whose weights.
        facts: Of all servers.
        folder: That trainer and servers see under the same path.
        port: Where the trainer waits for the servers, for `nccl`.
        device: Of the trainer.

    Raises:
        ValueError: The way cannot be gone, and what to do.
    """
    obstacle = _adapter_obstacle(policy)
    if mode == "auto":
        if obstacle is None and all(fact.adapters for fact in facts):
            mode = "adapter"
        elif device.type == "cuda" and all(fact.transfer == "nccl" for fact in facts):
            mode = "nccl"
        else:
            mode = "disk"
    if mode != "adapter" and (problem := untied(policy)):
        raise ValueError(f"the weights of this policy cannot be sent: {problem}")
    dtypes = {fact.dtype for fact in facts}
    dtype = getattr(torch, dtypes.pop()) if len(dtypes) == 1 else None
    if mode == "disk":
        return DiskSync(folder, dtype)
    if mode == "adapter":
        if obstacle is not None:
            raise ValueError(f"vllm_sync_mode='adapter' cannot send this policy: {obstacle}. Set 'disk' or 'nccl'")
        if not all(fact.adapters for fact in facts):
            raise ValueError(
                "vllm_sync_mode='adapter' needs servers that take adapters: start them with --enable-lora and "
                "--max-lora-rank, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in their environment"
            )
        return AdapterSync(folder)
    if device.type != "cuda":
        raise ValueError(f"vllm_sync_mode='nccl' sends weights between GPUs, and this is {device}: set 'disk'")
    if not all(fact.transfer == "nccl" for fact in facts):
        raise ValueError(
            "vllm_sync_mode='nccl' needs servers that were started with --weight-transfer-config "
            '\'{"backend": "nccl"}\''
        )
    return NcclSync(port, device, dtype)


def send_weights(
    sync: WeightSync,
    policy: nn.Module,
    servers: Sequence[VLLMServer],
    facts: Sequence[ServerFacts],
    version: str,
    witness: Witness,
) -> str:
    """Send weights, make sure that they arrived and let the servers go on.

    What a server still computes for somebody who gave up waiting is aborted first.

    Args:
        sync: The way.
        policy: Not wrapped by DDP or the like.
        servers: Where.
        facts: Of the servers.
        version: A name for these weights.
        witness: Of the policy.

    Returns:
        What the servers call the policy from now on.

    Raises:
        ServerError: A server does not take the weights or holds others afterwards, with its words. Those that were
            paused for the weights go on, or the message says how to make them.
    """
    try:
        at_all(servers, lambda server: server.post("/pause", mode="abort"))
        name = sync.send(policy, servers, version) or facts[0].model
    except BaseException as error:
        resumed = at_all(servers, _resume)
        paused = [server.address for server, done in zip(servers, resumed, strict=True) if not done]
        if paused and isinstance(error, ServerError):
            raise ServerError(
                f"{error}. Paused since then, and not to be resumed from here: {', '.join(paused)}. Post to /resume "
                "there, or start it anew"
            ) from error
        raise
    at_all(servers, lambda server: server.post("/resume"))
    at_all(servers, VLLMServer.forget_prompts)
    exact = {id(server): fact.dtype == "float32" for server, fact in zip(servers, facts, strict=True)}
    at_all(servers, lambda server: _verify(server, name, witness, exact=exact[id(server)]))
    at_all(servers, lambda server: server.set_weight_version(version))
    return name


class DiskSync:
    """Saves the policy, adapters merged, and has the servers load it.

    Args:
        folder: That trainer and servers see under the same path.
        dtype: What is saved; None saves what the policy has.
    """

    def __init__(self, folder: Path, dtype: torch.dtype | None) -> None:
        self._folder, self._dtype = SentFolder(folder), dtype

    def send(self, policy: nn.Module, servers: Sequence[VLLMServer], version: str) -> str:
        """Send weights; see `WeightSync.send`."""
        path = self._folder.version(version)
        weights = {
            name: tensor.to("cpu", copy=True).contiguous() for name, tensor in merged_weights(policy, self._dtype)
        }
        base_causal_lm(policy).save_pretrained(path, state_dict=weights)
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(path)}}
        try:
            at_all(servers, lambda server: server.post("/collective_rpc", body))
        except ServerError as error:
            raise ServerError(
                f"{error}. The server loads {path}: with vllm_sync_mode='disk' it must see vllm_sync_dir "
                "under the same path as the trainer"
            ) from None
        self._folder.keep_only(path)
        return ""

    def close(self) -> None:
        """Delete what was sent."""
        self._folder.close()


class AdapterSync:
    """Saves the LoRA adapter, and has the servers load it under a name of its own, so that no cache mixes versions.

    Args:
        folder: That trainer and servers see under the same path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = SentFolder(folder)
        self._loaded: str | None = None

    def send(self, policy: nn.Module, servers: Sequence[VLLMServer], version: str) -> str:
        """Send weights; see `WeightSync.send`."""
        path, (adapter,) = self._folder.version(version), policy.peft_config  # type: ignore[misc]
        policy.save_pretrained(path)  # type: ignore[operator]
        lies_in = path if adapter == "default" else path / adapter  # as PEFT has it
        old = self._loaded
        if old is not None:  # a server that was started anew does not know it
            at_all(servers, lambda server: _quietly(server, "/v1/unload_lora_adapter", {"lora_name": old}))
        body = {"lora_name": version, "lora_path": str(lies_in)}
        try:
            at_all(servers, lambda server: server.post("/v1/load_lora_adapter", body))
        except ServerError as error:
            raise ServerError(
                f"{error}. The server loads the adapter in {path}: it must see vllm_sync_dir under the same path "
                "as the trainer, and be started with --enable-lora, a --max-lora-rank that is large enough and "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment"
            ) from None
        self._loaded = version
        self._folder.keep_only(path)
        return version

    def close(self) -> None:
        """Delete what was sent."""
        self._folder.close()


class NcclSync:
    """Broadcasts the weights, adapters merged, from this process to the workers of all servers at once.

    The protocol is that of vLLM's weight transfer (docs.vllm.ai, training/weight_transfer): the trainer is rank 0 of a
    group of its own with all workers; a server hears over HTTP what comes, and then receives it.

    Args:
        port: Where this process waits for the workers when the group is made.
        device: A CUDA device.
        dtype: What is sent; None sends what the policy has.
        join: Joins the group as rank 0; given its description.
        broadcast: Sends named tensors to the group.
        host: This machine's address as the servers see it; None looks it up.
        leaving: Seconds that a broadcast which failed may take to leave the policy as it was.
    """

    def __init__(
        self,
        port: int,
        device: torch.device,
        dtype: torch.dtype | None,
        *,
        join: Callable[[dict[str, Any]], Any] | None = None,
        broadcast: Callable[[Iterator[tuple[str, Tensor]], Any], None] | None = None,
        host: str | None = None,
        leaving: float = _LEAVING,
    ) -> None:
        self._port, self._device, self._dtype, self._host = port, device, dtype, host
        self._leaving = leaving
        self._join = _join_group if join is None else join
        self._broadcast = _broadcast if broadcast is None else broadcast
        self._group: Any = None
        self._members: dict[str, str] = {}
        """Weight version that each server of the group had when it was last sent weights, by address."""

    def send(self, policy: nn.Module, servers: Sequence[VLLMServer], version: str) -> str:
        """Send weights; see `WeightSync.send`."""
        held = dict(zip((s.url for s in servers), at_all(servers, VLLMServer.weight_version), strict=True))
        if self._group is None or held != self._members:  # one of them was started anew: its workers left the group
            self._open(servers)
        described = [
            (name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape))
            for name, tensor in merged_weights(policy, self._dtype, as_saved=True)
        ]
        names, dtypes, shapes = (list(column) for column in zip(*described, strict=True))
        info = {"update_info": {"names": names, "dtype_names": dtypes, "shapes": shapes}}
        weights = merged_weights(policy, self._dtype, as_saved=True)
        try:
            at_all(servers, lambda server: server.post("/start_weight_update"))
            self._meanwhile(
                servers,
                lambda server: server.post("/update_weights", info),
                lambda: self._broadcast(weights, self._group),
            )
            at_all(servers, lambda server: server.post("/finish_weight_update"))
        except BaseException as error:
            self.close()
            if not _leave_off(weights, self._leaving):
                raise ServerError(
                    f"{error}. The broadcast hangs in the midst of a layer into which its adapter is being merged, so "
                    "this process no longer has the policy's weights: end it, and go on from the last checkpoint"
                ) from error
            raise
        self._members = dict.fromkeys(held, version)
        return ""

    def close(self) -> None:
        """Leave the group; a broadcast that others do not take part in ends."""
        group, self._group, self._members = self._group, None, {}
        if hasattr(group, "destroy"):
            group.destroy()
        if hasattr(group, "group"):  # holds a socket that the workers would go on waiting for
            group.group.store = group.group.socket = None

    def _open(self, servers: Sequence[VLLMServer]) -> None:
        self.close()
        sizes = [int(server.get("/get_world_size")["world_size"]) for server in servers]
        offsets = [1 + sum(sizes[:index]) for index in range(len(sizes))]
        common = {
            "master_address": _own_address(servers[0].url) if self._host is None else self._host,
            "master_port": self._port,
            "world_size": 1 + sum(sizes),
            "packed": True,
        }
        ranks = {id(server): offset for server, offset in zip(servers, offsets, strict=True)}
        self._group = self._meanwhile(
            servers,
            lambda server: server.post(
                "/init_weight_transfer_engine", {"init_info": {**common, "rank_offset": ranks[id(server)]}}
            ),
            lambda: self._join(common),
        )

    def _meanwhile(
        self, servers: Sequence[VLLMServer], ask: Callable[[VLLMServer], Any], act: Callable[[], Any]
    ) -> Any:
        """Do something while all servers, which wait for it, hold their answers back; what it returned.

        The first failure of any of them ends it: the others, and this process too, would wait for those that are
        missing for ever. What waits is left behind in threads that hold nobody up.
        """

        def on_device() -> Any:
            if self._device.type == "cuda":
                torch.cuda.set_device(self._device)
            return act()

        acting = _begin(on_device)
        asked = [_begin(partial(ask, server)) for server in servers]
        wait([acting, *asked], return_when=FIRST_EXCEPTION)
        if acting.done() and acting.exception() is not None:
            wait(asked, timeout=_REASON, return_when=FIRST_EXCEPTION)
        for each in asked:
            if each.done():
                each.result()
        return acting.result()


def _begin(act: Callable[[], Any]) -> Future[Any]:
    """Do something in a thread that the end of the program does not wait for."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="agent-r1-vllm", daemon=True).start()
    return future


def _leave_off(weights: Generator[Any], seconds: float) -> bool:
    """Have merged weights be as they were, though somebody waits in the midst of them; whether it came to that."""
    until = time.monotonic() + seconds
    while True:
        try:
            weights.close()
            return True
        except ValueError:  # a layer is being merged in another thread at this moment
            if time.monotonic() >= until:
                return False
            time.sleep(0.01)


def _adapter_obstacle(policy: nn.Module) -> str | None:
    """Why vLLM could not apply the policy's adapters by themselves, or None."""
    if not is_peft_model(policy):
        return "it has no adapters"
    configs: dict[str, Any] = policy.peft_config  # type: ignore[assignment]
    if len(configs) != 1:
        return "it has several adapters"
    (config,) = configs.values()
    kind = getattr(config.peft_type, "value", config.peft_type)
    if kind != "LORA":
        return f"vLLM takes LoRA adapters, and these are {kind}"
    if config.init_lora_weights not in _BESIDE_THE_BASE:
        return f"init_lora_weights={config.init_lora_weights!r} changes the weights below the adapter, too"
    for field in fields(config):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        value = getattr(config, field.name)
        if field.name not in _PLAIN and value != default and value:
            return f"vLLM takes plain LoRA, and would leave {field.name}={value!r} out"
    if ends := adapted_ends(policy):
        return f"there are adapters on its {' and its '.join(ends)}"
    for name, parameter in policy.named_parameters():
        if parameter.requires_grad and "lora_" not in name and "value_head" not in name:
            return f"{name} is trained too, and lies in no adapter that vLLM takes"
    return None


def _verify(server: VLLMServer, model: str, witness: Witness, *, exact: bool) -> None:
    body = {"model": model, "prompt": witness.ids, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
    try:
        found = token_logprobs(witness.ids, server.post("/v1/completions", body))
    except BadAnswerError as error:
        raise ServerError(f"{server.address}: {error}") from None
    if not witness.fits(found, exact=exact):
        raise ServerError(
            f"{server.address} does not hold the weights that were sent: its log-probabilities of a text of "
            f"{len(witness.ids)} random tokens differ by {witness.difference(found):.3g} in the mean from the "
            "policy's. It has to serve the model that is trained; with adapters, the model that they were made for"
        )


def _quietly(server: VLLMServer, path: str, body: dict[str, Any]) -> None:
    with suppress(ServerError):
        server.post(path, body)


def _resume(server: VLLMServer) -> bool:
    """Whether a server goes on."""
    try:
        server.post("/resume", timeout=_RESUMING)
    except ServerError:
        return False
    return True


def _own_address(url: str) -> str:
    """This machine's address on the way to a server; nothing is sent."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family[0], socket.SOCK_DGRAM) as way:
        way.connect(family[4])
        return str(way.getsockname()[0])


def _join_group(described: dict[str, Any]) -> Any:
    from vllm.distributed.weight_transfer.nccl_common import trainer_init

    return trainer_init(described)


def _broadcast(weights: Iterator[tuple[str, Tensor]], group: Any) -> None:
    from vllm.distributed.weight_transfer.packed_tensor import packed_nccl_broadcast_producer

    packed_nccl_broadcast_producer(iterator=weights, group=group, src=0, post_iter_func=lambda item: item[1])
