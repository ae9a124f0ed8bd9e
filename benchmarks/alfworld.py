"""How fast and how small are ALFWorld's games without TextWorld?

    python benchmarks/alfworld.py [--data FOLDER_OR_ARCHIVE] [--games 200] [--textworld N]

On official games (the 36 of the tests where they are at hand, or ``--data`` with its split ``--split``) and on
embedded ones: parsing a game file, opening the index, reset, step with admissible commands and info, plan; memory of
another env; 1,000 resets with memory, open files and maps before and after; 8 threads. Where the extra ``alfworld`` is
installed (and ``--textworld`` is not 0), N games are played on TextWorld as well. Times are CPU time. The index is
built in a folder of its own unless ``AGENT_R1_CACHE`` names one. Exit status 1 when a bar is missed.
"""

import argparse
import gc
import importlib.util
import os
import random
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

# This script is called as the package that it compares with, which must not be looked for here.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

from agent_r1_envs.alfworld.env import ALFWorldEnv  # noqa: E402
from agent_r1_envs.alfworld.official.parsing import parse_game, read_game_file  # noqa: E402
from agent_r1_envs.alfworld.sources import load_tasks  # noqa: E402
from agent_r1_envs.cache import clear_cache  # noqa: E402

DATA = Path(os.environ.get("AGENT_R1_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data") / "alfworld"
BARS = {"parse": 5.0, "reset": 0.3, "step": 0.15, "plan": 5.0}  # ms
ENV_BYTES = 100_000


def mean_ms(times: list[float]) -> float:
    return statistics.fmean(times) * 1e3


def timed(call: Callable[[], Any], times: list[float]) -> Any:
    begin = time.process_time()
    result = call()
    times.append(time.process_time() - begin)
    return result


def measure(name: str, env: ALFWorldEnv, games: int) -> dict[str, float]:
    """Return the mean times of a reset, and of steps and plans on random walks."""
    rng = random.Random(0)
    times: dict[str, list[float]] = {"reset": [], "step": [], "plan": []}
    env.reset(options={"task": 0})
    positions = [game * 17 % len(env.tasks) for game in range(games)]
    for position in positions:
        timed(lambda chosen=position: env.reset(options={"task": chosen}), times["reset"])
    for position in positions:
        _, info = env.reset(options={"task": position})
        terminated = False
        while not terminated and env.turn < 50:
            timed(env.expert_action, times["plan"])
            command = rng.choice(info["admissible_actions"])
            *_, terminated, _, info = timed(lambda chosen=command: env.step(chosen), times["step"])
    means = {what: mean_ms(values) for what, values in times.items()}
    shown = ", ".join(f"{what} {mean:.3f} (worst {max(times[what]) * 1e3:.2f})" for what, mean in means.items())
    print(f"{name}, {len(env.tasks)} games, ms: {shown}")
    return means


def parsing(files: list[Path]) -> float:
    times: list[float] = []
    for file in files:
        content = file.read_bytes()
        timed(lambda data=content: parse_game(read_game_file(data)), times)
    print(f"parse a game file, ms: {mean_ms(times):.2f} (worst {max(times) * 1e3:.2f}), {len(files)} files")
    return mean_ms(times)


def opening(data: str, split: str) -> None:
    for what in ("first", "again"):
        clear_cache()
        begin = time.perf_counter()
        count = len(ALFWorldEnv(split, data=data).tasks)
        print(f"{count} games opened, {what}: {time.perf_counter() - begin:.3f} s")


def memory(make: Callable[[], ALFWorldEnv]) -> float:
    """Bytes of another env with a game in progress, and whether 1,000 resets leave anything behind."""
    first = make()
    first.reset(seed=0)
    gc.collect()
    tracemalloc.start()
    envs = [make() for _ in range(200)]
    for number, env in enumerate(envs):
        env.reset(seed=number)
        env.step("look")
    gc.collect()
    each = tracemalloc.get_traced_memory()[0] / len(envs)
    tracemalloc.stop()
    del envs
    gc.collect()
    print(f"another env with a game in progress: {each / 1e3:.1f} kB")
    return each


def usage() -> tuple[int, int, int]:
    """Resident kB, open files and maps of this process (Linux)."""
    status = Path("/proc/self/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0])
    maps = Path("/proc/self/maps").read_text().count("\n")
    return resident, len(os.listdir("/proc/self/fd")), maps


def resets(env: ALFWorldEnv) -> bool:
    for _ in range(200):
        env.reset()
    before = usage()
    for _ in range(1000):
        env.reset()
    after = usage()
    grown = [b - a for a, b in zip(before, after, strict=True)]
    print(f"1,000 resets: {grown[0]:+d} kB resident, {grown[1]:+d} open files, {grown[2]:+d} maps")
    return grown[0] <= 2048 and grown[1] <= 0 and grown[2] <= 2


def threads(make: Callable[[], ALFWorldEnv], count: int = 8, episodes: int = 40) -> bool:
    won = [0] * count

    def play(index: int) -> None:
        env = make()
        for episode in range(episodes):
            env.reset(options={"task": (index * episodes + episode) % len(env.tasks)})
            terminated = False
            while not terminated:
                *_, terminated, _, _ = env.step(env.expert_action() or "")
            won[index] += 1

    workers = [threading.Thread(target=play, args=(index,)) for index in range(count)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"{count} threads: {sum(won)} of {count * episodes} episodes won in {time.perf_counter() - begin:.2f} s")
    return sum(won) == count * episodes


def against_textworld(data: str, split: str, games: int, ours: dict[str, float]) -> bool:
    """Play on TextWorld; its reset alone, without loading, is compared with ours, which includes it."""
    from agent_r1_envs.alfworld.textworld_backend import TextWorldSession, source_of

    session = TextWorldSession()
    tasks = load_tasks(split, data, as_files=Path(data).is_dir())
    rng = random.Random(0)
    times: dict[str, list[float]] = {"load and reset": [], "reset": [], "step": []}
    for game in range(games):
        source = source_of(tasks[game * 17 % len(tasks)])
        timed(lambda chosen=source: session.begin(chosen), times["load and reset"])
        for _ in range(10):
            command = rng.choice(session.commands())
            timed(lambda chosen=command: session.act(chosen), times["step"])
            if session.won:
                break
        timed(lambda: session.set_state(()), times["reset"])
    theirs = {what: mean_ms(values) for what, values in times.items()}
    ratios = {what: theirs[what] / ours[what.split()[-1]] for what in theirs}
    for what in theirs:
        print(f"TextWorld {what}: {theirs[what]:.1f} ms, {ratios[what]:.0f} times as long as here")
    return ratios["step"] >= 500 and ratios["reset"] >= 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=str(DATA / "json_2.1.1"))
    parser.add_argument("--split", default="valid_seen")
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--textworld", type=int, default=6)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AGENT_R1_CACHE", folder)
        return run(args)


def run(args: argparse.Namespace) -> int:
    good = True
    results = [measure("embedded", ALFWorldEnv("train"), args.games)]
    if Path(args.data).exists():
        files = sorted(Path(args.data).rglob("game.tw-pddl"))[:200] if Path(args.data).is_dir() else []
        if files:
            good = parsing(files) <= BARS["parse"]
        opening(args.data, args.split)
        results.append(measure("official", ALFWorldEnv(args.split, data=args.data), args.games))
    else:
        print(f"{args.data} is not there: set AGENT_R1_TEST_DATA or --data; only embedded games are measured")
    good &= all(means[what] <= BARS[what] for means in results for what in means)
    good &= memory(lambda: ALFWorldEnv("train")) <= ENV_BYTES
    good &= resets(ALFWorldEnv("train"))
    good &= threads(lambda: ALFWorldEnv("test"))
    if args.textworld and importlib.util.find_spec("textworld") and len(results) > 1:
        good &= against_textworld(args.data, args.split, args.textworld, results[1])
    elif args.textworld:
        print("TextWorld is not installed (the extra 'alfworld'): nothing to compare with")
    print("all bars are met" if good else "a bar is missed")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
