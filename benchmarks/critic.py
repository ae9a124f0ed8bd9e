"""What does a critic do to a policy where rewards lie far from 0, and where they say nothing?

    python benchmarks/critic.py [--seeds 5] [--write docs/credit.md]

A tiny random policy of a dozen words answers with one word. *Offset*: the bandit shows one of three contexts and pays
``offset`` for a wrong answer and ``offset + 1`` for a right one; how often is the answer right after 40 rollouts of 24
episodes (learning rate 1e-3, of the critic 1e-2)? *Solved*: 200 rollouts; how low does that fall once it was at .97?
*Drift*: three turns whose rewards have nothing to do with the answers, 100 updates with AdamW at 3e-3; how far is the
policy from where it began? Success and KL are exact, from the probabilities of all words, not from samples.

Exit status 1 when a bar is missed: success of .93 after training at every offset and never below it once .97 was
reached, a KL of 1e-6 at most for a constant reward, and, where rewards are noise, a mean KL that is not above those of
all estimators without a critic.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Text
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from agent_r1_envs.spaces import Messages
from agent_r1_trainer import StepPOConfig, StepPOTrainer

WORDS = ["<pad>", "<end>", "<unk>", "user", "one", "two", "three", "assistant", "a", "b", "c", "d"]
CUES = ["one", "two", "three"]
TEMPLATE = "{% for m in messages %}{{ m.role }} {{ m.content }} <end> {% endfor %}assistant"
CRITICS: dict[str, dict[str, Any]] = {
    "full": {},
    "detached": {"value_grad_to_trunk": "detach"},
    "separate": {"critic": "separate"},
}
LAYERS = 2
SUCCESS_BAR, REACHED, KL_BAR = 0.93, 0.97, 1e-6
WITHOUT: dict[str, dict[str, Any]] = {
    "grpo": {"advantage_estimator": "grpo", "num_generations": 8},
    "rloo": {"advantage_estimator": "rloo", "num_generations": 8},
    "reinforce_pp": {"advantage_estimator": "reinforce_pp"},
}
NOISE = {
    "1 at the end, of 99 %": {"last": 1.0, "chance": 0.99},
    "1 at every turn": {"turn": 1.0, "last": 0.0, "noise": 0.1},
    "1 at the end, -.05 a turn": {"turn": -0.05, "last": 1.0, "noise": 0.1},
}
RESULTS = Path(__file__).parent / "results" / "critic.json"
Result = dict[str, dict[str, list[float]]]
MARKS = {
    "noise": ("<!-- begin: benchmarks/critic.py -->", "<!-- end: benchmarks/critic.py -->"),
    "solved": ("<!-- begin: solved -->", "<!-- end: solved -->"),
}


class Panel:
    """What the trainer reads of a `TaskSet`."""

    def __init__(self, count: int) -> None:
        self.ids = tuple(f"task-{i}" for i in range(count))

    def __len__(self) -> int:
        return len(self.ids)


class Cues(gymnasium.Env[list[dict[str, Any]], str]):
    """Shows a cue each turn, and nothing of the turns before."""

    turns = 1

    def __init__(self) -> None:
        self.tasks = Panel(24)
        self.observation_space, self.action_space = Messages(), Text(4096)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.task, self.turn = int((options or {}).get("task", 0)), 0
        return self._show(), self._info(0.0)

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self.pay(action)
        self.turn += 1
        return self._show(), reward, self.turn == self.turns, False, self._info(reward)

    def pay(self, action: str) -> float:
        raise NotImplementedError

    @property
    def cue(self) -> int:
        return (self.task + self.turn) % len(CUES)

    def _show(self) -> list[dict[str, Any]]:
        return [{"role": "user", "content": CUES[self.cue]}]

    def _info(self, reward: float) -> dict[str, Any]:
        return {"task_id": self.tasks.ids[self.task], "success": reward > 0, "score": 0.0, "reward_info": {}}


class Bandit(Cues):
    """Pays for a word whose place in the vocabulary, modulo three, is the context's."""

    def __init__(self, offset: float = 0.0, size: float = 1.0) -> None:
        super().__init__()
        self.offset, self.size = offset, size

    def pay(self, action: str) -> float:
        word = (action.split() or [""])[0]
        return self.offset + self.size * float(word in WORDS and WORDS.index(word) % 3 == self.cue)


