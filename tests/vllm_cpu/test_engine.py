"""The contract with the engine in this process, new weights for it, and a run that samples with it.

A process can start an engine only once, so one trainer's serves all tests.
"""

from __future__ import annotations

import pytest
import torch

from agent_r1_trainer.generation import SamplingParams
from agent_r1_trainer.generation.weights import merged_weights
from tests.generation.test_vllm_sync import policy
from tests.helpers.generation_contract import (
    WINDOW,
    GeneratorContract,
    contract_model,
    own_logprobs,
    prompts,
)
from tests.helpers.training import make_trainer


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    return make_trainer(
        tmp_path_factory.mktemp("run"), model=contract_model(), use_vllm=True, vllm_mode="colocate",
        vllm_max_model_length=WINDOW, max_steps=12, learning_rate=1e-3,
    )  # fmt: skip


@pytest.fixture
def generator(trainer):
    engine = trainer._backend._engine
    engine.wake(merged_weights(contract_model()))
    return engine


class TestEngine(GeneratorContract):
    """Of the weights that the trainer began with."""


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


def test_a_run_samples_from_the_weights_that_it_trains(trainer):
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "sampling/logp_difference/max" in entry]
    assert len(logs) == 3 and max(entry["sampling/logp_difference/max"] for entry in logs) < 5e-5
    assert all(entry["importance/mean"] == pytest.approx(1.0, abs=1e-4) for entry in logs)
    assert all(entry["log_ratio/max"] > 1e-3 for entry in logs)  # there was something to send


def test_sleep_needs_a_gpu_and_is_refused_with_the_reason(tmp_path):
    with pytest.raises(ValueError, match="vllm_enable_sleep_mode=True needs a GPU"):
        make_trainer(tmp_path, use_vllm=True, vllm_enable_sleep_mode=True)
    with pytest.raises(ValueError, match="vllm_max_model_length=20 is too short"):
        make_trainer(tmp_path, use_vllm=True, vllm_max_model_length=20)
