"""StepPO (CAPO, arXiv 2604.18401) whole: rollout, merging, credit, loss, update. docs/steppo.md explains each block."""

import copy
import sys
from types import SimpleNamespace as Step

import gymnasium
import numpy as np
import torch
from torch import nn

from agent_r1_trainer.tiny_policy import load_tiny_policy

ENV = {"id": "agent_r1_envs:AgentR1/HotpotQA-v0", "split": "train", "top_k": 2, "max_calls": 1}
MAX_RESPONSE, GAMMA, LAM = 8, 1.0, 0.95  # discount and lambda are those from step to step
CLIP, EPOCHS, MINIBATCHES, MAX_GRAD_NORM = 0.2, 2, 2, 1.0
POLICY_LR, CRITIC_LR, ADAM_EPSILON = 5e-4, 1e-3, 1e-5


def sample(policy, tokenizer, prompts):
    """A response to each prompt, up to and including the token that ends a turn."""
    batch, end = tokenizer.pad({"input_ids": prompts}, padding_side="left", return_tensors="pt"), tokenizer.eos_token_id
    replies = policy.generate(**batch, do_sample=True, top_k=0, max_new_tokens=MAX_RESPONSE, eos_token_id=end)
    replies = replies[:, batch["input_ids"].size(1) :].tolist()
    return [reply[: reply.index(end) + 1] if end in reply else reply for reply in replies]


def rollout(respond, tokenizer, envs, tasks):
    """Play a task in each environment, all of them a turn at a time. A turn is a step, an episode a list of steps."""
    texts = {i: env.reset(options={"task": tasks[i]})[0] for i, env in enumerate(envs)}
    prompts, episodes, end = [[] for _ in envs], [[] for _ in envs], tokenizer.eos_token_id
    while texts:
        for i, text in texts.items():  # what the environment says, and the mark that asks for a response
            chat = [{"role": "user", "content": text}]
            prompts[i] = prompts[i] + tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        for i, response in zip(list(texts), respond([prompts[i] for i in texts]), strict=True):
            said = response[:-1] if response[-1] == end else response
            texts[i], reward, terminated, truncated, _ = envs[i].step(tokenizer.decode(said))
            episodes[i].append(Step(prompt=prompts[i], response=response, reward=float(reward)))
            prompts[i] = prompts[i] + said + [end]  # what was sampled stays as it is: never decoded and encoded again
            if terminated or truncated:  # a limit of turns is an end like any other
                del texts[i]
    return episodes


def merge(episodes):
    """Chains of steps whose prompts each begin with the step before: ONE sequence, and one pass, for all of a chain."""
    chains = []
    for episode in episodes:
        history = None
        for step in episode:
            if history is None or step.prompt[: len(history)] != history:
                chains.append([])
            chains[-1].append(step)
            history = step.prompt + step.response
    return chains