class Indifferent(Cues):
    """Three turns of rewards that have nothing to do with the answers.

    Args:
        turn: Reward of each turn.
        last: Added to that of the last one.
        chance: How often an episode pays that; else its last turn pays 0.
        noise: Standard deviation of what is added to the last reward.
        luck: Draws for each episode, not for each task: the samples of a group have luck of their own.
    """

    turns = 3

    def __init__(
        self, turn: float = 0.0, last: float = 1.0, chance: float = 1.0, noise: float = 0.0,
        luck: np.random.Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.each, self.last, self.chance, self.noise = turn, last, chance, noise
        self.luck = luck or np.random.default_rng(0)

    def pay(self, action: str) -> float:
        if self.turn < self.turns - 1:
            return self.each
        paid = self.each + self.last if self.luck.random() < self.chance else 0.0
        return paid + self.noise * self.luck.standard_normal()


def make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", unk_token="<unk>", padding_side="left"
    )
    fast.chat_template = TEMPLATE
    return fast


def make_model(seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(WORDS), hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS,
            num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=64, eos_token_id=1,
            pad_token_id=0,
        )
    )  # fmt: skip


def make_trainer(folder: str, env: Callable[[], Cues], seed: int, **kwargs: Any) -> StepPOTrainer:
    fields = {
        "rollout_batch_size": 24, "num_ppo_epochs": 2, "num_minibatches": 2, "max_completion_length": 1,
        "max_prompt_length": 32, "micro_batch_tokens": 1024,
        "lr_scheduler_type": "constant", "save_strategy": "no", "logging_steps": 4, "report_to": [], "use_cpu": True,
        "disable_tqdm": True, "eval_on_start": False, "seed": seed, **kwargs,
    }  # fmt: skip
    trainer = StepPOTrainer(make_model(seed), StepPOConfig(folder, **fields), env, processing_class=make_tokenizer())
    trainer.remove_callback(PrinterCallback)
    return trainer


@torch.no_grad()
def answers(model: torch.nn.Module) -> torch.Tensor:
    """Log-probabilities of every word after each cue, [cues, words]."""
    tokenizer = make_tokenizer()
    prompts = [tokenizer.apply_chat_template([{"role": "user", "content": cue}], tokenize=False) for cue in CUES]
    ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False) for prompt in prompts])
    return model(input_ids=ids).logits[:, -1].double().log_softmax(-1)


def success(model: torch.nn.Module) -> float:
    """Chance of a right answer in the bandit."""
    right = torch.tensor([[word % 3 == cue for word in range(len(WORDS))] for cue in range(len(CUES))])
    return float((answers(model).exp() * right).sum(-1).mean())


class Watch(TrainerCallback):
    """Measures the policy after every rollout's updates."""

    def __init__(self, measure: Callable[[torch.nn.Module], float], every: int) -> None:
        self.measure, self.every = measure, every
        self.seen: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.every == 0:
            self.seen.append(self.measure(kwargs["model"]))


def bandit(offset: float, seed: int, rollouts: int = 40, *, size: float = 1.0, **kwargs: Any) -> list[float]:
    """Exact success after each rollout."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"learning_rate": 1e-3, "critic_learning_rate": 1e-2, "max_steps": 4 * rollouts, **kwargs}
        trainer = make_trainer(folder, lambda: Bandit(offset, size), seed, **settings)
        watch = Watch(success, 4)
        trainer.add_callback(watch)
        trainer.train()
    return watch.seen


def drift(seed: int, rewards: dict[str, float], **kwargs: Any) -> float:
    """Exact KL of the policy before 100 updates to that after them, mean over the cues, in nats."""
    luck = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"learning_rate": 3e-3, "max_steps": 100, **kwargs}
        trainer = make_trainer(folder, lambda: Indifferent(**rewards, luck=luck), seed, **settings)
        before = answers(trainer.model)
        trainer.train()
        after = answers(trainer.model)
    return float((before.exp() * (before - after)).sum(-1).mean())


def fall(curve: list[float]) -> float:
    """The lowest success once `REACHED` was; NaN if it never was."""
    reached = next((i for i, value in enumerate(curve) if value >= REACHED), None)
    return float("nan") if reached is None else min(curve[reached:])


def with_critic(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings of every estimator that has a critic, with each kind of critic."""
    return {
        f"{name}, {critic}": {"advantage_estimator": name, **settings}
        for name in names
        for critic, settings in CRITICS.items()
    }


