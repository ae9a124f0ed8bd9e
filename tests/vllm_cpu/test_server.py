"""The contract, and the two ways of sending weights that a CPU has, against a real `vllm serve`."""

from __future__ import annotations

import pytest
import torch

from agent_r1_trainer.generation.adapters import BlockingGenerator
from agent_r1_trainer.generation.vllm_control import ServerNeeds, VLLMServer, unfit
from agent_r1_trainer.generation.vllm_server import VLLMServers
from agent_r1_trainer.generation.vllm_sync import AdapterSync, DiskSync
from tests.generation.test_vllm_sync import gap, policy, send
from tests.helpers.generation_contract import GeneratorContract, contract_model, contract_tokenizer


@pytest.fixture(scope="module")
def generator(server, folder):
    client = VLLMServers([VLLMServer(server)], tokenizer=contract_tokenizer())
    client.hold(None, str(folder))
    with BlockingGenerator(client) as blocking:
        yield blocking


class TestServer(GeneratorContract):
    """Before anything is sent."""


def test_a_server_says_what_it_is(server):
    facts = VLLMServer(server).facts()
    assert facts.version.startswith("0.31") and (facts.window, facts.vocabulary) == (256, 12)
    assert facts.dtype == "float32" and facts.adapters and facts.transfer == "" and facts.workers == 1
    assert unfit(facts, ServerNeeds(256, 12)) == ""


def test_adapters_weights_on_a_disk_and_again(server, folder, tmp_path):
    """Adapters first: they lie on the weights that the server was started with."""
    urls, lora = [VLLMServer(server)], policy(lora=True)
    sync = AdapterSync(tmp_path / "adapters")
    for version in ("a-1", "a-2"):
        with torch.no_grad():
            for name, parameter in lora.named_parameters():
                if "lora_B" in name:
                    parameter.add_(0.05)
        assert send(sync, lora, urls, version) == version
        assert gap(lora, urls, version) < 2e-5
    assert urls[0].weight_version() == "a-2"
    disk = DiskSync(tmp_path / "weights", torch.float32)
    for version, model in (("d-1", policy()), ("d-2", policy(lora=True)), ("d-3", contract_model())):
        assert gap(model, urls, str(folder)) > 0.05
        send(disk, model, urls, version)
        assert gap(model, urls, str(folder)) < 2e-5
