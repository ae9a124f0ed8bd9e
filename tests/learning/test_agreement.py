"""Sampler, training pass and model must mean the same distribution, or nothing is trained."""

from __future__ import annotations

import math

import pytest
import torch

from agent_r1_trainer.bench.local import play_local
from agent_r1_trainer.learning.agreement import measure_differences, refuse_disagreement
from agent_r1_trainer.learning.probe import Probe
from agent_r1_trainer.learning.scoring import attach_scoring
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory
from tests.helpers.architectures import ARCHITECTURES, make_architecture
from tests.helpers.training import WORDS, CueEnv, make_tokenizer, make_trainer

# Read from the start at every turn, since the row cache gives them something else.
PADDED = {"mistral", "gemma2", "gemma3_text", "cohere2", "gpt_neo", "bloom", "gpt_oss", "llama4_text", "qwen3_next"}
PADDED |= {"modernbert-decoder"}
# Wrong by 1 to 8 nats when they are read token by token.
REFUSED = {"trocr", "mamba", "rwkv", "moshi"}


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_an_architecture_is_read_as_it_reads_itself_or_is_refused(kind):
    model, tokenizer = make_architecture(kind), make_tokenizer()
    probe = Probe(model, tokenizer)
    if kind in REFUSED:
        with pytest.raises(ValueError, match=rf"type '{kind}' \(\w+\) is not supported: read token by token"):
            probe.find_reading()
    else:
        assert probe.find_reading() == (kind not in PADDED)
        assert not probe.find_reading(rows=False)
    attach_scoring(model, temperature=0.8)
    probe.check_scoring(temperature=0.8, merge=kind not in PADDED)
    with pytest.raises(ValueError, match=rf"'{kind}' .* several turns at a time"):
        probe.check_scoring(temperature=0.4, merge=False)


def test_even_a_model_whose_words_are_all_alike_is_seen_to_be_read_wrong():
    model = make_architecture("rwkv")
    with torch.no_grad():
        model.head.weight.mul_(0.01)
    with pytest.raises(ValueError, match="rwkv"):
        Probe(model, make_tokenizer()).find_reading()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_frozen_weights_of_16_bits_are_no_disagreement(dtype):
    model = make_architecture("qwen3").to(dtype)
    attach_scoring(model, temperature=1.0)
    probe = Probe(model, make_tokenizer())
    assert probe.find_reading()
    probe.check_scoring(temperature=1.0, merge=True)
    with pytest.raises(ValueError, match="rwkv"):
        Probe(make_architecture("rwkv").bfloat16(), make_tokenizer()).find_reading()


def test_a_model_that_is_read_wrong_is_refused_by_trainer_and_benchmark(tmp_path):
    with pytest.raises(ValueError, match=r"type 'rwkv' \(RwkvForCausalLM\) is not supported"):
        make_trainer(tmp_path, model=make_architecture("rwkv"))
    make_architecture("moshi").save_pretrained(tmp_path / "moshi")
    make_tokenizer().save_pretrained(tmp_path / "moshi")
    with pytest.raises(ValueError, match="moshi"):
        next(play_local(CueEnv, str(tmp_path / "moshi"), [], 1, {"max_tokens": 4, "temperature": 1.0}))


def test_a_model_that_the_row_cache_reads_wrong_is_trained_without(tmp_path, caplog):
    trainer = make_trainer(tmp_path, model=make_architecture("bloom", vocab_size=len(WORDS)), max_steps=4)
    assert "prompts that grow are read again at every turn" in caplog.text
    with trainer.generator() as generator:
        assert generator.max_cached_tokens == 0
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "sampling/logp_difference/max" in entry]
    assert logged and all(entry["sampling/logp_difference/max"] < 1e-3 for entry in logged)


def altered(folder, change, **settings):
    """A trainer whose flow, as a user's may, records other log-probabilities than the sampler gave."""
    trainer = make_trainer(folder, max_steps=4, logging_steps=1, **settings)
    play, calls = trainer.flow.run, []

    def run(*args, **kwargs):
        trajectories = play(*args, **kwargs)
        calls.append(len(trajectories))
        for number, trajectory in enumerate(trajectories):
            for turn, step in enumerate(trajectory.steps):
                step.logprobs = change(number, turn, list(step.logprobs))
        return trajectories

    trainer.flow.run = run
    return trainer, calls


def one_token(size):
    return lambda number, turn, logprobs: [
        value - size * (number == 3 and turn == 0 and at == 1) for at, value in enumerate(logprobs)
    ]


@pytest.mark.parametrize(
    "settings",
    [{}, {"advantage_estimator": "grpo", "num_generations": 4, "num_ppo_epochs": 1, "num_minibatches": 1}],
)
def test_a_token_that_differs_by_more_than_a_twentieth_nat_stops_the_first_rollout(settings, tmp_path):
    trainer, _ = altered(tmp_path / "a", one_token(0.06), **settings)
    with pytest.raises(ValueError, match=r"up to 0.06 nats \(limit 0.05 in float32\), most at token 1 .* turn 0 in"):
        trainer.train()
    assert trainer.state.global_step == 0
    trainer, _ = altered(tmp_path / "b", one_token(0.04), **settings)
    trainer.train()


