"""How much does an update gain by merging turns into sequences, and by packing sequences of like length?

    python benchmarks/update.py [--episodes 2] [--rounds 2] [--width 192] [--layers 4]

Merging: the same 20-turn episodes, whose prompts only grow, are trained by `StepPOTrainer` with ``merge_steps`` on and
off, in turns: a small random Qwen3 with a value head, float32, one CPU thread. A time is the CPU time of one update
(forward and backward passes over all episodes, clipping, optimizer step), the median of the rounds. Packing: episodes
of unlike lengths, merged, through the trainer's scoring and losses, forward and backward, in micro-batches of a token
budget: sorted by length as the trainer does it, one sequence each, and filled in the order of collection.

Exit status 1 when more than 1.05 tokens are computed for a distinct one, a merged update is less than 6 times faster,
or its gradient differs from the unmerged one by more than 1e-5 of its norm.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from agent_r1_trainer import StepPOConfig, StepPOTrainer
from agent_r1_trainer.flows import AgentFlowBase, Assignment, FlowTimes
from agent_r1_trainer.learning.scoring import attach_scoring, score
from agent_r1_trainer.losses import LossConfig, critic_loss, policy_loss
from agent_r1_trainer.packing import Layout, MicroBatch, Unit, collate, merge_units, micro_batches
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory

TURNS = 20
TASK, REPLY, OBSERVATION = (40, 80), (8, 24), (12, 36)  # fewest and most tokens
VOCABULARY = 4096
BUDGET = 4096  # the trainer's default on a CPU
COMPUTED_BAR, SPEED_BAR, GRADIENT_BAR = 1.05, 6.0, 1e-5


def episode(rng: random.Random, turns: int) -> Trajectory:
    """An episode whose every prompt is the last one, the reply to it, and an observation."""

    def tokens(span: tuple[int, int]) -> list[int]:
        return [rng.randrange(3, VOCABULARY) for _ in range(rng.randint(*span))]

    steps, prompt = [], tokens(TASK)
    for turn in range(turns):
        steps.append(Step(prompt, tokens(REPLY), turn=turn, extends=turn > 0))
        prompt = prompt + steps[-1].response_ids + tokens(OBSERVATION)
    steps[-1].reward, steps[-1].terminated = rng.random(), True
    return Trajectory("", steps, StopReason.TERMINATED)


class FixedFlow(AgentFlowBase):
    """Gives episodes that are there already."""

    def __init__(self, episodes: Sequence[Trajectory]) -> None:
        self.times = FlowTimes()
        self.episodes = episodes

    def run(self, assignments: Sequence[Assignment], *args: Any, **kwargs: Any) -> list[Trajectory]:
        pairs = zip(self.episodes, assignments, strict=True)
        return [replace(given, group=a.group, sample=a.sample) for given, a in pairs]


class Clock(TrainerCallback):
    """CPU time of each optimizer step but the first of a rollout, which collects too; and the first one's gradient."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.gradient = torch.zeros(0)
        self._begin = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._begin = time.process_time()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not len(self.gradient):
            parts = [p.grad.flatten() for p in kwargs["model"].parameters() if p.grad is not None]
            self.gradient = torch.cat(parts).double()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step > 1:
            self.seconds.append(time.process_time() - self._begin)


def make_model(width: int, layers: int) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=layers,
            num_attention_heads=width // 32,
            num_key_value_heads=width // 64,
            head_dim=32,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


