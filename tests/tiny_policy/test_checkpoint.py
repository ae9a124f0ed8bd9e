"""The shipped checkpoint: small, honest, and what the code in this repository makes."""

import pytest
import torch

from agent_r1_trainer.tiny_policy import CHECKPOINT, load_tiny_policy
from agent_r1_trainer.tiny_policy.cloning import CloningConfig
from agent_r1_trainer.tiny_policy.hotpotqa.quality import Quality, measure_quality
from agent_r1_trainer.tiny_policy.loading import make_tiny_policy


def check_honest_start(quality: Quality) -> None:
    """No temperature shows a good policy: what training gains is not there before."""
    assert quality.greedy <= 0.25
    assert quality.sampled <= 0.25
    assert quality.cold <= 0.30


def check_skills(quality: Quality) -> None:
    """It lacks judgement, not skill."""
    assert quality.search_skill >= 0.85
    assert quality.answer_skill >= 0.80


def test_size():
    files = [path for path in CHECKPOINT.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 2 * 2**20
    model, tokenizer = load_tiny_policy()
    assert 100_000 <= sum(parameter.numel() for parameter in model.parameters()) <= 500_000
    assert model.config.vocab_size == len(tokenizer)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert not model.training


def test_the_start_is_honest():
    quality = measure_quality(*load_tiny_policy(), tasks=60)
    check_honest_start(quality)
    check_skills(quality)


@pytest.mark.slow
def test_the_script_makes_a_policy_of_the_same_quality():
    """The whole cloning, some two minutes of one core.

    Other machines and versions round otherwise, and the course of training follows. So quality is compared, not
    weights: skills within 0.1, and a start that is as honest.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        made = measure_quality(*make_tiny_policy(CloningConfig()))
    finally:
        torch.set_num_threads(threads)
    shipped = measure_quality(*load_tiny_policy())
    for quality in (made, shipped):
        check_honest_start(quality)
        check_skills(quality)
    assert made.search_skill >= shipped.search_skill - 0.1
    assert made.answer_skill >= shipped.answer_skill - 0.1
    assert abs(made.sampled - shipped.sampled) <= 0.1
