"""Evaluate on every task once with a vector environment: each sub-environment takes its share of the split.

python examples/vector_evaluation.py
"""

import gymnasium

import agent_r1_envs  # noqa: F401  (registers the environments)

NUM_ENVS = 4
TASKS = 40

if __name__ == "__main__":
    envs = gymnasium.make_vec(
        "AgentR1/HotpotQA-v0", num_envs=NUM_ENVS, vectorization_mode="sync", split="test", order="sequential"
    )
    envs.set_attr("shard", [(i, NUM_ENVS) for i in range(NUM_ENVS)])
    envs.reset(seed=0)
    scores: dict[str, float] = {}
    ended = [False] * NUM_ENVS
    while len(scores) < TASKS:
        actions = tuple(env.unwrapped.expert_action() or "" for env in envs.envs)  # type: ignore[attr-defined]
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        for i in range(NUM_ENVS):
            if terminated[i] or truncated[i]:
                scores[infos["task_id"][i]] = float(infos["score"][i])
    print(f"{len(scores)} tasks, mean score {sum(scores.values()) / len(scores):.3f}")
    envs.close()
