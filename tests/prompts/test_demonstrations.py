"""What a warm start trains on is what reinforcement learning would have made of the expert's episodes, id for id."""

import json
from collections.abc import Sequence
from typing import Any

import gymnasium
import pytest
from agent_r1_wrappers import AppendHistory, ParseTags, ParseToolCalls, reply_for

from agent_r1_trainer.bench.episode import Job
from agent_r1_trainer.commands.envs import environment_lines
from agent_r1_trainer.demos import DemoError, demonstrate
from agent_r1_trainer.environments.factory import EnvFactory
from agent_r1_trainer.flows import AgentEnvLoop, Assignment
from agent_r1_trainer.generation import Generation, SamplingParams
from agent_r1_trainer.packing import merge_units
from agent_r1_trainer.prompts.context_settings import ContextSettings
from agent_r1_trainer.sft.data import IGNORED, Limits, encode_demonstrations
from agent_r1_trainer.trajectory import Trajectory

IDS = [env_id for env_id, _ in environment_lines()]
END = "<|im_end|>"


class Expert:
    """Answers the prompts of one environment with its expert's replies, closed as the model closes them."""

    def __init__(self, make_env: Any, tokenizer: Any, thought: str = "") -> None:
        self.make_env, self.tokenizer, self.thought = make_env, tokenizer, thought
        self.env: Any = None

    def build(self) -> gymnasium.Env:
        self.env = self.make_env()
        return self.env

    def generate(
        self, prompts: Sequence[list[int]], sampling: SamplingParams, seeds: Sequence[int]
    ) -> list[Generation]:
        assert len(prompts) == 1
        text = reply_for(self.env, self.env.unwrapped.expert_action(), self.thought)
        ids = self.tokenizer(text + END, add_special_tokens=False)["input_ids"]
        return [Generation(ids, [0.0] * len(ids), "stop")]


def rollouts(make_env: Any, tokenizer: Any, tasks: int, context: ContextSettings) -> list[Trajectory]:
    expert = Expert(make_env, tokenizer)
    loop = AgentEnvLoop(
        expert.build,
        tokenizer,
        max_prompt_length=10**6,
        concurrency=1,
        history_thinking=context.history_thinking,
        chat_template_kwargs=context.chat_template_kwargs,
    )
    sampling = SamplingParams(10**6, (tokenizer.eos_token_id,))
    return loop.run([Assignment(task, 0) for task in range(tasks)], expert, sampling)


def rows_of(make_env: Any, tasks: int) -> list[dict[str, Any]]:
    env = make_env()
    rows = [row for task in range(tasks) for row in demonstrate(env, "env", Job(task, task, 0)).rows]
    return [json.loads(json.dumps(row)) for row in rows]  # a file keeps no identity


def encode(rows: Any, tokenizer: Any, **options: Any) -> Any:
    return encode_demonstrations(rows, tokenizer, stop_ids=[tokenizer.eos_token_id], **options)


def pairs(encoded: Any) -> list[tuple[list[int], list[int]]]:
    """Ids and labels as lists."""
    return [(ids.tolist(), labels.tolist()) for ids, labels in zip(encoded.input_ids, encoded.labels, strict=True)]


@pytest.mark.parametrize(
    ("env_id", "template"), [*((env_id, "qwen3") for env_id in IDS), ("AgentR1/HotpotQA-v0", "smollm2")]
)
def test_ids_are_those_of_reinforcement_learning(env_id: str, template: str, chat_tokenizer: Any) -> None:
    tokenizer, context = chat_tokenizer(template), ContextSettings()
    trajectories = rollouts(EnvFactory(env_id), tokenizer, 2, context)
    assert all(trajectory.success for trajectory in trajectories)
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    rows = rows_of(EnvFactory(env_id), 2)

    apart = encode(rows, tokenizer, merge=False)
    wanted = [(s.prompt_ids + s.response_ids, [IGNORED] * len(s.prompt_ids) + s.response_ids) for s in steps]
    assert pairs(apart) == wanted and apart.turns == len(steps) and not apart.left_out
    for row, step in zip(rows, steps, strict=True):  # a reply and the end of its turn, in words
        assert tokenizer.decode(step.response_ids) == row["completion"][0]["content"] + END

    together = encode(rows, tokenizer)
    units = merge_units(trajectories)
    assert len(together.input_ids) == len(units) < len(steps) + (not any(row["continues"] for row in rows))
    assert sum(sum(label != IGNORED for label in labels) for _, labels in pairs(together)) == sum(
        len(step.response_ids) for step in steps
    )
    for (ids, labels), unit in zip(pairs(together), units, strict=True):
        last = trajectories[unit.trajectory].steps[unit.steps[-1]]
        assert ids == last.prompt_ids + last.response_ids
        spans = [IGNORED] * len(ids)
        for step in (trajectories[unit.trajectory].steps[turn] for turn in unit.steps):
            begin = len(step.prompt_ids)
            spans[begin : begin + len(step.response_ids)] = step.response_ids
        assert labels == spans


