"""Log-probabilities and entropies of tokens against their definitions in float64, and the memory that they take."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from agent_r1_trainer.learning import scoring
from agent_r1_trainer.learning.memory import LiveMemory
from agent_r1_trainer.learning.scoring import ScoreRequest, attach_scoring
from agent_r1_trainer.losses import log_probs, token_log_probs


def make_logits(rows=7, words=11, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(rows, words, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(words, (rows,), generator=generator)


def definition(logits, ids, temperature):
    logps = (logits.double() / temperature).log_softmax(-1)
    return logps.gather(-1, ids[:, None]).squeeze(-1), -torch.where(logps.isneginf(), 0.0, logps.exp() * logps).sum(-1)


def test_they_are_those_of_the_definition():
    logits, ids = make_logits()
    logps, entropies = token_log_probs(logits, ids, temperature=0.7, entropy=True)
    for row, token, logp, entropy in zip(logits.double().numpy(), ids, logps, entropies, strict=True):
        p = np.exp(row / 0.7) / np.exp(row / 0.7).sum()
        assert logp.item() == pytest.approx(np.log(p[token]), rel=1e-5)
        assert entropy.item() == pytest.approx(-(p * np.log(p)).sum(), rel=1e-5)
    assert token_log_probs(logits.bfloat16(), ids)[0].dtype == torch.float32
    assert token_log_probs(logits, ids)[1] is None


@pytest.mark.parametrize("block", [1, 25, 1 << 22])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("factors", [(1, 0), (0, 1), (1, -0.5)], ids=["logps", "entropies", "both"])
@pytest.mark.parametrize("scratch", [False, True])
def test_values_and_gradients_equal_those_in_float64(block, temperature, factors, scratch, monkeypatch):
    monkeypatch.setattr(log_probs, "_BLOCK", block)
    (start, ids), weight = make_logits(), torch.eye(11).requires_grad_()
    weights = torch.linspace(-1.0, 2.0, len(ids)).double()

    def gradient(logps, entropies):
        loss = (weights * (factors[0] * logps + (factors[1] * entropies if factors[1] else 0.0))).sum()
        return torch.autograd.grad(loss, weight)[0]

    found = token_log_probs(start @ weight, ids, temperature, entropy=factors[1] != 0, scratch=scratch)
    expected = definition(start @ weight, ids, temperature)
    for one, other in zip(found, expected, strict=True):
        if one is not None:
            torch.testing.assert_close(one.double(), other, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(gradient(*found), gradient(*expected), atol=2e-6, rtol=1e-6)


def test_the_gradient_is_the_derivative():
    logits, ids = make_logits(dtype=torch.float64)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: token_log_probs(x, ids, 0.7, entropy=True), (logits,))


def test_banned_tokens_leave_the_entropy_and_its_gradient_finite():
    logits = torch.tensor([[0.0, -math.inf, 1.0]], requires_grad=True)
    logps, entropies = token_log_probs(logits, torch.tensor([0]), entropy=True)
    p = math.exp(logps.item())
    assert entropies.item() == pytest.approx(-(p * math.log(p) + (1 - p) * math.log(1 - p)), rel=1e-6)
    assert torch.isfinite(torch.autograd.grad((logps + entropies).sum(), logits)[0]).all()


def test_logits_that_somebody_else_reads_are_never_written_over():
    start, ids = make_logits()
    weight = torch.eye(11).requires_grad_()
    for capped, scratch in ((True, True), (False, False)):
        logits = (start @ weight).tanh() if capped else start @ weight
        before = logits.detach().clone()
        token_log_probs(logits, ids, scratch=scratch)[0].sum().backward()
        assert torch.equal(logits, before)


@pytest.mark.parametrize(("tokens", "entropy"), [(64, False), (64, True), (200, False), (200, True)])
def test_scoring_holds_at_most_two_and_a_half_times_the_logits_of_a_chunk(tokens, entropy, monkeypatch):
    words, chunk = 40_000, 64
    monkeypatch.setattr(scoring, "CHUNK", chunk)
    monkeypatch.setattr(scoring, "_SMALL", 1)
    monkeypatch.setattr(log_probs, "_BLOCK", 4 * words)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "head_dim": 4}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=words, **sizes, **heads))
    attach_scoring(model, temperature=1.0)
    ids = torch.randint(words, (1, tokens + 1), generator=torch.Generator().manual_seed(0))
    places = torch.zeros(tokens, dtype=torch.long), torch.arange(1, tokens + 1)
    request = ScoreRequest(rows=places[0], columns=places[1], ids=ids[0, 1:], entropy=entropy)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "score": request}
    unit, weight = chunk * words * 4, 8 * words * 4
    with torch.no_grad(), LiveMemory() as memory:
        model(**inputs)
    assert memory.peak <= 1.5 * unit
    with LiveMemory() as memory:
        model(**inputs)["logprobs"].sum().backward()
    # Beside the logits there are the gradients of the weights, of the head's and of the embedding's uses of them.
    assert memory.peak <= 2.5 * unit + 3 * weight, memory.peak / unit
