"""A vocabulary of a dozen words, and a model of a few thousand parameters that speaks it; environments: `cues`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agent_r1_trainer.generation import Generation, SamplingParams
from agent_r1_trainer.steppo_config import StepPOConfig
from agent_r1_trainer.trainer.steppo_trainer import StepPOTrainer
from tests.helpers.cues import WORDS, CueEnv, Panel, StallEnv, side  # noqa: F401  (for those who train with them)

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
    clocks = ("time/", "runtime", "per_second", "environment_share", "generation_share")
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
