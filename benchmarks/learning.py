"""Which algorithm learns what, at equal episodes and over several seeds?

    python benchmarks/learning.py [--seeds 5] [--workers 2] [--out runs/learning] [--write docs/learning.md]

Every run is `agent-r1 train` with a shipped recipe, shortened to 60 updates, in a process of its own with one thread:
StepPO, GRPO, RLOO and token PPO, on the embedded HotpotQA and on an embedded household, with the same tiny policy, the
same number of episodes and the same held-out exam. Runs that are complete are not repeated and one that was stopped
goes on, so the command can be interrupted and given again. `--write` puts the table between the marks of a document,
the figure beside it and the numbers into `benchmarks/results/learning.json`.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from learning_report import RunResult, draw, summarise, table, write_between_marks
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "learning.json"
TASKS = {"hotpotqa": "demo", "household": "household"}  # the recipe of each
INTERRUPTED = 130
ALGORITHMS = ("steppo", "grpo", "rloo", "token_ppo")
# What differs from the recipes, for all runs alike: fewer updates, and no exam at a low temperature.
SHORT = "max_steps: 60\neval_steps: 20\nsave_steps: 20\nexam: {episodes: 240, low_temperature: 1.0}\n"


@dataclass(frozen=True)
class Run:
    """One training run."""

    task: str
    algorithm: str
    seed: int
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "run.yaml"

    @property
    def settings(self) -> str:
        return f"extends: {TASKS[self.task]}\nalgorithm: {self.algorithm}\n{SHORT}"

    @property
    def command(self) -> list[str]:
        train = [sys.executable, "-m", "agent_r1_trainer", "train", "--config", str(self.config)]
        return [*train, "--seed", str(self.seed), "--out", str(self.folder)]


class Stopped(RuntimeError):
    """The benchmark was interrupted while this run was going."""


def execute(run: Run, stop: threading.Event) -> None:
    """Run or continue one training; its time, of all attempts together, goes into `cost.json`."""
    if stop.is_set():
        raise Stopped
    if (run.folder / "report.json").exists():
        return
    run.folder.mkdir(parents=True, exist_ok=True)
    run.config.write_text(run.settings, encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    started = time.perf_counter()
    with (run.folder / "output.txt").open("a", encoding="utf-8") as output:
        process = subprocess.Popen(run.command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cost = run.folder / "cost.json"
    spent = json.loads(cost.read_text(encoding="utf-8")) if cost.exists() else {"wall": 0.0, "cpu": 0.0}
    spent["wall"] += time.perf_counter() - started
    spent["cpu"] += usage.ru_utime + usage.ru_stime
    cost.write_text(json.dumps(spent), encoding="utf-8")
    interrupted = stop.is_set() or process.returncode == INTERRUPTED
    if process.returncode:
        stop.set()  # the others end what they do, and begin nothing
    if interrupted:
        raise Stopped
    if process.returncode:
        raise RuntimeError(f"{' '.join(run.command)} ended with status {process.returncode}: see {output.name}")


def read(run: Run) -> RunResult:
    """Read what a complete run left."""
    report = json.loads((run.folder / "report.json").read_text(encoding="utf-8"))
    cost = json.loads((run.folder / "cost.json").read_text(encoding="utf-8"))
    success = {(exam["policy"], exam["temperature"]): exam["success"]["value"] for exam in report["exam"]}
    lines = (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    per_step = report["episodes"] / report["updates"]
    return RunResult(
        task=run.task,
        algorithm=run.algorithm,
        seed=run.seed,
        episodes=report["episodes"],
        before=(success["untrained", 1.0], success["untrained", 0.0]),
        after=(success["trained", 1.0], success["trained", 0.0]),
        curve=[(row["step"] * per_step, row["eval_success"]) for row in rows if "eval_success" in row],
        tokens=max(row["num_tokens"] for row in rows if "num_tokens" in row),
        wall=cost["wall"],
        cpu=cost["cpu"],
        turns=[row["turns/mean"] for row in rows if "turns/mean" in row][-1],
        tasks=len(report["exam"][0]["tasks"]),
    )


def run_all(runs: list[Run], workers: int, console: Console) -> None:
    """Run everything that is not complete, `workers` at a time."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    stop = threading.Event()
    with (
        Progress(*(TextColumn(c) if isinstance(c, str) else c for c in columns), console=console) as progress,
        ThreadPoolExecutor(workers) as pool,
    ):
        bar = progress.add_task("runs", total=len(runs))
        futures = {pool.submit(execute, run, stop): run for run in runs}
        try:
            for future in as_completed(futures):
                future.result()
                progress.advance(bar)
        except BaseException:
            stop.set()  # the interrupt reaches the children by the terminal; those that wait must not begin
            for future in futures:
                future.cancel()
            raise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one core each")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "learning")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS))
    parser.add_argument("--write", type=Path, help="the document whose table is replaced")
    args = parser.parse_args()
    console = Console(stderr=True)
    # Seed after seed, so that what is there after an interruption compares all algorithms.
    runs = [
        Run(task, algorithm, seed, args.out / f"{task}-{algorithm}-{seed}")
        for seed in range(args.seeds)
        for task in args.tasks
        for algorithm in args.algorithms
    ]
    try:
        run_all(runs, args.workers, console)
    except (KeyboardInterrupt, Stopped):
        console.print(f"Stopped. The same command goes on with what is missing in {args.out}.")
        return 130
    results = [read(run) for run in runs]
    text = table(summarise(results))
    print(text)
    if args.write is not None:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps([result.to_json() for result in results], indent=1) + "\n", encoding="utf-8")
        write_between_marks(args.write, text)
        draw(results, args.write.parent / "figures" / "learning.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
