"""Demonstrations in households: an expert that wins, habits that lose, and replies that are not to be imitated."""

import itertools
import random

import pytest

from agent_r1_envs.alfworld.generator.vocabulary import OBJECTS
from agent_r1_trainer.tiny_policy.cloning import encode_batch
from agent_r1_trainer.tiny_policy.household.demonstrations import (
    FIDGETY,
    MAX_TURNS,
    STEADY,
    Habits,
    demonstrate,
    environment_words,
    make_env,
    stream_demonstrations,
)
from agent_r1_trainer.tiny_policy.tokenizer import build_tokenizer


def outcomes(habits, tasks=90, **kwargs):
    env, rng = make_env("validation", **kwargs), random.Random(0)
    return [(demonstrate(env, task, habits, rng), env.unwrapped._score().success) for task in range(tasks)]


def replies(conversation):
    return [message for message in conversation if message["role"] == "assistant"]


def test_the_explorer_wins_every_task_and_is_to_be_imitated():
    results = outcomes(Habits(), tasks=240)
    assert all(success for _, success in results)
    assert all(message["weight"] == 1 for conversation, _ in results for message in replies(conversation))
    assert max(len(replies(conversation)) for conversation, _ in results) < MAX_TURNS


@pytest.mark.parametrize("habits", [STEADY, FIDGETY, Habits(stray=1.0)], ids=["steady", "fidgety", "stray"])
def test_whatever_is_to_be_imitated_can_be_done(habits):
    refused = 0
    for conversation, _ in outcomes(habits):
        for reply, answer in itertools.pairwise(conversation):
            if answer["content"] == "Nothing happens.":
                assert reply["weight"] == 0
                refused += 1
    assert (refused > 0) == (habits.stray > 0)  # so the policy sees what comes of a mistake, and what to do then


def test_strays_happen_as_often_as_they_should_and_have_no_weight():
    weights = [
        message["weight"] for conversation, _ in outcomes(Habits(stray=0.3)) for message in replies(conversation)
    ]
    assert abs(weights.count(0) / len(weights) - 0.3) < 0.06  # more than three standard deviations
    assert set(weights) == {0, 1}


def test_putting_back_undoes_a_take_and_nothing_else():
    for conversation, success in outcomes(Habits(put_back=1.0), tasks=30):
        commands = [message["content"] for message in replies(conversation)]
        takes = [turn for turn, command in enumerate(commands[:-1]) if command.startswith("take")]
        assert takes and not success
        for turn in takes:
            assert commands[turn + 1] == commands[turn].replace("take", "move").replace(" from ", " to ")


def test_who_forgets_brings_things_as_they_are():
    kinds = ["pick_clean_then_place_in_recep", "pick_heat_then_place_in_recep", "pick_cool_then_place_in_recep"]
    results = outcomes(Habits(forget=1.0), task_types=kinds)
    for conversation, success in results:
        commands = [message["content"] for message in replies(conversation)]
        assert not success
        assert not any(command.startswith(("clean", "heat", "cool")) for command in commands)
    others = outcomes(Habits(forget=1.0), task_types=["pick_and_place_simple"])
    assert all(success for _, success in others)


def test_a_seed_decides_everything_and_seeds_share_no_household(monkeypatch):
    monkeypatch.setattr("agent_r1_trainer.tiny_policy.household.demonstrations._GAMES", 20)  # those that are read
    first, again, other = (list(itertools.islice(stream_demonstrations(seed=seed), 20)) for seed in (0, 0, 1))
    assert first == again
    assert not {c[0]["content"] for c in first} & {c[0]["content"] for c in other}


def test_strays_are_read_and_neither_imitated_nor_foretold():
    tokenizer = build_tokenizer(environment_words(), commands=())
    conversations = [conversation for conversation, _ in outcomes(Habits(stray=0.5), tasks=12)]
    batch = encode_batch(tokenizer, conversations)
    for row, conversation in enumerate(conversations):
        said = tokenizer.decode(batch.ids[row][batch.replies[row]]).split("<|end|>")
        wanted = [message["content"] for message in replies(conversation) if message["weight"]]
        assert [text.strip() for text in said] == [*wanted, ""]
        rest = tokenizer.decode(batch.ids[row][batch.observations[row]])
        assert rest.count("<|assistant|>") == len(replies(conversation)) and "go to" not in rest
    real = batch.ids != tokenizer.pad_token_id
    assert not (batch.replies & batch.observations).any()
    assert (real & ~batch.replies & ~batch.observations).any()


def test_names_of_things_are_single_words():
    assert {kind.lower() for kind in OBJECTS} <= set(environment_words())
