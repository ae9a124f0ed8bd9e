"""A game in progress, by the engine."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from agent_r1_envs.alfworld.expert.drawing import draw
from agent_r1_envs.alfworld.expert.explorer import Notes, explore, noted
from agent_r1_envs.alfworld.expert.planner import shortest_plan
from agent_r1_envs.alfworld.game.engine import Action, Engine
from agent_r1_envs.alfworld.game.matching import normalised, why_not
from agent_r1_envs.alfworld.game.model import Game, State
from agent_r1_envs.alfworld.game.scoring import goal_conditions, is_won

__all__ = ["EngineSession", "Session"]


class Session(Protocol):
    """What the environment asks of whatever plays a game."""

    intro: str
    won: bool

    @property
    def conditions(self) -> tuple[int, int]:
        """How many of the goal's conditions hold, and how many there are."""

    def commands(self) -> list[str]:
        """Return the commands that are possible now, sorted, ``help`` included."""

    def act(self, command: str, *, lenient: bool) -> str | None:
        """Carry a command out and return what the game says, or None where it is none."""

    def why_not(self, command: str) -> str:
        """Return why a command is none."""

    def expert_command(self, *, explorer: bool) -> str | None:
        """Return the next command of an expert."""

    def get_state(self) -> Any:
        """Return the state as picklable data."""

    def set_state(self, state: Any) -> None:
        """Go back to a state."""

    def facts(self) -> Any:
        """Return what tells states of the game apart: not what was seen, nor how it came to be."""

    def draw(self) -> str:
        """Return a picture of the room."""


class World(NamedTuple):
    """The state of a session: that of the game, and what its texts have shown."""

    state: State
    notes: Notes

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        return self  # it is immutable all through


class EngineSession:
    """Plays a game with the engine.

    Args:
        game: The game.
        dialect: Name of the dialect; None for the game's own.
        task: The task in other words than the game's own; None for these.
    """

    __slots__ = ("_commands", "_engine", "_notes", "_state", "conditions", "intro", "won")

    _state: State
    _notes: Notes
    _commands: dict[str, Action]

    def __init__(self, game: Game, dialect: str | None = None, task: str | None = None) -> None:
        self._engine = Engine(game, dialect)
        _, self.intro = self._engine.begin(task)
        self.restart()

    def restart(self) -> None:
        """Go back to the beginning."""
        self._enter(self._engine.game.start, Notes())

    @property
    def dialect(self) -> str:
        """Name of the dialect."""
        return self._engine.dialect.name

    def commands(self) -> list[str]:
        """Return the commands that are possible now, sorted."""
        return sorted(self._commands)

    def act(self, command: str, *, lenient: bool = False) -> str | None:
        """Carry a command out; it has to match exactly, but for space around it, unless ``lenient``."""
        action = self._commands.get(self.meant(command) if lenient else command.strip())
        if action is None:
            return None
        after, feedback = self._engine.perform(self._state, action)
        notes = noted(self._notes, self._engine.game, after, action)
        if after is self._state:
            self._notes = notes
        else:
            self._enter(after, notes)
        return feedback

    def meant(self, command: str) -> str:
        """Return the command that lenient matching takes ``command`` for."""
        text = command.strip()
        return text if text in self._commands else normalised(self._engine, text)

    def why_not(self, command: str) -> str:
        """Return why a command is none."""
        return why_not(self._engine, self._state, command)

    def expert_command(self, *, explorer: bool = False) -> str | None:
        """Return the next command of a shortest plan, or of the explorer; None where there is none."""
        if explorer:
            action = explore(self._engine, self._state, self._notes)
        else:
            plan = shortest_plan(self._engine.game, self._state)
            action = plan[0] if plan else None
        return None if action is None else self._engine.command(action)

    def get_state(self) -> World:
        """Return the state."""
        return World(self._state, self._notes)

    def set_state(self, state: World) -> None:
        """Go back to a state that :meth:`get_state` returned."""
        self._enter(state.state, state.notes)

    def facts(self) -> State:
        """Return the state of the game."""
        return self._state

    def draw(self) -> str:
        """Return a picture of the room."""
        return draw(self._engine, self._state, self._notes)

    def _enter(self, state: State, notes: Notes) -> None:
        self._state, self._notes = state, notes
        self._commands = self._engine.commands(state)
        self.won = is_won(self._engine.game, state)
        self.conditions = goal_conditions(self._engine.game, state)
