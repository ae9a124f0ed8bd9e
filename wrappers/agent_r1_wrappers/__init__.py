"""Context management for text agents as composable Gymnasium wrappers.

Action formats read a model's reply, context operations decide what the model sees, and reward wrappers say what counts.
Inside out: env, ``TimeLimit``, action format, rewards, ``AppendHistory``, context operations, recording. A named stack
of them is a recipe (:mod:`agent_r1_wrappers.recipes`); importing this package registers the recipes' ids.
"""

from agent_r1_wrappers.context.append_history import AppendHistory, Transition
from agent_r1_wrappers.context.augment_context import AugmentContext
from agent_r1_wrappers.context.context_operation import ContextOperation
from agent_r1_wrappers.context.explain_invalid import ExplainInvalid
from agent_r1_wrappers.context.html_to_text import HtmlToText
from agent_r1_wrappers.context.rewrite_context import RewriteContext
from agent_r1_wrappers.context.summarize_history import SummarizeHistory
from agent_r1_wrappers.context.truncate_history import TruncateHistory
from agent_r1_wrappers.context.wrap_observation import WrapObservation
from agent_r1_wrappers.formats.action_format import ActionFormat, read_reply, reply_for
from agent_r1_wrappers.formats.parse_react import ParseReAct
from agent_r1_wrappers.formats.parse_tags import ParseTags
from agent_r1_wrappers.formats.parse_tool_calls import ParseToolCalls
from agent_r1_wrappers.formats.parse_tool_tags import ParseToolTags
from agent_r1_wrappers.record_trajectory import RecordTrajectory, read_trajectories
from agent_r1_wrappers.rewards import InvalidActionPenalty, SuccessBonus, SuccessReward
from agent_r1_wrappers.stack import WrapperOrderError

__all__ = [
    "ActionFormat",
    "AppendHistory",
    "AugmentContext",
    "ContextOperation",
    "ExplainInvalid",
    "HtmlToText",
    "InvalidActionPenalty",
    "ParseReAct",
    "ParseTags",
    "ParseToolCalls",
    "ParseToolTags",
    "RecordTrajectory",
    "RewriteContext",
    "SuccessBonus",
    "SuccessReward",
    "SummarizeHistory",
    "Transition",
    "TruncateHistory",
    "WrapObservation",
    "WrapperOrderError",
    "read_reply",
    "read_trajectories",
    "recipes",
    "reply_for",
]

# Specs of wrappers that are written down name the package, not the file that a class happens to lie in.
for _exported in [globals().get(_name) for _name in __all__]:
    if isinstance(_exported, type):
        _exported.__module__ = __name__

from agent_r1_wrappers import recipes  # noqa: E402  (their specs are made here, of the classes above)

recipes.register_recipes()
