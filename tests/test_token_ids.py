"""Token ids that share memory read like lists."""

from __future__ import annotations

import copy
import pickle
import random
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_trainer.trajectory import TokenIds

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=8)


@given(IDS, IDS, st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([None, 1, 2, -1]))
def test_they_read_like_a_list(ids, more, begin, end, step):
    packed = TokenIds(ids).extended(more)
    whole = ids + more
    assert packed == whole and list(packed) == whole and len(packed) == len(whole)
    assert packed[begin:end:step] == whole[begin:end:step]
    assert [packed[at] for at in range(-len(whole), len(whole))] == whole * 2
    assert packed + [7] == [*whole, 7] and [7] + packed == [7, *whole]
    assert np.asarray(packed).tolist() == whole and np.asarray(packed).dtype == np.int64
    assert torch.tensor(packed).tolist() == whole
    assert packed != [*whole, 1] and packed != TokenIds([*whole, 1])


@given(IDS, IDS, IDS)
def test_branches_do_not_see_each_other(ids, one, other):
    start = TokenIds(ids)
    longer, branch = start.extended(one), start.extended(other)
    again = longer.extended(other)
    assert (start, longer, branch, again) == (ids, ids + one, ids + other, ids + one + other)
    assert longer.starts_with(start) and branch.starts_with(start) and again.starts_with(longer)
    assert longer.starts_with(branch) == ((ids + one)[: len(ids + other)] == ids + other)
    shared = start.grown_to(ids + other)
    assert shared == ids + other and TokenIds([1, *ids]).grown_to(other) == other
    common = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    expected = len(ids) + (min(len(one), len(other)) if common is None else common)
    assert longer.common_prefix(branch) == branch.common_prefix(longer) == expected


def test_an_id_out_of_range_is_refused_and_none_changes():
    ids = TokenIds([1, 2])
    with pytest.raises(IndexError):
        ids[2]
    with pytest.raises(OverflowError):
        ids.extended([2**31])
    with pytest.raises(TypeError):
        hash(ids)
    assert ids == [1, 2]


def test_growing_costs_what_is_added():
    rng = random.Random(0)
    tracemalloc.start()
    prompt, kept = TokenIds(rng.randrange(30_000) for _ in range(100)), []
    for _ in range(100):
        prompt = prompt.extended([rng.randrange(30_000) for _ in range(30)])
        kept.append(prompt)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 3 * 4 * len(prompt)  # as lists: 100 times 1,600 ids of 8 bytes
    assert len(pickle.dumps(kept)) < 2 * 4 * len(prompt)


def test_copies_share_what_the_originals_share():
    prompt = TokenIds([1, 2])
    pair = (prompt, prompt.extended([3]))
    for first, second in (pickle.loads(pickle.dumps(pair)), copy.deepcopy(pair)):
        assert (first, second) == ([1, 2], [1, 2, 3]) and second.shares(first)


def test_somebody_who_looks_at_the_memory_stops_nobody():
    ids = TokenIds([1, 2])
    with memoryview(ids._array):
        assert ids.extended([3]) == [1, 2, 3]
    assert ids == [1, 2]
