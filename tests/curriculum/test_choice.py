"""The tasks that stand for a panel: fixed, in the panel's shares, smaller choices inside larger ones."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_trainer.curriculum.choice import choose_tasks, representative_order

TYPES = ("clean", "cool", "heat", "look", "pick", "two")
# The 3,553 official training games, sorted by type as they lie in the folder.
SIZES = (650, 533, 459, 308, 790, 813)


def official() -> tuple[list[str], list[str]]:
    types = [name for name, size in zip(TYPES, SIZES, strict=True) for _ in range(size)]
    return [f"{name}-{number}" for number, name in enumerate(types)], types


@pytest.mark.parametrize("count", [6, 24, 134, 308, 1000])
def test_every_type_has_its_share(count):
    ids, types = official()
    assert len({types[i] for i in range(308)}) == 1  # what the head of the panel measures
    chosen = choose_tasks(ids, count, types)
    assert chosen == sorted(set(chosen)) and len(chosen) == count
    found = Counter(types[position] for position in chosen)
    for name, size in zip(TYPES, SIZES, strict=True):
        assert found[name] == pytest.approx(count * size / len(ids), abs=1.0) and found[name] >= 1


def test_the_choice_follows_from_the_ids():
    ids, types = official()
    chosen = {ids[position] for position in choose_tasks(ids, 50, types)}
    backwards = {ids[::-1][position] for position in choose_tasks(ids[::-1], 50, types[::-1])}
    assert chosen == backwards
    plain = [f"task-{i}" for i in range(20)]
    assert choose_tasks(plain, 5) == choose_tasks(plain, 5, [""] * 20) == PINNED


# Pinned: figures that were measured on a choice stay comparable.
PINNED = [4, 6, 7, 14, 16]


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=60), st.data())
def test_beginnings_nest_and_small_types_are_kept(types, data):
    ids = [f"t{i}" for i in range(len(types))]
    assert sorted(representative_order(ids, types)) == list(range(len(types)))
    count = data.draw(st.integers(0, len(types)))
    chosen = choose_tasks(ids, count, types)
    assert len(chosen) == count and set(chosen) <= set(choose_tasks(ids, count + 1, types))
    sizes, found = Counter(types), Counter(types[position] for position in chosen)
    assert len(found) == min(count, len(sizes))
    if 0 < count < len(sizes):
        assert min(sizes[name] for name in found) >= max(sizes[name] for name in sizes if name not in found)
    assert choose_tasks(ids, len(types) + 3, types) == list(range(len(types)))
