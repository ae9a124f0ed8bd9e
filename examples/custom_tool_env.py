"""An environment of your own: a shop till with two tools, in which an order has to be added up.

    python examples/custom_tool_env.py

A tool is a typed method with a Google-style docstring; what it does wrong on purpose, for the model to read, is a
``ToolError``. The base class does the rest: it parses calls, counts turns, checks arguments and fills ``info``.
"""

import random
from dataclasses import dataclass
from typing import Any

import gymnasium

from agent_r1_envs import Outcome, Score, TaskSet, ToolEnv, ToolError

PRICES = {"tea": 3, "cake": 4, "bread": 2, "honey": 7, "lamp": 19}


@dataclass(frozen=True)
class Order:
    items: tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(PRICES[item] for item in self.items)


def orders(seed: int, count: int) -> TaskSet[Order]:
    rng = random.Random(seed)
    tasks = [Order(tuple(rng.choices(sorted(PRICES), k=3))) for _ in range(count)]
    return TaskSet(tasks, dataset="synthetic", split="train", ids=[f"order-{i}" for i in range(count)])


class TillEnv(ToolEnv[Order]):
    def __init__(self, count: int = 100, **kwargs: Any) -> None:
        super().__init__(orders(seed=0, count=count), [self.price, self.add], **kwargs)
        self.given: str | None = None

    def price(self, item: str) -> str:
        """Look up a price.

        Args:
            item: Name of one thing.
        """
        if item not in PRICES:
            raise ToolError(f"we do not sell {item}")
        return f"{item} costs {PRICES[item]}"

    def add(self, a: int, b: int) -> str:
        """Add two numbers.

        Args:
            a: The first.
            b: The second.
        """
        return str(a + b)

    def _instruction(self) -> str:
        return f"What do {', '.join(self.task.items)} cost together?"

    def _begin(self) -> str:
        self.given = None
        return self._instruction()

    def _answer(self, text: str) -> Outcome:
        self.given = text
        return Outcome("Thank you.", reward=self._score().score, terminated=True)

    def _score(self) -> Score:
        right = self.given is not None and self.given.strip() == str(self.task.total)
        return Score(right, float(right), {"exact": float(right)})

    def _get_world(self) -> Any:
        return self.given

    def _set_world(self, world: Any) -> None:
        self.given = world

    def expert_action(self) -> str:
        return f"answer[{self.task.total}]"


gymnasium.register("Examples/Till-v0", entry_point=TillEnv, max_episode_steps=8)

if __name__ == "__main__":
    env = gymnasium.make("Examples/Till-v0")
    observation, info = env.reset(options={"task": "order-0"})
    print(observation)
    for action in (
        "price[tea]\nprice[cake]",
        '{"name": "add", "arguments": {"a": 3, "b": 4}}',
        "price[gold]",
        "let me think",
        env.unwrapped.expert_action(),
    ):
        observation, reward, terminated, truncated, info = env.step(action)
        print(f"> {action}\n{observation}   [{info.get('invalid_action', 'ok')}]")
    print(f"success {info['success']}")
