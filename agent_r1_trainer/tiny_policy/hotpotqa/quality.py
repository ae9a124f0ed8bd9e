"""What a tiny policy can do, apart from what it chooses to do.

Success mixes the two. The skills are measured on the expert's own path, with the expert's command word given: is the
name that the policy fills in the right one? A start with skills and without success lacks judgement only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agent_r1_trainer.tiny_policy.hotpotqa.demonstrations import make_env
from agent_r1_trainer.tiny_policy.playing import play_tasks, success_rate

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["Quality", "measure_quality", "play"]

_MOST_TOKENS = 8

play = partial(play_tasks, make_env=make_env, max_reply=_MOST_TOKENS)
"""Let a policy play tasks of this environment; see `play_tasks`."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Shares of the tasks, or of the expert's turns.

    Attributes:
        sampled: Success at temperature 1.
        greedy: Success with the most likely replies.
        cold: Success at temperature 0.3.
        search_skill: Turns of the expert's in which the policy, told to search, searches for the same.
        answer_skill: Bridge questions that the policy, shown the evidence and told to answer, answers rightly.
    """

    sampled: float
    greedy: float
    cold: float
    search_skill: float
    answer_skill: float


def measure_quality(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, tasks: int = 300, split: str = "test"
) -> Quality:
    """Measure a policy on the first `tasks` tasks of a split of the embedded panel; about ten seconds.

    Args:
        model: The policy.
        tokenizer: Its tokenizer.
        tasks: How many.
        split: Of the panel.
    """

    def success(temperature: float) -> float:
        return success_rate(play(model, tokenizer, tasks=tasks, split=split, temperature=temperature))

    searches, answers = _skills(model, tokenizer, tasks, split)
    return Quality(success(1.0), success(0.0), success(0.3), _share(searches), _share(answers))


def _skills(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, tasks: int, split: str
) -> tuple[list[bool], list[bool]]:
    """Whether the policy completes the expert's searches, and its answers to bridge questions."""
    from agent_r1_trainer.generation import SamplingParams, TransformersGenerator
    from agent_r1_trainer.prompts import reply_text

    prompts: list[list[int]] = []
    wanted: list[tuple[str, str]] = []
    env = make_env(split)
    for task in range(tasks):
        messages, _ = env.reset(options={"task": task})
        bridge = env.unwrapped.task.type == "bridge"  # type: ignore[attr-defined]
        over = False
        while not over:
            command = env.unwrapped.expert_action()  # type: ignore[attr-defined]
            name, _, argument = command.partition("[")
            if name == "search" or bridge:
                text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
                prompts.append(tokenizer(f"{text}{name}[", add_special_tokens=False)["input_ids"])
                wanted.append((name, argument))
            messages, _, terminated, truncated, _ = env.step(command)
            over = terminated or truncated
    env.close()
    generator = TransformersGenerator(model)
    greedy = SamplingParams(_MOST_TOKENS, (tokenizer.eos_token_id,), temperature=0.0)
    replies = generator.generate(prompts, greedy, [0] * len(prompts))
    right: dict[str, list[bool]] = {"search": [], "answer": []}
    for (name, argument), reply in zip(wanted, replies, strict=True):
        right[name].append(reply_text(tokenizer, reply.ids, greedy.stop_token_ids) == argument)
    return right["search"], right["answer"]


def _share(values: Sequence[bool]) -> float:
    return sum(values) / max(len(values), 1)
