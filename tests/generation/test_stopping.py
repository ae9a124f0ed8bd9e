"""Where replies end: at the template's own end of a turn, at ids that were asked for, and never beyond."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agent_r1_trainer.flows import AgentEnvLoop, Assignment
from agent_r1_trainer.generation import SamplingParams, TransformersGenerator
from agent_r1_trainer.generation.stop_strings import StopStrings
from agent_r1_trainer.prompts import PromptBuilder, reply_text
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.trainer.models import stop_token_ids
from agent_r1_trainer.trainer.steppo_trainer import StepPOTrainer
from tests.helpers.training import DEFAULTS, CueEnv, make_model, make_tokenizer, make_trainer

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SHIPPED = Path(trl.__file__).parent / "chat_templates"


def tokenizer_of(*marks: str, template: str = CHATML, eos: str = "<|endoftext|>", special: bool = True) -> Any:
    """A tokenizer of bytes with these marks."""
    inner = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])
    )
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(eos)])
    inner.add_tokens([AddedToken(mark, special=special) for mark in marks])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=eos, pad_token=eos)
    tokenizer.chat_template = template
    return tokenizer


def model_of(tokenizer: Any) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            head_dim=8,
            num_attention_heads=4,
            num_key_value_heads=2,
            eos_token_id=tokenizer.eos_token_id,
            max_position_embeddings=256,
        )  # fmt: skip
    )


@pytest.mark.parametrize("special", [True, False])
def test_the_turn_end_of_a_base_model_becomes_a_stop_id_and_is_said(caplog, special):
    tokenizer = tokenizer_of("<|im_start|>", "<|im_end|>", special=special)
    model = model_of(tokenizer)
    with caplog.at_level(logging.WARNING):
        found = stop_token_ids(model, tokenizer)
    assert tokenizer.convert_ids_to_tokens(list(found)) == ["<|endoftext|>", "<|im_end|>"]
    assert [record.message.count("'<|im_end|>'") for record in caplog.records] == [1]
    caplog.clear()
    model.generation_config.eos_token_id = list(found)
    assert stop_token_ids(model, tokenizer) == found and not caplog.records, "it was declared"


def test_no_reply_runs_into_a_turn_that_the_policy_invents(tmp_path):
    tokenizer = tokenizer_of("<|im_start|>", "<|im_end|>")
    model, end = model_of(tokenizer), tokenizer.convert_tokens_to_ids("<|im_end|>")
    with torch.no_grad():  # the turn end follows everything, as it does with a model that learnt the template
        model.lm_head.weight[end] += 3 * model.lm_head.weight.abs().mean() * torch.sign(torch.randn(32))
    settings = {**DEFAULTS, "max_completion_length": 200, "rollout_batch_size": 8, "max_steps": 4}
    settings |= {"num_ppo_epochs": 1, "num_minibatches": 4, "max_prompt_length": 56}
    trainer = StepPOTrainer(model, StepPOConfig(str(tmp_path), **settings), CueEnv, processing_class=tokenizer)
    trainer.train()
    steps = [step for trajectory in trainer._experience.trajectories for step in trajectory.steps]
    ended = [step for step in steps if end in step.response_ids]
    assert ended and all(step.response_ids.index(end) == len(step.response_ids) - 1 for step in ended)
    assert all(step.finish == "stop" and "<|im_end|>" not in step.text for step in ended)


TURN_ENDS = {
    "qwen2_5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "llama3_1": "<|eot_id|>",
    "gemma": "<end_of_turn>",
    "gemma3": "<end_of_turn>",
    "phi3": "<|end|>",
    "phi3_5": "<|end|>",
    "gptoss": "<|return|>",
    "glm4moe": "<|user|>",
    "lfm2": "<|im_end|>",
}
OTHERS = [
    "<|im_start|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|start|>",
]
OTHERS += ["<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<think>", "</think>", "<|START_OF_TURN_TOKEN|>"]
OTHERS += ["<|CHATBOT_TOKEN|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"]


@pytest.mark.parametrize("name", [name for name in TURN_ENDS if (SHIPPED / f"{name}.jinja").exists()])
def test_the_turn_ends_of_model_families(name):
    template = (SHIPPED / f"{name}.jinja").read_text(encoding="utf-8")
    tokenizer = tokenizer_of(*dict.fromkeys([*TURN_ENDS.values(), *OTHERS]), template=template, eos="<|endoftext|>")
    found = tokenizer.convert_ids_to_tokens(list(stop_token_ids(model_of(tokenizer), tokenizer)))
    assert set(found) == {"<|endoftext|>", TURN_ENDS[name]}


def test_a_turn_end_of_several_ids_is_known_by_any_and_never_said_twice():
    template = (SHIPPED / "cohere2.jinja").read_text(encoding="utf-8")
    tokenizer = tokenizer_of(*OTHERS, template=template, eos="<|END_OF_TURN_TOKEN|>")
    assert stop_token_ids(model_of(tokenizer), tokenizer) == (tokenizer.eos_token_id,)
    first = [{"role": "user", "content": "Which river?"}]
    reply = "".join(["the ", "Ob"])
    second = [*first, {"role": "assistant", "content": reply}, {"role": "user", "content": "Sure?"}]
    whole = tokenizer.apply_chat_template(second, add_generation_prompt=True, tokenize=False)
    for sampled in ("", "<|END_RESPONSE|>", "<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"):
        builder = PromptBuilder(tokenizer)
        prompt = builder.first(first)
        ids = tokenizer(reply + sampled, add_special_tokens=False)["input_ids"]
        following, extends = builder.next(second, reply, ids)
        glue = tokenizer.decode(following[len(prompt) + len(ids) :])
        assert extends and whole.endswith(reply + sampled + glue)


@pytest.mark.parametrize(
    "template",
    [
        CHATML,  # of whose marks the tokenizer knows none: their letters are no single id
        "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}",
        "{{ raise_exception('no') }}",
    ],
)
def test_a_turn_end_that_is_no_single_id_adds_nothing(template):
    tokenizer = tokenizer_of(template=template)
    assert stop_token_ids(model_of(tokenizer), tokenizer) == (tokenizer.eos_token_id,)


def test_stop_token_ids_add_to_what_is_declared(tmp_path):
    trainer = make_trainer(tmp_path, stop_token_ids=[7, 1, 9])
    assert trainer.sampling.stop_token_ids == (1, 7, 9)
    trainer.save_model(str(tmp_path / "model"))
    assert ContextSettings.load(tmp_path / "model").stop_token_ids == [7, 1, 9], "the benchmark ends replies there too"
    with pytest.raises(ValueError, match=r"stop_token_ids: \[12, -1\] are no ids of the tokenizer, which has 12"):
        stop_token_ids(make_model(), make_tokenizer(), more=[3, 12, -1])
    for wrong in ("<end>", 3, ["<end>"], [True]):
        with pytest.raises(ValueError, match="stop_token_ids must be a list"):
            StepPOConfig(str(tmp_path), **{**DEFAULTS, "stop_token_ids": wrong})


def test_demonstrations_end_their_turns_as_the_template_does():
    tokenizer = tokenizer_of("<|im_start|>", "<|im_end|>")
    builder = PromptBuilder(tokenizer)
    builder.first("Which river?")
    stops = sorted(stop_token_ids(model_of(tokenizer), tokenizer), key=lambda token: token != tokenizer.eos_token_id)
    assert tokenizer.decode(builder.reply_ids("the Ob", stops)) == "the Ob<|im_end|>"


def replies_of(model: Any, tokenizer: Any, sampling: Any, count: int = 12, **limits: Any) -> Any:
    prompts = [tokenizer("Which river? " * (row % 3 + 1))["input_ids"] for row in range(count)]
    generator = TransformersGenerator(model, pad_token_id=tokenizer.pad_token_id, tokenizer=tokenizer, **limits)
    return generator.generate(prompts, sampling, range(count))


@pytest.fixture(scope="module")
def endless() -> Any:
    """A tokenizer, its model, the ids that end a reply, replies without stop strings, and what each said so far."""
    tokenizer = tokenizer_of("<|im_start|>", "<|im_end|>")
    model, stops = model_of(tokenizer), (tokenizer.eos_token_id,)
    full = replies_of(model, tokenizer, SamplingParams(120, stops))
    said = [[reply_text(tokenizer, reply.ids[: i + 1], stops) for i in range(len(reply.ids))] for reply in full]
    return tokenizer, model, stops, full, said


@pytest.mark.parametrize("limits", [{}, {"max_rows": 5}, {"max_cached_tokens": 0}], ids=["cached", "chunks", "padded"])
@pytest.mark.parametrize("strings", [("a", "ab", "!"), ("</",), ("a", "\u2014", "xyz")])
def test_a_reply_ends_at_the_token_that_completes_a_stop_string(strings, limits, endless):
    """Compared with the same replies sampled to the end: cut where the text first holds a string, and nowhere else."""
    tokenizer, model, stops, full, said = endless
    found = replies_of(model, tokenizer, SamplingParams(120, stops, stop_strings=strings), **limits)
    cut = 0
    for whole, texts, reply in zip(full, said, found, strict=True):
        wanted = next((n for n, text in enumerate(texts, 1) if any(string in text for string in strings)), None)
        cut += wanted is not None
        assert reply.ids == whole.ids[:wanted] and reply.logprobs == pytest.approx(whole.logprobs[:wanted], abs=1e-4)
        assert reply.finish == (whole.finish if wanted is None else "stop")
    assert cut or strings == ("</",)


@pytest.mark.parametrize(
    ("said", "strings", "count"),
    [
        (["x", "</", "search", ">\u010a", "more"], ["</search>"], 4),  # a token says more than the string
        (["\u00c3", "\u00a9", "x"], ["\u00e9"], 2),  # two bytes of one character
        (["\u00c3", "x", "\u00a9", "x"], ["\u00e9"], None),
        (["<", "/", "s", "e", "a", "r", "c", "h", ">", "x"], ["</answer>", "</search>"], 9),
        (["</", "<|endoftext|>", "search", "<|endoftext|>", ">", "x"], ["</search>"], 5),  # padding is no text
        (["</", "<|im_start|>", "search", ">"], ["</search>"], None),
        (["a", "<|im_end|>", "b"], ["<|im_end|>"], 2),  # a token's own text
        (["a", "\u0120", "b"], ["a "], 2),
        (["more"] * 30 + ["</", "search"] * 9 + [">"], ["</search>"], 49),
    ],
)
def test_replies_are_followed_token_by_token(said, strings, count):
    tokenizer = tokenizer_of("</", "search", ">\u010a", "more", "<|im_start|>", "<|im_end|>", special=False)
    stops = StopStrings(tokenizer, [[], strings])
    ids = tokenizer.convert_tokens_to_ids(said)
    assert not any(stops.completed(0, token) for token in ids)
    completed = [stops.completed(1, token) for token in ids]
    assert (completed.index(True) + 1 if any(completed) else None) == count


def test_rows_may_have_stop_strings_of_their_own():
    tokenizer = tokenizer_of()
    model, common = model_of(tokenizer), SamplingParams(60, (tokenizer.eos_token_id,))
    own = [SamplingParams(60, common.stop_token_ids, stop_strings=("a", "b")[: row % 3]) for row in range(12)]
    each = replies_of(model, tokenizer, own)
    for rows, strings in ((slice(0, 12, 3), ()), (slice(1, 12, 3), ("a",)), (slice(2, 12, 3), ("a", "b"))):
        alone = replies_of(model, tokenizer, SamplingParams(60, common.stop_token_ids, stop_strings=strings))
        assert [reply.ids for reply in each][rows] == [reply.ids for reply in alone][rows]


def test_bad_stop_strings_are_refused(tmp_path):
    tokenizer = tokenizer_of()
    for wrong in ("</search>", ("",), (3,)):
        with pytest.raises(ValueError, match="stop_strings must be strings"):
            SamplingParams(1, stop_strings=wrong)  # type: ignore[arg-type]
    for wrong in ("</search>", [""], [3], 3):
        with pytest.raises(ValueError, match="stop_strings must be a list"):
            StepPOConfig(str(tmp_path), **{**DEFAULTS, "stop_strings": wrong})
    generator = TransformersGenerator(model_of(tokenizer), pad_token_id=0)
    with pytest.raises(ValueError, match="need a tokenizer"):
        generator.generate([[1]], SamplingParams(1, stop_strings=("a",)), [0])
    for each in ([], [SamplingParams(1), SamplingParams(2)]):
        with pytest.raises(ValueError, match="differ in stop_strings only"):
            generator.generate([[1], [2]], each, [0, 1])


def test_training_and_evaluation_end_replies_at_the_strings_of_settings_and_environment(tmp_path):
    class Asks(CueEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            messages, info = super().reset(seed=seed, options=options)
            return messages, {**info, "stop_strings": ["wait"]}

    def lengths(env: Any, strings: list[str]) -> list[tuple[str, int]]:
        trainer = make_trainer(
            tmp_path, env=env, eval_env=env, stop_strings=strings, max_completion_length=9, max_steps=4, eval_episodes=8
        )
        trainer.train()
        with trainer.generator() as generator:
            evaluated = trainer._evaluator.run(generator, trainer.sampling)[1]
        episodes = [*trainer._experience.trajectories, *evaluated]
        return [step for episode in episodes for step in episode.steps]

    for env, strings, expected in ((CueEnv, ["again"], {"again"}), (Asks, ["again"], {"again", "wait"})):
        steps = lengths(env, strings)
        for step in steps:
            words = step.text.split()
            assert not expected & set(words[:-1])
            assert (step.finish == "stop") == (step.response_ids[-1] == 1 or words[-1] in expected)
        assert {step.text.split()[-1] for step in steps if step.response_ids[-1] != 1} >= expected


def test_a_mixture_ends_each_reply_where_its_environment_asks(tmp_path):
    class Other(CueEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            messages, info = super().reset(seed=seed, options=options)
            return messages, {**info, "stop_strings": ["again", "a", "b"]}

    tokenizer = make_tokenizer()
    loop = AgentEnvLoop({"plain": CueEnv, "other": Other}, tokenizer, max_prompt_length=99)
    generator = TransformersGenerator(make_model(), pad_token_id=0, tokenizer=tokenizer)
    assignments = [Assignment(0, seed, env=env) for seed in range(20) for env in ("plain", "other")]
    episodes = loop.run(assignments, generator, SamplingParams(9, (1,)))
    said = {env: [s.text.split() for e in episodes if e.env == env for s in e.steps] for env in ("plain", "other")}
    assert any({"again", "a", "b"} & set(words[:-1]) for words in said["plain"])
    assert not any({"again", "b"} & set(words[:-1]) for words in said["other"])


def test_the_benchmark_knows_the_stop_strings_of_training(tmp_path):
    trainer = make_trainer(tmp_path, stop_strings=["again"])
    trainer.save_model(str(tmp_path / "model"))
    assert ContextSettings.load(tmp_path / "model").stop_strings == ["again"]
