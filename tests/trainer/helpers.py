"""A vocabulary of a dozen words, a model of a few thousand parameters and environments that speak it."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium.spaces import Text
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agent_r1_envs.spaces import Messages

WORDS = ["<pad>", "<end>", "<unk>", "user", "assistant", "left", "right", "wait", "a", "b", "done", "again"]
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


class Panel:
    """What the trainer reads of a `TaskSet`."""

    def __init__(self, count: int) -> None:
        self.ids = tuple(f"task-{i}" for i in range(count))

    def __len__(self) -> int:
        return len(self.ids)


class CueEnv(gymnasium.Env[list[dict[str, Any]], str]):
    """Each turn shows a cue; the reply must begin with it. A wrong reply ends the episode, five right ones win it."""

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
        right = action.split()[:1] == [self.cue]
        self.right += right
        over = not right or self.right == self.turns
        self._show()
        return list(self.messages), self.scale * float(right), over, False, self._info()
