"""Drawing tokens: the distribution, truncation, and independence from the batch."""

from __future__ import annotations

import pytest
import torch

from agent_r1_trainer.generation import SamplingParams
from agent_r1_trainer.generation.sampling import row_uniforms, sample_tokens, truncate_logits

LOGITS = torch.tensor([2.0, -1.0, 0.5, float("-inf"), 1.0, 0.0])


def draw(count: int, **kwargs) -> tuple[torch.Tensor, torch.Tensor]:
    uniforms = row_uniforms([7], count)[0]
    return sample_tokens(LOGITS.expand(count, -1), SamplingParams(1, **kwargs), uniforms)


def test_frequencies_are_those_of_the_tempered_softmax():
    tokens, logprobs = draw(40_000, temperature=0.7)
    expected = (LOGITS / 0.7).softmax(-1)
    counts = torch.bincount(tokens, minlength=len(LOGITS))
    assert counts[3] == 0
    deviation = (40_000 * expected * (1 - expected)).sqrt()
    assert bool(((counts - 40_000 * expected).abs() <= 4 * deviation).all())
    torch.testing.assert_close(logprobs, expected.log()[tokens])


def test_greedy_takes_the_largest_and_ignores_the_numbers():
    tokens, logprobs = draw(5, temperature=0.0)
    assert tokens.tolist() == [0] * 5
    torch.testing.assert_close(logprobs, LOGITS.log_softmax(-1)[:1].expand(5))


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [(2, 1.0, {0, 4}), (0, 0.5, {0}), (0, 0.75, {0, 4}), (0, 1.0, {0, 1, 2, 4, 5}), (3, 0.6, {0})],
)
def test_truncation_keeps_the_most_likely(top_k, top_p, kept):
    cut = truncate_logits(LOGITS[None], top_k, top_p)
    assert set(torch.isfinite(cut[0]).nonzero().flatten().tolist()) == kept
    tokens, logprobs = draw(2_000, top_k=top_k, top_p=top_p)
    assert set(tokens.tolist()) <= kept
    # The log-probability is that of the distribution that was sampled, so the kept ones sum to 1.
    seen = {token: float(value) for token, value in zip(tokens.tolist(), logprobs, strict=True)}
    if set(seen) == kept:
        assert sum(torch.tensor(list(seen.values())).exp()) == pytest.approx(1.0, abs=1e-5)


def test_the_ends_of_the_unit_interval_stay_inside_the_distribution():
    uniforms = torch.tensor([0.0, 1.0 - 2**-53], dtype=torch.float64)
    logits = torch.tensor([[float("-inf"), 0.0, 0.0, float("-inf")]]).expand(2, -1)
    tokens, _ = sample_tokens(logits, SamplingParams(1), uniforms)
    assert tokens.tolist() == [1, 2]


def test_numbers_of_a_row_follow_from_its_seed():
    assert torch.equal(row_uniforms([5, 6], 8)[1], row_uniforms([6], 8)[0])
    assert not torch.equal(row_uniforms([5], 8), row_uniforms([6], 8))
    before = torch.random.get_rng_state()
    row_uniforms([5], 8)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "bad", [{"max_new_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": -1}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        SamplingParams(**{"max_new_tokens": 1, **bad})
