"""What the recipe of paper search shows the model."""

from typing import Any

from agent_r1_wrappers.context.append_history import AppendHistory

_COMPLAINTS = 3

PAPERS_SYSTEM = (
    "You collect the papers that answer a query. Papers that you find are scored for relevance and kept in a pool, of "
    "which you see the best. Each turn you may make up to 5 calls at once: search for new words, and expand papers "
    "marked NEW, which adds the papers they cite and the papers that cite them. Do not repeat a search, and do not "
    "expand a paper marked EXP. When nothing is left to find, reply without a call: the pool is your result."
)

PAPERS_TEMPLATE = """\
Query: {{ instruction }}

Searched so far:
{% for query in queries %}
- {{ query }}
{% else %}
(nothing)
{% endfor %}

Expanded so far:
{% for paper in expanded %}
- {{ paper }}
{% else %}
(nothing)
{% endfor %}

Papers, {{ pool|length }} of {{ pool_size }}:
{% for paper in pool|reverse %}
[{{ paper.id }}] ({{ "%.2f"|format(paper.score) }}) [{{ "EXP" if paper.expanded else "NEW" }}] {{ paper.title }}
{% if paper.abstract %}
{{ paper.abstract }}
{% endif %}
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
This is the last turn.
{% elif remaining_turns %}
{{ remaining_turns }} turns are left.
{% endif %}
"""


def papers_variables(history: AppendHistory) -> dict[str, Any]:
    """Return the state that the recipe renders.

    Args:
        history: The history of an episode of paper search.

    Returns:
        ``queries``, ``expanded``, ``pool_size``, ``complaints``, and ``pool``, the list with the least
        relevant paper first, so that it is the first one to be left out.
    """
    info = history.history[-1].info if history.history else history.reset_info
    complaints = [turn.info["invalid_action"] for turn in history.history if "invalid_action" in turn.info]
    return {
        "queries": info["queries"],
        "expanded": info["expanded"],
        "pool_size": info["pool_size"],
        "pool": info["pool"][::-1],
        "complaints": complaints[-_COMPLAINTS:],
    }
