"""What the recipes of HotpotQA show the model."""

import re
from typing import Any

from agent_r1_wrappers.context.append_history import AppendHistory

_PASSAGE = re.compile(r"^\[\d+\] (.+)$", re.MULTILINE)
_SEEN = " (seen)"
_COMPLAINTS = 3

STEPPO_SYSTEM = (
    "You answer questions whose facts are spread over several passages of an encyclopedia. Search until the passages "
    "hold the answer, with up to 4 searches at once, then give the answer in as few words as possible."
)

STEPPO_TEMPLATE = """\
Question: {{ instruction }}
{% if queries %}

Searched so far:
{% for query in queries %}
- {{ query }}
{% endfor %}
{% endif %}

Passages:
{% for passage in passages %}
- {{ passage }}
{% else %}
(none)
{% endfor %}
{% if complaints %}

Wrong in earlier replies:
{% for complaint in complaints %}
- {{ complaint }}
{% endfor %}
{% endif %}

{% if remaining_turns == 1 %}
This is the last turn: answer now.
{% elif remaining_turns %}
{{ remaining_turns }} turns are left.
{% endif %}
"""

SEARCH_R1_SYSTEM = (
    "Answer the question. Reason inside <think>...</think> whenever you get new information. If you lack knowledge, "
    "search with <search>query</search>; what is found is between <information> and </information>. When you need "
    "nothing more, give the answer alone inside <answer>...</answer>, for example <answer>Beijing</answer>."
)

REACT_SYSTEM = (
    "Answer the question by alternating a thought and an action. The thought reasons about what is known and what is "
    "missing; the action searches or answers, with the answer in as few words as possible."
)


def steppo_variables(history: AppendHistory) -> dict[str, Any]:
    """Return the state that the StepPO recipe renders: past queries, distinct passages and the last complaints.

    Args:
        history: The history of an episode of HotpotQA.

    Returns:
        ``queries``, ``passages`` (title and text, in the order in which they were found) and ``complaints``.
    """
    calls = [call for turn in history.history for call in turn.info.get("calls", [])]
    observations = [history.first_observation, *(turn.observation for turn in history.history)]
    found = [match[1] for observation in observations for match in _PASSAGE.finditer(observation)]
    complaints = [turn.info["invalid_action"] for turn in history.history if "invalid_action" in turn.info]
    return {
        "queries": [call["arguments"].get("query") for call in calls if call["ok"] and call["name"] == "search"],
        "passages": list(dict.fromkeys(passage for passage in found if not passage.endswith(_SEEN))),
        "complaints": complaints[-_COMPLAINTS:],
    }
