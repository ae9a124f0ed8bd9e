"""Runs that sample from vLLM servers: the same runs as without, whatever the servers do."""

from __future__ import annotations

import logging
import re
import threading
from contextlib import contextmanager
from dataclasses import fields

import pytest
import torch
from peft import LoraConfig

from agent_r1_envs.services.secrecy import without_secrets
from agent_r1_trainer import StepPOConfig
from agent_r1_trainer.flows import AsyncEnvLoop
from agent_r1_trainer.generation.vllm_control import ServerError
from agent_r1_trainer.generation.vllm_settings import VLLMSettings
from agent_r1_trainer.learning.agreement import measure_differences, refuse_disagreement, warn_of_difference
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers import fake_vllm
from tests.helpers.fake_vllm import FakeVLLM, serving
from tests.helpers.training import CueEnv, make_model, make_tokenizer, make_trainer, weights


def other_model():
    """What the servers begin with: not the policy."""
    return make_model(seed=5)


@contextmanager
def servers(count: int = 2, **config):
    fakes = [FakeVLLM(other_model, make_tokenizer(), **config) for _ in range(count)]
    with serving(*fakes):
        yield fakes


def trained(folder, fakes, **settings):
    urls = [fake.url for fake in fakes]
    vllm = {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": urls, "vllm_server_timeout": 10.0}
    trainer = make_trainer(folder, **{"max_steps": 8, **(vllm if fakes else {}), **settings})
    trainer.train()
    return trainer


def logged(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def test_a_run_on_servers_is_the_run_without_them(tmp_path):
    settings = {"importance_sampling_correction": "none", "bootstrap": "none"}
    plain = weights(trained(tmp_path / "plain", [], **settings))
    with servers() as fakes:
        trainer = trained(tmp_path / "vllm", fakes, **settings)
        assert all(fake.answered for fake in fakes)
        assert [fake.weight_version for fake in fakes] == [f"{trainer._backend._run}-2"] * 2
    for name, tensor in weights(trainer).items():
        torch.testing.assert_close(tensor, plain[name], atol=1e-4, rtol=1e-3)
    assert max(logged(trainer, "sampling/logp_difference/max")) < 1e-4
    assert logged(trainer, "vllm/servers") == [2.0] * 2 and set(logged(trainer, "vllm/retried")) == {0.0}
    assert not (tmp_path / "vllm" / "vllm_weights").exists() or not any((tmp_path / "vllm" / "vllm_weights").iterdir())


def test_a_reply_that_never_comes_masks_its_episode_and_no_other(tmp_path):
    with servers(1) as fakes:
        fakes[0].faults += [fake_vllm.logprobs(float("nan"))] * 2
        trainer = trained(tmp_path, fakes, vllm_retries=0)
    assert isinstance(trainer.flow, AsyncEnvLoop)
    assert logged(trainer, "masked_ratio") == [2 / 16, 0.0] and logged(trainer, "vllm/failed") == [2.0, 0.0]


def test_an_evaluation_on_its_own_leaves_no_weights_and_no_thread_behind(tmp_path):
    def threads():
        return sum(thread.name == "agent-r1-generation" for thread in threading.enumerate())

    before = threads()
    with servers(1) as fakes:
        trainer = make_trainer(
            tmp_path,
            use_vllm=True,
            vllm_mode="server",
            vllm_server_base_url=fakes[0].url,
            eval_episodes=4,
            eval_env=CueEnv,
        )
        trainer.evaluate()
        assert fakes[0].answered and threads() == before
        assert not (tmp_path / "vllm_weights").exists()
        trainer.evaluate()  # what it needs is opened again
        assert threads() == before


def test_truncated_importance_weights_are_on_and_every_rollout_is_measured(tmp_path):
    with servers(1) as fakes:
        trainer = trained(tmp_path, fakes, num_ppo_epochs=1, num_minibatches=1, max_steps=2, advantage_estimator="grpo",
                          num_generations=4, logging_steps=1)  # fmt: skip
    assert trainer.args.importance_sampling_correction == "token"
    assert len(logged(trainer, "sampling/logp_difference/mean")) == 2  # without a critic nobody else asks for them
    assert logged(trainer, "sampling/logp_alarm") == [0.0] * 2
    assert logged(trainer, "importance/mean") == pytest.approx([1.0] * 2, abs=1e-4)


def test_bad_answers_and_a_restart_cost_nothing_but_time(tmp_path, caplog):
    with servers() as fakes:
        faults = [fake_vllm.status(500), fake_vllm.hang_up, fake_vllm.logprobs(float("nan")), fake_vllm.logprobs(None)]
        for fake in fakes:
            fake.faults += faults

        def restart(answer):
            fakes[1].restart()
            fakes[1].down = True  # as while a server starts, or some request would not notice
            threading.Timer(0.2, setattr, (fakes[1], "down", False)).start()
            return fake_vllm.HANG_UP

        fakes[1].faults.append(restart)
        trainer = trained(tmp_path, fakes, logging_steps=4)
    assert max(logged(trainer, "sampling/logp_difference/max")) < 1e-4
    assert sum(logged(trainer, "vllm/retried")) >= 5 and sum(logged(trainer, "vllm/failed")) == 0
    assert "it was started anew" in caplog.text
    assert set(logged(trainer, "masked_ratio")) <= {0.0}


def test_a_server_that_is_gone_is_done_without_and_taken_back(tmp_path, caplog):
    with servers() as fakes:
        trainer = make_trainer(
            tmp_path, use_vllm=True, vllm_mode="server", vllm_server_base_url=",".join(fake.url for fake in fakes),
            max_steps=12, logging_steps=4,
        )  # fmt: skip
        collect, rollouts = trainer._collect, []

        def collecting(rollout):
            fakes[0].down = rollout == 1
            rollouts.append(fakes[0].answered)
            return collect(rollout)

        trainer._collect = collecting
        trainer.train()
        rollouts.append(fakes[0].answered)
    assert rollouts[1] == rollouts[2] < rollouts[3]
    assert logged(trainer, "vllm/servers") == [2.0, 1.0, 2.0] and "goes on without it" in caplog.text


def test_where_the_weights_do_not_arrive_the_run_stops_with_the_words_of_the_server(tmp_path):
    with servers() as fakes:
        fakes[1].refused["/collective_rpc"] = "CUDA out of memory"
        with pytest.raises(ServerError, match="CUDA out of memory"):
            trained(tmp_path / "a", fakes)
    with servers(1) as fakes:
        fakes[0]._load = lambda tensors: None
        with pytest.raises(ServerError, match="does not hold the weights"):
            trained(tmp_path / "b", fakes)


@pytest.mark.parametrize(
    ("config", "words"),
    [({"max_model_len": 100}, "--max-model-len 130"), ({"logprobs_mode": "raw_logprobs"}, "processed_logprobs")],
)
def test_a_server_that_does_not_fit_is_refused_before_anything_is_trained(config, words, tmp_path):
    with servers(1, **config) as fakes, pytest.raises(ServerError, match=words):
        trained(tmp_path, fakes)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"top_p": 0.9}, "another distribution"),
        ({"top_k": 20}, "another distribution"),
        ({"vllm_mode": "both"}, "'server' or 'colocate'"),
        ({"vllm_mode": "server", "vllm_sync_mode": "ipc"}, "'nccl'"),
        ({"vllm_gpu_memory_utilization": 1.5}, "vllm_gpu_memory_utilization"),
        ({"vllm_mode": "server", "vllm_server_port": 70000}, "vllm_server_port must be a whole number from 1 to 65535"),
        ({"vllm_mode": "server", "vllm_group_port": 65536}, "vllm_group_port must be a whole number from 1 to 65535"),
    ],
)
def test_settings_that_make_no_sense_with_vllm_are_refused(settings, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        StepPOConfig(str(tmp_path), use_cpu=True, report_to=[], use_vllm=True, **settings)


OWN = {"generation_batch_rows": 4, "generation_batch_tokens": 4096, "generation_cache_tokens": 0}
SERVER = {
    "vllm_server_base_url": "http://a:1",
    "vllm_server_host": "node1",
    "vllm_server_port": 8001,
    "vllm_server_timeout": 1.0,
    "vllm_request_timeout": 1.0,
    "vllm_sync_mode": "disk",
    "vllm_sync_dir": "weights",
    "vllm_group_port": 1234,
}
COLOCATE = {
    "vllm_gpu_memory_utilization": 0.5,
    "vllm_max_model_length": 100,
    "vllm_enable_sleep_mode": True,
    "vllm_model_impl": "transformers",
}
BOTH = {"vllm_retries": 0, "max_logp_difference": 0.5}


def test_settings_that_would_do_nothing_are_refused_with_what_to_do_instead(tmp_path):
    def refused(mode, name, value):
        vllm = {} if mode == "own" else {"use_vllm": True, "vllm_mode": mode}
        try:
            StepPOConfig(str(tmp_path), use_cpu=True, report_to=[], **vllm, **{name: value})
        except ValueError as error:
            assert f"{name}={value!r} has no meaning with" in str(error) and "leave it out" in str(error)
            return True
        return False

    for settings, modes in ((OWN, "own"), (SERVER, "server"), (COLOCATE, "colocate"), (BOTH, "server colocate")):
        for name, value in settings.items():
            for mode in ("own", "server", "colocate"):
                assert refused(mode, name, value) is (mode not in modes), (name, mode)
    for mode in ("own", "server", "colocate"):
        assert refused(mode, "vllm_tensor_parallel_size", 2)
    assert refused("own", "vllm_mode", "server")
    named = {*OWN, *SERVER, *COLOCATE, *BOTH, "vllm_tensor_parallel_size", "vllm_mode", "use_vllm"}
    assert {field.name for field in fields(VLLMSettings)} <= named


def test_settings_of_vllm_name_the_option_of_a_server_and_can_be_read_again(tmp_path):
    given = {"use_cpu": True, "report_to": [], "use_vllm": True}
    for name, words in (("vllm_max_model_length", "--max-model-len"), ("vllm_tensor_parallel_size", "serve the model")):
        with pytest.raises(ValueError, match=words):
            StepPOConfig(str(tmp_path), **given, vllm_mode="server", **{name: 2})
    config = StepPOConfig(str(tmp_path), **given, vllm_mode="server")
    again = {name: getattr(config, name) for name in (*OWN, *SERVER, *COLOCATE, *BOTH)}
    StepPOConfig(str(tmp_path), **given, vllm_mode="server", **again)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"vllm_server_base_url": "node1:8000"}, "'node1:8000': expected one like 'http://node1:8000'"),
        ({"vllm_server_base_url": "http://a:1,me:password1@b:2"}, "has the address 'b:2'"),
        ({"vllm_server_base_url": "http://a:1,grpc://b:2"}, "'grpc://b:2'"),
        ({"vllm_server_base_url": ["http://a:port"]}, "'http://a:port'"),
        ({"vllm_server_base_url": ["http://"]}, "'http:'"),
        ({"vllm_server_base_url": [""]}, "has the address ''"),
        ({"vllm_server_base_url": [None]}, "list of addresses"),
        ({"vllm_server_base_url": " , "}, "no address"),
        ({"vllm_server_base_url": "http://a:1/?api_key=0123456789"}, "VLLM_API_KEY"),
        ({"vllm_server_base_url": "http://a:1, http://b:1, http://a:1/v1/"}, "has http://a:1 twice"),
        ({"vllm_server_base_url": "http://a:1", "vllm_server_port": 8001}, "vllm_server_port=8001 has no meaning"),
        ({"vllm_server_host": "http://a"}, "vllm_server_host has the address 'http://http://a:8000'"),
    ],
)
def test_addresses_that_cannot_be_asked_or_are_there_twice_are_refused_at_the_start(settings, words, tmp_path):
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        StepPOConfig(str(tmp_path), use_cpu=True, report_to=[], use_vllm=True, vllm_mode="server", **settings)
    assert "password" not in str(error.value) and "0123456789" not in str(error.value)


