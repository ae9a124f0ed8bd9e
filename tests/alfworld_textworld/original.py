"""ALFWorld on TextWorld, put together as alfworld does, without a line of ours in between."""

import copy
import functools
from typing import Any

import fast_downward
import pytest
import textworld
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
from textworld.envs import PddlEnv
from textworld.envs.pddl import textgen


class Original:
    """Plays game after game. One is enough for a process: each copies a library of 33 MB."""

    def __init__(self) -> None:
        self._env = AlfredDemangler(PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True)))

    def begin(self, game: dict[str, Any]) -> dict[str, Any]:
        self._env.load(game)
        return self._env.reset()

    def step(self, command: str) -> tuple[dict[str, Any], float, bool]:
        return self._env.step(command)

    def plan(self) -> list[str]:
        """Return Fast Downward's plan from here, as commands."""
        inner = self._env.unwrapped
        return inner._pddl_state.replan(inner._entity_infos)


def remember(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have TextWorld parse and translate each text once: the same results in a tenth of the time.

    It parses the templates of commands and texts again in every step, and translates a game four times.
    """
    parse = functools.cache(textgen._parse_and_convert)
    query = functools.cache(textworld.logic.Rule.parse_conjunctive_query)
    translate = functools.lru_cache(maxsize=2)(fast_downward.pddl2sas)
    # Symbols are written to when a text is made, rules and translations are not.
    monkeypatch.setattr(textgen, "_parse_and_convert", lambda *args, **kwargs: copy.deepcopy(parse(*args, **kwargs)))
    monkeypatch.setattr(textworld.logic.Rule, "parse_conjunctive_query", staticmethod(query))
    monkeypatch.setattr(fast_downward, "pddl2sas", translate)
