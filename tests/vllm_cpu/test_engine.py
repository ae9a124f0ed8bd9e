"""The contract with the engine in this process, new weights for it, and a run that samples with it."""

from __future__ import annotations

import pytest
import torch

from agent_r1_trainer.generation import SamplingParams
from agent_r1_trainer.generation.vllm_engine import VLLMEngine, start_engine
from agent_r1_trainer.generation.weights import merged_weights
from tests.generation.test_vllm_sync import policy
from tests.helpers.generation_contract import (
    GeneratorContract,
    contract_model,
    contract_tokenizer,
    own_logprobs,
    prompts,
)


@pytest.fixture(scope="module")
def llm(folder):
    return start_engine(folder, dtype="float32", enforce_eager=True, max_model_len=256)


@pytest.fixture
def generator(llm):
    engine = VLLMEngine(llm, contract_tokenizer())
    engine.wake(merged_weights(contract_model()))
    return engine


class TestEngine(GeneratorContract):
    pass


@pytest.mark.parametrize("lora", [False, True])
def test_new_weights_are_what_is_sampled_from(generator, lora):
    batch, model = prompts(6), policy(lora=lora)
    for expected, weights in ((contract_model(), None), (model, merged_weights(model))):
        if weights is not None:
            generator.wake(weights)
        expected.eval()
        for prompt, reply in zip(batch, generator.generate(batch, SamplingParams(8, (1,)), range(6)), strict=True):
            found = torch.tensor(reply.logprobs)
            torch.testing.assert_close(found, own_logprobs(expected, prompt, reply.ids), atol=2e-5, rtol=0)
