"""What a process made is its own: neither a forked one nor one that gets a pickle uses it."""

from __future__ import annotations

import multiprocessing
import os
import pickle

import pytest

from agent_r1_envs.services.per_process import PerProcess


def test_it_is_made_once_and_anew_after_it_was_taken():
    held, made = PerProcess(), iter("abc")
    assert held.get(lambda: next(made)) == held.get(lambda: next(made)) == held.made == "a"
    assert held.take() == "a" and held.take() is None and held.made is None
    assert held.get(lambda: next(made)) == "b"


def test_a_pickle_holds_nothing():
    held = PerProcess()
    held.get(lambda: print)
    assert pickle.loads(pickle.dumps(held)).take() is None and held.made is print


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")
def test_a_forked_process_makes_its_own_and_closes_none_of_the_parents():
    held = PerProcess()
    parent = held.get(os.getpid)
    fork = multiprocessing.get_context("fork")
    said = fork.SimpleQueue()

    def child() -> None:
        said.put((held.get(os.getpid), held.take()))

    process = fork.Process(target=child)
    process.start()
    own, taken = said.get()
    process.join()
    assert own == taken == process.pid != parent and held.take() == parent
