"""The decode loop against a model's plain forward pass and against transformers' own `generate`."""

from __future__ import annotations

import random
import weakref

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3ForCausalLM

from agent_r1_trainer._compat import RowCache
from agent_r1_trainer.generation import Generator, SamplingParams, TransformersGenerator
from agent_r1_trainer.generation.contexts import CachedRow
from tests.helpers.training import WORDS, make_model

STOP = (1,)


def prompts(count: int = 13, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(3, len(WORDS)) for _ in range(rng.randint(1, 30))] for _ in range(count)]


def models():
    yield make_model()
    torch.manual_seed(1)
    yield LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=128,
            eos_token_id=1,
            pad_token_id=0,
        )  # fmt: skip
    )
    torch.manual_seed(2)
    yield GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(WORDS), n_embd=32, n_layer=2, n_head=4, n_positions=128, eos_token_id=1, pad_token_id=0
        )
    )


@pytest.mark.parametrize("model", list(models()), ids=lambda model: type(model).__name__)
def test_greedy_replies_equal_those_of_transformers(model):
    batch = prompts()
    replies = TransformersGenerator(model, pad_token_id=0, max_rows=5).generate(
        batch, SamplingParams(12, STOP, temperature=0.0), [0] * len(batch)
    )
    model.eval()
    for prompt, reply in zip(batch, replies, strict=True):
        expected = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=12, do_sample=False, eos_token_id=list(STOP), pad_token_id=0,
        )[0, len(prompt) :].tolist()  # fmt: skip
        assert reply.ids == expected
        assert reply.finish == ("stop" if expected[-1] in STOP else "length")


@pytest.mark.parametrize("model", list(models()), ids=lambda model: type(model).__name__)
def test_logprobs_are_those_of_a_forward_pass_over_the_whole_reply(model):
    batch = prompts()
    replies = TransformersGenerator(model, pad_token_id=0).generate(
        batch, SamplingParams(10, STOP, temperature=0.8), range(len(batch))
    )
    model.eval()
    assert {reply.finish for reply in replies} == {"stop", "length"}
    for prompt, reply in zip(batch, replies, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + reply.ids])).logits[0, len(prompt) - 1 : -1]
        expected = (logits / 0.8).log_softmax(-1).gather(-1, torch.tensor(reply.ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(reply.logprobs), expected, atol=1e-5, rtol=1e-5)
        assert STOP[0] not in reply.ids[:-1]
        assert len(reply.ids) == 10 or reply.ids[-1] in STOP


def test_a_reply_depends_on_its_prompt_and_seed_only():
    model, sampling, batch = make_model(), SamplingParams(10, STOP), prompts()
    seeds = [100 + row for row in range(len(batch))]
    generator = TransformersGenerator(model, pad_token_id=0)
    together = generator.generate(batch, sampling, seeds)
    torch.manual_seed(99)
    alone = [generator.generate([p], sampling, [s])[0].ids for p, s in zip(batch, seeds, strict=True)]
    backwards = TransformersGenerator(model, pad_token_id=7, max_rows=4).generate(batch[::-1], sampling, seeds[::-1])
    assert [reply.ids for reply in together] == alone == [reply.ids for reply in backwards[::-1]]
    others = generator.generate(batch, sampling, [seed + 1 for seed in seeds])
    assert [reply.ids for reply in others] != alone


def no_dropout_gpt2():
    torch.manual_seed(2)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "eos_token_id": 1}
    quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=len(WORDS), **sizes, **quiet))


def eager():
    model = make_model()
    model.set_attn_implementation("eager")
    return model


