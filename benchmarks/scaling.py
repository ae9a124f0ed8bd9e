"""Does anything beside the model's own work grow faster than the work?

    python benchmarks/scaling.py [--episodes 64 256 1024 4096] [--turns 5 10 20 40 80] [--batch 32] [--width 16]

Episodes of an environment that says the same things at every turn, in a chat whose prompts only grow, are played by
`AgentEnvLoop` with `TransformersGenerator`, checked, and made into an `Experience` with its metrics and the rows of its
tables, as the trainer does it. Every reply has the same length. What the model itself takes is subtracted: the passes
over prompts and tokens with the copies of keys and values, sampling, and scoring.

CPU is that of this process, an episode where the number of episodes grows, and a turn where their length does. Memory
is that of Python and numpy: the most that there is at a time, and what the finished episodes hold, by `tracemalloc` in
a second pass. Exit status 1 when a doubling costs more than 1.3 times as much of any of them.
"""

import argparse
import gc
import math
import os
import pickle
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any
from unittest.mock import patch

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gymnasium
import torch
from accelerate import Accelerator
from agent_r1_wrappers import AppendHistory
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agent_r1_envs.spaces import FreeText
from agent_r1_trainer import StepPOConfig
from agent_r1_trainer.flows import AgentEnvLoop, Assignment
from agent_r1_trainer.flows.collect import check_trajectories
from agent_r1_trainer.generation import SamplingParams, TransformersGenerator, transformers_generator
from agent_r1_trainer.generation.contexts import RowContext
from agent_r1_trainer.learning import make_experience
from agent_r1_trainer.learning.make_experience import ExperienceMaker
from agent_r1_trainer.learning.scoring import attach_scoring
from agent_r1_trainer.learning.value_scale import ValueScales
from agent_r1_trainer.metrics import episode_metrics, summarize
from agent_r1_trainer.trainer.completions import episode_rows
from agent_r1_trainer.trajectory import Trajectory

BAR = 1.3
VOCABULARY = 1000
REPLY, OBSERVATION = 12, 16  # tokens
TEMPLATE = (
    "{% for m in messages %}<start> {{ m.role }} {{ m.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<start> assistant {% endif %}"
)


class Corridor(gymnasium.Env[str, str]):
    """Says some words at every turn, and ends after a number of them."""

    def __init__(self, turns: int) -> None:
        self.observation_space, self.action_space = FreeText(4096), FreeText(4096)
        self._turns, self._turn = turns, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._turn = 0
        return self._words(), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._turn += 1
        over = self._turn == self._turns
        return self._words(), float(self.np_random.random() < 0.5), over, False, {"success": over}

    def _words(self) -> str:
        return " ".join(f"w{word}" for word in self.np_random.integers(VOCABULARY - 6, size=OBSERVATION))


class Clock:
    """CPU seconds of this process, without those of what is called through `outside`."""

    def __init__(self) -> None:
        self.excluded = 0.0
        self._inside = False

    def outside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return function(*args, **kwargs)
            self._inside, begin = True, time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.excluded += time.process_time() - begin
                self._inside = False

        return timed

    @contextmanager
    def without_the_model(self) -> Iterator[None]:
        """Subtract what `RowContext`, sampling and scoring take, for the length of the block."""
        places = [(RowContext, name) for name in ("__init__", "start", "advance", "keep", "cached_rows")]
        places += [
            (transformers_generator, "sample_tokens"),
            (transformers_generator, "row_uniforms"),
            (make_experience, "score"),
        ]
        patches = [patch.object(place, name, self.outside(getattr(place, name))) for place, name in places]
        for one in patches:
            one.start()
        try:
            yield
        finally:
            for one in patches:
                one.stop()


@dataclass(frozen=True, slots=True)
class Cost:
    """What some episodes took, without the model: CPU seconds, and bytes at the peak and in the finished episodes."""

    rollout: float
    update: float
    model: float
    peak: float
    kept: float
    pickled: float


