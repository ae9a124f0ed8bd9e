"""Prompts, token in, token out: `PromptBuilder` turns observations into ids and never alters a response."""

from agent_r1_trainer.prompts.builder import HistoryThinking, Observation, PromptBuilder
from agent_r1_trainer.prompts.rendering import PLAIN_TEMPLATE, ChatRenderer, Message, PromptError
from agent_r1_trainer.prompts.thinking import strip_messages, strip_thinking

__all__ = [
    "PLAIN_TEMPLATE",
    "ChatRenderer",
    "HistoryThinking",
    "Message",
    "Observation",
    "PromptBuilder",
    "PromptError",
    "strip_messages",
    "strip_thinking",
]