def test_every_process_compares_its_first_rollout_and_only_that(tmp_path):
    late = {"wrong": False}

    def change(number, turn, logprobs):
        return [value - 1.0 * late["wrong"] for value in logprobs]

    trainer, calls = altered(tmp_path, change)
    trainer.args.max_steps = 8
    play = trainer.flow.run

    def run(*args, **kwargs):
        late["wrong"] = len(calls) == 1
        return play(*args, **kwargs)

    trainer.flow.run = run
    trainer.train()
    assert len(calls) == 2
    assert max(entry.get("sampling/logp_difference/max", 0) for entry in trainer.state.log_history) > 0.9
    late["wrong"] = True
    calls.append(0)
    with pytest.raises(ValueError, match="first rollout"):
        trainer.flow.run = play
        trainer.train()


@pytest.mark.parametrize("given", [None, math.nan])
@pytest.mark.parametrize("updates", [1, 2])
def test_a_flow_without_log_probabilities_is_not_compared(given, updates, tmp_path):
    trainer, calls = altered(
        tmp_path,
        lambda number, turn, logprobs: given if given is None else [given] * len(logprobs),
        advantage_estimator="grpo",
        num_generations=4,
        num_ppo_epochs=1,
        num_minibatches=updates,
    )
    trainer.train()
    assert len(calls) == 4 // updates and trainer.state.global_step == 4


@pytest.mark.parametrize("setting", [{"top_p": 0.7}, {"top_k": 3}, {"temperature": 0.5}, {"top_p": 0.9, "top_k": 5}])
def test_truncated_sampling_and_temperatures_are_no_disagreement(setting, tmp_path):
    trainer, _ = altered(tmp_path / "a", lambda number, turn, logprobs: logprobs, **setting)
    trainer.train()
    trainer, _ = altered(tmp_path / "b", lambda number, turn, logprobs: [value - 3.0 for value in logprobs], **setting)
    with pytest.raises(ValueError, match="up to"):
        trainer.train()


def test_autocast_to_bfloat16_is_compared_by_its_own_limits(tmp_path):
    trainer, _ = altered(tmp_path / "a", one_token(0.2), bf16=True)
    trainer.train()
    trainer, _ = altered(tmp_path / "b", lambda number, turn, logprobs: [value - 0.1 for value in logprobs], bf16=True)
    with pytest.raises(ValueError, match="nats in the mean"):
        trainer.train()


def trajectory(tokens, task="t", env=""):
    return Trajectory(task, [Step([1], list(range(count))) for count in tokens], StopReason.TERMINATED, env=env)


def test_the_place_is_named_over_ranks():
    trainer = torch.zeros(6)
    first = measure_differences(
        torch.tensor([0, 0, 0, -0.02, 0, math.nan]), trainer, [trajectory([2, 2]), trajectory([2])]
    )
    second = measure_differences(
        torch.tensor([0, 0, 0, 0, 0.2, 0]), trainer, [trajectory([1]), trajectory([2, 3], "u", "web")]
    )
    assert (first.known, first.tokens, second.known) == (5, 6, 6) and second.largest == pytest.approx(0.2)
    with pytest.raises(ValueError, match=r"0.2 nats .* token 1 of the reply of turn 1 in task 'u' of web"):
        refuse_disagreement([first, second], exact=True)
    refuse_disagreement([first], exact=True)
    refuse_disagreement([measure_differences(torch.zeros(0), torch.zeros(0), [])], exact=True)


def test_in_16_bits_the_mean_and_the_99th_percentile_decide():
    def refused(differences):
        sampler = torch.tensor(differences)
        ranks = [
            measure_differences(part, torch.zeros(len(part)), [trajectory([len(part)])]) for part in sampler.split(500)
        ]
        refuse_disagreement(ranks, exact=False)

    refused([0.019] * 1000)
    with pytest.raises(ValueError, match=r"0.021 nats in the mean \(limit 0.02 in 16 bits\)"):
        refused([0.021] * 1000)
    refused([1.0] * 9 + [0.0] * 991)  # one bad token in a hundred is chance
    with pytest.raises(ValueError, match=r"0.3 nats at 1.1% of the tokens"):
        refused([0.31] * 11 + [0.0] * 989)


def test_a_sampled_token_of_no_probability_is_a_disagreement_and_no_metric():
    found = measure_differences(torch.tensor([-math.inf, -1.0]), torch.tensor([-1.0, -1.0]), [trajectory([2])])
    assert found.total == found.largest == 0.0
    with pytest.raises(ValueError, match="inf nats"):
        refuse_disagreement([found], exact=True)


def test_exam_evaluation_and_training_answer_from_one_generator(tmp_path):
    """The exam once made a generator of its own, which ignored all limits but one, and autocast."""
    from agent_r1_trainer.train.exam import Exam
    from agent_r1_trainer.train.settings import ExamSettings, TrainSettings

    limits = {"generation_batch_rows": 3, "generation_batch_tokens": 77, "generation_cache_tokens": 11}
    trainer = make_trainer(tmp_path, env="AgentR1/HotpotQA-v0", recipe="native", bf16=True, **limits)
    settings = TrainSettings(model="", env="AgentR1/HotpotQA-v0")
    exam, seen = Exam(trainer, settings, ExamSettings(episodes=2)), []

    def run(generator, sampling):
        seen.append((generator, torch.is_autocast_enabled("cpu")))
        return {}, []

    exam._evaluator.run = run
    exam.take("trained", 1.0)
    ((generator, autocast),) = seen
    assert (generator.max_rows, generator.max_tokens, generator.max_cached_tokens) == (3, 77, 11) and autocast
