"""Does training compute on a GPU what it computes on a CPU, and how fast? No model is downloaded.

    python scripts/gpu_check.py [--models 0.5B 1.5B] [--minutes 8] [--device cuda] [--write docs/gpu.md]

Models of the shape of Qwen2.5 with random weights. Of each: log-probabilities and the loss of a micro-batch in float32
and under bf16 autocast against float32 on the CPU; tokens a second and the share of the device's peak (MFU) of updates
by `StepPOTrainer`, with their memory beside that of `agent-r1 train --estimate`, and `log_ratio/first_max`, which is 0
where scoring and updating agree; tokens a second of every generation back end that imports. What the minutes do not
suffice for is left out, and said. Exit status 1 when the losses differ, or the estimate is more than 20 % off.
"""

import argparse
import copy
import gc
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2Config, Qwen2ForCausalLM, TrainerCallback

from agent_r1_trainer import StepPOConfig, StepPOTrainer
from agent_r1_trainer.flows import AgentFlowBase, Assignment, FlowTimes
from agent_r1_trainer.generation import SamplingParams, TransformersGenerator
from agent_r1_trainer.learning.scoring import attach_scoring, score
from agent_r1_trainer.losses import LossConfig, policy_loss
from agent_r1_trainer.packing import Layout, collate, merge_units
from agent_r1_trainer.train.estimate import Plan, estimate
from agent_r1_trainer.trajectory import Step, StopReason, Trajectory

SHAPES: dict[str, dict[str, int]] = {
    "0.5B": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14),
    "1.5B": dict(hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12),
    "tiny": dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=500),
}
PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "4090": 165e12}
"""Dense bf16 operations a second, of the makers' data sheets."""
LOSS_BAR = {"float32": 1e-3, "bf16": 0.15}  # nats, of one token
MEMORY_BAR = 0.2


@dataclass(frozen=True, slots=True)
class Work:
    """How much is computed: episodes of turns, of a prompt, replies and observations of so many tokens."""

    episodes: int = 32
    turns: int = 4
    tokens: int = 256
    micro_batch_tokens: int = 16384
    prompts: int = 128
    reply: int = 128


def config_of(name: str) -> Qwen2Config:
    shape = {"vocab_size": 151_936, "num_key_value_heads": 2, **SHAPES[name]}
    return Qwen2Config(
        **shape, tie_word_embeddings=True, max_position_embeddings=32_768, pad_token_id=0, eos_token_id=1
    )


def make_model(name: str) -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    return Qwen2ForCausalLM(config_of(name)).float()


def make_tokenizer() -> PreTrainedTokenizerFast:
    """The trainer wants one, though nothing is encoded here."""
    tokenizer = Tokenizer(models.WordLevel({"<pad>": 0, "<end>": 1, "<unk>": 2}, unk_token="<unk>"))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", unk_token="<unk>")


