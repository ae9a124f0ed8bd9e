"""A thousand greedy replies in conversations that grow, one by one those of `generate` in transformers."""

from __future__ import annotations

import random

import pytest
import torch

from agent_r1_trainer.generation import SamplingParams, TransformersGenerator
from tests.helpers.architectures import VOCABULARY, make_architecture

EPISODES, TURNS, REPLY = 16, 8, 6
KINDS = {  # whose keys and values are kept from turn to turn: no windows
    "llama": {}, "qwen3": {}, "gpt2": {}, "phi3": {}, "cohere": {}, "olmo2": {}, "mixtral": {}, "deepseek_v3": {},
    "gemma3_text": {"layer_types": ["full_attention"] * 2},
}  # fmt: skip


def greedy(model: torch.nn.Module, prompt: list[int], stop: int) -> list[int]:
    found = model.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=REPLY, do_sample=False, eos_token_id=stop, pad_token_id=0,
    )  # fmt: skip
    return found[0, len(prompt) :].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_replies_of_growing_conversations_are_those_of_transformers(kind):
    """In float32: the best token is nowhere so close to the next that rounding would decide."""
    model, rng = make_architecture(kind, max_position_embeddings=512, **KINDS[kind]), random.Random(7)
    generator, read = TransformersGenerator(model, pad_token_id=0), []
    conversations = [[rng.randrange(3, VOCABULARY) for _ in range(rng.randint(2, 20))] for _ in range(EPISODES // 2)]
    conversations = [list(words) for words in conversations for _ in range(2)]  # groups begin alike
    stop = greedy(model, conversations[0], 2)[-1]  # something that the model says
    hook = model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append((args or [kwargs["input_ids"]])[0].numel()), with_kwargs=True
    )
    differences = whole = replied = 0
    ends, said = set(), set()
    for _ in range(TURNS):
        replies = generator.generate(conversations, SamplingParams(REPLY, (stop,), temperature=0.0), [0] * EPISODES)
        kept = len(read)
        whole += sum(map(len, conversations))
        for prompt, reply in zip(conversations, replies, strict=True):
            replied += len(reply.ids)
            differences += reply.ids != greedy(model, prompt, stop)
            ends.add(reply.finish)
            said.add(tuple(reply.ids))
            prompt += [*reply.ids, *(rng.randrange(3, VOCABULARY) for _ in range(rng.randint(1, 12)))]
        del read[kept:]  # of `generate`
    hook.remove()
    assert differences == 0 and ends == {"stop", "length"} and len(said) > EPISODES
    assert sum(read) - replied < 0.6 * whole  # what was read before is not read again
