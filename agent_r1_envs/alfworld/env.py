"""The environment: do a household task in a room that is told in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from agent_r1_envs.alfworld.game.texts import NOTHING_HAPPENS
from agent_r1_envs.alfworld.session import EngineSession, Session
from agent_r1_envs.alfworld.sources import DEFAULT_SKIP, load_tasks
from agent_r1_envs.alfworld.tasks import HouseholdTask
from agent_r1_envs.core import AgentEnv, Outcome, Score
from agent_r1_envs.errors import ResetNeeded

if TYPE_CHECKING:
    from agent_r1_envs.alfworld.textworld_backend import TextWorldSession

__all__ = ["ALFWorldEnv"]

DialectChoice = Literal["game", "2.1.1", "2.1.3"]
Goals = Literal["grammar", "human"]
Reward = Literal["success", "goal_conditions"]
Expert = Literal["planner", "explorer"]
Backend = Literal["engine", "textworld"]

_HELP: Final = "help"
_MAX_LENGTH: Final = 16_384


class ALFWorldEnv(AgentEnv[HouseholdTask]):
    """Do a household task: put something somewhere, clean, hot, cool or twice, or look at it under a lamp.

    An action is one command, such as ``go to countertop 1`` or ``take apple 2 from countertop 1``. What is no command
    in the present state is answered by "Nothing happens." The game ends, with reward 1, when the task is done.

    Args:
        split: ``train``, ``valid_seen`` (or ``validation``) or ``valid_unseen`` (or ``test``).
        data: A folder or archive of official games; None for the embedded, generated ones.
        dialect: How the game talks: ``game`` for its own way, ``2.1.1`` (``put X in/on Y``) or ``2.1.3``
            (``move X to Y``, as the embedded games do).
        task_types: Names or official numbers (1 to 6) of the task types; None for all.
        goals: How the task is told: ``grammar`` for the text in the game file, ``human`` for what a person wrote, where
            somebody did.
        annotation: Which person's words, of those there are.
        reward: ``success`` gives 1 at the end, ``goal_conditions`` the change of the share of the goal's conditions.
        show_admissible: Whether observations list the admissible commands too.
        show_help: Whether ``help`` is among the admissible commands; it can be used anyway, where there is one.
        lenient: Whether case, spacing, a dot at the end, and the preposition of putting do not matter.
        expert: What ``expert_action`` follows: ``planner`` knows everything and takes a shortest way, ``explorer`` only
            knows what the texts have shown.
        skip: For which reasons official games are left out; see ``sources.load_tasks``.
        difficulty: Of embedded games: ``easy``, ``standard``, ``hard``, or ranges for ``receptacles``, ``objects`` and
            ``distractors``.
        games: How many embedded games; None for the panel.
        games_seed: Seed of the embedded games.
        backend: ``engine``, or ``textworld`` for the original, which needs the extra ``alfworld`` and runs code that is
            in game files.
        order: See :class:`~agent_r1_envs.core.AgentEnv`, as for ``shard`` and ``render_mode``.
        shard: The part of the panel to use.
        render_mode: None or ``"ansi"``.

    Raises:
        ValueError: An argument is out of its range, or two do not go together.
        DataError: The data are missing or damaged, or a game cannot be played.

    Every ``info`` also has ``task_type``, ``goal_source`` (``grammar`` or ``human``) and ``admissible_actions``, in
    TextWorld's order. ``info["reward_info"]`` has ``won``, ``goal_condition_success`` (the share of the goal's
    conditions that hold) and ``won/<task type>``, so that means over episodes show success by task type.
    """

    def __init__(
        self,
        split: str = "train",
        *,
        data: str | None = None,
        dialect: DialectChoice = "game",
        task_types: Sequence[str | int] | None = None,
        goals: Goals = "grammar",
        annotation: int = 0,
        reward: Reward = "success",
        show_admissible: bool = False,
        show_help: bool = False,
        lenient: bool = False,
        expert: Expert = "planner",
        skip: Sequence[str] = DEFAULT_SKIP,
        difficulty: str | Mapping[str, Any] = "standard",
        games: int | None = None,
        games_seed: int = 0,
        backend: Backend = "engine",
        order: Literal["random", "shuffled", "sequential"] = "random",
        shard: tuple[int, int] = (0, 1),
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        _check_choices(dialect=(dialect, DialectChoice), goals=(goals, Goals), reward=(reward, Reward))
        _check_choices(expert=(expert, Expert), backend=(backend, Backend))
        if isinstance(annotation, bool) or not isinstance(annotation, int) or annotation < 0:
            raise ValueError(f"annotation must be a number from 0, got {annotation!r}")
        if backend == "textworld" and (dialect != "game" or goals != "grammar"):
            raise ValueError("backend='textworld' tells a game as its file does: leave out dialect and goals")
        tasks = load_tasks(
            split,
            data,
            skip=skip,
            task_types=task_types,
            games=games,
            games_seed=games_seed,
            difficulty=difficulty,
            as_files=backend == "textworld",
        )
        super().__init__(tasks, order=order, shard=shard, max_length=_MAX_LENGTH, render_mode=render_mode)
        self._dialect = None if dialect == "game" else dialect
        self._goals, self._annotation, self._reward = goals, annotation, reward
        self._show_admissible, self._show_help, self._lenient = show_admissible, show_help, lenient
        self._expert, self._backend = expert, backend
        self._original = None if backend == "engine" else _original()
        self._session: Session | None = None
        self._instructed = self._goal_source = self._talks = ""

    # Hooks of the base class

    def _begin(self) -> str:
        session = self._start()
        return self._with_commands(session.intro)

    def _act(self, action: str) -> Outcome:
        session = self._playing
        before = session.conditions
        feedback = session.act(action, lenient=self._lenient)
        if feedback is None:
            return self._refuse(session.why_not(action))
        if self._reward == "success":
            reward = float(session.won)
        else:
            reward = (session.conditions[0] - before[0]) / before[1]
        return Outcome(self._with_commands(feedback), reward=reward, terminated=session.won)

    def _refuse(self, reason: str) -> Outcome:
        return Outcome(self._with_commands(NOTHING_HAPPENS), invalid=reason)

    def _score(self) -> Score:
        session = self._playing
        won, (reached, conditions) = float(session.won), session.conditions
        components = {"won": won, "goal_condition_success": reached / conditions}
        components[f"won/{self.task.task_type}"] = won
        return Score(session.won, won, components)

    def _instruction(self) -> str:
        return self._instructed

    def _info(self, extra: dict[str, Any]) -> dict[str, Any]:
        info = super()._info(extra)
        info["task_type"] = self.task.task_type
        info["goal_source"] = self._goal_source
        info["admissible_actions"] = self._commands()
        return info

    def _get_world(self) -> Any:
        return self._playing.get_state()

    def _set_world(self, world: Any) -> None:
        self._start().set_state(world)

    def _state_facts(self) -> Any:
        return self._playing.facts()

    def _protocol(self) -> dict[str, Any]:
        return {
            "rules": "Do the task. An action is one command; what is no command changes nothing and costs a turn.",
            "reward": self._reward,
            "backend": self._backend,
            "dialect": self._talks,
            "goals_told_by": self._goals,
            "lenient": self._lenient,
            "admissible_in_observation": self._show_admissible,
        }

    def expert_action(self) -> str | None:
        """Return the next command of a shortest plan, or of the explorer; None where there is none."""
        return self._playing.expert_command(explorer=self._expert == "explorer")

    def render(self) -> str | None:
        """Return what the env said last and the room as far as it was seen, or None without a render mode."""
        text = super().render()
        return text if text is None else f"{text}\n\n{self._playing.draw()}"

    # Parts

    @property
    def _playing(self) -> Session:
        if self._session is None:
            raise ResetNeeded("no game has begun: call reset() first")
        return self._session

    def _start(self) -> Session:
        if self._original is not None:
            return self._start_original(self._original)
        record = self.task.load()
        people = record.annotations if self._goals == "human" else ()
        words = people[self._annotation % len(people)] if people else record.game.task
        self._instructed, self._goal_source = words, "human" if people else "grammar"
        self._talks = self._dialect or record.game.dialect
        self._session = EngineSession(record.game, self._talks, words)
        return self._session

    def _start_original(self, original: TextWorldSession) -> Session:
        from agent_r1_envs.alfworld.textworld_backend import source_of

        original.begin(source_of(self.task))
        self._instructed, self._goal_source, self._talks = original.task, "grammar", original.dialect
        self._session = original
        return original

    def _commands(self) -> list[str]:
        commands = self._playing.commands()
        if not self._show_help and _HELP in commands:
            commands.remove(_HELP)
        return commands

    def _with_commands(self, observation: str) -> str:
        if not self._show_admissible:
            return observation
        return "\n".join([observation, "", "Admissible commands:", *self._commands()])


def _original() -> TextWorldSession:
    from agent_r1_envs.alfworld.textworld_backend import TextWorldSession

    return TextWorldSession()


def _check_choices(**arguments: tuple[object, Any]) -> None:
    for name, (value, choices) in arguments.items():
        if value not in get_args(choices):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}; got {value!r}")
