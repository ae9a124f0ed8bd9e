"""A vocabulary of a dozen words, a model of a few thousand parameters and environments that speak it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Text
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agent_r1_envs.spaces import Messages
from agent_r1_trainer.generation import Generation, SamplingParams
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.trainer.steppo_trainer import StepPOTrainer

WORDS = ["<pad>", "<end>", "<unk>", "user", "left", "right", "assistant", "wait", "a", "b", "done", "again"]
TEMPLATE = (
    "{% for m in messages %}{{ m.role }} {{ m.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", unk_token="<unk>", padding_side="left"
    )
    fast.chat_template = TEMPLATE
    return fast


def make_model(seed: int = 0, *, width: int = 32, layers: int = 2, tied: bool = True) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(WORDS),
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=width // 4,
            max_position_embeddings=256,
            tie_word_embeddings=tied,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


def side(reply: str) -> str:
    """The cue that a reply follows, empty for none."""
    first = (reply.split() or [""])[0]
    return ("left", "right")[WORDS.index(first) % 2] if first in WORDS else ""


class Panel:
    """What the trainer reads of a `TaskSet`."""

    def __init__(self, count: int) -> None:
        self.ids = tuple(f"task-{i}" for i in range(count))

    def __len__(self) -> int:
        return len(self.ids)


class CueEnv(gymnasium.Env[list[dict[str, Any]], str]):
    """Each turn shows a cue, and the reply's first word must be on its side. A wrong one ends the episode, five win it.

    Words at even places of the vocabulary are on the left, the others on the right, so a random policy scores.
    """

    def __init__(self, tasks: int = 8, turns: int = 5, scale: float = 1.0) -> None:
        self.tasks = Panel(tasks)
        self.turns, self.scale = turns, scale
        self.observation_space, self.action_space = Messages(), Text(4096)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.task = int((options or {}).get("task", 0))
        self.messages: list[dict[str, Any]] = []
        self.right = 0
        self._show()
        return list(self.messages), self._info()

    def _show(self) -> None:
        self.cue = ("left", "right")[int(self.np_random.integers(2))]
        self.messages.append({"role": "user", "content": self.cue})

    def _info(self) -> dict[str, Any]:
        return {
            "task_id": self.tasks.ids[self.task],
            "success": self.right == self.turns,
            "score": self.right / self.turns,
            "reward_info": {"right": float(self.right)},
        }

    def step(self, action):
        self.messages.append({"role": "assistant", "content": action})
        right = side(action) == self.cue
        self.right += right
        over = not right or self.right == self.turns
        self._show()
        return list(self.messages), self.scale * float(right), over, False, self._info()


class ScriptedGenerator:
    """Replies with given words, and remembers what it was asked."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, reply: Callable[[list[int]], str]) -> None:
        self.tokenizer, self.reply = tokenizer, reply
        self.calls: list[list[list[int]]] = []
        self.seeds: list[int] = []

    def generate(
        self, prompts: Sequence[list[int]], sampling: SamplingParams, seeds: Sequence[int]
    ) -> list[Generation]:
        self.calls.append([list(prompt) for prompt in prompts])
        self.seeds.extend(seeds)
        replies = []
        for prompt in prompts:
            ids = self.tokenizer.encode(self.reply(prompt), add_special_tokens=False)[: sampling.max_new_tokens]
            replies.append(Generation(ids, [-0.5] * len(ids), "stop" if ids[-1] == 1 else "length"))
        return replies


class StallEnv(CueEnv):
    """Waiting costs nothing; any other reply is an answer, which ends the episode and is right one time in five."""

    def step(self, action):
        self.messages.append({"role": "assistant", "content": action})
        over = action.split()[:1] != ["wait"]
        self.right = self.turns if over and self.np_random.random() < 0.2 else 0
        self._show()
        return list(self.messages), float(bool(self.right)), over, False, self._info()


DEFAULTS: dict[str, Any] = {
    "rollout_batch_size": 16,
    "num_ppo_epochs": 2,
    "num_minibatches": 2,
    "learning_rate": 3e-3,
    "critic_learning_rate": 1e-2,
    "max_completion_length": 2,
    "max_prompt_length": 128,
    "micro_batch_tokens": 512,
    "logging_steps": 4,
    "lr_scheduler_type": "constant",
    "save_strategy": "no",
    "report_to": [],
    "disable_tqdm": True,
    "use_cpu": True,
}


def make_trainer(folder: Any, *, env: Any = CueEnv, model: Any = None, **kwargs: Any) -> StepPOTrainer:
    arguments = {name: kwargs.pop(name) for name in ("eval_env", "callbacks", "peft_config", "flow") if name in kwargs}
    if not isinstance(kwargs.get("task_sampler", ""), str):
        arguments["task_sampler"] = kwargs.pop("task_sampler")
    config = StepPOConfig(str(folder), **{**DEFAULTS, **kwargs})
    return StepPOTrainer(
        make_model() if model is None else model, config, env, processing_class=make_tokenizer(), **arguments
    )


def measured(trainer: StepPOTrainer) -> list[dict[str, float]]:
    """The log, without what a clock measures."""
    clocks = ("time/", "runtime", "per_second")
    return [
        {name: value for name, value in entry.items() if not any(clock in name for clock in clocks)}
        for entry in trainer.state.log_history
    ]


def weights(trainer: StepPOTrainer) -> dict[str, torch.Tensor]:
    """A copy of all weights that training may change."""
    found = {f"policy.{name}": p for name, p in trainer.model.named_parameters()}
    if trainer.critic is not None:
        found |= {f"critic.{name}": p for name, p in trainer.critic.model.named_parameters()}
    return {name: p.detach().clone() for name, p in found.items()}