def episodes(count: int, turns: int, tokens: int, vocabulary: int) -> list[Trajectory]:
    rng = random.Random(0)

    def draw() -> list[int]:
        return [rng.randrange(3, vocabulary) for _ in range(tokens // 2)]

    made = []
    for _ in range(count):
        steps, prompt = [], draw()
        for turn in range(turns):
            steps.append(Step(prompt, draw(), turn=turn, extends=turn > 0))
            prompt = prompt + steps[-1].response_ids + draw()
        steps[-1].reward, steps[-1].terminated = rng.random(), True
        made.append(Trajectory("", steps, StopReason.TERMINATED))
    return made


def compare_losses(name: str, device: str) -> dict[str, float]:
    """Largest difference of a token's log-probability from the CPU's, in each kind of numbers."""
    model = make_model(name)
    batch = episodes(2, 2, 32, model.config.vocab_size)
    layout = Layout(batch)
    micro = collate(merge_units(batch), batch, layout, pad_id=0)
    attach_scoring(model, temperature=1.0)

    def run(where: torch.nn.Module, on: str, bf16: bool) -> tuple[torch.Tensor, float]:
        moved = micro.to(on)
        with torch.no_grad(), torch.autocast(on, dtype=torch.bfloat16, enabled=bf16):
            logprobs = score(where, moved, values=False).logprobs.float()
        weights = torch.full((moved.num_steps,), 1.0 / moved.num_steps, device=on)
        advantages = torch.linspace(-1, 1, moved.num_steps, device=on)[moved.token_step]
        loss, _ = policy_loss(LossConfig(), logprobs, advantages, weights, moved.token_step)
        return logprobs.cpu(), float(loss)

    expected, expected_loss = run(model, "cpu", False)
    there = copy.deepcopy(model).to(device)
    found = {}
    for kind in ("float32", "bf16"):
        logprobs, loss = run(there, device, kind == "bf16")
        found[kind] = float((logprobs - expected).abs().max())
        found[f"{kind} loss"] = abs(loss - expected_loss)
    return found


class Given(AgentFlowBase):
    """Gives episodes that are there already."""

    def __init__(self, found: Sequence[Trajectory]) -> None:
        self.times = FlowTimes()
        self.found = found

    def run(self, assignments: Sequence[Assignment], *args: Any, **kwargs: Any) -> list[Trajectory]:
        return [replace(one, group=a.group, sample=a.sample) for one, a in zip(self.found, assignments, strict=True)]


class Clock(TrainerCallback):
    """Seconds of each update but the first of a rollout, which collects and scores too."""

    def __init__(self, device: str) -> None:
        self.seconds: list[float] = []
        self._device, self._begin = device, 0.0

    def _now(self) -> float:
        if self._device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._begin = self._now()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % 2 == 0:
            self.seconds.append(self._now() - self._begin)


def measure_updates(name: str, device: str, work: Work) -> dict[str, float]:
    """Two rollouts of two updates: speed, memory and how far scoring and updating are apart."""
    found = episodes(work.episodes, work.turns, work.tokens, config_of(name).vocab_size)
    length = len(found[0].steps[-1].prompt_ids) + len(found[0].steps[-1].response_ids)
    clock, gpu = Clock(device), device == "cuda"
    with tempfile.TemporaryDirectory() as folder:
        config = StepPOConfig(
            folder, max_steps=4, num_minibatches=2, rollout_batch_size=work.episodes, logging_steps=1, use_cpu=not gpu,
            micro_batch_tokens=work.micro_batch_tokens, max_prompt_length=length, max_completion_length=work.tokens,
            bf16=gpu, save_strategy="no", eval_on_start=False, report_to=[], disable_tqdm=True,
        )  # fmt: skip
        if gpu:
            torch.cuda.reset_peak_memory_stats()
        trainer = StepPOTrainer(
            make_model(name), config, flow=Given(found), processing_class=make_tokenizer(), callbacks=[clock]
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        log = [entry["log_ratio/first_max"] for entry in trainer.state.log_history if "log_ratio/first_max" in entry]
        checkpointing = bool(config.activation_checkpointing)
    tokens = work.episodes // 2 * length
    speed = tokens * len(clock.seconds) / sum(clock.seconds)
    plan = Plan(work.micro_batch_tokens, length, work.episodes, checkpointing=checkpointing, bf16=gpu, generates=False)
    rows = min(max(work.micro_batch_tokens // length, 1), work.episodes // 2)
    expected = estimate(config_of(name), plan, rows=rows, replies=rows * work.turns * (work.tokens // 2))
    result = {"update tokens/s": speed, "first_max": max(log), "estimated GiB": expected.update / 2**30}
    if gpu:
        result["peak GiB"] = torch.cuda.max_memory_allocated() / 2**30
        peak = next((flops for key, flops in PEAK_FLOPS.items() if key in torch.cuda.get_device_name()), None)
        if peak is not None:
            result["MFU"] = speed * training_flops(name, length) / peak
    return result


def training_flops(name: str, length: int) -> float:
    """Operations a token, forward and backward: 6 a weight, and 6 layers width length of causal attention.

    What is computed a second time, with activation checkpointing, does not count.
    """
    config = config_of(name)
    weights = sum(p.numel() for p in meta_model(name).parameters())
    return 6.0 * weights + 6.0 * config.num_hidden_layers * config.hidden_size * length


def meta_model(name: str) -> Qwen2ForCausalLM:
    with torch.device("meta"):
        return Qwen2ForCausalLM(config_of(name))


def transformers_speed(name: str, device: str, work: Work) -> float:
    model = make_model(name).to(device, torch.bfloat16 if device == "cuda" else torch.float32)
    generator = TransformersGenerator(model, pad_token_id=0)
    return _speed(
        name, work, lambda prompts: generator.generate(prompts, SamplingParams(work.reply), range(len(prompts)))
    )


def vllm_speed(name: str, device: str, work: Work) -> float:
    import vllm

    with tempfile.TemporaryDirectory() as folder:
        config_of(name).save_pretrained(folder)
        engine = vllm.LLM(folder, skip_tokenizer_init=True, load_format="dummy", gpu_memory_utilization=0.5)
        sampling = vllm.SamplingParams(max_tokens=work.reply, ignore_eos=True, logprobs=0, detokenize=False)
        return _speed(name, work, lambda prompts: engine.generate([{"prompt_token_ids": p} for p in prompts], sampling))


def _speed(name: str, work: Work, answer: Callable[[list[list[int]]], Any]) -> float:
    rng = random.Random(0)
    prompts = [[rng.randrange(3, config_of(name).vocab_size) for _ in range(64)] for _ in range(work.prompts)]
    answer(prompts[:2])
    begin = time.perf_counter()
    answer(prompts)
    return work.prompts * work.reply / (time.perf_counter() - begin)


def check(names: Sequence[str], device: str, work: Work, minutes: float) -> tuple[list[tuple[str, str, str]], bool]:
    """Run what the time suffices for; rows of a table, and whether all is as it should be."""
    deadline = time.monotonic() + 60 * minutes
    rows: list[tuple[str, str, str]] = []
    good = True
    parts: list[tuple[str, Callable[..., Any]]] = [
        ("losses", lambda name: compare_losses(name, device)),
        ("update", lambda name: measure_updates(name, device, work)),
        ("transformers", lambda name: {"transformers tokens/s": transformers_speed(name, device, work)}),
        ("vllm", lambda name: {"vllm tokens/s": vllm_speed(name, device, work)}),
    ]
    for name in names:
        found: dict[str, float] = {}
        for part, run in parts:
            if time.monotonic() > deadline:
                rows.append((name, part, "left out: no time"))
                continue
            try:
                found.update(run(name))
            except ImportError as error:
                rows.append((name, part, f"left out: {error}"))
            gc.collect()
            if device == "cuda":
                torch.cuda.empty_cache()
        rows += [(name, key, f"{value:,.0f}" if value >= 100 else f"{value:.3g}") for key, value in found.items()]
        good &= all(found.get(kind, 0.0) <= bar for kind, bar in LOSS_BAR.items())
        if "peak GiB" in found:
            good &= abs(found["estimated GiB"] / found["peak GiB"] - 1.0) <= MEMORY_BAR
    return rows, good


def table(rows: Sequence[tuple[str, str, str]], device: str) -> str:
    where = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    lines = [f"{where}, PyTorch {torch.__version__}", "", "| model | what | value |", "| --- | --- | ---: |"]
    return "\n".join([*lines, *(f"| {name} | {what} | {value} |" for name, what, value in rows)])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=sorted(SHAPES), default=["0.5B", "1.5B"])
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--write", type=Path, help="File of documentation whose table is replaced.")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU here; --device cpu --models tiny tries the script")
    tiny = args.models == ["tiny"]
    work = Work(4, 2, 16, 256, 4, 8) if tiny else Work()
    rows, good = check(args.models, args.device, work, args.minutes)
    text = table(rows, args.device)
    print(text)
    if args.write is not None:
        begin, end = "<!-- begin: scripts/gpu_check.py -->\n", "<!-- end: scripts/gpu_check.py -->"
        page = args.write.read_text(encoding="utf-8")
        before, _, rest = page.partition(begin)
        args.write.write_text(f"{before}{begin}{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
