"""Weights on their way to servers: all three ways end in servers that say what the policy says."""

from __future__ import annotations

import asyncio
import errno
import queue
import re
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from peft import LoraConfig, get_peft_model

from agent_r1_trainer.files import FileLock, LockError
from agent_r1_trainer.generation import SamplingParams
from agent_r1_trainer.generation.sent_folder import SentFolder
from agent_r1_trainer.generation.vllm_control import ServerError, VLLMServer
from agent_r1_trainer.generation.vllm_server import VLLMServers
from agent_r1_trainer.generation.vllm_sync import AdapterSync, DiskSync, NcclSync, choose_sync, send_weights
from agent_r1_trainer.generation.witness import take_witness
from agent_r1_trainer.learning.scoring import attach_scoring
from tests.helpers.fake_vllm import FakeVLLM, serving
from tests.helpers.generation_contract import contract_model, contract_tokenizer, own_logprobs

CPU = torch.device("cpu")


@contextmanager
def servers(count: int = 2, **config):
    fakes = [FakeVLLM(contract_model, contract_tokenizer(), **config) for _ in range(count)]
    with serving(*fakes):
        yield fakes, [VLLMServer(fake.url) for fake in fakes]


def policy(*, lora: bool = False, head: bool = True, **kwargs):
    """A policy that has moved away from the servers' model."""
    torch.manual_seed(3)
    model = contract_model()
    if lora:
        settings = {"target_modules": ["q_proj", "down_proj"], **kwargs}
        model = get_peft_model(model, LoraConfig(r=4, task_type="CAUSAL_LM", **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    if head:
        attach_scoring(model, temperature=1.0, value_head=1)
    return model


def send(sync, model, urls, version="run-1", **witness):
    facts = [server.facts() for server in urls]
    return send_weights(
        sync, model, urls, facts, version, take_witness(model, contract_tokenizer(), **{"exact": True, **witness})
    )


def gap(model, urls, name: str) -> float:
    """The largest difference between log-probabilities of replies and a plain forward pass of the policy."""
    client = VLLMServers(urls, tokenizer=contract_tokenizer())
    client.hold(None, name)
    prompts = [[3, 8, 9, 4], [7, 7], [5, 6, 10]]

    async def run():
        try:
            asked = (client.answer(p, SamplingParams(8, (1,)), i, episode=i) for i, p in enumerate(prompts))
            return await asyncio.gather(*asked)
        finally:
            await client.aclose()

    replies = asyncio.run(run())
    model.eval()
    apart = [own_logprobs(model, p, r.ids) - torch.tensor(r.logprobs) for p, r in zip(prompts, replies, strict=True)]
    return float(torch.cat(apart).abs().max())


class Group:
    """Stands for the group of the trainer and all workers: what is broadcast, each server receives."""

    def __init__(self, fakes):
        self.described, self.queues = [], {id(fake): queue.Queue() for fake in fakes}
        for fake in fakes:
            fake.received = lambda info, fake=fake: self._receive(fake, info)

    def join(self, described):
        self.described.append(described)
        return "the group"

    def broadcast(self, weights, group):
        assert group == "the group"
        for name, tensor in weights:
            for each in self.queues.values():
                each.put((name, tensor.clone()))

    def _receive(self, fake, info):
        for name, dtype, shape in zip(info["names"], info["dtype_names"], info["shapes"], strict=True):
            found, tensor = self.queues[id(fake)].get(timeout=20)
            assert (found, str(tensor.dtype), list(tensor.shape)) == (name, f"torch.{dtype}", shape)
            yield name, tensor

    def sync(self, dtype=None):
        return NcclSync(51216, CPU, dtype, join=self.join, broadcast=self.broadcast, host="127.0.0.1")


@pytest.mark.parametrize("lora", [False, True], ids=["weights", "adapters"])
@pytest.mark.parametrize("way", ["disk", "nccl"])
def test_after_a_sync_every_server_says_what_the_policy_says(way, lora, tmp_path):
    model = policy(lora=lora)
    with servers() as (fakes, urls):
        sync = DiskSync(tmp_path / "weights", torch.float32) if way == "disk" else Group(fakes).sync()
        before = gap(model, urls, "served")
        assert send(sync, model, urls) == "served"
        assert gap(model, urls, "served") < 2e-5 < 0.1 < before
        assert [fake.weight_version for fake in fakes] == ["run-1"] * 2 and not any(fake.paused for fake in fakes)
        assert all(("/reset_prefix_cache", {}) in fake.requests for fake in fakes)
        sync.close()
    assert not list(tmp_path.rglob("*"))


def test_an_adapter_is_sent_alone_under_a_name_of_its_own(tmp_path):
    model = policy(lora=True)
    with servers(adapters=True) as (fakes, urls):
        sync = choose_sync("auto", model, [s.facts() for s in urls], folder=tmp_path / "a", port=1, device=CPU)
        assert isinstance(sync, AdapterSync)
        for version in ("run-1", "run-2"):
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if "lora_B" in name:
                        parameter.add_(0.1)
            assert send(sync, model, urls, version) == version
            assert gap(model, urls, version) < 2e-5
            assert all(list(fake.adapters) == [version] for fake in fakes)
            assert [path.name for path in (tmp_path / "a").iterdir()] == [version]
        fakes[0].restart()  # the adapter is gone there: the next version arrives all the same
        assert send(sync, model, urls, "run-3") == "run-3"


def test_an_adapter_of_any_name_is_found_by_the_servers(tmp_path):
    torch.manual_seed(0)
    config = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
    model = get_peft_model(contract_model(), config, adapter_name="mine")
    with servers(1, adapters=True) as (_, urls):
        sync = choose_sync("adapter", model, [urls[0].facts()], folder=tmp_path / "a", port=1, device=CPU)
        send(sync, model, urls, "run-1")
        assert gap(model, urls, "run-1") < 2e-5
        sync.close()
    with servers(1) as (_, urls):
        assert gap(model, urls, "served") > 0.05
        send(DiskSync(tmp_path / "b", torch.float32), model, urls)
        assert gap(model, urls, "served") < 2e-5


def test_weights_are_cast_to_what_the_servers_compute_in(tmp_path):
    model = policy(head=False)
    with servers(1, dtype="bfloat16") as (_, urls):
        for sync in (DiskSync(tmp_path, torch.bfloat16),):
            send(sync, model, urls)
            assert 1e-5 < gap(model, urls, "served") < 0.5


def test_the_group_is_made_once_and_again_when_a_server_was_started_anew():
    model = policy()
    with servers(3) as (fakes, urls):
        group = Group(fakes)
        sync = group.sync()
        for version in ("1", "2"):
            send(sync, model, urls, version)
        assert group.described == [
            {"master_address": "127.0.0.1", "master_port": 51216, "world_size": 4, "packed": True}
        ]
        offsets = [body["init_info"]["rank_offset"] for f in fakes for path, body in f.requests if "/init" in path]
        assert offsets == [1, 2, 3]
        fakes[1].restart()
        send(sync, model, urls, "3")
        assert len(group.described) == 2 and gap(model, urls, "served") < 2e-5


@pytest.mark.parametrize("path", ["/pause", "/start_weight_update", "/finish_weight_update", "/update_weight_version"])
def test_a_failed_sync_raises_with_the_words_of_the_server_and_all_go_on(path):
    model = policy()
    with servers() as (fakes, urls):
        fakes[1].refused[path] = "CUDA error: the cable is out"
        with pytest.raises(ServerError, match=rf"{fakes[1].url}{path}: HTTP 500.*the cable is out") as caught:
            send(Group(fakes).sync(), model, urls)
        assert not any(fake.paused for fake in fakes) and "/resume" not in str(caught.value)


def test_servers_that_stay_paused_are_named_with_what_to_do(tmp_path):
    with servers() as (fakes, urls):
        fakes[1].refused |= {"/collective_rpc": "disk full", "/resume": "no"}
        with pytest.raises(ServerError, match=rf"disk full.*Paused since then.*{fakes[1].url}.*/resume") as caught:
            send(DiskSync(tmp_path / "weights", None), policy(), urls)
        assert f"{fakes[0].url}. Post" not in str(caught.value) and [fake.paused for fake in fakes] == [False, True]


class Stuck(Group):
    """A group in which a broadcast waits for all members, as NCCL does, and a member that is missing is never there."""

    def __init__(self, fakes):
        super().__init__(fakes)
        self.released, self.ended = threading.Event(), threading.Event()

    def broadcast(self, weights, group):
        for name, _ in weights:
            if "q_proj" in name:  # in the midst of a layer whose adapter is merged
                self.released.wait(60)
        self.ended.set()

    def _receive(self, fake, info):
        self.released.wait(60)
        yield from ()


def test_a_server_that_refuses_the_weights_ends_the_broadcast_that_waits_for_it():
    model = policy(lora=True)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with servers(3) as (fakes, urls):
        group = Stuck(fakes)
        fakes[1].refused["/update_weights"] = "out of memory"
        failed = []

        def sending():
            with pytest.raises(ServerError) as caught:
                group.sync().send(model, urls, "1")
            failed.append(str(caught.value))

        thread = threading.Thread(target=sending, daemon=True)
        thread.start()
        thread.join(30)
        waiting = thread.is_alive()
        after = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        group.released.set()
        thread.join(60)
        assert not waiting, "the refusal was not heard while the broadcast waited"
        assert f"{fakes[1].url}/update_weights: HTTP 500" in failed[0] and "out of memory" in failed[0]
        assert all(torch.equal(before[name], tensor) for name, tensor in after.items())
        assert group.ended.wait(30)  # it finds no further weights


def test_a_broadcast_that_hangs_while_a_layer_is_merged_is_not_waited_for_for_ever(monkeypatch):
    model, released, merging = policy(lora=True), threading.Event(), threading.Event()
    layer = next(module for module in model.modules() if hasattr(module, "lora_A"))
    merge, device = layer.merge, CPU

    def stuck(*args):
        merging.set()
        released.wait(60)
        merge(*args)

    with servers(1) as (fakes, urls):
        group = Group(fakes)

        def refuse(info):
            assert merging.wait(30)
            raise RuntimeError("out of memory")

        fakes[0].received = refuse
        sync = NcclSync(1, device, None, join=group.join, broadcast=group.broadcast, host="127.0.0.1", leaving=0.2)
        described = threading.Event()

        def broadcast(weights, given):
            monkeypatch.setattr(layer, "merge", stuck)  # what is sent was described before
            described.set()
            group.broadcast(weights, given)

        sync._broadcast = broadcast
        failed = []

        def sending():
            with pytest.raises(ServerError) as caught:
                sync.send(model, urls, "1")
            failed.append(str(caught.value))

        thread = threading.Thread(target=sending, daemon=True)
        thread.start()
        thread.join(30)
        waiting = thread.is_alive()
        released.set()
        thread.join(60)
    assert described.is_set() and not waiting, "the refusal was not heard while the broadcast hung"
    assert "/update_weights" in failed[0] and "go on from the last checkpoint" in failed[0]


def test_a_broadcast_that_fails_says_what_a_server_says():
    def broken(weights, group):
        raise RuntimeError("NCCL error: unhandled system error")

    with servers() as (fakes, urls):
        group = Group(fakes)
        group.broadcast = broken
        for fake in fakes:
            fake.refused["/update_weights"] = "the port is closed"
        with pytest.raises(ServerError, match="the port is closed"):
            group.sync().send(policy(), urls, "1")


def test_folders_of_runs_that_were_killed_are_deleted_by_the_next_and_those_of_living_ones_stay(tmp_path):
    for name in ("killed", "living", "somebody-elses"):
        (tmp_path / name / "run-1").mkdir(parents=True)
    (tmp_path / "killed.vllm-lock").touch()  # its process is gone, and with it the lock
    other = SentFolder(tmp_path / "living")
    other.version("run-1")
    with servers(1) as (_, urls):
        sync = DiskSync(tmp_path / "mine", torch.float32)
        send(sync, policy(), urls)
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"living", "somebody-elses", "mine"}
        sync.close()
        assert send(sync, policy(), urls, "run-2") == "served"  # opened again
        sync.close()
    other.close()
    assert [path.name for path in tmp_path.iterdir()] == ["somebody-elses"]


def test_a_run_that_looks_at_a_lock_which_another_takes_at_this_moment_does_not_stop_it(tmp_path):
    looking = FileLock(tmp_path / "mine.vllm-lock", "the folder", "wait")
    looking.acquire()
    threading.Timer(0.2, looking.release).start()
    folder = SentFolder(tmp_path / "mine")
    assert folder.version("run-1") == tmp_path / "mine" / "run-1"
    with pytest.raises(LockError, match="in use by process"):
        SentFolder(tmp_path / "mine").version("run-1")
    folder.close()


def test_where_the_file_system_has_no_locks_one_warning_is_enough(tmp_path, monkeypatch, caplog):
    def flock(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    (tmp_path / "killed").mkdir()
    folder = SentFolder(tmp_path / "mine")
    for version in ("run-1", "run-2", "run-3"):
        folder.version(version)
    assert caplog.text.count("No locks available") == 1 and (tmp_path / "killed").exists()


def test_a_server_that_cannot_read_the_folder_is_told_which_setting_names_it(tmp_path):
    with servers(1) as (fakes, urls):
        fakes[0].refused["/collective_rpc"] = "No such file or directory"
        with pytest.raises(ServerError, match="No such file.*vllm_sync_dir"):
            send(DiskSync(tmp_path, None), policy(), urls)
        with pytest.raises(ServerError, match=r"HTTP 404.*--enable-lora"):
            fakes[0].refused.clear()
            sync = AdapterSync(tmp_path / "adapters")
            fakes[0].refused["/v1/load_lora_adapter"] = "HTTP 404: Not Found"
            send(sync, policy(lora=True), urls)


def test_weights_that_did_not_arrive_are_seen_at_once(tmp_path):
    model, sync = policy(), DiskSync(tmp_path, None)
    with servers() as (fakes, urls):
        fakes[1]._load = lambda tensors: None
        with pytest.raises(ServerError, match=rf"{fakes[1].url} does not hold the weights that were sent"):
            send(sync, model, urls)
        send(sync, model, urls[:1])

        # one layer that is left out is seen too
        def without_one(tensors, load=FakeVLLM._load, fake=fakes[1]):
            kept = dict(fake.model.named_parameters())["model.layers.1.mlp.down_proj.weight"]
            load(fake, {**tensors, "model.layers.1.mlp.down_proj.weight": kept.detach().clone()})

        fakes[1]._load = without_one
        with pytest.raises(ServerError, match="does not hold"):
            send(sync, model, urls)


def test_the_way_is_chosen_by_what_policy_and_servers_know_or_refused_with_the_way_out(tmp_path):
    with servers(1) as (_, urls):
        facts = urls[0].facts()
    kwargs = {"folder": tmp_path, "port": 1}
    lora, plain, cuda = policy(lora=True), policy(), torch.device("cuda")
    fast = replace(facts, transfer="nccl")
    assert isinstance(choose_sync("auto", plain, [facts], device=CPU, **kwargs), DiskSync)
    assert isinstance(choose_sync("auto", lora, [facts], device=CPU, **kwargs), DiskSync)
    assert isinstance(choose_sync("auto", plain, [fast], device=CPU, **kwargs), DiskSync)
    assert isinstance(choose_sync("auto", plain, [fast], device=cuda, **kwargs), NcclSync)
    assert isinstance(choose_sync("auto", plain, [fast, facts], device=cuda, **kwargs), DiskSync)
    takes = replace(facts, adapters=True)
    assert isinstance(choose_sync("auto", lora, [takes], device=CPU, **kwargs), AdapterSync)
    for kind, words in (
        ({"use_dora": True}, "use_dora=True"),
        ({"modules_to_save": ["lm_head"], "ensure_weight_tying": True}, "modules_to_save"),
        ({"bias": "all"}, "bias='all'"),
        ({"lora_bias": True}, "lora_bias=True"),
        ({"alpha_pattern": {"down_proj": 32}}, "alpha_pattern"),
        ({"rank_pattern": {"down_proj": 2}}, "rank_pattern"),
        ({"trainable_token_indices": [3, 4]}, "trainable_token_indices"),
        ({"target_modules": ["q_proj", "embed_tokens"], "ensure_weight_tying": True}, "adapters on its embeddings"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights='pissa' changes the weights below"),
        ({"init_lora_weights": "olora"}, "init_lora_weights='olora' changes the weights below"),
    ):
        changed = policy(lora=True, **kind)
        assert isinstance(choose_sync("auto", changed, [takes], device=CPU, **kwargs), DiskSync)
        with pytest.raises(ValueError, match=rf"{re.escape(words)}.*Set 'disk' or 'nccl'"):
            choose_sync("adapter", changed, [takes], device=CPU, **kwargs)
    for kind in ({"init_lora_weights": "gaussian"}, {"init_lora_weights": "orthogonal"}, {"use_rslora": True}):
        assert isinstance(choose_sync("auto", policy(lora=True, **kind), [takes], device=CPU, **kwargs), AdapterSync)
    alone = policy(lora=True, target_modules=["embed_tokens", "q_proj"])
    for mode in ("auto", "disk"):
        with pytest.raises(ValueError, match="cannot be sent: embeddings and head are one"):
            choose_sync(mode, alone, [takes], device=CPU, **kwargs)
    for mode, model, fact, device, words in (
        ("nccl", plain, fast, CPU, "set 'disk'"),
        ("nccl", plain, facts, cuda, "--weight-transfer-config"),
        ("adapter", plain, takes, CPU, "no adapters"),
        ("adapter", lora, facts, CPU, "--enable-lora"),
    ):
        with pytest.raises(ValueError, match=words):
            choose_sync(mode, model, [fact], device=device, **kwargs)


def test_a_witness_knows_rounding_from_other_weights():
    model, tokenizer = contract_model(), contract_tokenizer()
    exact, rough = (take_witness(model, tokenizer, exact=exact) for exact in (True, False))
    expected = own_logprobs(model, exact.ids[:1], exact.ids[1:])
    torch.testing.assert_close(torch.tensor(exact.logprobs), expected, atol=1e-5, rtol=0)
    assert exact == take_witness(model, tokenizer, exact=True)
    halved = take_witness(contract_model().bfloat16(), tokenizer, exact=False).logprobs
    assert rough.fits(halved, exact=True) and not rough.fits([float("nan")] * len(halved), exact=False)
    assert not rough.fits(take_witness(policy(), tokenizer, exact=True).logprobs, exact=False)
    for share, fits in ((0.005, (True, True)), (0.02, (False, True)), (0.06, (False, False))):
        apart = [logprob - share * max(abs(logprob), 1.0) for logprob in exact.logprobs]
        assert (exact.fits(apart, exact=True), rough.fits(apart, exact=True)) == fits
