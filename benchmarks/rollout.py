"""How many trajectories a second, beside TRL's GRPO trainer with an environment of its own (`environment_factory`)?

    python benchmarks/rollout.py [--turns 5 20] [--steps 3] [--width 192] [--layers 4]

Both trainers run GRPO on the same machine in the same process, one thread, in turns: the same small Qwen3, prompts,
tools and observations, 4 tasks x 4 samples, one optimizer step a rollout, as many tokens in a forward pass. Replies are
forced by the weights: after each token the next one is certain (or, with ragged lengths, a word is repeated until it is
not), so that both models say the same, call the tool at every turn, and neither is lucky. Of such certainty the
gradients are so small (1e-38) that a CPU would spend more than half of both updates on their lost digits: they are
flushed to zero. Times are CPU times of the process, medians over the steps after the first.

Exit status 1 when a bar is missed: trajectories a second 2.2 (5 turns) and 3.85 times TRL's (20 turns), a whole step
1.65 and 2.5 times as fast, the update alone at most .8 of TRL's time.
"""

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import gymnasium
import numpy as np
import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AddedToken, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from agent_r1_envs import Outcome, Score, TaskSet, ToolEnv
from agent_r1_trainer import StepPOConfig, StepPOTrainer

TASKS, SAMPLES = 4, 4
QUESTION = "Look {} until you are told to stop."
SEEN = "There is a table with a lamp, two chairs and an open window."
WORDS = "north south east west up down left right near far here there now then".split()
OPENING, CLOSING = '\n{"name": "look", "arguments": {"where": "', '"}}\n'
QUESTIONS = [QUESTION.format(word) for word in WORDS[:TASKS]]
AGAIN = " on"
"""The word that replies of ragged lengths repeat."""
BARS = {5: (2.2, 1.65), 20: (3.85, 2.5)}
UPDATE_BAR = 0.8


class LookEnv(ToolEnv[str]):
    """Shows the same whatever is done, until the limit of turns."""

    def __init__(self) -> None:
        tasks = TaskSet(QUESTIONS, dataset="look", split="train", ids=[f"look-{i}" for i in range(TASKS)])
        super().__init__(tasks, [self.look])
        self.draws = np.random.default_rng()

    def look(self, where: str) -> str:
        """Look somewhere.

        Args:
            where: Where to look.
        """
        return SEEN

    def _instruction(self) -> str:
        return self.task

    def _begin(self) -> str:
        return self.task

    def _answer(self, text: str) -> Outcome:
        return Outcome("", reward=0.0, terminated=True)

    def _score(self) -> Score:
        return Score(False, 0.0, {})


class Room:
    """The same for TRL."""

    def __init__(self) -> None:
        self.draws = np.random.default_rng()

    def reset(self, **kwargs: Any) -> None:
        """Begin."""

    def look(self, where: str) -> str:
        """Look somewhere.

        Args:
            where: Where to look.
        """
        return SEEN

    def answer(self, answer: str) -> str:
        """Give the final answer, which ends the episode.

        Args:
            answer: The answer alone, as short as possible.
        """
        return ""

    def get_reward(self) -> float:
        """Luck: samples of a task must differ."""
        return float(self.draws.random())


class Luck(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Rewards that differ between the samples of a task."""

    stateless = True

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, float(self.unwrapped.draws.random()), terminated, truncated, info


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A small byte-level one with Qwen3's template, in which each piece of a reply is one token."""
    template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = [template, SEEN, QUESTION, str(LookEnv().tools)] * 3
    bare.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=1024, initial_alphabet=alphabet, show_progress=False)
    )
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    bare.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    pieces = ["<tool_call>", "</tool_call>", "<think>", "</think>", OPENING, CLOSING, AGAIN, *(f" {w}" for w in WORDS)]
    bare.add_tokens([AddedToken(text, special=False, normalized=False) for text in pieces])
    return PreTrainedTokenizerFast(
        tokenizer_object=bare, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left",
        chat_template=template, clean_up_tokenization_spaces=False,
    )  # fmt: skip


def chain(tokenizer: PreTrainedTokenizerFast, ragged: bool) -> dict[int, dict[int, float]]:
    """The token after each token of a reply, with its logit."""
    words = [WORDS[0]] if ragged else WORDS
    pieces = ["\n", "<tool_call>", OPENING, *(f" {word}" for word in words), *([AGAIN] if ragged else [])]
    pieces += [CLOSING, "</tool_call>", "<|im_end|>"]
    ids = []
    for piece in pieces:
        [token] = tokenizer.encode(piece, add_special_tokens=False)
        ids.append(token)
    following = {token: {after: 1.0} for token, after in zip(ids, ids[1:], strict=False)}
    if ragged:
        again = tokenizer.convert_tokens_to_ids(AGAIN)
        following[again][again] = 1.0 + 2.7 / CERTAINTY  # said again with a chance of .94
    return following


CERTAINTY = 60.0
"""How much larger the logit of a forced token is than that of others."""


