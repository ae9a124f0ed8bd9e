"""Demonstrations are played in the environment, on training names, with the errors that were asked for."""

import itertools
import random

import pytest

from agent_r1_envs.hotpotqa.lexicon import NAMESPACES, split_of
from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import (
    EXPERT,
    Habits,
    demonstrate,
    make_env,
    stream_demonstrations,
)

POSITIONS = {
    words: (namespace, index)
    for namespace, pools in NAMESPACES.items()
    for pool in pools
    for index, words in enumerate(pool.split())
}


def take(count, **kwargs):
    return list(itertools.islice(stream_demonstrations(**kwargs), count))


def outcome(habits, tasks=200):
    env, rng = make_env("validation"), random.Random(1)
    results = []
    for task in range(tasks):
        conversation = demonstrate(env, task, habits, rng)
        results.append((conversation, env.unwrapped._score().success))
    return results


def test_the_expert_solves_every_task_in_three_turns():
    results = outcome(EXPERT)
    assert all(success for _, success in results)
    assert sum(len(conversation) == 6 for conversation, _ in results) > 190


def test_demonstrations_name_no_entity_of_validation_or_test():
    for conversation in take(300, seed=4):
        words = "".join(f" {message['content']} " for message in conversation)
        for mark in ".,:?[]()\n":
            words = words.replace(mark, f" {mark} ")
        words = words.split()
        for first, second in itertools.pairwise(words):
            namespace, i = POSITIONS.get(first, ("", 0))
            other, j = POSITIONS.get(second, ("-", 0))
            if namespace == other and first in NAMESPACES[namespace][0].split():
                assert split_of(i, j) == "train", f"{first} {second}"


def test_a_seed_decides_everything_and_seeds_share_no_question():
    first, again, other = take(50, seed=0), take(50, seed=0), take(50, seed=1)
    assert first == again
    assert not {c[0]["content"] for c in first} & {c[0]["content"] for c in other}


@pytest.mark.parametrize(
    ("habits", "turns"),
    [(Habits(guess_at_once=1.0), 1), (Habits(guess_midway=1.0), 2)],
)
def test_guessing_stops_early_with_the_name_of_the_next_search(habits, turns):
    for conversation, _ in outcome(habits, tasks=40):
        assert len(conversation) == 2 * turns
        assert conversation[-1]["content"].startswith("answer[")


def test_habits_happen_as_often_as_they_should():
    results = outcome(Habits(guess_at_once=0.25), tasks=500)
    share = sum(len(conversation) == 2 for conversation, _ in results) / 500
    assert abs(share - 0.25) < 0.06  # three standard deviations


def test_searching_again_shows_nothing_new_and_never_lasts():
    for conversation, _ in outcome(Habits(search_again=1.0), tasks=20):
        assert len(conversation) == 10
        shown = "".join(message["content"] for message in conversation if message["role"] == "user")
        assert f"] {conversation[-1]['content'][len('answer[') : -1]}" in shown  # not what nobody could know
        assert conversation[2]["content"] != conversation[4]["content"]
        assert "(seen)" in conversation[6]["content"]


def test_bad_habits_write_good_commands():
    env, rng = make_env("validation"), random.Random(2)
    habits = Habits(guess_at_once=0.3, guess_midway=0.3, search_again=0.3, misread=0.3)
    for task in range(60):
        conversation = demonstrate(env, task, habits, rng)
        said = [message["content"] for message in conversation if message["role"] == "user"]
        assert not any("Invalid" in text for text in said)
