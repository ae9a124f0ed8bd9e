"""The original as a reference: ALFWorld's games on TextWorld, behind the same environment.

It needs the extra ``alfworld`` and runs the code that the grammar of a game file holds, so use it for files that you
trust. One call runs at a time in a process, because TextWorld shares its parser.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from agent_r1_envs.alfworld.export import export_game
from agent_r1_envs.alfworld.game.dialects import TASK_PREFIX
from agent_r1_envs.alfworld.official.parsing import parse_game, read_game_file
from agent_r1_envs.alfworld.session import EngineSession
from agent_r1_envs.alfworld.tasks import FileTask, HouseholdTask
from agent_r1_envs.errors import DataError

__all__ = ["TextWorldSession", "source_of"]

_LOCK: Final = threading.Lock()
_INSTALL: Final = "backend='textworld' needs the original: pip install 'agent-r1[alfworld]' (GPL, needs a compiler)"


def source_of(task: HouseholdTask) -> dict[str, Any]:
    """Return the content of a task's game file."""
    if isinstance(task, FileTask):
        try:
            return read_game_file(task.file.read_bytes())
        except (OSError, DataError) as error:
            raise DataError(f"{task.file}: {error}") from error
    return export_game(task.load().game)


class TextWorldSession:
    """Plays game after game on TextWorld.

    Where the engine knows a game as well, it plays along unheard, for what TextWorld does not tell: the goal's
    conditions, why a command is none, an expert's next command, a picture.

    Raises:
        ImportError: The extra is not installed; the message has the pip command.
    """

    _state: Any

    def __init__(self) -> None:
        with _alone():
            try:
                import textworld
                from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
                from textworld.envs import PddlEnv
            except ImportError as error:
                raise ImportError(f"{_INSTALL}: {error}") from error
            self._env = AlfredDemangler(PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True)))
        self._shadow: EngineSession | None = None
        self._done: list[str] = []
        self.intro = self.task = ""
        self.won = False

    def begin(self, game: Mapping[str, Any]) -> None:
        """Load a game and start it."""
        try:
            self._shadow = EngineSession(parse_game(game))
        except DataError:
            self._shadow = None
        with _alone():
            self._env.load(game)
        self._restart()
        self.task = self.intro.rpartition(TASK_PREFIX)[2]

    @property
    def dialect(self) -> str:
        """Name of the dialect, ``"unknown"`` where the engine does not know it."""
        return self._shadow.dialect if self._shadow is not None else "unknown"

    @property
    def conditions(self) -> tuple[int, int]:
        """How many of the goal's conditions hold, and how many there are; one where they are not known."""
        return self._shadow.conditions if self._shadow is not None else (int(self.won), 1)

    def commands(self) -> list[str]:
        """Return the commands that are possible now, sorted."""
        return list(self._state["admissible_commands"])

    def act(self, command: str, *, lenient: bool = False) -> str | None:
        """Carry a command out and return what the game says, or None where it is none."""
        text = command.strip()
        if lenient and self._shadow is not None:
            text = self._shadow.meant(text)
        if text not in self._state["admissible_commands"]:
            return None
        with _alone():
            self._state, _, _ = self._env.step(text)
        self._done.append(text)
        self.won = bool(self._state["won"])
        if self._shadow is not None:
            self._shadow.act(text)
        return str(self._state.feedback)

    def why_not(self, command: str) -> str:
        """Return why a command is none."""
        return self._shadow.why_not(command) if self._shadow is not None else "no such command is possible now"

    def expert_command(self, *, explorer: bool = False) -> str | None:
        """Return the next command of an expert; None where the engine does not know the game."""
        return self._shadow.expert_command(explorer=explorer) if self._shadow is not None else None

    def get_state(self) -> tuple[str, ...]:
        """Return the commands so far: TextWorld's own state cannot be saved."""
        return tuple(self._done)

    def set_state(self, state: Sequence[str]) -> None:
        """Play the game again up to a state that :meth:`get_state` returned."""
        if self._done:
            self._restart()
        for command in state:
            self.act(command)

    def facts(self) -> Any:
        """Return the state of the game as the engine knows it; where it does not, the commands so far."""
        return self._shadow.facts() if self._shadow is not None else tuple(self._done)

    def draw(self) -> str:
        """Return a picture of the room, or nothing where the engine does not know the game."""
        return self._shadow.draw() if self._shadow is not None else ""

    def _restart(self) -> None:
        with _alone():
            self._state = self._env.reset()
        self._done, self.won = [], bool(self._state["won"])
        self.intro = str(self._state.feedback)
        if self._shadow is not None:
            self._shadow.restart()


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other threads out, and put back what the translator of PDDL leaves changed."""
    with _LOCK:
        arguments = sys.argv
        try:
            yield
        finally:
            sys.argv = arguments