# What is measured: for each row of a part's table the settings, for each column what is run with them and a seed.
PARTS: dict[str, tuple[dict[str, dict[str, Any]], dict[str, Callable[..., float]], int]] = {
    "offset": (
        {**with_critic(["step_gae"]), "grpo": WITHOUT["grpo"]},
        {f"{offset:+.0f}": lambda seed, o=offset, **kw: bandit(o, seed, **kw)[-1] for offset in (-100.0, 0.0, 100.0)},
        3,
    ),
    "solved": (
        {**with_critic(["step_gae"]), "grpo": WITHOUT["grpo"]},
        {"lowest": lambda seed, **kw: fall(bandit(0.0, seed, 200, **kw))},
        3,
    ),
    "constant": (
        {**with_critic(["step_gae", "token_gae"]), "grpo": WITHOUT["grpo"]},
        {"1 at the end": lambda seed, **kw: drift(seed, {"last": 1.0}, **kw)},
        5,
    ),
    "noise": (
        {**WITHOUT, **with_critic(["step_gae"])},  # of one word, GAE over tokens is the same
        {name: lambda seed, r=rewards, **kw: drift(seed, r, **kw) for name, rewards in NOISE.items()},
        5,
    ),
}


def measure(part: str, seeds: int, rows: dict[str, dict[str, Any]] | None = None) -> Result:
    """Run a part: row, column, and one number a seed."""
    settings, columns, most = PARTS[part]
    result: Result = {}
    for row, kwargs in (rows or settings).items():
        result[row] = {
            column: [run(seed, **kwargs) for seed in range(min(seeds, most))] for column, run in columns.items()
        }
        print(f"{part}: {row}: {result[row]}", file=sys.stderr, flush=True)
    return result


def misses(part: str, result: Result) -> list[str]:
    """Where a critic is not as it should be."""
    found = []
    for row in (row for row in result if row not in WITHOUT):
        for column, numbers in result[row].items():
            if part == "noise":
                good = statistics.mean(numbers) <= max(statistics.mean(result[name][column]) for name in WITHOUT)
            else:
                good = max(numbers) <= KL_BAR if part == "constant" else min(numbers) >= SUCCESS_BAR
            if not good:
                found.append(f"{part}, {row}, {column}: {numbers}")
    return found


def table(part: str, result: Result) -> str:
    """The mean over the seeds, and the worst of them."""
    worst = max if part in ("constant", "noise") else min
    columns = list(next(iter(result.values())))
    lines = [f"| | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    for row, numbers in result.items():
        cells = [f"{statistics.mean(x):.3g} ({worst(x):.3g})" for x in numbers.values()]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="at most; the bandits take 3")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--write", type=Path, help="the document whose tables are replaced")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)
    started, results, wrong = time.process_time(), {}, []
    for part in args.parts:
        results[part] = measure(part, args.seeds)
        wrong += misses(part, results[part])
        print(f"{part}: mean over seeds (and worst)\n\n{table(part, results[part])}\n", flush=True)
    print(
        f"{time.process_time() - started:.0f} CPU seconds; {'missed: ' + '; '.join(wrong) if wrong else 'all bars met'}"
    )
    if args.write is not None:
        kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps({**kept, **results}, indent=1) + "\n", encoding="utf-8")
        for part in MARKS.keys() & results.keys():
            begin, end = MARKS[part]
            text = args.write.read_text(encoding="utf-8")
            before, after = text.split(begin)[0], text.split(end)[1]
            args.write.write_text(f"{before}{begin}\n\n{table(part, results[part])}\n\n{end}{after}", encoding="utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
