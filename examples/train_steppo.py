"""Train a model with StepPO on a laptop: the tiny policy that comes with the package.

    python examples/train_steppo.py [--steps 160]

With a real model only the names and sizes change: model="Qwen/Qwen3-1.7B", no tokenizer, recipe="default" (the model
writes tool calls), a learning rate near 1e-6 and room for longer prompts and replies.
"""

import argparse

from agent_r1_trainer import StepPOConfig, StepPOTrainer
from agent_r1_trainer.tiny_policy import load_tiny_policy

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=160, help="optimizer steps; four make one rollout")
parser.add_argument("--episodes", type=int, default=64, help="episodes in a rollout")
parser.add_argument("--out", default="runs/example")

if __name__ == "__main__":
    options = parser.parse_args()
    model, tokenizer = load_tiny_policy()
    small = {"top_k": 2, "max_calls": 1}
    args = StepPOConfig(
        options.out,
        env_kwargs={"split": "train", **small},
        eval_env_kwargs={"split": "validation", **small},
        eval_episodes=options.episodes,
        recipe="native",
        max_prompt_length=1024,
        max_completion_length=8,
        rollout_batch_size=options.episodes,
        num_ppo_epochs=2,
        num_minibatches=2,
        max_steps=options.steps,
        learning_rate=5e-4,
        critic="separate",
        critic_learning_rate=1e-3,
        critic_warmup_steps=4,
        lam=0.95,
        logging_steps=4,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
    )
    trainer = StepPOTrainer(model, args, env="AgentR1/HotpotQA-v0", processing_class=tokenizer)
    trainer.train()
    print(trainer.evaluate())