@pytest.mark.parametrize("build", [make_model, eager, no_dropout_gpt2])
@pytest.mark.parametrize("limits", [{}, {"max_rows": 5}, {"max_tokens": 100}])
def test_conversations_that_grow_are_read_from_where_they_ended(build, limits):
    model, sampling, rng = build(), SamplingParams(6, STOP), random.Random(3)
    cached = TransformersGenerator(model, pad_token_id=0, **limits)
    fresh = TransformersGenerator(model, pad_token_id=0, max_cached_tokens=0)
    read = []
    model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append((args or [kwargs["input_ids"]])[0].numel()), with_kwargs=True
    )
    conversations = prompts(12)
    for turn in range(5):
        seeds = [100 * turn + row for row in range(12)]
        read.clear()
        replies = cached.generate(conversations, sampling, seeds)
        cost = sum(read)
        read.clear()
        expected = fresh.generate(conversations, sampling, seeds)
        assert [reply.ids for reply in replies] == [reply.ids for reply in expected]
        for reply, other in zip(replies, expected, strict=True):
            torch.testing.assert_close(torch.tensor(reply.logprobs), torch.tensor(other.logprobs), atol=1e-5, rtol=1e-5)
        if turn:
            assert cost < 0.6 * sum(read)
        for row, reply in enumerate(replies):
            tail = [rng.randrange(3, len(WORDS)) for _ in range(rng.randint(1, 9))]
            # Some go on, one begins anew (a refilled slot), one is rewritten in its middle.
            conversations[row] = conversations[row] + reply.ids + tail if row not in (3, 7) else tail * 3
        rng.shuffle(conversations)


@pytest.mark.parametrize("build", [make_model, eager, no_dropout_gpt2])
def test_equal_prompts_are_read_once(build):
    model, sampling, read = build(), SamplingParams(6, STOP), []
    generator = TransformersGenerator(model, pad_token_id=0)
    fresh = TransformersGenerator(model, pad_token_id=0, max_cached_tokens=0)
    long, short = [5, 8, 3, 9] * 5, [4, 6]
    batch = [long, short, long, [7] * 18, short, long]
    replies = generator.generate(batch, sampling, range(6))
    assert len({tuple(replies[row].ids) for row in (0, 2, 5)}) > 1
    going_on = [prompt + reply.ids + [3] for prompt, reply in zip(batch, replies, strict=True)]
    for conversations in (batch, going_on):
        found = generator.generate(conversations, sampling, range(6))
        alone = [fresh.generate([prompt], sampling, [seed])[0] for seed, prompt in enumerate(conversations)]
        assert [reply.ids for reply in found] == [reply.ids for reply in alone]
        generator.generate(batch, sampling, range(6))
    anew = TransformersGenerator(model, pad_token_id=0)
    model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append((args or [kwargs["input_ids"]])[0].numel()), with_kwargs=True
    )
    anew.generate(batch, SamplingParams(1, STOP), range(6))
    assert sum(read) <= 20 + 20 + 2 + 3 < sum(map(len, batch))  # the head reads one position of each


def test_batches_stay_within_rows_and_tokens():
    generator = TransformersGenerator(make_model(), pad_token_id=0, max_rows=3, max_tokens=40)
    lengths = [20, 4, 5, 90, 6, 20]
    assert generator._chunks(dict.fromkeys(range(6)), lengths) == [[1, 2, 4], [0, 5], [3]]
    one, other = RowCache(3, 10), RowCache(2, 10)
    found = {row: CachedRow([3], cache, 0) for row, cache in enumerate([one, other, one, other, one])}
    assert generator._chunks(found, [9] * 5) == [[0, 2, 4], [1, 3]]  # none is copied to a chunk of another cache
    assert generator._chunks({**found, 5: None}, [9] * 6) == [[0, 2, 4], [1, 3, 5]]


def test_rows_of_several_caches_and_rows_that_share_a_beginning_are_read_on_from_there():
    model, sampling = make_model(), SamplingParams(4, STOP)
    generator = TransformersGenerator(model, pad_token_id=0, max_rows=2)
    fresh = TransformersGenerator(model, pad_token_id=0, max_cached_tokens=0)
    batch = prompts(5)
    replies = generator.generate(batch, sampling, range(5))
    assert len({id(row.cache) for row in generator._cached}) > 1
    generator.max_rows = 8
    grown = [prompt + reply.ids + [4] for prompt, reply in zip(batch, replies, strict=True)]
    grown += [grown[2] + [5, 6], grown[2] + [7]]  # three that go on from one row
    for conversations in (grown, [prompt + [3] for prompt in grown[::-1]]):
        found = generator.generate(conversations, sampling, range(7))
        expected = fresh.generate(conversations, sampling, range(7))
        assert [reply.ids for reply in found] == [reply.ids for reply in expected]


