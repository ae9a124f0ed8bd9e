"""Context management: what a model sees is a stack of wrappers, each of which does one thing.

    python examples/wrapper_stack.py

The last class is a wrapper of your own: a context operation maps messages to messages and never loses the history.
"""

import gymnasium
from agent_r1_wrappers import (
    AppendHistory,
    ContextOperation,
    InvalidActionPenalty,
    ParseToolCalls,
    SuccessReward,
    TruncateHistory,
    reply_for,
)
from gymnasium.utils import RecordConstructorArgs

import agent_r1_envs  # noqa: F401  (registers the environments)


class Reminder(ContextOperation, RecordConstructorArgs):
    """Ends the newest message with a reminder, which does not stay in the history."""

    stateless = True

    def __init__(self, env: gymnasium.Env, text: str) -> None:
        RecordConstructorArgs.__init__(self, text=text)
        super().__init__(env)
        self.text = text

    def rewrite(self, messages: list[dict], info: dict) -> list[dict]:
        last = messages[-1]
        return [*messages[:-1], {**last, "content": f"{last['content']}\n\n{self.text}"}]


def build() -> gymnasium.Env:
    env = gymnasium.make("AgentR1/HotpotQA-v0", split="test")  # ends in Gymnasium's TimeLimit
    env = ParseToolCalls(env)  # action format: <tool_call>{...}</tool_call>
    env = InvalidActionPenalty(env, penalty=0.1)  # rewards
    env = SuccessReward(env, value=1.0)
    env = AppendHistory(env, system="Answer with as few searches as you can.")  # text to chat
    env = TruncateHistory(env, turns=3)  # context operations
    return Reminder(env, "Think before you call.")


if __name__ == "__main__":
    env = build()
    messages, info = env.reset(options={"task": 0})
    done = False
    while not done:
        reply = reply_for(env, env.unwrapped.expert_action())
        messages, reward, terminated, truncated, info = env.step(reply)
        done = terminated or truncated
    for message in messages:
        print(f"--- {message['role']}\n{message['content']}")
    print(f"--- reward {reward}, success {info['success']}")
