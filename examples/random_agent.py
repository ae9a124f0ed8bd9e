"""An agent that calls random tools with random words: how a loop over an environment looks.

python examples/random_agent.py
"""

import random

import gymnasium

import agent_r1_envs  # noqa: F401  (registers the environments)

rng = random.Random(0)
env = gymnasium.make("AgentR1/HotpotQA-v0", split="test")
for task in range(3):
    observation, info = env.reset(seed=task, options={"task": task})
    print(f"\n{info['task_id']}\n{observation}")
    done = False
    while not done:
        word = rng.choice(observation.split())
        action = f"{rng.choice(['search', 'search', 'answer'])}[{word}]"
        observation, reward, terminated, truncated, info = env.step(action)
        print(f"> {action}\n{observation}")
        done = terminated or truncated
    print(f"success {info['success']}, score {info['score']}, turns {info['turn']}")
env.close()
