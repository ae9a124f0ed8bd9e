"""What the recipes of ALFWorld show the model."""

from typing import Any

from agent_r1_wrappers.context.append_history import AppendHistory

_TURNS = 2

STEPPO_SYSTEM = (
    "You do household tasks in a text world, one command a turn. Choose exactly one of the admissible commands that "
    "the prompt lists. Think inside <think></think> first, then call the tool env_step with that command."
)

STEPPO_TEMPLATE = """\
# Task
{{ instruction }}

# Current Observation
{{ observation }}

# History Actions
{% for action in actions %}
{{ loop.index }}. {{ (action | replace("\n", " "))[:200] }}
{% else %}
(none)
{% endfor %}

# Admissible Commands
{% for command in info.admissible_actions %}
- {{ command }}
{% endfor %}

# Instructions
Choose the one admissible command that brings the task forward most. A command that is not listed does nothing and costs
a turn.

# Output Format
<think>your reasoning</think>
<tool_call>{"name": "env_step", "arguments": {"command": "one admissible command"}}</tool_call>
"""

GIGPO_TEMPLATE = """\
You are an expert agent in the ALFRED household environment.
{% if turn %}
Your task is to: {{ instruction }}
You have taken {{ turn }} step(s) so far. The last {{ recent | length }} observation(s), each with the action that you \
took then:
{% for entry in recent %}
[Observation {{ entry.number }}: '{{ entry.observation }}', Action {{ entry.number }}: '{{ entry.action }}']
{% endfor %}
You are now at step {{ turn + 1 }}, and your current observation is: {{ observation }}
{% else %}
Your current observation is: {{ observation }}
{% endif %}
Your admissible actions in this situation are: [
{%- for command in info.admissible_actions %}
{{ "" if loop.first else "\n " }}'{{ command }}'
{%- endfor %}].

Now it is your turn. First reason step by step about the situation, inside <think> </think>. Then choose one \
admissible action and give it inside <action> </action>.
"""


def gigpo_variables(history: AppendHistory) -> dict[str, Any]:
    """Return the last turns: for each the observation before the action, the action, and the number of the turn.

    Args:
        history: The history of an episode of ALFWorld.

    Returns:
        ``recent``, the oldest turn first.
    """
    turns = history.history
    first = max(len(turns) - _TURNS, 0)
    before = [history.first_observation, *(turn.observation for turn in turns)]
    return {
        "recent": [
            {"number": number + 1, "observation": before[number], "action": turns[number].action}
            for number in range(first, len(turns))
        ]
    }