def make_model(tokenizer: PreTrainedTokenizerFast, width: int, layers: int, ragged: bool) -> Qwen3ForCausalLM:
    """A random model whose layers add little to the embedding of a token, and a head that knows what follows it."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer), hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers,
            num_attention_heads=width // 32, num_key_value_heads=width // 64, head_dim=32, tie_word_embeddings=False,
            max_position_embeddings=8192, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        )
    )  # fmt: skip
    forced = chain(tokenizer, ragged)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.1)
            layer.mlp.down_proj.weight.mul_(0.1)
        table = torch.nn.init.normal_(model.get_input_embeddings().weight)
        table[list(forced)] = width**0.5 * torch.linalg.qr(torch.randn(width, len(forced)))[0].T  # unlike each other
        for token, following in forced.items():
            for after, factor in following.items():
                model.get_output_embeddings().weight[after] += factor * CERTAINTY / width * table[token]
    return model


class Clock(TrainerCallback):
    """CPU seconds of each optimizer step, and of the part of it in which episodes are played."""

    def __init__(self) -> None:
        self.whole: list[float] = []
        self.played: list[float] = []
        self._begin = self._part = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._begin, self._part = time.process_time(), 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.whole.append(time.process_time() - self._begin)
        self.played.append(self._part)

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose time is that of playing."""

        def run(*args: Any, **kwargs: Any) -> Any:
            started = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._part += time.process_time() - started

        return run

    def medians(self) -> tuple[float, float]:
        """Seconds of playing and of the rest, without the first step."""
        rest = [whole - played for whole, played in zip(self.whole, self.played, strict=True)]
        return statistics.median(self.played[1:]), statistics.median(rest[1:])


COMMON: dict[str, Any] = {
    "learning_rate": 1e-9, "use_cpu": True, "report_to": [], "save_strategy": "no", "logging_strategy": "no",
    "disable_tqdm": True, "seed": 0, "bf16": False, "num_generations": SAMPLES,
}  # fmt: skip


def play_ours(folder: str, turns: int, steps: int, make: Callable[[], Qwen3ForCausalLM]) -> tuple[Clock, list[int]]:
    """Times, and the tokens of a whole episode and of all its replies."""
    tokenizer = make_tokenizer()
    config = StepPOConfig.for_algorithm(
        "grpo", folder, max_steps=steps, rollout_batch_size=TASKS * SAMPLES, num_minibatches=1, recipe="tools",
        max_turns=turns, max_completion_length=256, micro_batch_tokens=1 << 20, eval_on_start=False, **COMMON,
    )  # fmt: skip
    trainer = StepPOTrainer(make(), config, lambda: Luck(LookEnv()), processing_class=tokenizer)
    clock, lengths = Clock(), []
    trainer.add_callback(clock)
    run = clock.timed(trainer.flow.run)

    def watched(*args: Any, **kwargs: Any) -> Any:
        trajectories = run(*args, **kwargs)
        lengths[:] = [
            max(len(t.steps[-1].prompt_ids) + len(t.steps[-1].response_ids) for t in trajectories),
            sum(len(step.response_ids) for t in trajectories for step in t.steps),
            min(len(t.steps) for t in trajectories),
        ]
        return trajectories

    trainer.flow.run = watched  # type: ignore[method-assign]
    trainer.train()
    return clock, lengths


def play_trl(folder: str, turns: int, steps: int, make: Callable[[], Qwen3ForCausalLM]) -> tuple[Clock, list[int]]:
    """The same of TRL."""
    config = trl.GRPOConfig(
        folder, max_steps=steps, per_device_train_batch_size=TASKS * SAMPLES, max_completion_length=256 * turns,
        max_tool_calling_iterations=turns - 1, beta=0.0, gradient_checkpointing=False, temperature=1.0, **COMMON,
    )  # fmt: skip
    prompts = [{"prompt": [{"role": "user", "content": question}]} for question in QUESTIONS * 16]
    trainer = trl.GRPOTrainer(
        make(), [], args=config, train_dataset=Dataset.from_list(prompts), processing_class=make_tokenizer(),
        environment_factory=Room,
    )  # fmt: skip
    clock, lengths = Clock(), []
    trainer.add_callback(clock)
    generate = clock.timed(trainer._generate)

    def watched(*args: Any, **kwargs: Any) -> Any:
        result = generate(*args, **kwargs)
        prompt_ids, completion_ids, tool_mask = result[0], result[1], result[2]
        lengths[:] = [
            max(len(p) + len(c) for p, c in zip(prompt_ids, completion_ids, strict=True)),
            sum(map(sum, tool_mask)),
            min(sum(message["role"] == "assistant" for message in said) for said in result[3]),
        ]
        return result

    trainer._generate = watched
    trainer.train()
    return clock, lengths


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    warnings.filterwarnings("ignore")
    tokenizer, missed = make_tokenizer(), []
    print("| turns | replies | trainer | episode, tokens | trajectories / s | step, s | update, s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for turns in args.turns:
        for ragged in (False, True):
            found = {}
            for name, play in (("ours", play_ours), ("TRL", play_trl)):
                with tempfile.TemporaryDirectory() as folder:
                    make = partial(make_model, tokenizer, args.width, args.layers, ragged)
                    clock, (longest, said, fewest) = play(folder, turns, args.steps, make)
                gc.collect()
                assert fewest == turns, f"{name} played {fewest} turns, not {turns}"
                playing, update = clock.medians()
                found[name] = playing, update
                print(
                    f"| {turns} | {'ragged' if ragged else 'equal'} | {name} | {longest} ({said} sampled in all) | "
                    f"{TASKS * SAMPLES / playing:.2f} | {playing + update:.2f} | {update:.2f} |",
                    flush=True,
                )
            rollout = found["TRL"][0] / found["ours"][0]
            step = sum(found["TRL"]) / sum(found["ours"])
            update = found["ours"][1] / found["TRL"][1]
            print(f"| | | ratio | | {rollout:.2f}x | {step:.2f}x | {update:.2f} |", flush=True)
            bars = BARS.get(turns)
            if bars is not None and not ragged and (rollout < bars[0] or step < bars[1] or update > UPDATE_BAR):
                missed.append(
                    f"{turns} turns: {rollout:.2f} of {bars[0]}, {step:.2f} of {bars[1]}, {update:.2f} of {UPDATE_BAR}"
                )
    print("missed: " + "; ".join(missed) if missed else "all bars met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
