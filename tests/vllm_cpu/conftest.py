"""These tests need vLLM's build for CPUs and belong to `make test-vllm`: elsewhere they are not collected."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

collect_ignore_glob = [] if find_spec("vllm") else ["test_*.py"]

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "agent_r1_plain_linear",
}
os.environ.update(SETTINGS)
STARTING = 1200.0  # seconds, on a machine that is busy with other things


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A folder with the model that servers and engines begin with."""
    from tests.helpers.generation_contract import contract_model, contract_tokenizer

    path = tmp_path_factory.mktemp("vllm") / "model"
    contract_model().save_pretrained(path)
    contract_tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def server(folder: Path, tmp_path_factory) -> Iterator[str]:
    """The address of a `vllm serve` on the CPU, as docs/vllm.md starts one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = os.environ | {
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [
        str(Path(sys.executable).with_name("vllm")), "serve", str(folder), "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "float32", "--max-model-len", "256", "--logprobs-mode", "processed_logprobs", "--enforce-eager",
        "--enable-lora", "--max-lora-rank", "16",
    ]  # fmt: skip
    log = tmp_path_factory.mktemp("server") / "log"
    with open(log, "wb") as output:
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, log)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _wait(url: str, process: subprocess.Popen[Any], log: Path) -> None:
    until = time.monotonic() + STARTING
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    pytest.fail(f"vllm serve did not start:\n{log.read_text(errors='replace')[-4000:]}")
