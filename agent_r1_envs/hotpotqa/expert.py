"""A good way through a question: search what the question and the passages name, then give the gold answer."""

import html
import re
from collections.abc import Sequence

from agent_r1_envs.hotpotqa.data import Question
from agent_r1_envs.hotpotqa.metric import normalize
from agent_r1_envs.retrieval import Passage

_PARENTHESIS = re.compile(r"\s*\([^()]*\)\s*$")


def next_queries(
    question: Question, missing: Sequence[int], passages: Sequence[Passage], queries: Sequence[str], most: int
) -> list[str]:
    """Return what to search next, at most ``most`` queries; none when everything is found or nothing is left to try.

    Only what an agent could know is used: titles of supporting paragraphs that the question or a shown passage
    mentions, and the question itself. When that leads nowhere, the remaining titles are tried as a well-read guess.

    Args:
        question: The task.
        missing: Positions of the supporting paragraphs that were not shown yet.
        passages: The passages that were shown.
        queries: The queries that were asked.
        most: How many searches a turn may hold.
    """
    if not question.gold:
        return [] if queries else [question.question]
    titles = [title_query(question.paragraphs[position].title) for position in missing]
    known = f" {normalize(' '.join([question.question, *(f'{p.title} {p.text}' for p in passages)]))} "
    mentioned = [title for title in titles if f" {normalize(title)} " in known]
    # Several paragraphs may share a title; the question's words tell them apart.
    precise = [f"{title} {question.question}" for title in titles]
    for plan in (mentioned, [question.question] if missing else [], titles, precise):
        fresh = [query for query in dict.fromkeys(plan) if query.strip() and query not in queries]
        if fresh:
            return fresh[:most]
    return []


def title_query(title: str) -> str:
    """Return a title as people write it in a text: without the parenthesis that tells namesakes apart."""
    plain = html.unescape(title)
    return _PARENTHESIS.sub("", plain) or plain