def test_a_policy_that_no_engine_could_hold_is_refused_before_one_is_started(tmp_path):
    alone = LoraConfig(r=2, target_modules=["embed_tokens"], task_type="CAUSAL_LM")
    with pytest.raises(ValueError, match=r"cannot run this policy: embeddings and head are one.*ensure_weight_tying"):
        make_trainer(tmp_path, peft_config=alone, use_vllm=True)


def test_rounding_of_another_engine_is_named_and_stops_nothing(caplog):
    steps = [Step([1], [2] * 100)]
    trajectories = [Trajectory("task-1", steps, StopReason.TERMINATED)]
    trainer = torch.full((100,), -1.0)
    rounded = [measure_differences(trainer + 0.05, trainer, trajectories)]
    with caplog.at_level(logging.WARNING):
        assert warn_of_difference(rounded, 0.02) and not warn_of_difference(rounded, 0.06)
    assert "0.05 nats in the mean" in caplog.text and "task-1" in caplog.text
    refuse_disagreement(rounded, exact=True, foreign=True)
    with pytest.raises(ValueError, match="0.05"):
        refuse_disagreement(rounded, exact=False)
    with pytest.raises(ValueError, match=r"limit 0.2 for another engine"):
        refuse_disagreement([measure_differences(trainer + 0.5, trainer, trajectories)], exact=True, foreign=True)


def test_passwords_of_servers_reach_no_message_and_no_record(tmp_path):
    urls = "http://me:password1@one:8000, http://me:password2@two:8000/?api_key=0123456789"
    for settings in (
        {"vllm_server_base_url": urls},
        {"vllm_server_base_url": [urls.split("/?")[0].split(", ")[0], ""]},
    ):
        with pytest.raises(ValueError, match="vllm_server_base_url") as error:
            StepPOConfig(str(tmp_path), use_cpu=True, use_vllm=True, vllm_mode="server", **settings)
        assert "password" not in str(error.value) and "0123456789" not in str(error.value)
    with pytest.raises(ValueError, match="has no meaning") as error:
        StepPOConfig(str(tmp_path), use_cpu=True, vllm_server_base_url="http://me:password1@one:8000")
    assert "password" not in str(error.value)
    shown = without_secrets({"urls": urls, "list": urls.split(", "), "said": "no address"})
    assert "password" not in str(shown) and "0123456789" not in str(shown)
    assert "one:8000" in shown["urls"] and "two:8000" in shown["urls"] and shown["said"] == "no address"
