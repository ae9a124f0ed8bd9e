"""Servers that die, hang, answer badly or come back with other weights: none of it reaches a trajectory."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from contextlib import contextmanager

import pytest

from agent_r1_trainer.generation import GenerationError, SamplingParams, TransformersGenerator
from agent_r1_trainer.generation.vllm_control import (
    ServerError,
    ServerFacts,
    ServerNeeds,
    VLLMServer,
    at_all,
    unfit,
)
from agent_r1_trainer.generation.vllm_server import VLLMServers
from tests.helpers import fake_vllm
from tests.helpers.fake_vllm import FakeVLLM, serving
from tests.helpers.generation_contract import contract_model, contract_tokenizer

SAMPLING = SamplingParams(6, (1,))
PROMPT = [3, 8, 9, 4]


@contextmanager
def client(count: int, version: str | None = "now", **kwargs):
    """Fake servers that hold a version of the weights, and a client of them."""
    fakes = [FakeVLLM(contract_model, contract_tokenizer()) for _ in range(count)]
    for fake in fakes:
        fake.weight_version = version or "default"
    with serving(*fakes):
        settings = {"tokenizer": contract_tokenizer(), "timeout": 20.0, "patience": 10.0, **kwargs}
        servers = VLLMServers([VLLMServer(fake.url) for fake in fakes], **settings)
        servers.hold(version, "served")
        yield fakes, servers


def ask(servers: VLLMServers, episodes: list[str], sampling: SamplingParams = SAMPLING, prompt=PROMPT):
    """The reply of each episode, or the error that it got."""

    async def run():
        try:
            asked = [servers.answer(prompt, sampling, seed, episode=name) for seed, name in enumerate(episodes)]
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            await servers.aclose()

    return asyncio.run(run())


def expected(count: int):
    generator = TransformersGenerator(contract_model(), pad_token_id=0)
    return [reply.ids for reply in generator.generate([PROMPT] * count, SAMPLING, range(count))]


FAULTS = {
    "500": fake_vllm.status(500),
    "503": fake_vllm.status(503),
    "refused": fake_vllm.status(400),
    "hung up": fake_vllm.hang_up,
    "null": fake_vllm.logprobs(None),
    "NaN": fake_vllm.logprobs(math.nan),
    "a word": fake_vllm.logprobs("-0.5"),
    "minus infinity": fake_vllm.logprobs(-math.inf),
    "no ids": fake_vllm.changed(token_ids=None),
    "other ids": fake_vllm.changed(token_ids=[3, 5]),
    "too many": fake_vllm.changed(token_ids=[3] * 7),
    "words for ids": fake_vllm.changed(token_ids=["a"] * 6),
    "aborted": fake_vllm.changed(finish_reason="abort"),
    "another model": fake_vllm.changed(model="somebody-else"),
    "a page": lambda answer: (200, "<html>"),
    "nothing": lambda answer: {"choices": []},
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_answer_is_asked_for_again_and_the_reply_is_what_it_would_have_been(name):
    with client(2) as (fakes, servers):
        for fake in fakes:
            fake.faults.append(FAULTS[name])
        replies = ask(servers, ["a", "b"])
    assert [reply.ids for reply in replies] == expected(2)
    assert servers.counts["retried"] == 2 and servers.counts["failed"] == 0


def test_a_server_that_is_too_slow_is_given_up_and_another_asked():
    with client(2, timeout=0.5) as (fakes, servers):
        fakes[0].faults.append(fake_vllm.late(1.5))
        started = time.monotonic()
        (reply,) = ask(servers, ["a"])
        assert time.monotonic() - started < 1.5
    assert reply.ids == expected(1)[0] and servers.counts["retried"] == 1


def test_what_no_server_answers_costs_its_episode_and_names_the_reason():
    with client(1, retries=2) as (fakes, servers):
        fakes[0].faults += [fake_vllm.logprobs(math.nan)] * 3
        bad, good = ask(servers, ["a"]), ask(servers, ["b"])
    assert isinstance(bad[0], GenerationError) and good[0].ids == expected(1)[0]
    assert "3 tries" in str(bad[0]) and "a log-probability is nan" in str(bad[0])
    assert servers.counts == {"asked": 2, "retried": 2, "failed": 1}


def test_an_episode_stays_with_its_server_and_episodes_are_spread():
    with client(3) as (fakes, servers):
        for _ in range(4):
            ask(servers, [f"episode {index}" for index in range(6)])
            counts = [fake.answered for fake in fakes]
            assert counts[0] == counts[1] == counts[2]
        prompts_of = [{body["seed"] for path, body in fake.requests if path == "/v1/completions"} for fake in fakes]
        assert [len(seeds) for seeds in prompts_of] == [2, 2, 2]  # the same two episodes every time


def test_ranks_begin_with_different_servers():
    with client(2) as (fakes, servers):
        ask(servers, ["a"])
        other = VLLMServers([VLLMServer(fake.url) for fake in fakes], first=1)
        other.hold("now", "served")
        ask(other, ["b"])
        assert [fake.answered for fake in fakes] == [1, 1]


def test_a_server_that_dies_takes_nothing_with_it():
    with client(2) as (fakes, servers):
        ask(servers, ["a", "b"])
        fakes[0].down = True
        replies = ask(servers, ["a", "b", "c", "d"])
        assert [reply.ids for reply in replies] == expected(4)
        assert fakes[0].answered == 1


def test_a_server_that_was_started_anew_holds_other_weights_and_is_not_asked_until_it_got_them():
    with client(2) as (fakes, servers):
        ask(servers, ["a", "b"])
        fakes[0].faults.append(fake_vllm.hang_up)
        fakes[0].weight_version = "default"
        replies = ask(servers, ["a", "b", "a", "b"])
        assert [reply.ids for reply in replies] == expected(4) and servers.counts["lost"] == 1
        before = fakes[0].answered
        ask(servers, ["a", "b", "c"])
        assert fakes[0].answered == before
        for fake in fakes:
            fake.weight_version = "next"
        servers.hold("next", "served")
        ask(servers, ["a", "b", "c"])
        assert fakes[0].answered > before


def test_where_every_server_lost_the_weights_nobody_waits():
    with client(1) as (fakes, servers):
        fakes[0].faults.append(fake_vllm.hang_up)
        fakes[0].weight_version = "default"
        started = time.monotonic()
        (error,) = ask(servers, ["a"])
        assert time.monotonic() - started < 5
    assert isinstance(error, GenerationError) and "no server holds the policy any more" in str(error)


def test_where_no_server_is_up_somebody_waits_and_not_for_ever():
    with client(1, patience=0.5) as (fakes, servers):
        fakes[0].down = True
        (error,) = ask(servers, ["a"])
        assert isinstance(error, GenerationError) and "no server for 0.5 s" in str(error)
    with client(1, patience=20.0) as (fakes, servers):
        fakes[0].down = True
        timer = threading.Timer(0.6, setattr, (fakes[0], "down", False))
        timer.start()
        (reply,) = ask(servers, ["a"])
        timer.join()
    assert reply.ids == expected(1)[0]


def test_what_is_waited_for_servers_counts_over_all_tries():
    """A server that goes down with every request, and comes back before its patience has ended."""
    with client(1, patience=1.5, retries=8) as (fakes, servers):

        def away(answer):
            fakes[0].down = True
            threading.Timer(0.9, setattr, (fakes[0], "down", False)).start()
            return fake_vllm.HANG_UP

        fakes[0].faults += [away] * 8
        (error,) = ask(servers, ["a"])
        assert isinstance(error, GenerationError) and "no server for 1.5 s" in str(error)
        assert servers.counts["retried"] < 6


def test_a_password_that_a_server_says_back_is_shown_to_nobody(monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "sk-secret-word")
    fake = FakeVLLM(contract_model, contract_tokenizer())
    said = {"error": {"message": "no: pass%21word, pass!word, sk-secret-word"}}
    with serving(fake):
        url = fake.url.replace("http://", "http://me:pass%21word@")
        servers = VLLMServers([VLLMServer(url)], tokenizer=contract_tokenizer(), retries=0)
        servers.hold(None, "served")
        for fault in (lambda answer: (500, said), fake_vllm.changed(model="pass!word sk-secret-word")):
            fake.faults.append(fault)
            (error,) = ask(servers, ["a"])
            assert isinstance(error, GenerationError) and "[hidden]" in str(error) and fake.url in str(error)
            assert "word" not in str(error)
        fake.refused["/pause"] = said["error"]["message"]
        with pytest.raises(ServerError, match="HTTP 500") as caught:
            VLLMServer(url).post("/pause")
    assert "word" not in str(caught.value)


def test_stop_strings_need_a_tokenizer():
    with client(1, tokenizer=None) as (_, servers):
        (error,) = ask(servers, ["a"], SamplingParams(4, (1,), stop_strings=("b done",)))
    assert isinstance(error, ValueError) and "tokenizer" in str(error)


def test_a_server_says_what_it_is():
    fake = FakeVLLM(contract_model, contract_tokenizer(), adapters=True, dtype="bfloat16", transfer="nccl")
    with serving(fake):
        facts = VLLMServer(fake.url + "/v1").facts()
    assert facts == ServerFacts(
        "0.31.0", "served", 256, 12, "bfloat16", "processed_logprobs", adapters=True, transfer="nccl", workers=1
    )
    assert unfit(facts, ServerNeeds(256, 12)) == ""


@pytest.mark.parametrize(
    ("change", "needs", "words"),
    [
        ({"max_model_len": 100}, {}, "--max-model-len 200"),
        ({"logprobs_mode": "raw_logprobs"}, {}, "--logprobs-mode processed_logprobs"),
        ({}, {"vocabulary": 11}, "serve the model that is trained"),
        ({}, {"vocabulary": 13}, "vocabulary of 12, the policy of 13"),
    ],
)
def test_a_server_that_does_not_fit_is_named_with_the_way_out(change, needs, words):
    fake = FakeVLLM(contract_model, contract_tokenizer(), **change)
    with serving(fake):
        facts = VLLMServer(fake.url).facts()
    assert words in unfit(facts, ServerNeeds(**{"window": 200, "vocabulary": 12, **needs}))


def test_a_server_that_is_old_or_takes_no_weights_is_refused():
    fake = FakeVLLM(contract_model, contract_tokenizer())
    with serving(fake):
        fake.version = "0.22.1"
        with pytest.raises(ServerError, match="runs vLLM 0.22.1: training needs 0.31"):
            VLLMServer(fake.url).facts()
        fake.version, fake.dev_mode = "0.31.0+cpu", False
        with pytest.raises(ServerError, match="VLLM_SERVER_DEV_MODE=1"):
            VLLMServer(fake.url).facts()


def test_a_server_that_is_not_there_is_waited_for_and_then_named(free_port):
    server = VLLMServer(f"http://127.0.0.1:{free_port}", timeout=1.0)
    with pytest.raises(ServerError, match=rf"After 0.2 s \(vllm_server_timeout\).*127.0.0.1:{free_port}"):
        server.wait(0.2)


def test_keys_are_sent_and_said_nowhere(monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "sk-secret-word")
    fake = FakeVLLM(contract_model, contract_tokenizer())
    with serving(fake):
        fake.refused["/pause"] = "the key sk-secret-word is wrong"
        with pytest.raises(ServerError, match="HTTP 500") as caught:
            at_all([VLLMServer(fake.url)], lambda server: server.post("/pause"))
    assert "sk-secret-word" not in str(caught.value)


@pytest.fixture
def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
