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


def test_more_prompts_than_are_read_at_once(generator):
    batch = [(prompt * WINDOW)[: WINDOW - 4] for prompt in prompts(60)]
    model = contract_model().eval()
    for prompt, reply in zip(batch, generator.generate(batch, SamplingParams(4, (1,)), range(60)), strict=True):
        found = torch.tensor(reply.logprobs)
        torch.testing.assert_close(found, own_logprobs(model, prompt, reply.ids), atol=2e-5, rtol=0)


def spoil(engine, monkeypatch, times):
    """Have the engine give NaN for the first log-probability of the second reply, some times."""
    generate, left = engine._llm.generate, [times]

    def spoiled(asked, *args, **kwargs):
        answers = generate(asked, *args, **kwargs)
        if left[0]:
            left[0] -= 1
            output = answers[min(1, len(answers) - 1)].outputs[0]
            output.logprobs[0][output.token_ids[0]].logprob = float("nan")
        return answers

    monkeypatch.setattr(engine._llm, "generate", spoiled)


def test_a_log_probability_that_is_no_number_is_asked_for_once_more_and_then_costs_its_episode(generator, monkeypatch):
    batch, sampling = prompts(4), SamplingParams(8, (1,))
    expected = generator.generate(batch, sampling, range(4))
    generator.counts.clear()
    spoil(generator, monkeypatch, 1)
    assert [r.ids for r in generator.generate(batch, sampling, range(4))] == [r.ids for r in expected]
    assert generator.counts == {"asked": 4, "retried": 1, "failed": 0}
    spoil(generator, monkeypatch, 2)
    replies = generator.generate(batch, sampling, range(4))
    assert [bool(reply.error) for reply in replies] == [False, True, False, False]
    assert "a log-probability is nan" in replies[1].error and generator.counts["failed"] == 1


def test_weights_that_are_no_numbers_give_no_reply_at_all(generator):
    broken = ((name, torch.full_like(tensor, float("nan"))) for name, tensor in merged_weights(contract_model()))
    generator.wake(broken)
    generator.counts.clear()
    assert all(reply.error for reply in generator.generate(prompts(3), SamplingParams(4, (1,)), range(3)))
    assert generator.counts == {"asked": 3, "failed": 3}  # the same weights would say the same


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
