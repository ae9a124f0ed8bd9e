"""What every back end must do alike. Subclasses have the fixture `generator`, of the model that `contract_model` makes.

The references are a plain forward pass of transformers and its `generate`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from agent_r1_trainer.flows import AgentEnvLoop, Assignment
from agent_r1_trainer.generation import Generator, SamplingParams, TransformersGenerator
from tests.helpers.training import TEMPLATE, WORDS, CueEnv, make_model, make_tokenizer

STOP = (1,)
WINDOW = 256


def contract_model() -> Any:
    """A model of which each word says something else, with heads as wide as vLLM's attention on a CPU takes them."""
    model = make_model(width=128)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def contract_tokenizer() -> Any:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{% if loud %}again again {% endif %}" + TEMPLATE
    return tokenizer


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(3, len(WORDS)) for _ in range(rng.randint(1, 40))] for _ in range(count)]


def own_logprobs(model: Any, prompt: list[int], ids: list[int], temperature: float = 1.0) -> torch.Tensor:
    with torch.no_grad():
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
    return (logits / temperature).log_softmax(-1).gather(-1, torch.tensor(ids)[:, None])[:, 0]


class GeneratorContract:
    """The tests; `test_contract_backends` and `tests/vllm_cpu` run them."""

    tolerance = 2e-5
    """Nats that a log-probability may be away from transformers' in float32."""

    @pytest.fixture
    def model(self):
        return contract_model()

    @pytest.fixture
    def tokenizer(self):
        return contract_tokenizer()

    @pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
    def test_log_probabilities_are_those_of_transformers(self, generator: Generator, model, temperature):
        batch = prompts(8)
        replies = generator.generate(batch, SamplingParams(12, STOP, temperature=temperature), range(len(batch)))
        for prompt, reply in zip(batch, replies, strict=True):
            expected = own_logprobs(model, prompt, reply.ids, temperature or 1.0)
            torch.testing.assert_close(torch.tensor(reply.logprobs), expected, atol=self.tolerance, rtol=0)

    def test_replies_end_with_the_first_stop_token_which_stays_or_at_their_limit(self, generator: Generator):
        batch = prompts(24)
        replies = generator.generate(batch, SamplingParams(8, STOP), range(len(batch)))
        assert {reply.finish for reply in replies} == {"stop", "length"}
        for reply in replies:
            assert not set(reply.ids[:-1]) & set(STOP) and len(reply.ids) == len(reply.logprobs)
            assert (reply.finish == "stop") == (reply.ids[-1] in STOP)
            assert reply.finish == "stop" or len(reply.ids) == 8

    def test_other_stop_ids_than_the_end_token_count_and_it_alone_does_not(self, generator: Generator):
        batch = prompts(24)
        replies = generator.generate(batch, SamplingParams(8, (3, 7)), range(len(batch)))
        assert all(not {3, 7} & set(reply.ids[:-1]) for reply in replies)
        assert any(1 in reply.ids[:-1] for reply in replies)
        assert {reply.ids[-1] for reply in replies if reply.finish == "stop"} <= {3, 7}

    def test_a_reply_depends_on_its_prompt_and_its_seed_only(self, generator: Generator):
        batch, sampling = prompts(10), SamplingParams(10, STOP)
        together = generator.generate(batch, sampling, range(10))
        backwards = generator.generate(batch[::-1], sampling, range(9, -1, -1))
        alone = [generator.generate([prompt], sampling, [seed])[0] for seed, prompt in enumerate(batch[:3])]
        assert [reply.ids for reply in together] == [reply.ids for reply in backwards[::-1]]
        assert [reply.ids for reply in together[:3]] == [reply.ids for reply in alone]
        others = generator.generate(batch, sampling, range(100, 110))
        assert [reply.ids for reply in together] != [reply.ids for reply in others]

    def test_greedy_replies_are_those_of_transformers(self, generator: Generator, model):
        batch = prompts(6)
        for prompt, reply in zip(batch, generator.generate(batch, SamplingParams(8, STOP, 0.0), [0] * 6), strict=True):
            expected = model.generate(
                torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=8, do_sample=False, eos_token_id=list(STOP), pad_token_id=0,
            )[0, len(prompt) :].tolist()  # fmt: skip
            assert reply.ids == expected

    def test_a_conversation_that_grows_is_read_as_it_stands(self, generator: Generator, model):
        conversation, sampling = prompts(1, seed=3)[0], SamplingParams(6, STOP)
        for turn in range(4):
            (reply,) = generator.generate([conversation], sampling, [turn])
            expected = own_logprobs(model, conversation, reply.ids)
            torch.testing.assert_close(torch.tensor(reply.logprobs), expected, atol=self.tolerance, rtol=0)
            conversation = conversation + reply.ids + [3, 5, 6]

    def test_nothing_is_asked_and_nothing_answered(self, generator: Generator):
        assert list(generator.generate([], SamplingParams(4, STOP), [])) == []

    def test_an_empty_prompt_is_refused(self, generator: Generator):
        with pytest.raises(ValueError, match="empty prompt"):
            generator.generate([[]], SamplingParams(4, STOP), [0])

    def test_a_stop_string_ends_a_reply_with_the_token_that_completes_it(self, generator: Generator, tokenizer):
        batch, strings = prompts(40, seed=5), ("b done", "wait")
        sampling = SamplingParams(24, STOP)
        free = generator.generate(batch, sampling, range(40))
        ended = generator.generate(batch, replace(sampling, stop_strings=strings), range(40))
        shortened = 0
        for whole, reply in zip(free, ended, strict=True):
            texts = [tokenizer.decode([i for i in whole.ids[:end] if i != 0]) for end in range(1, len(whole.ids) + 1)]
            ends = [end for end, text in enumerate(texts, 1) if any(string in text for string in strings)]
            assert reply.ids == (whole.ids[: ends[0]] if ends else whole.ids)
            assert reply.finish == ("stop" if ends else whole.finish) and len(reply.logprobs) == len(reply.ids)
            shortened += bool(ends)
        assert shortened >= 3

    @pytest.mark.parametrize("history", ["keep", "strip"])
    def test_prompts_of_episodes_are_the_same_whoever_answers_them(self, generator: Generator, model, history):
        found = {}
        for name, each in (
            ("reference", TransformersGenerator(model, pad_token_id=0, tokenizer=contract_tokenizer())),
            ("tested", generator),
        ):
            loop = AgentEnvLoop(
                lambda: CueEnv(turns=3),
                contract_tokenizer(),
                max_prompt_length=WINDOW - 8,
                history_thinking=history,
                chat_template_kwargs={"loud": True},
            )
            played = loop.run([Assignment(task, 7 + task) for task in range(6)], each, SamplingParams(4, STOP, 0.0))
            found[name] = [
                (step.prompt_ids, step.response_ids, step.finish) for episode in played for step in episode.steps
            ]
            loop.close()
        assert found["tested"] == found["reference"] and len(found["tested"]) >= 6
