"""Prompts, token in, token out: `PromptBuilder` turns observations into ids and never alters a response."""

from agent_r1_trainer.prompts.builder import HistoryThinking, Observation, PromptBuilder
from agent_r1_trainer.prompts.glue import closing_ids
from agent_r1_trainer.prompts.rendering import PLAIN_TEMPLATE, ChatRenderer, Message, PromptError
from agent_r1_trainer.prompts.replies import check_replies, reply_text
from agent_r1_trainer.prompts.thinking import strip_messages, strip_thinking

__all__ = [
    "PLAIN_TEMPLATE",
    "ChatRenderer",
    "HistoryThinking",
    "Message",
    "Observation",
    "PromptBuilder",
    "PromptError",
    "check_replies",
    "closing_ids",
    "reply_text",
    "strip_messages",
    "strip_thinking",
]
