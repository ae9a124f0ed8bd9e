"""WebShop in the benchmark: rows say under which rules they were made, and the floor is a shopper that searches."""

import gymnasium

from agent_r1_trainer.bench.agents import ExpertAgent, RandomAgent
from agent_r1_trainer.bench.episode import EpisodeRecord, Job, play_episode


def test_rows_hold_the_protocol() -> None:
    env = gymnasium.make("AgentR1/WebShop-v0", split="test", rules="revised")
    record = play_episode(env, ExpertAgent(), Job(0, 3, 0))
    assert record.score == 1.0 and record.stop == "terminated" and record.invalid == 0
    assert {"rules": "revised", "reward": "original", "turns": 15, "goal_kind": "synthetic"}.items() <= (
        record.protocol.items()
    )
    assert EpisodeRecord.from_json(record.to_json()) == record


def test_the_random_agent_fills_in_the_query() -> None:
    env = gymnasium.make("AgentR1/WebShop-v0", split="test")
    record = play_episode(env, RandomAgent(), Job(0, 3, 0))
    words = set(env.unwrapped.task.instruction_text.lower().split())
    first = record.steps[0].action
    assert first.startswith("search[") and "<" not in first
    assert any(word in first.lower() for word in words)
    assert record.invalid == 0
