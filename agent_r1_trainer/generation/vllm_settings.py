"""The settings of sampling with vLLM, with TRL's names where it has one, and those that it rules out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from agent_r1_trainer.fields import Bounds, Count, NonNegative, NonNegativeInt, Positive, setting

__all__ = ["VLLMSettings", "check_vllm", "server_urls"]

_OWN = {
    "generation_batch_rows": (512,),
    "generation_batch_tokens": (None, 262_144, "auto"),
    "generation_cache_tokens": (None, 131_072, "auto"),
}
"""Settings of the trainer's own sampler, and their defaults on a CPU and on a GPU."""


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
    vllm_server_port: Count = setting(8000, "Port of a single server.")
    vllm_server_timeout: NonNegative = setting(240.0, "Seconds to wait for a server that is not up.")
    vllm_request_timeout: Positive = setting(600.0, "Seconds that a reply, or the loading of weights, may take.")
    vllm_retries: NonNegativeInt = setting(
        3, "How often a reply is asked for again, of another server if there is one, before its episode is masked."
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
    vllm_group_port: Count = setting(51216, "Port of the main process for 'nccl'.")
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
    """Refuse what makes no sense where vLLM samples.

    Args:
        config: A `StepPOConfig`.

    Raises:
        ValueError: The setting's name, why it is refused and what to do instead.
    """
    urls = config.vllm_server_base_url
    if isinstance(urls, (list, tuple)) and not all(isinstance(url, str) and url for url in urls):
        raise ValueError(f"vllm_server_base_url must be a list of addresses, got one of {len(urls)} that is none")
    if not config.use_vllm:
        return
    for name, off in (("top_p", 1.0), ("top_k", 0)):
        if getattr(config, name) != off:
            raise ValueError(
                f"{name}={getattr(config, name)} cannot be trained on with use_vllm: the replies would come from "
                f"another distribution than the one that is scored. Set it to {off}"
            )
    for name, defaults in _OWN.items():
        if getattr(config, name) not in defaults:
            raise ValueError(
                f"{name}={getattr(config, name)!r} has no meaning with use_vllm, which makes its own batches: leave it "
                "out"
            )
    if config.vllm_mode == "colocate":
        if urls is not None:
            raise ValueError("vllm_server_base_url needs vllm_mode='server', got 'colocate'")
        if config.vllm_tensor_parallel_size != 1:
            raise ValueError(
                f"vllm_tensor_parallel_size={config.vllm_tensor_parallel_size} is not supported with "
                "vllm_mode='colocate', which runs an engine in each process: serve the model "
                "(vllm_mode='server', vllm serve --tensor-parallel-size)"
            )
    elif config.vllm_max_model_length is not None:
        raise ValueError(
            f"vllm_max_model_length={config.vllm_max_model_length} is for vllm_mode='colocate': start the server with "
            "--max-model-len"
        )


def server_urls(config: VLLMSettings) -> list[str]:
    """The addresses of the servers that the settings name."""
    urls = config.vllm_server_base_url
    if urls is None:
        return [f"http://{config.vllm_server_host}:{config.vllm_server_port}"]
    return [url.strip() for url in (urls.split(",") if isinstance(urls, str) else urls) if url.strip()]
