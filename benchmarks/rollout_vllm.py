"""The comparison of `rollout.py` with vLLM's engine in both trainers' processes: trajectories a second at 20 turns.

    VLLM_CPU_KVCACHE_SPACE=1 VLLM_PLUGINS=agent_r1_plain_linear .venv-vllm/bin/python benchmarks/rollout_vllm.py

It runs where `make test-vllm` runs. A process can start one engine, so each trainer has one of its own; both engines
have `enforce_eager`, which TRL has no setting for. Times are CPU times of playing, new weights for the engine included,
medians over the steps after the first.

Exit status 1 when the bar is missed: 1.2 times TRL's trajectories a second where replies are equally long. Ragged ones
are measured and not judged: each turn waits for the longest, which is vLLM's time and the same in both.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from typing import Any

os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import rollout
import torch
from transformers import Qwen3ForCausalLM

from agent_r1_trainer.generation.vllm_engine import VLLMEngine

BAR = 1.2


def judge(equal: float, ragged: float) -> tuple[int, str]:
    """The exit status and what is said of both ratios, of which that of equal replies alone has a bar."""
    said = f"{equal:.2f} of {BAR} with equal replies; ragged ones are not judged ({ragged:.2f})"
    return (0, f"bar met: {said}") if equal >= BAR else (1, f"missed: {said}")


def load(folder: str) -> Qwen3ForCausalLM:
    """The model of a folder; TRL's engine reads it there."""
    return Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)


def play(side: str, turns: int, steps: int, model: str, folder: str) -> None:
    """Print the CPU seconds of playing and of an update."""
    rollout.COMMON |= {"use_vllm": True, "vllm_max_model_length": 8192}
    if side == "TRL":
        from trl.generation import vllm_generation

        vllm_generation.LLM = partial(vllm_generation.LLM, enforce_eager=True)
    played = rollout.play_trl if side == "TRL" else rollout.play_ours
    woken: list[float] = []
    wake = VLLMEngine.wake

    def timed(*args: Any) -> None:  # TRL's clock has it in the playing
        started = time.process_time()
        wake(*args)
        woken.append(time.process_time() - started)

    VLLMEngine.wake = timed  # type: ignore[method-assign]
    clock, (longest, said, fewest) = played(folder, turns, steps, partial(load, model))
    assert fewest == turns, f"{side} played {fewest} turns, not {turns}"
    playing, update = clock.medians()
    weights = statistics.median(woken[1:]) if woken else 0.0
    print("seconds", playing + weights, update - weights, longest, said, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.steps < 2:
        parser.error(f"--steps {args.steps}: the first step is left out of the medians, so take two or more")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    warnings.filterwarnings("ignore")
    if args.side:
        with tempfile.TemporaryDirectory() as folder:
            play(args.side[0], args.turns, args.steps, args.side[1], folder)
        return 0
    tokenizer = rollout.make_tokenizer()
    print("| replies | trainer | episode, tokens | trajectories / s | step, s | update, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    ratios = []
    for ragged in (False, True):
        found: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as folder:
            rollout.make_model(tokenizer, args.width, args.layers, ragged).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            for side in ("ours", "TRL"):
                options = ["--turns", str(args.turns), "--steps", str(args.steps)]
                command = [sys.executable, __file__, "--side", side, folder, *options]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
                line = next((line for line in done.stdout.splitlines() if line.startswith("seconds ")), None)
                if line is None:
                    print(f"{side} ended with status {done.returncode}")
                    return 2
                playing, update, longest, said = map(float, line.split()[1:])
                found[side] = playing
                print(
                    f"| {'ragged' if ragged else 'equal'} | {side} | {longest:.0f} ({said:.0f} sampled in all) | "
                    f"{rollout.TASKS * rollout.SAMPLES / playing:.2f} | {playing + update:.2f} | {update:.2f} |",
                    flush=True,
                )
        ratios.append(found["TRL"] / found["ours"])
        print(f"| | ratio | | {ratios[-1]:.2f}x | | |", flush=True)
    status, said = judge(*ratios)
    print(said)
    return status


if __name__ == "__main__":
    sys.exit(main())