def make_tokenizer() -> PreTrainedTokenizerFast:
    """The trainer wants one, though nothing is encoded here."""
    tokenizer = Tokenizer(models.WordLevel({"<pad>": 0, "<end>": 1, "<unk>": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", unk_token="<unk>", padding_side="left"
    )


def train(episodes: Sequence[Trajectory], *, merge: bool, width: int, layers: int) -> tuple[Clock, dict[str, Any]]:
    """One rollout and two updates over all of it: the clock that timed the second, and the log of the first."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        config = StepPOConfig(
            folder, max_steps=2, num_ppo_epochs=2, num_minibatches=1, rollout_batch_size=len(episodes), logging_steps=1,
            merge_steps=merge, micro_batch_tokens=BUDGET, use_cpu=True, save_strategy="no", eval_on_start=False,
            report_to=[], disable_tqdm=True,
        )  # fmt: skip
        trainer = StepPOTrainer(
            model=make_model(width, layers), args=config, flow=FixedFlow(episodes), processing_class=make_tokenizer(),
            callbacks=[clock],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return clock, trainer.state.log_history[0]


def merging(episodes: int, rounds: int, width: int, layers: int) -> bool:
    rng = random.Random(0)
    batch = [episode(rng, TURNS) for _ in range(episodes)]
    times: dict[bool, list[float]] = {True: [], False: []}
    logs: dict[bool, dict[str, Any]] = {}
    gradients: dict[bool, torch.Tensor] = {}
    for _ in range(rounds):
        for merge in (True, False):
            clock, logs[merge] = train(batch, merge=merge, width=width, layers=layers)
            times[merge] += clock.seconds
            gradients[merge] = clock.gradient
    distinct = sum(len(one.steps[-1].prompt_ids) + len(one.steps[-1].response_ids) for one in batch)
    print(
        f"{episodes} episodes of {TURNS} turns, {distinct // episodes} tokens each in the end: a task of {span(TASK)}, "
        f"replies of {span(REPLY)}, observations of {span(OBSERVATION)}\n"
        f"Qwen3 of {layers} layers, width {width}, vocabulary {VOCABULARY:,}; micro-batches of {BUDGET} tokens\n"
        f"{'':10} {'computed/distinct':>18} {'with padding':>13} {'update, s':>10} {'range':>15}"
    )
    for merge, name in ((False, "unmerged"), (True, "merged")):
        log, taken = logs[merge], times[merge]
        computed = log["tokens/computed_per_distinct"]
        padded = computed / (1.0 - log["tokens/padding_share"])
        print(
            f"{name:10} {computed:18.3f} {padded:13.3f} {statistics.median(taken):10.2f} "
            f"{f'{min(taken):.2f}-{max(taken):.2f}':>15}"
        )
    ratio = statistics.median(times[False]) / statistics.median(times[True])
    difference = float((gradients[True] - gradients[False]).norm() / gradients[False].norm())
    print(
        f"merged: {ratio:.1f} times faster (bar {SPEED_BAR}), {computed:.3f} tokens computed for a distinct one "
        f"(bar {COMPUTED_BAR}); gradients differ by {difference:.0e} (bar {GRADIENT_BAR:.0e})"
    )
    return ratio >= SPEED_BAR and computed <= COMPUTED_BAR and difference <= GRADIENT_BAR


def packing(width: int, layers: int, count: int, turns: int) -> None:
    rng = random.Random(1)
    episodes = [episode(rng, rng.randint(1, turns)) for _ in range(count)]
    units, layout = merge_units(episodes), Layout(episodes)
    model = make_model(width, layers)
    attach_scoring(model, temperature=1.0, value_head=1)
    divisions = {
        "by length": micro_batches(units, BUDGET),
        "one sequence each": [[unit] for unit in units],
        "as collected": in_order(units),
    }
    lengths = sorted(unit.length for unit in units)
    batches = {
        name: [collate(group, episodes, layout, pad_id=0) for group in groups] for name, groups in divisions.items()
    }
    taken: dict[str, list[float]] = {name: [] for name in divisions}
    for _ in range(2):
        for name, parts in batches.items():
            taken[name].append(passes(model, parts, layout))
    print(f"\n{count} episodes of 1 to {turns} turns, sequences of {lengths[0]} to {lengths[-1]} tokens, merged")
    print(f"{'micro-batches':18} {'passes':>7} {'padding':>8} {'update, s':>10}")
    for name, parts in batches.items():
        padding = 1.0 - sum(lengths) / sum(batch.input_ids.numel() for batch in parts)
        print(f"{name:18} {len(parts):7} {padding:8.1%} {min(taken[name]):10.2f}")


def in_order(units: Sequence[Unit]) -> list[list[Unit]]:
    """Fill micro-batches one after the other."""
    groups: list[list[Unit]] = [[]]
    for unit in units:
        if groups[-1] and (len(groups[-1]) + 1) * max(u.length for u in [*groups[-1], unit]) > BUDGET:
            groups.append([])
        groups[-1].append(unit)
    return groups


def passes(model: torch.nn.Module, batches: Sequence[MicroBatch], layout: Layout) -> float:
    """CPU seconds of the forward and backward passes of an update."""
    weights = torch.full((layout.num_steps,), 1.0 / layout.num_steps)
    advantages = torch.linspace(-1.0, 1.0, layout.num_steps)
    config = LossConfig()
    model.zero_grad(set_to_none=True)
    begin = time.process_time()
    for batch in batches:
        scores = score(model, batch, values=True)
        assert scores.values is not None
        weight, target = batch.read_steps(weights), batch.read_steps(advantages)
        policy, _ = policy_loss(config, scores.logprobs, target[batch.token_step], weight, batch.token_step)
        value, _ = critic_loss(config, scores.values, target, weight)
        (policy + 0.5 * value).backward()
    return time.process_time() - begin


def span(pair: tuple[int, int]) -> str:
    return f"{pair[0]}-{pair[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    good = merging(args.episodes, args.rounds, args.width, args.layers)
    packing(args.width, args.layers, count=16, turns=TURNS)
    packing(args.width, args.layers, count=64, turns=2)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
