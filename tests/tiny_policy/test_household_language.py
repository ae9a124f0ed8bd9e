"""The tokenizer covers all that easy households say and all that can be done in them, and gives it back unchanged."""

import random

import gymnasium
import pytest

import agent_r1_envs  # noqa: F401
from agent_r1_trainer.packing import merge_units
from agent_r1_trainer.tiny_policy.household.demonstrations import environment_words
from agent_r1_trainer.tiny_policy.household.quality import play
from agent_r1_trainer.tiny_policy.loading import CHECKPOINTS, load_tiny_policy
from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(environment_words(), commands=())


def walk(split, games):
    """Texts of walks that go half by the expert and half by chance, one command in ten impossible."""
    env = gymnasium.make("AgentR1/ALFWorld-v0", split=split, difficulty="easy", expert="explorer", games=600)
    rng = random.Random(f"walk {split}")
    for task in range(games):
        observation, info = env.reset(options={"task": task})
        for _ in range(25):
            possible = info["admissible_actions"]
            yield from (observation, info["instruction"], *possible)
            expert = env.unwrapped.expert_action()
            draw = rng.random()
            command = "go there" if draw < 0.1 else expert if draw < 0.5 and expert else rng.choice(possible)
            observation, _, over, _, info = env.step(command)
            if over:
                yield observation
                break


@pytest.mark.parametrize("split", ["train", "valid_seen", "valid_unseen"])
def test_everything_said_and_done_survives_encoding_and_decoding(tokenizer, split):
    texts = sorted(set(walk(split, games=120)))
    assert len(texts) > 1000
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
    assert not [text for text, ids in zip(texts, encoded, strict=True) if tokenizer.unk_token_id in ids]
    assert tokenizer.batch_decode(encoded) == texts


def test_the_shipped_tokenizer_is_the_one_that_the_code_makes(tokenizer):
    _, shipped = load_tiny_policy(CHECKPOINTS["tiny-household"])
    assert shipped.get_vocab() == tokenizer.get_vocab()
    assert shipped.chat_template == tokenizer.chat_template


def test_sampled_episodes_merge_into_one_sequence_each():
    model, tokenizer = load_tiny_policy(CHECKPOINTS["tiny-household"])
    episodes = play(model, tokenizer, tasks=8)
    units = merge_units(episodes)
    assert [unit.num_steps for unit in units] == [len(episode.steps) for episode in episodes]
    assert max(unit.num_steps for unit in units) > 4