@pytest.mark.parametrize(
    ("rows", "added", "reply"), [(16, 100, 100), pytest.param(32, 60, 200, marks=pytest.mark.slow)]
)
def test_keys_and_values_take_at_most_1_6_times_the_memory_of_the_tokens(rows, added, reply, monkeypatch):
    config = make_model().config
    config.vocab_size, config.max_position_embeddings = 1000, 8192
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config)  # one word in a hundred ends a reply
    generator = TransformersGenerator(model, pad_token_id=0, max_tokens=10**9, max_cached_tokens=10**9)
    caches, peak, rng = weakref.WeakSet(), 0.0, random.Random(0)
    start, aim = RowCache.__init__, RowCache.aim

    def started(cache, *args):
        start(cache, *args)
        caches.add(cache)

    def aimed(cache, *args):
        nonlocal peak
        aim(cache, *args)
        stores = [store for one in list(caches) for store in (*one.keys, *one.values)]
        peak = max(peak, sum(store.size(0) * store.size(2) for store in stores if store.dim() == 4) / 4)

    def words():
        return [rng.randrange(10, 1000) for _ in range(rng.randrange(added // 2, added * 3 // 2))]

    monkeypatch.setattr(RowCache, "__init__", started)
    monkeypatch.setattr(RowCache, "aim", aimed)
    conversations = [words() for _ in range(rows)]
    for turn in range(5):
        seeds = [rows * turn + row for row in range(rows)]
        replies = generator.generate(conversations, SamplingParams(reply, tuple(range(10))), seeds)
        conversations = [c + r.ids + words() for c, r in zip(conversations, replies, strict=True)]
    live = sum(map(len, conversations))
    assert 0.9 * live < peak <= 1.6 * live, peak / live


def test_nothing_is_kept_beyond_the_budget_nor_where_it_would_be_wrong():
    model = make_model()
    generator = TransformersGenerator(model, pad_token_id=0, max_cached_tokens=20)
    generator.generate([[3, 4]], SamplingParams(4), [0])
    assert len(generator._cached) == 1
    generator.generate(prompts(), SamplingParams(4), range(13))
    assert generator._cached == []
    generator.generate([[3, 4]], SamplingParams(4), [0])  # short enough again
    assert len(generator._cached) == 1
    sliding = make_model()
    sliding.config.layer_types = ["sliding_attention", "full_attention"]
    assert TransformersGenerator(sliding, pad_token_id=0).max_cached_tokens == 0


@pytest.mark.parametrize("limits", [{}, {"max_rows": 5}])
def test_what_is_kept_takes_the_memory_of_what_was_read_and_not_of_the_longest_reply(limits):
    batch, longest = prompts(40), 200
    generator = TransformersGenerator(make_model(), pad_token_id=0, **limits)
    replies = generator.generate(batch, SamplingParams(longest, STOP), range(40))
    assert max(len(reply.ids) for reply in replies) < longest
    caches = {id(row.cache): row.cache for row in generator._cached}.values()
    held = sum(keys.untyped_storage().nbytes() // keys[0, :, 0].nbytes for cache in caches for keys in cache.keys) / 2
    used = sum(len(prompt) + len(reply.ids) - 1 for prompt, reply in zip(batch, replies, strict=True))
    assert len(generator._cached) == 40 and used <= held < 2.5 * used < 40 * longest / 2
    assert held == sum(cache.rows * cache.capacity for cache in caches)


def test_the_model_keeps_its_mode_and_generates_without_dropout():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=12, n_embd=32, n_layer=1, n_head=2, n_positions=64)).train()
    generator = TransformersGenerator(model, pad_token_id=0)
    first = generator.generate([[3, 4]], SamplingParams(6, temperature=0.0), [0])
    assert model.training
    assert all(generator.generate([[3, 4]], SamplingParams(6, temperature=0.0), [0]) == first for _ in range(3))


def test_bad_calls_are_refused():
    generator = TransformersGenerator(make_model(), pad_token_id=0)
    assert isinstance(generator, Generator)
    assert generator.generate([], SamplingParams(1), []) == []
    with pytest.raises(ValueError, match="empty prompt"):
        generator.generate([[3], []], SamplingParams(1), [0, 0])
    with pytest.raises(ValueError, match="one seed a prompt"):
        generator.generate([[3]], SamplingParams(1), [])
    with pytest.raises(ValueError, match="max_rows"):
        TransformersGenerator(make_model(), pad_token_id=0, max_rows=0)
