"""The settings of sampling with vLLM, with TRL's names where it has one, and those that it rules out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from agent_r1_envs.services.secrecy import public_address, without_secrets
from agent_r1_trainer.fields import Bounds, Count, NonNegative, NonNegativeInt, Positive, has_default, setting

__all__ = ["VLLMSettings", "base_address", "check_vllm", "server_urls"]

_OWN = "use_vllm=False"
_SERVER, _COLOCATE = (f"use_vllm=True, vllm_mode={mode!r}" for mode in ("server", "colocate"))
_WHERE: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(
        ["generation_batch_rows", "generation_batch_tokens", "generation_cache_tokens"],
        ((_OWN,), "vLLM makes its own batches"),
    ),
    **dict.fromkeys(["vllm_mode", "vllm_retries", "max_logp_difference"], ((_SERVER, _COLOCATE), "")),
    **dict.fromkeys(
        [
            *("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_server_timeout"),
            *("vllm_request_timeout", "vllm_sync_mode", "vllm_sync_dir", "vllm_group_port"),
        ],
        ((_SERVER,), ""),
    ),
    "vllm_gpu_memory_utilization": ((_COLOCATE,), "start the server with --gpu-memory-utilization"),
    "vllm_max_model_length": ((_COLOCATE,), "start the server with --max-model-len"),
    "vllm_enable_sleep_mode": ((_COLOCATE,), "servers stay awake"),
    "vllm_model_impl": ((_COLOCATE,), "start the server with --model-impl"),
    "vllm_tensor_parallel_size": ((), "serve the model with vllm serve --tensor-parallel-size, and vllm_mode='server'"),
}
"""With what a setting has a meaning, and what to do, or what holds, where it has none."""


_Port = Annotated[int, Bounds(at_least=1, at_most=65535)]


@dataclass
class VLLMSettings:
    """Part of `StepPOConfig`."""

    use_vllm: bool = setting(False, "Sample replies with vLLM instead of transformers.")
    vllm_mode: Literal["server", "colocate"] = setting(
        "colocate",
        "Where vLLM runs: 'server' asks servers that `vllm serve` runs, 'colocate' an engine in each process.",
    )
    vllm_server_base_url: list[str] | str | None = setting(
        None,
        "Addresses of the servers, e.g. ['http://node1:8000', 'http://node2:8000'], in one string with commas between "
        "them. None: vllm_server_host and vllm_server_port.",
    )
    vllm_server_host: str = setting("0.0.0.0", "Host of a single server.")
    vllm_server_port: _Port = setting(8000, "Port of a single server.")
    vllm_server_timeout: NonNegative = setting(240.0, "Seconds to wait for a server that is not up.")
    vllm_request_timeout: Positive = setting(600.0, "Seconds that a reply, or the loading of weights, may take.")
    vllm_retries: NonNegativeInt = setting(
        3,
        "How often a reply is asked for again, of another server if there is one, before its episode is masked. A "
        "colocated engine is asked once more at most.",
    )
    vllm_sync_mode: Literal["auto", "nccl", "adapter", "disk"] = setting(
        "auto",
        "How servers get the weights: 'nccl' (vLLM's weight transfer between GPUs), 'adapter' (the LoRA adapter, in a "
        "folder) or 'disk' (the whole model, in a folder). 'auto' takes the first of adapter, nccl and disk that "
        "policy and servers know.",
    )
    vllm_sync_dir: str | None = setting(
        None, "That folder, which servers must see under the same path. None: vllm_weights in output_dir."
    )
    vllm_group_port: _Port = setting(51216, "Port of the main process for 'nccl'.")
    vllm_gpu_memory_utilization: Annotated[float, Bounds(above=0, at_most=1)] = setting(
        0.3, "Share of the GPU's memory that a colocated engine takes."
    )
    vllm_max_model_length: Count | None = setting(
        None, "Context of a colocated engine. None: the longest prompt with the longest reply."
    )
    vllm_tensor_parallel_size: Count = setting(1, "Of a colocated engine: 1, an engine in each process.")
    vllm_enable_sleep_mode: bool | None = setting(
        None, "Whether a colocated engine gives its memory back during updates. None: on GPUs."
    )
    vllm_model_impl: Literal["vllm", "transformers", "auto"] = setting(
        "vllm", "Whose implementation of the model a colocated engine runs."
    )
    max_logp_difference: Positive = setting(
        0.02,
        "Mean distance, in nats, between vLLM's log-probabilities and the trainer's above which each rollout warns.",
    )


def check_vllm(config: Any) -> None:
    """Refuse what makes no sense where vLLM samples, and what only makes sense where it does.

    Args:
        config: A `StepPOConfig`.

    Raises:
        ValueError: The setting's name, why it is refused and what to do instead.
    """
    if config.vllm_server_base_url is not None or (config.use_vllm and config.vllm_mode == "server"):
        _check_addresses(config)
    mode = f"use_vllm=True, vllm_mode={config.vllm_mode!r}" if config.use_vllm else _OWN
    for name, (modes, way_out) in _WHERE.items():
        value = getattr(config, name)
        if mode not in modes and not has_default(config, name):
            raise ValueError(
                f"{name}={without_secrets(value)!r} has no meaning with {mode}: leave it out"
                + (f", or set {' or '.join(modes)}" if modes else "")
                + (f" ({way_out})" if way_out and config.use_vllm else "")
            )
    if not config.use_vllm:
        return
    for name, off in (("top_p", 1.0), ("top_k", 0)):
        if getattr(config, name) != off:
            raise ValueError(
                f"{name}={getattr(config, name)} cannot be trained on with use_vllm: the replies would come from "
                f"another distribution than the one that is scored. Set it to {off}"
            )


def server_urls(config: VLLMSettings) -> list[str]:
    """The base addresses of the servers that the settings name."""
    urls = config.vllm_server_base_url
    if urls is None:
        urls = f"http://{config.vllm_server_host}:{config.vllm_server_port}"
    given = [url for url in urls.split(",") if url.strip()] if isinstance(urls, str) else urls
    return [base_address(url.strip()) for url in given]


def base_address(url: str) -> str:
    """A server's address without the `/v1` that clients of OpenAI's API want."""
    return url.rstrip("/").removesuffix("/v1")


def _check_addresses(config: VLLMSettings) -> None:
    """Refuse addresses that nobody can ask, or that are there twice, before anything is loaded."""
    urls, name = config.vllm_server_base_url, "vllm_server_base_url"
    if urls is None:
        name = "vllm_server_host"
    elif not isinstance(urls, str) and not all(isinstance(url, str) for url in urls):
        raise ValueError(f"{name} must be a list of addresses, got one of {len(urls)} that is none")
    else:
        for other in ("vllm_server_host", "vllm_server_port"):
            if not has_default(config, other):
                raise ValueError(f"{other}={getattr(config, other)!r} has no meaning beside {name}: leave it out")
    found = server_urls(config)
    for place, url in enumerate(found):
        if not _is_address(url):
            shown = public_address(url) if "://" in url else public_address(f"http://{url}").removeprefix("http://")
            raise ValueError(
                f"{name} has the address {shown!r}: expected one like 'http://node1:8000'. A key goes into the "
                "environment, as VLLM_API_KEY"
            )
        if url in found[:place]:
            raise ValueError(f"{name} has {public_address(url)} twice: name every server once, they are asked alike")
    if not found:
        raise ValueError(f"{name} has no address: expected at least one like 'http://node1:8000'")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        known = bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is no number
        return False
    return known and parts.scheme in ("http", "https") and not (parts.query or parts.fragment or "//" in parts.path)
