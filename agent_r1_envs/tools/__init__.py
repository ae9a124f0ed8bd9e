"""Tools that a model can call, the grammar of its calls, and the env that runs them."""

from agent_r1_envs.tools.base import BaseTool, Tool, ToolResult
from agent_r1_envs.tools.env import ToolEnv
from agent_r1_envs.tools.grammar import Call, CallSyntaxError, format_calls, parse_calls

__all__ = ["BaseTool", "Call", "CallSyntaxError", "Tool", "ToolEnv", "ToolResult", "format_calls", "parse_calls"]
