"""The contract of all back ends: transformers here, and vLLM's client against a server that speaks its JSON.

`make test-vllm` runs it against vLLM itself, served and in this process.
"""

from __future__ import annotations

import pytest

from agent_r1_trainer.generation import TransformersGenerator
from agent_r1_trainer.generation.adapters import BlockingGenerator
from agent_r1_trainer.generation.vllm_control import VLLMServer
from agent_r1_trainer.generation.vllm_server import VLLMServers
from tests.helpers.fake_vllm import FakeVLLM, serving
from tests.helpers.generation_contract import GeneratorContract, contract_model, contract_tokenizer


@pytest.fixture(scope="module")
def served():
    fakes = [FakeVLLM(contract_model, contract_tokenizer()) for _ in range(2)]
    with serving(*fakes):
        client = VLLMServers([VLLMServer(fake.url) for fake in fakes], tokenizer=contract_tokenizer(), timeout=60.0)
        client.hold(None, "served")
        with BlockingGenerator(client) as generator:
            yield generator
    assert all(fake.answered for fake in fakes)


class TestTransformers(GeneratorContract):
    @pytest.fixture
    def generator(self, model, tokenizer):
        return TransformersGenerator(model, pad_token_id=0, tokenizer=tokenizer)


class TestServers(GeneratorContract):
    @pytest.fixture
    def generator(self, served):
        return served
