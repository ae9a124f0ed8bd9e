"""What the recipes of WebShop show the model: the instruction, the page, the last two turns, what can be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_r1_wrappers.context.append_history import AppendHistory

_SEPARATOR = " [SEP] "
_TURNS = 2
_SHOWN = 1800  # characters of a past observation or action

STEPPO_SYSTEM = (
    "You shop in a web shop. Find the product that the instruction describes, choose the options that it asks for, and "
    "buy it. You act with the tool env_step, whose command is search[words] or click[name]."
)

STEPPO_TEMPLATE = """\
Instruction: {{ instruction }}

Current page:
{{ page }}
{% if past %}

Last turns:
{% for step in past %}
Observation {{ step.number }}: {{ step.observation }}
Action {{ step.number }}: {{ step.action }}
{% endfor %}
{% endif %}

Available actions:
{% for action in available %}
- {{ action }}
{% endfor %}

Call env_step exactly once, with one of the available actions.
{% if remaining_turns %}
{{ remaining_turns }} turns are left.
{% endif %}
"""

GIGPO_TEMPLATE = """\
You are an expert shopper in the WebShop environment. Your task is to: {{ instruction }}.
{% if past %}

You have taken {{ turn }} step(s). The last {{ past | length }} observation(s) and action(s) were:
{% for step in past %}
[Observation {{ step.number }}: {{ step.observation }}, Action {{ step.number }}: '{{ step.action }}']
{% endfor %}
{% endif %}

This is step {{ turn + 1 }}, and the current observation is: {{ page }}.
The admissible actions are:
[
{% for action in available %}
'{{ action }}',
{% endfor %}
]

Reason step by step inside <think> </think>, then give one admissible action inside <action> </action>.
"""


def steppo_variables(history: AppendHistory) -> dict[str, Any]:
    """Return the state that the StepPO recipe renders.

    Args:
        history: The history of an episode of WebShop.

    Returns:
        ``page``, without the instruction that every page repeats; ``past``: number, observation before it, and action
        of the last two turns, cut to 1,800 characters each; and the ``available`` actions.
    """
    return {
        "page": _page(history, len(history.history)),
        "past": _past(history, lambda turn: _page(history, turn)),
        "available": _available(history),
    }


def gigpo_variables(history: AppendHistory) -> dict[str, Any]:
    """Return the state that the GiGPO recipe renders: as for StepPO, with every field of a page in quotes.

    Args:
        history: The history of an episode of WebShop.
    """

    def quoted(turn: int) -> str:
        return _SEPARATOR.join(f"'{field}'" for field in _page(history, turn).split(_SEPARATOR))

    return {
        "page": quoted(len(history.history)),
        "past": _past(history, quoted),
        "available": _available(history),
    }


def _past(history: AppendHistory, page: Callable[[int], str]) -> list[dict[str, Any]]:
    done = len(history.history)
    return [
        {
            "number": turn + 1,
            "observation": page(turn)[:_SHOWN],
            "action": history.history[turn].action[:_SHOWN],
        }
        for turn in range(max(done - _TURNS, 0), done)
    ]


def _page(history: AppendHistory, turn: int) -> str:
    """Return what the env showed before a turn, from the first field after the instruction."""
    shown = history.history[turn - 1].observation if turn else history.first_observation
    head = f"{_SEPARATOR}{str(history.reset_info.get('instruction', '')).strip()}{_SEPARATOR}"
    _, found, page = shown.partition(head)
    return page if found else shown


def _available(history: AppendHistory) -> list[str]:
    info = history.history[-1].info if history.history else history.reset_info
    return list(info.get("admissible_actions", []))
