"""How long does a rollout wait for slow environments: in step, and with workers of each kind?

    python benchmarks/slow_environments.py [--episodes 32] [--seconds 0.1] [--turns 2] [--bar 0.5]

Every step of every environment takes its time and does nothing else, and replies cost nothing, so what a rollout takes
is waiting and what the loop adds to it. The first rollout of a loop starts its workers; the others find them at work.
Exit status 1 when the shortest of those takes longer than the bar with threads or with processes.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
from agent_r1_wrappers import AppendHistory

from agent_r1_envs.spaces import FreeText
from agent_r1_trainer.flows import AgentEnvLoop, Assignment, AsyncEnvLoop
from agent_r1_trainer.generation import Generation, SamplingParams

ROLLOUTS = 4
WORDS = ["<end>", "<unk>", "user", "assistant", "on"]
TEMPLATE = (
    "{% for m in messages %}{{ m.role }} {{ m.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)


class Waiting(gymnasium.Env[str, str]):
    """Waits for something elsewhere in every step, and ends after a number of them."""

    def __init__(self, seconds: float, turns: int) -> None:
        self.observation_space, self.action_space = FreeText(99), FreeText(99)
        self._seconds, self._turns, self._turn = seconds, turns, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._turn = 0
        return "on", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        time.sleep(self._seconds)
        self._turn += 1
        return "on", 1.0, self._turn == self._turns, False, {}


def make_env(seconds: float, turns: int) -> gymnasium.Env[Any, Any]:
    return AppendHistory(Waiting(seconds, turns))


class Echo:
    """Always says the same, at once."""

    def generate(self, prompts: Sequence[list[int]], sampling: object, seeds: Sequence[int]) -> list[Generation]:
        return [Generation([WORDS.index("on"), WORDS.index("<end>")], [-0.5, -0.5], "stop") for _ in prompts]


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unk>", pad_token="<end>")
    fast.chat_template = TEMPLATE
    return fast


def measure(kind: str, episodes: int, seconds: float, turns: int) -> tuple[float, float]:
    """Seconds that the first rollout waited for environments, and the shortest of the others."""
    make, tokenizer = partial(make_env, seconds, turns), make_tokenizer()
    flow: AgentEnvLoop | AsyncEnvLoop
    if kind == "in step":
        flow = AgentEnvLoop(make, tokenizer, max_prompt_length=999)
    else:
        flow = AsyncEnvLoop(make, tokenizer, max_prompt_length=999, env_workers=kind, max_env_workers=episodes)  # type: ignore[arg-type]
    found = []
    try:
        for _ in range(2 if kind in ("in step", "inline") else ROLLOUTS):
            played = flow.run([Assignment(None, i, group=i) for i in range(episodes)], Echo(), SamplingParams(2, (0,)))
            assert [len(trajectory) for trajectory in played] == [turns] * episodes
            assert not any(trajectory.masked for trajectory in played)
            found.append(flow.times.environment)
    finally:
        flow.close()
    return found[0], min(found[1:])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.1, help="That a step takes.")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--bar", type=float, default=0.5, help="Seconds that a rollout may wait with workers.")
    args = parser.parse_args(arguments)
    sizes = f"{args.episodes} environments x {args.seconds:g} s x {args.turns} turns"
    print(f"{sizes}, seconds of waiting (bar {args.bar:g})")
    print(f"{'':10} {'first':>8} {'others':>8}")
    good = True
    for kind in ("in step", "inline", "threads", "processes"):
        first, others = measure(kind, args.episodes, args.seconds, args.turns)
        print(f"{kind:10} {first:8.2f} {others:8.2f}", flush=True)
        good &= others <= args.bar or kind in ("in step", "inline")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