class StepPO:
    """The policy, and a critic: a copy of its trunk with a linear head that predicts n, where V = mean + scale * n."""

    def __init__(self, policy):
        self.policy, self.trunk = policy, copy.deepcopy(policy.model)
        self.head = nn.Linear(policy.config.hidden_size, 1)
        nn.init.zeros_(self.head.weight), nn.init.zeros_(self.head.bias)
        self.returns, self.mean, self.scale = [], 0.0, 0.0
        self.optimizer = torch.optim.AdamW(policy.parameters(), POLICY_LR, eps=ADAM_EPSILON, weight_decay=0.0)
        self.optimizer.add_param_group({"params": [*self.trunk.parameters(), *self.head.parameters()], "lr": CRITIC_LR})

    def forward(self, chain):
        """For each step: the log-probabilities of its response, and the critic's n at the end of its prompt."""
        ids = torch.tensor([chain[-1].prompt + chain[-1].response])
        logps = self.policy(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
        predictions = self.head(self.trunk(ids).last_hidden_state)[0, :, 0]
        for step in chain:
            start, end = len(step.prompt), len(step.prompt) + len(step.response)
            yield step, logps[start - 1 : end - 1], predictions[start - 1]

    @torch.no_grad()
    def follow(self, returns):
        """PopArt: mean and scale become those of all returns so far, and the head changes so that no value does."""
        self.returns += returns
        mean, std = float(np.mean(self.returns)), float(np.std(self.returns))
        scale = std if std > 1e-9 * abs(mean) else self.scale or abs(mean) or 1.0
        if self.scale:  # not the first time, when the head has learned nothing and V is the mean
            self.head.bias.copy_((self.scale * self.head.bias + self.mean - mean) / scale)
            self.head.weight.mul_(self.scale / scale)
        self.mean, self.scale = mean, scale

    @torch.no_grad()
    def assign_credit(self, episodes):
        """GAE over steps: delta = r + gamma V' - V and A = delta + gamma lambda A'. The critic's target is A + V."""
        steps = [step for episode in episodes for step in episode]
        returns = [sum(GAMMA**k * s.reward for k, s in enumerate(e[t:])) for e in episodes for t in range(len(e))]
        self.follow(returns)
        for chain in merge(episodes):
            for step, step.old_logps, prediction in self.forward(chain):
                step.value = self.mean + self.scale * float(prediction)
        # Differences between values are believed as far as the batch's returns follow them (least squares).
        values = np.array([step.value for step in steps])
        slope = np.mean((values - values.mean()) * returns) / max(values.var(), 1e-30)
        for step in steps:
            step.value = np.mean(returns) + np.clip(slope, 0.0, 1.0) * (step.value - values.mean())
        for episode in episodes:
            value, advantage = 0.0, 0.0
            for step in reversed(episode):
                step.advantage = advantage = step.reward + GAMMA * value - step.value + GAMMA * LAM * advantage
                step.target, value = (advantage + step.value - self.mean) / self.scale, step.value
        # Whitened over the batch, unless that would blow them up beyond deviations of the returns.
        small = np.array([step.advantage for step in steps]) / self.scale
        for step, centred in zip(steps, small - small.mean(), strict=True):
            step.advantage = float(centred / max(small.std(), 1.0))

    def update(self, batch):
        """One optimizer step. Every step of the mini-batch counts the same, however long its response is."""
        losses = []
        for step, logps, prediction in (scored for chain in batch for scored in self.forward(chain)):
            ratio = (logps - step.old_logps).mean().exp()  # one for the response, since it is one action
            surrogate = torch.minimum(ratio * step.advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * step.advantage)
            losses.append(0.5 * (prediction - step.target) ** 2 - surrogate)
        self.optimizer.zero_grad()
        (loss := torch.stack(losses).mean()).backward()
        for learner in self.optimizer.param_groups:  # the policy and the critic
            nn.utils.clip_grad_norm_(learner["params"], MAX_GRAD_NORM)
        self.optimizer.step()
        return loss.item()

    def learn(self, episodes, *seed):
        """All updates of a rollout. Chains are dealt out, the longest first, to the mini-batch of the fewest steps."""
        self.assign_credit(episodes)
        chains, plan = merge(episodes), []
        for epoch in range(EPOCHS):
            plan += (batches := [[] for _ in range(MINIBATCHES)])
            shuffled = np.random.default_rng([*seed, epoch]).permutation(len(chains))
            for i in sorted(shuffled, key=lambda i: -len(chains[i])):
                min(batches, key=lambda batch: sum(map(len, batch))).append(chains[i])
        return [self.update(batch) for batch in plan]


if __name__ == "__main__":
    torch.manual_seed(0)
    rollouts, size = map(int, sys.argv[1:] or (25, 64))
    policy, tokenizer = load_tiny_policy()
    learner, envs = StepPO(policy), [gymnasium.make(**ENV) for _ in range(size)]
    for number in range(rollouts):
        tasks = np.random.default_rng([0, number]).choice(len(envs[0].unwrapped.tasks), size, replace=False)
        episodes = rollout(lambda prompts: sample(policy, tokenizer, prompts), tokenizer, envs, tasks)
        loss, reward = learner.learn(episodes, 0, number)[0], sum(s.reward for e in episodes for s in e) / size
        print(f"rollout {number}: reward {reward:.3f}, {sum(map(len, episodes)) / size:.1f} turns, loss {loss:.3f}")