class Setting:
    """A number of episodes of a number of turns, with a model of its own."""

    def __init__(self, episodes: int, turns: int, width: int) -> None:
        self.episodes, self.turns = episodes, turns
        self.tokenizer = make_tokenizer()
        self.window = window = (turns + 1) * (REPLY + OBSERVATION + 10)
        self.policy = make_model(width, window)
        attach_scoring(self.policy, temperature=1.0, value_head=1)
        self.sampling = SamplingParams(REPLY)
        self.flow = AgentEnvLoop(
            lambda: AppendHistory(Corridor(turns)), self.tokenizer, max_prompt_length=window - REPLY
        )
        self.config = StepPOConfig(
            "unused", rollout_batch_size=episodes, use_cpu=True, report_to=[], max_prompt_length=window - REPLY,
            max_completion_length=REPLY,
        )  # fmt: skip

    def collect(self) -> list[Trajectory]:
        assignments = [Assignment(None, seed=i // 4, group=i // 4, sample=i % 4) for i in range(self.episodes)]
        generator = TransformersGenerator(self.policy, pad_token_id=0)
        found = self.flow.run(assignments, generator, self.sampling)
        return check_trajectories("AgentEnvLoop", assignments, found, VOCABULARY)

    def learn(self, trajectories: list[Trajectory]) -> int:
        accelerator = Accelerator(cpu=True)
        making = ExperienceMaker(
            self.config, accelerator, self.policy, critic=None, reference=None, scales=ValueScales([""]), pad_id=0,
            merge=True, token_budget=max(4096, self.window),
        )  # fmt: skip
        experience, metrics = making.make(0, trajectories)
        metrics.update(episode_metrics([summarize(trajectory) for trajectory in trajectories]))
        assert metrics["turns/mean"] == self.turns and metrics["tokens/computed_per_distinct"] == 1.0
        return len(episode_rows(experience, self.tokenizer, 0))

    def time(self) -> tuple[float, float, float]:
        """CPU seconds of the rollout and of the rest, and those of the model, which are in neither."""
        clock, parts = Clock(), []
        with clock.without_the_model():
            trajectories: list[Trajectory] = []
            for part in (lambda: trajectories.extend(self.collect()), lambda: self.learn(trajectories)):
                gc.collect()
                begin, before = time.process_time(), clock.excluded
                part()
                parts.append(time.process_time() - begin - (clock.excluded - before))
        return parts[0], parts[1], clock.excluded

    def measure(self) -> Cost:
        rollout, update, model = self.time()
        gc.collect()
        tracemalloc.start()
        try:
            trajectories = self.collect()
            gc.collect()
            kept = tracemalloc.get_traced_memory()[0]
            self.learn(trajectories)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self.flow.close()
        return Cost(rollout, update, model, peak, kept, len(pickle.dumps(trajectories)))


def make_tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "<start>", "<end>", "<unk>", "user", "assistant", *(f"w{i}" for i in range(VOCABULARY - 6))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", bos_token="<start>", unk_token="<unk>",
        padding_side="left",
    )  # fmt: skip
    fast.chat_template = TEMPLATE
    return fast


def make_model(width: int, window: int) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=width,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=width,
            max_position_embeddings=window,
            eos_token_id=2,
            pad_token_id=0,
        )
    )


def series(settings: Sequence[Setting], size: Callable[[Setting], int], axis: str, unit: str) -> bool:
    """Measure some settings of growing size and print what each unit of it costs; whether all stays below the bar."""
    print(f"\n{axis:>9} {'rollout':>12} {'update':>12} {'model':>12} {'peak':>12} {'kept':>12} {'pickled':>12}")
    print(f"{'':9} {f'us/{unit}':>12} {f'us/{unit}':>12} {f'us/{unit}':>12}" + f" {f'bytes/{unit}':>12}" * 3)
    worst: dict[str, float] = {}
    before: tuple[int, Cost] | None = None
    for setting in settings:
        cost, units = setting.measure(), setting.episodes * (setting.turns if unit == "turn" else 1)
        seconds = [1e6 * x / units for x in (cost.rollout, cost.update, cost.model)]
        print(f"{size(setting):9}" + "".join(f" {x:12,.0f}" for x in seconds), end="")
        print("".join(f" {x / units:12,.0f}" for x in (cost.peak, cost.kept, cost.pickled)), flush=True)
        each = Cost(*(x / units for x in (cost.rollout, cost.update, cost.model, cost.peak, cost.kept, cost.pickled)))
        if before is not None:
            doublings = math.log2(size(setting) / before[0])
            for name in ("rollout", "update", "peak", "kept", "pickled"):
                growth = (getattr(each, name) / getattr(before[1], name)) ** (1 / doublings)
                worst[name] = max(worst.get(name, 0.0), growth)
            cpu = (each.rollout + each.update) / (before[1].rollout + before[1].update)
            worst["CPU in all"] = max(worst.get("CPU in all", 0.0), cpu ** (1 / doublings))
        before = size(setting), each
    print(f"most a doubling (bar {BAR}): " + ", ".join(f"{name} {growth:.2f}" for name, growth in worst.items()))
    return all(growth <= BAR for growth in worst.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="*", default=[64, 256, 1024, 4096])
    parser.add_argument("--turns", type=int, nargs="*", default=[5, 10, 20, 40, 80])
    parser.add_argument("--batch", type=int, default=32, help="Episodes of each number of turns.")
    parser.add_argument("--width", type=int, default=16)
    args = parser.parse_args()
    torch.set_num_threads(1)
    Setting(8, 2, args.width).measure()  # what is loaded and compiled once
    good = True
    if args.episodes:
        grown = [Setting(count, 4, args.width) for count in args.episodes]
        good &= series(grown, lambda setting: setting.episodes, "episodes", "episode")
    if args.turns:
        grown = [Setting(args.batch, turns, args.width) for turns in args.turns]
        good &= series(grown, lambda setting: setting.turns, "turns", "turn")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
