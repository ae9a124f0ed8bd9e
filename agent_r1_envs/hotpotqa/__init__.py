"""HotpotQA and its relatives: multi-hop questions that are answered by searching.

``gymnasium.make("AgentR1/HotpotQA-v0")`` makes the environment; see :class:`HotpotQAEnv` for its arguments.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_r1_envs.hotpotqa.data import Paragraph, Question
    from agent_r1_envs.hotpotqa.env import HotpotQAEnv
    from agent_r1_envs.hotpotqa.generator import generate, stream
    from agent_r1_envs.hotpotqa.loading import iter_corpus, load_questions

__all__ = ["HotpotQAEnv", "Paragraph", "Question", "generate", "iter_corpus", "load_questions", "stream"]

_HOME = {
    "HotpotQAEnv": "env",
    "Paragraph": "data",
    "Question": "data",
    "generate": "generator",
    "iter_corpus": "loading",
    "load_questions": "loading",
    "stream": "generator",
}


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