@pytest.mark.parametrize("context", [ContextSettings(history_thinking="strip"), ContextSettings()])
@pytest.mark.parametrize("schemas", ["template", "system"])
def test_tools_thinking_and_arguments_of_the_template(chat_tokenizer: Any, schemas: Any, context: Any) -> None:
    """Where the template rewrites old replies, adds tools or opens the turn in its own way."""
    tokenizer = chat_tokenizer("qwen3")
    context = ContextSettings("default", context.history_thinking, {"enable_thinking": False})

    def make_env() -> gymnasium.Env:
        return AppendHistory(ParseToolCalls(gymnasium.make("AgentR1/HotpotQA-v0"), schemas=schemas))

    (trajectory,) = rollouts(make_env, tokenizer, 1, context)
    encoded = encode(rows_of(make_env, 1), tokenizer, context=context, merge=False)
    assert [ids for ids, _ in pairs(encoded)] == [s.prompt_ids + s.response_ids for s in trajectory.steps]
    assert "<think>\n\n</think>" in tokenizer.decode(trajectory.steps[0].prompt_ids)


def test_rendering_prompt_and_reply_together_would_train_on_another_context(chat_tokenizer: Any) -> None:
    """The hazard that ids from `PromptBuilder` avoid: this template adds thinking to a last reply that has none."""
    tokenizer = chat_tokenizer("qwen3")
    (row, *_) = rows_of(EnvFactory("AgentR1/HotpotQA-v0"), 1)
    ((ids, labels), *_) = pairs(encode([row], tokenizer))
    messages = [*row["prompt"], *row["completion"]]
    together = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]
    prompt = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
    assert ids[: len(prompt)] == prompt == together[: len(prompt)]
    assert "<think>" in tokenizer.decode(together[len(prompt) :])
    assert "<think>" not in tokenizer.decode([label for label in labels if label != IGNORED])


