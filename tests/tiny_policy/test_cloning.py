"""The losses of cloning, and that it is a function of its settings."""

import math
import random

import pytest
import torch

from agent_r1_trainer.tiny_policy.architecture import TinyArchitecture, build_model
from agent_r1_trainer.tiny_policy.cloning import CloningConfig, clone, cloning_loss, copying_loss, encode_batch
from agent_r1_trainer.tiny_policy.hotpotqa import demonstrations
from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import (
    EXPERT,
    IMPATIENT,
    demonstrate,
    environment_words,
    make_env,
    teach,
)
from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer

SMALL = TinyArchitecture(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=32)


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(environment_words())


@pytest.fixture(scope="module")
def conversations():
    env, rng = make_env("validation"), random.Random(0)
    return [demonstrate(env, task, EXPERT if task % 2 else IMPATIENT, rng) for task in range(6)]


def test_a_batch_tells_replies_from_observations(tokenizer, conversations):
    batch = encode_batch(tokenizer, conversations)
    for row, conversation in enumerate(conversations):
        replies = tokenizer.decode(batch.ids[row][batch.replies[row]]).replace(" <|end|>", "<|end|>").split("<|end|>")
        wanted = [message["content"] for message in conversation if message["role"] == "assistant"]
        assert [reply.strip() for reply in replies] == [*wanted, ""]
        rest = tokenizer.decode(batch.ids[row][batch.observations[row]])
        assert "Question:" in rest and "search[" not in rest and "<|pad|>" not in rest
    real = batch.ids != tokenizer.pad_token_id
    assert torch.equal(batch.replies | batch.observations, real)
    assert not (batch.replies & batch.observations).any()


def test_the_loss_is_the_weighted_mean_of_both_parts(tokenizer, conversations):
    model = build_model(SMALL, tokenizer, seed=0).eval()
    batch = encode_batch(tokenizer, conversations)
    sums = {True: [0.0, 0], False: [0.0, 0]}
    with torch.no_grad():
        for conversation in conversations:  # one at a time, without padding
            ids = tokenizer(tokenizer.apply_chat_template(conversation, tokenize=False))["input_ids"]
            logprobs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
            speaking = False
            for position, token in enumerate(ids):
                if position:
                    sums[speaking][0] -= logprobs[position - 1, token].item()
                    sums[speaking][1] += 1
                if tokenizer.decode([token]) == "<|assistant|>":
                    speaking = True
                elif token == tokenizer.eos_token_id:
                    speaking = False
        expected = sums[True][0] / sums[True][1] + 0.5 * sums[False][0] / sums[False][1]
        assert cloning_loss(model, batch, 0.5).item() == pytest.approx(expected, rel=1e-4)


def test_copying_counts_repetitions_only(tokenizer):
    class Uniform(torch.nn.Module):
        def forward(self, ids, use_cache):
            assert ids.shape == (2, 15) and torch.equal(ids[:, :5], ids[:, 10:])
            logits = torch.zeros(2, 15, 50)
            logits[:, :4] = torch.nan  # the first occurrence must not be read
            return type("Output", (), {"logits": logits})

    words = torch.randint(50, (2, 5), generator=torch.Generator().manual_seed(0))
    assert copying_loss(Uniform(), words).item() == pytest.approx(math.log(50))


def test_cloning_is_a_function_of_its_settings(tokenizer, monkeypatch):
    monkeypatch.setattr(demonstrations, "_TASKS_PER_WORLD", 24)  # of the hundreds that a world is made for
    config = CloningConfig(seed=3, copy_steps=2, expert_steps=3, habit_steps=2, batch_size=4)

    def weights(config):
        torch.manual_seed(random.randrange(1000))  # the global generator has no say
        model = build_model(SMALL, tokenizer, seed=config.seed)
        seen = []
        clone(model, tokenizer, config, teach, lambda phase, step, loss: seen.append((phase, step, loss)))
        assert [phase for phase, _, _ in seen] == ["copy"] * 2 + ["expert"] * 3 + ["habits"] * 2
        assert not model.training
        return torch.cat([parameter.flatten() for parameter in model.parameters()]), seen

    first, losses = weights(config)
    again, same = weights(config)
    assert torch.equal(first, again) and losses == same
    other, _ = weights(CloningConfig(seed=4, copy_steps=2, expert_steps=3, habit_steps=2, batch_size=4))
    assert not torch.equal(first, other)


def test_building_a_model_leaves_the_global_generator_alone(tokenizer):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    build_model(SMALL, tokenizer, seed=7)
    assert torch.equal(torch.rand(3), expected)
