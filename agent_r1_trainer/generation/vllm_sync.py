"""Sending the policy's weights to vLLM servers, once a rollout, in one of three ways.

`nccl`: from GPU to GPU by vLLM's own weight transfer, one broadcast for all servers. `adapter`: a LoRA adapter in a
folder that the servers read. `disk`: the whole model in such a folder, which works everywhere.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn

from agent_r1_trainer._compat import base_causal_lm, is_peft_model
from agent_r1_trainer.generation.vllm_control import ServerError, ServerFacts, VLLMServer, at_all
from agent_r1_trainer.generation.vllm_requests import BadAnswerError, token_logprobs
from agent_r1_trainer.generation.weights import merged_weights
from agent_r1_trainer.generation.witness import Witness

__all__ = ["AdapterSync", "DiskSync", "NcclSync", "SyncMode", "WeightSync", "choose_sync", "send_weights"]

SyncMode = Literal["auto", "nccl", "adapter", "disk"]


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
        ServerError: A server does not take the weights or holds others afterwards, with its words.
    """
    at_all(servers, lambda server: server.post("/pause", mode="abort"))
    name = sync.send(policy, servers, version) or facts[0].model
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
        self._folder, self._dtype = folder.absolute(), dtype

    def send(self, policy: nn.Module, servers: Sequence[VLLMServer], version: str) -> str:
        """Send weights; see `WeightSync.send`."""
        path = self._folder / version
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
        _keep_only(path)
        return ""

    def close(self) -> None:
        """Delete what was sent."""
        shutil.rmtree(self._folder, ignore_errors=True)


class AdapterSync:
    """Saves the LoRA adapter, and has the servers load it under a name of its own, so that no cache mixes versions.

    Args:
        folder: That trainer and servers see under the same path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._loaded: str | None = None

    def send(self, policy: nn.Module, servers: Sequence[VLLMServer], version: str) -> str:
        """Send weights; see `WeightSync.send`."""
        path = self._folder / version
        policy.save_pretrained(path)  # type: ignore[operator]
        old = self._loaded
        if old is not None:  # a server that was started anew does not know it
            at_all(servers, lambda server: _quietly(server, "/v1/unload_lora_adapter", {"lora_name": old}))
        body = {"lora_name": version, "lora_path": str(path)}
        try:
            at_all(servers, lambda server: server.post("/v1/load_lora_adapter", body))
        except ServerError as error:
            raise ServerError(
                f"{error}. The server loads the adapter in {path}: it must see vllm_sync_dir under the same path "
                "as the trainer, and be started with --enable-lora, a --max-lora-rank that is large enough and "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment"
            ) from None
        self._loaded = version
        _keep_only(path)
        return version

    def close(self) -> None:
        """Delete what was sent."""
        shutil.rmtree(self._folder, ignore_errors=True)


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
    ) -> None:
        self._port, self._device, self._dtype, self._host = port, device, dtype, host
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
            for name, tensor in merged_weights(policy, self._dtype)
        ]
        names, dtypes, shapes = (list(column) for column in zip(*described, strict=True))
        info = {"update_info": {"names": names, "dtype_names": dtypes, "shapes": shapes}}
        at_all(servers, lambda server: server.post("/start_weight_update"))
        try:
            self._meanwhile(
                servers,
                lambda server: server.post("/update_weights", info),
                lambda: self._broadcast(merged_weights(policy, self._dtype), self._group),
            )
            at_all(servers, lambda server: server.post("/finish_weight_update"))
        except BaseException:
            self.close()
            raise
        self._members = dict.fromkeys(held, version)
        return ""

    def close(self) -> None:
        """Leave the group."""
        group, self._group, self._members = self._group, None, {}
        if group is not None and hasattr(group, "group"):  # holds a socket that the workers would go on waiting for
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
        """Do something while all servers, which wait for it, hold their answers back; what it returned."""
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(at_all, servers, ask)
            if self._device.type == "cuda":
                torch.cuda.set_device(self._device)
            try:
                result = act()
            except Exception as error:
                if asked.done() and asked.exception() is not None:
                    raise asked.exception() from error  # type: ignore[misc]  # the server's words are the reason
                raise
            asked.result()
        return result


def _adapter_obstacle(policy: nn.Module) -> str | None:
    """Why vLLM could not apply the policy's adapters by themselves, or None."""
    if not is_peft_model(policy):
        return "it has no adapters"
    configs: dict[str, Any] = policy.peft_config  # type: ignore[assignment]
    for config in configs.values():
        kind = getattr(config.peft_type, "value", config.peft_type)
        if kind != "LORA":
            return f"vLLM takes LoRA adapters, and these are {kind}"
        if getattr(config, "use_dora", False):
            return "vLLM takes no DoRA"
        if getattr(config, "modules_to_save", None):
            return f"vLLM leaves modules_to_save={list(config.modules_to_save)} out"
        if getattr(config, "bias", "none") != "none":
            return f"vLLM leaves bias={config.bias!r} out"
        for name in ("rank_pattern", "alpha_pattern"):
            if getattr(config, name, None):
                return f"vLLM scales all layers alike and leaves {name}={getattr(config, name)} out"
    for name, parameter in policy.named_parameters():
        if parameter.requires_grad and "lora_" not in name and "value_head" not in name:
            return f"{name} is trained too, and lies in no adapter that vLLM takes"
    return None if len(configs) == 1 else "it has several adapters"


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
    try:
        server.post(path, body)
    except ServerError:
        return


def _keep_only(path: Path) -> None:
    """Delete what was sent before."""
    for other in path.parent.iterdir():
        if other != path:
            shutil.rmtree(other, ignore_errors=True)


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
