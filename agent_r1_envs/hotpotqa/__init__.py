"""HotpotQA and its relatives: multi-hop questions that are answered by searching.

``gymnasium.make("AgentR1/HotpotQA-v0")`` makes the environment; see :class:`HotpotQAEnv` for its arguments.
"""

from typing import TYPE_CHECKING

from agent_r1_envs.names import import_on_use

if TYPE_CHECKING:
    from agent_r1_envs.hotpotqa.data import Paragraph, Question
    from agent_r1_envs.hotpotqa.env import HotpotQAEnv
    from agent_r1_envs.hotpotqa.generator import generate, stream
    from agent_r1_envs.hotpotqa.loading import iter_corpus, load_questions

__all__ = ["HotpotQAEnv", "Paragraph", "Question", "generate", "iter_corpus", "load_questions", "stream"]

__getattr__ = import_on_use(
    __name__,
    {
        "data": ["Paragraph", "Question"],
        "env": ["HotpotQAEnv"],
        "generator": ["generate", "stream"],
        "loading": ["iter_corpus", "load_questions"],
    },
)
