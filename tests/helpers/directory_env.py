"""A small but complete tool env: look people up in a directory, and say where somebody's friend lives."""

from dataclasses import dataclass
from typing import Any

from agent_r1_envs.core import Outcome, Score
from agent_r1_envs.errors import ToolError
from agent_r1_envs.tasks import TaskSet
from agent_r1_envs.tools import ToolEnv, ToolResult

NAMES = ("Zoë", "Łukasz", "Ævar", "明子", "Иван", "Noël", "Søren", "José")
CITIES = ("Århus", "Kraków", "東京", "São Paulo", "Köln", "Reykjavík")


@dataclass(frozen=True)
class Errand:
    """Who is asked about."""

    person: str


def friend_of(person: str) -> str:
    """Return the friend of a person; a fixed rule, so that every process has the same directory."""
    return NAMES[(NAMES.index(person) + 3) % len(NAMES)]


def city_of(person: str) -> str:
    """Return the city of a person."""
    return CITIES[NAMES.index(person) % len(CITIES)]


class DirectoryEnv(ToolEnv[Errand]):
    """Find the city of a friend with ``friend[..]`` and ``city[..]``; ``note`` is a tool that changes the world.

    Args:
        people: How many people, hence tasks, there are.
        note_reward: Reward of a note.
        live: Any object; stands for an index or a connection that must not be copied.
        **kwargs: Arguments of ``ToolEnv``.
    """

    def __init__(
        self, *, people: int = len(NAMES), note_reward: float = 0.125, live: Any = None, **kwargs: Any
    ) -> None:
        tasks = [Errand(name) for name in NAMES[:people]]
        ids = [f"errand-{position}" for position in range(people)]
        panel = TaskSet(tasks, dataset="synthetic", split="test", ids=ids)
        super().__init__(panel, [self.friend, self.city, self.note], **kwargs)
        self.note_reward = note_reward
        self.live = live
        self.notes: list[str] = []
        self.known: set[str] = set()
        self.answered = False
        self.right = False

    def friend(self, person: str) -> str:
        """Say who somebody's friend is.

        Args:
            person: The first name.
        """
        self._known(person)
        return f"{person}'s friend is {friend_of(person)}."

    def city(self, person: str) -> str:
        """Say where somebody lives.

        Args:
            person: The first name.
        """
        self._known(person)
        return f"{person} lives in {city_of(person)}."

    def note(self, text: str, times: int = 1) -> ToolResult:
        """Write something down.

        Args:
            text: What to write.
            times: How often to write it.
        """
        if text == "crash":
            raise RuntimeError("the pencil broke")
        if not 0 <= times <= 3:
            raise ToolError(f"nobody writes a note {times} times")
        self.notes.extend([text] * times)
        return ToolResult(f"{len(self.notes)} notes", reward=self.note_reward)

    def expert_action(self) -> str:
        friend = friend_of(self.task.person)
        return f"city[{friend}]" if friend not in self.known else f"answer[{city_of(friend)}]"

    def _known(self, person: str) -> None:
        if person not in NAMES:
            raise ToolError(f"nobody is called {person!r}")
        self.known.add(person)

    def _begin(self) -> str:
        self.notes, self.known, self.answered, self.right = [], set(), False, False
        return f"{self._instruction()} Known: {', '.join(NAMES)}."

    def _answer(self, text: str) -> Outcome:
        self.answered = True
        self.right = text.strip() == city_of(friend_of(self.task.person))
        return Outcome("Thank you.", reward=float(self.right), terminated=True)

    def _score(self) -> Score:
        return Score(self.right, float(self.right), {"em": float(self.right), "answered": float(self.answered)})

    def _instruction(self) -> str:
        return f"Where does the friend of {self.task.person} live?"

    def _get_world(self) -> Any:
        return {
            "notes": self.notes,
            "known": sorted(self.known),
            "answered": self.answered,
            "right": self.right,
        }

    def _set_world(self, world: Any) -> None:
        self.notes, self.known = world["notes"], set(world["known"])
        self.answered, self.right = world["answered"], world["right"]

    def _protocol(self) -> dict[str, Any]:
        return {"rules": "directory", "reward": "exact match"}
