"""The contract, and the two ways of sending weights that a CPU has, against a real `vllm serve`."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig

from agent_r1_trainer.generation.adapters import BlockingGenerator
from agent_r1_trainer.generation.vllm_control import ServerNeeds, VLLMServer, unfit
from agent_r1_trainer.generation.vllm_server import VLLMServers
from agent_r1_trainer.generation.vllm_sync import AdapterSync, DiskSync
from tests.generation.test_vllm_sync import gap, policy, send
from tests.helpers.generation_contract import GeneratorContract, contract_model, contract_tokenizer
from tests.helpers.training import make_trainer


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


@pytest.mark.parametrize("way", ["disk", "adapter"])
def test_a_run_samples_from_the_weights_that_it_trains(server, way, tmp_path):
    """The server holds what it began with again: the test above ends so."""
    lora = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM")
    trainer = make_trainer(
        tmp_path, model=contract_model(), peft_config=lora if way == "adapter" else None, use_vllm=True,
        vllm_mode="server", vllm_server_base_url=server, vllm_sync_mode=way, max_steps=12, learning_rate=1e-3,
        critic_learning_rate=1e-2,
    )  # fmt: skip
    if way == "adapter":  # what the test before left
        send(DiskSync(tmp_path / "weights", torch.float32), contract_model(), [VLLMServer(server)])
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "sampling/logp_difference/max" in entry]
    assert len(logs) == 3 and max(entry["sampling/logp_difference/max"] for entry in logs) < 5e-5
    assert all(entry["log_ratio/max"] > 1e-3 for entry in logs)  # there was something to send
    assert not any(entry["vllm/failed"] for entry in logs)