def test_trl_makes_the_same_of_a_template_that_changes_nothing(tmp_path: Any) -> None:
    """`SFTTrainer` on the file itself: prompt, reply and end of turn are ours."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from agent_r1_trainer.tiny_policy import load_tiny_policy

    model, tokenizer = load_tiny_policy()
    rows = rows_of(EnvFactory("AgentR1/HotpotQA-v0", {"top_k": 2, "max_calls": 1}, "native"), 3)
    args = SFTConfig(str(tmp_path), max_length=None, use_cpu=True, bf16=False, report_to="none")
    trainer = SFTTrainer(model, args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
    theirs = [(row["input_ids"], row["labels"]) for row in trainer.train_dataset]
    assert theirs == pairs(encode(rows, tokenizer, merge=False))


def test_rows_without_our_columns_are_turns_of_their_own(chat_tokenizer: Any) -> None:
    tokenizer = chat_tokenizer("smollm2")
    rows = rows_of(EnvFactory("AgentR1/HotpotQA-v0"), 2)
    bare = [{"prompt": row["prompt"], "completion": row["completion"]} for row in rows]
    assert pairs(encode(bare, tokenizer)) == pairs(encode(rows, tokenizer, merge=False))


def test_filtered_and_edited_rows_are_rendered_afresh(chat_tokenizer: Any) -> None:
    """A prompt continues the row before only if that is still the one it was."""
    tokenizer = chat_tokenizer("smollm2")
    rows = rows_of(EnvFactory("AgentR1/HotpotQA-v0"), 1)
    whole = pairs(encode(rows, tokenizer, merge=False))
    assert len(rows) >= 3 and len(encode(rows, tokenizer).input_ids) == 1
    assert pairs(encode(rows[1:], tokenizer, merge=False)) == whole[1:]
    assert pairs(encode([rows[0], *rows[2:]], tokenizer, merge=False)) == [whole[0], *whole[2:]]
    rows[0]["completion"][0]["content"] += " "
    assert len(encode(rows, tokenizer).input_ids) == 2


def test_too_long_turns_are_left_out_and_never_cut(chat_tokenizer: Any) -> None:
    tokenizer = chat_tokenizer("smollm2")
    rows = rows_of(EnvFactory("AgentR1/HotpotQA-v0"), 1)
    whole = pairs(encode(rows, tokenizer, merge=False))
    lengths = [(len(ids), sum(label != IGNORED for label in labels)) for ids, labels in whole]
    prompt = lengths[1][0] - lengths[1][1]
    one = encode(rows, tokenizer, limits=Limits(prompt=prompt - 1))
    assert pairs(one) == whole[:1] and one.left_out == {"the prompt is too long": len(rows) - 1}
    two = encode(rows, tokenizer, limits=Limits(sequence=lengths[1][0]), merge=False)
    assert pairs(two) == whole[:2]
    longest = max(count for _, count in lengths)
    some = encode(rows, tokenizer, limits=Limits(completion=longest - 1))
    assert some.left_out == {"the reply is too long": [c for _, c in lengths].count(longest)}
    assert some.input_ids[0].tolist() == whole[-1][0][: len(some.input_ids[0])]
    assert max(sum(label != IGNORED for label in labels) for _, labels in pairs(some)) < sum(c for _, c in lengths)
    with pytest.raises(DemoError, match=f"no turn to train on .{len(rows)} turns: the prompt is too long"):
        encode(rows, tokenizer, limits=Limits(prompt=3))
    with pytest.raises(DemoError, match="no turn to train on .no rows"):
        encode([], tokenizer)


def test_replies_that_the_tokenizer_cannot_write_are_left_out(chat_tokenizer: Any) -> None:
    from agent_r1_trainer.tiny_policy import load_tiny_policy

    rows = [
        {"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": text}]}
        for text in ("search[xylophone]", "answer[yes]")
    ]
    _, tiny = load_tiny_policy()
    encoded = encode(rows, tiny)
    assert encoded.left_out == {"the tokenizer cannot write the reply": 1} and encoded.turns == 1
    rows[0]["completion"][0]["content"] = f"search{END}"
    assert encode(rows, chat_tokenizer("smollm2")).turns == 1


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "x"}]},
        {"prompt": "text", "completion": "text"},
        {"prompt": [{"role": "user", "content": "x"}], "completion": []},
        {"prompt": [], "completion": [{"role": "assistant", "content": "x"}]},
    ],
)
def test_other_formats_are_refused(row: dict[str, Any], chat_tokenizer: Any) -> None:
    with pytest.raises(DemoError, match="row 0: expected chat messages in `prompt` and one in `completion`"):
        encode([row], chat_tokenizer("smollm2"))


def test_the_end_of_a_turn_is_one_that_stops_generation(chat_tokenizer: Any) -> None:
    """A policy that stops at other ids than the template's learns to end its turn with one of those."""
    tokenizer = chat_tokenizer("smollm2")
    other = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    rows = rows_of(lambda: AppendHistory(ParseTags(gymnasium.make("AgentR1/ALFWorld-v0"))), 1)
    for stop_ids, end in (([other], other), ([other, tokenizer.eos_token_id], tokenizer.eos_token_id)):
        encoded = encode_demonstrations(rows, tokenizer, stop_ids=stop_ids, merge=False)
        assert {ids[-1] for ids, _ in pairs(encoded)} == {end}
    glued = encode_demonstrations(rows, tokenizer, stop_ids=[other])
    assert len(glued.input_ids) == 1  # the template's own end of turn follows as part of the next prompt
