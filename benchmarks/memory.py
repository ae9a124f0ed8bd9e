"""How much memory does an update take, beside what it took before the head of a language model was read in blocks?

    python benchmarks/memory.py [--before 4866c29] [--case '100 of 200']

A Qwen2 of 42 million random weights (4 layers, width 256) with a real vocabulary (151,936 words), float32, is trained
by `StepPOTrainer` with a value head on 4 episodes of 5 turns of 200 tokens, in two mini-batches; the same in a process
of its own with this code, and with the code of an earlier commit, which git gives.
A figure is the highest resident memory of the process during an update (forward and backward passes, clipping, the
optimizer's step) above that before it, of the updates after the first: AdamW's moments are there by then, gradients
are not. `rollout` is the same of scoring what was collected, `seconds` the CPU time of an update.

Exit status 1 when an update takes more than half of what it took, in any case but that of turns that are not merged:
there, as many tokens are read for a reply as in a whole episode, and what the trunk and the gradients take is the most.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
BAR = 0.5
TURNS, TOKENS = 5, 200
REPLY = "reply"
CASES: dict[str, dict[str, Any]] = {
    "50 of 200 tokens the policy's": {REPLY: 50},
    "100 of 200": {REPLY: 100},
    "one mini-batch of 100 of 200": {REPLY: 100, "num_minibatches": 1, "num_ppo_epochs": 2},
    "an entropy bonus": {REPLY: 50, "entropy_coef": 0.01},
    "every turn alone": {REPLY: 100, "merge_steps": False},
}
NOT_JUDGED = "every turn alone"


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Train with whatever code is imported; GiB above what there was before, and CPU seconds."""
    import random
    from dataclasses import replace

    import torch
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2Config, Qwen2ForCausalLM, TrainerCallback

    from agent_r1_trainer import StepPOConfig, StepPOTrainer
    from agent_r1_trainer.flows import AgentFlowBase, Assignment, FlowTimes
    from agent_r1_trainer.trajectory import Step, StopReason, Trajectory

    rng, reply = random.Random(0), settings[REPLY]

    def tokens(count: int) -> list[int]:
        return [rng.randrange(3, 150_000) for _ in range(count)]

    def episode() -> Trajectory:
        steps, prompt = [], tokens(TOKENS - reply)
        for turn in range(TURNS):
            steps.append(Step(prompt, tokens(reply), turn=turn, extends=turn > 0))
            prompt = prompt + steps[-1].response_ids + tokens(TOKENS - reply)
        steps[-1].reward, steps[-1].terminated = rng.random(), True
        return Trajectory("", steps, StopReason.TERMINATED)

    class FixedFlow(AgentFlowBase):
        times = FlowTimes()
        episodes = [episode() for _ in range(4)]

        def run(self, assignments: Sequence[Assignment], *args: Any, **kwargs: Any) -> list[Trajectory]:
            pairs = zip(self.episodes, assignments, strict=True)
            return [replace(given, group=a.group, sample=a.sample) for given, a in pairs]

    class Gauge(TrainerCallback):
        def __init__(self) -> None:
            self.rises: list[float] = []
            self.seconds: list[float] = []

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
            self.before, self.begin = resident("VmRSS"), time.process_time()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            self.rises.append(resident("VmHWM") - self.before)
            self.seconds.append(time.process_time() - self.begin)

    def resident(name: str) -> float:
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status[name].split()[0]) / 2**20

    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "max_position_embeddings": 32_768}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=151_936, bos_token_id=None, eos_token_id=2, **sizes, **heads))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1, "<end>": 2}, unk_token="<unk>")),
        pad_token="<pad>",
        eos_token="<end>",
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }} <end> {% endfor %}"
    gauge = Gauge()
    with tempfile.TemporaryDirectory() as folder:
        config = {"num_minibatches": 2, "max_steps": 4, "rollout_batch_size": 4, "logging_steps": 1, **settings}
        del config[REPLY]
        trainer = StepPOTrainer(
            model=model,
            args=StepPOConfig(folder, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, **config),
            processing_class=tokenizer,
            flow=FixedFlow(),
            callbacks=[gauge],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    every = trainer.args.updates_per_rollout
    updates = [number for number in range(1, len(gauge.rises)) if number % every]
    return {
        "update": max(gauge.rises[number] for number in updates),
        "rollout": gauge.rises[every],
        "seconds": min(gauge.seconds[number] for number in updates),
        "loss": sum(losses),
    }


def compare(case: str, before: str) -> tuple[dict[str, float], dict[str, float]]:
    """Measure one case with the code of a commit, and with this."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", before], cwd=REPOSITORY, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        return _apart(case, Path(folder)), _apart(case, REPOSITORY)


def _apart(case: str, code: Path) -> dict[str, float]:
    path = os.pathsep.join([str(code), str(code / "wrappers")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, __file__, "--measure", case]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default="4866c29", help="the commit to compare with")
    parser.add_argument("--case", action="append", choices=list(CASES), help="all by default")
    parser.add_argument("--measure", choices=list(CASES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(CASES[arguments.measure])))
        return 0
    print("| case | update before | now | ratio | scoring before | now | CPU seconds before | now |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    worst = 0.0
    for case in arguments.case or CASES:
        before, now = compare(case, arguments.before)
        ratio = now["update"] / before["update"]
        worst = max(worst, ratio if case != NOT_JUDGED else 0.0)
        print(
            f"| {case} | {before['update']:.2f} GiB | {now['update']:.2f} GiB | {ratio:.2f} "
            f"| {before['rollout']:.2f} GiB | {now['rollout']:.2f} GiB "
            f"| {before['seconds']:.1f} | {now['seconds']:.1f} |",
            flush=True,
        )
        assert abs(before["loss"] - now["loss"]) < 1e-4, (before, now)
    return int(worst > BAR)


if __name__ == "__main__":
    sys.exit(main())
