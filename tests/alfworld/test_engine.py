"""The rules, where they are surprising, on games written down by hand."""

import pytest

from agent_r1_envs.alfworld.game.engine import Action, Engine
from agent_r1_envs.alfworld.game.model import Game, Goal, State
from agent_r1_envs.alfworld.game.scoring import goal_conditions, is_won

MUG, KNIFE, APPLE, LAMP = range(4)
CABINET, FRIDGE, MICROWAVE, SINK, TABLE = range(5)


def household(goal: Goal) -> Game:
    """A fridge and a cabinet at one place, a microwave, a sink and a table at others."""
    everything = 0b1111
    return Game(
        dialect="2.1.3",
        task="do something.",
        goal=goal,
        places=("loc 5", "loc 4", "loc 3", "loc 2", "loc 1"),
        receptacles=("cabinet 1", "fridge 1", "microwave 1", "sinkbasin 1", "table 1"),
        sites=(0, 0, 1, 2, 3),
        openable=0b111,
        accepts=(0b0001, 0b0111, 0b0101, 0b0111, everything),
        washers=1 << SINK,
        heaters=1 << MICROWAVE,
        coolers=1 << FRIDGE,
        objects=("mug 1", "knife 1", "apple 1", "desklamp 1"),
        pickupable=0b0111,
        toggleable=1 << LAMP,
        cleanable=0b0111,
        heatable=0b0101,
        coolable=0b0101,
        sliceable=1 << APPLE,
        knives=1 << KNIFE,
        vessels=1 << MUG,
        inside=((MUG, KNIFE),),
        start=State(4, -1, 0, (1 << LAMP, 0, 0, 0, 0b0111), (1 << LAMP, 0, 0, 0b0111, 0), (0,) * 5),
    )


PUT = Goal("pick_and_place_simple", "mug", 1 << MUG, "cabinet", 1 << CABINET)
HEAT = Goal("pick_heat_then_place_in_recep", "apple", 1 << APPLE, "fridge", 1 << FRIDGE)
TWO = Goal("pick_two_obj_and_place", "thing", 0b0111, "fridge", 1 << FRIDGE)
LOOK = Goal("look_at_obj_in_light", "mug", 1 << MUG, lamp="desklamp", lamps=1 << LAMP)


class Play:
    """Says commands and keeps the state."""

    def __init__(self, goal: Goal = PUT, dialect: str | None = None) -> None:
        self.engine = Engine(household(goal), dialect)
        self.state, self.intro = self.engine.begin()

    def __call__(self, command: str) -> str:
        self.state, feedback = self.engine.perform(self.state, self.commands[command])
        return feedback

    @property
    def commands(self) -> dict[str, Action]:
        return self.engine.commands(self.state)

    @property
    def progress(self) -> tuple[int, int]:
        return goal_conditions(self.engine.game, self.state)

    @property
    def won(self) -> bool:
        return is_won(self.engine.game, self.state)


def test_the_beginning() -> None:
    play = Play()
    assert play.intro == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
        "cabinet 1, a fridge 1, a microwave 1, a sinkbasin 1, and a table 1.\n\nYour task is to: do something."
    )
    assert play("look") == "You are in the middle of a room. Looking quickly around you, you see nothing."
    assert play("inventory") == "You are not carrying anything."
    assert play("help").startswith("Available commands:\n  look: ")


def test_a_shared_place() -> None:
    play = Play()
    assert play("go to fridge 1") == "You arrive at fridge 1. The fridge 1 is closed."
    assert "go to cabinet 1" not in play.commands and "open cabinet 1" in play.commands
    assert play("look") == "You are facing the cabinet 1, and fridge 1. Next to it, you see nothing."


def test_a_lamp_in_a_closed_cabinet_can_be_switched_on() -> None:
    play = Play(LOOK)
    play("go to table 1")
    play("take mug 1 from table 1")
    assert play.progress == (1, 2)
    play("go to cabinet 1")
    assert play("use desklamp 1") == "You turn on the desklamp 1."
    assert play.won and play.progress == (2, 2)
    play("go to table 1")
    assert not play.won and play.progress == (1, 2)


def test_what_was_taken_is_seen_beside_its_old_place() -> None:
    play = Play()
    play("go to table 1")
    play("take mug 1 from table 1")
    assert play("examine mug 1") == "This is a normal mug 1. In it, you see a knife 1."
    play("go to cabinet 1")
    play("open cabinet 1")
    assert play("move mug 1 to cabinet 1") == "You move the mug 1 to the cabinet 1."
    assert play.won
    play("open fridge 1")
    play("take mug 1 from cabinet 1")
    play("move mug 1 to fridge 1")
    assert play("look") == "You are facing the cabinet 1, and fridge 1. Next to it, you see a mug 1."


def test_a_closed_microwave_heats_and_cooling_ends_it() -> None:
    play = Play(HEAT)
    play("go to table 1")
    play("take apple 1 from table 1")
    play("go to microwave 1")
    assert play("heat apple 1 with microwave 1") == "You heat the apple 1 using the microwave 1."
    assert play("examine apple 1") == "This is a hot apple 1."
    assert play.progress == (1, 3)
    play("go to sinkbasin 1")
    play("clean apple 1 with sinkbasin 1")
    assert play("examine apple 1") == "This is a hot and clean apple 1."
    play("go to fridge 1")
    assert play("open fridge 1") == "You open the fridge 1. The fridge 1 is open. In it, you see nothing."
    play("move apple 1 to fridge 1")
    assert play.won and play.progress == (3, 3)
    play("take apple 1 from fridge 1")
    play("cool apple 1 with fridge 1")
    assert play("examine apple 1") == "This is a cool and clean apple 1."
    play("move apple 1 to fridge 1")
    assert not play.won and play.progress == (1, 3)


def test_slicing() -> None:
    play = Play()
    play("go to table 1")
    play("take knife 1 from table 1")
    assert play("slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."
    play("move knife 1 to table 1")
    play("take apple 1 from table 1")
    assert play("examine apple 1") == "This is a sliced apple 1."
    play("go to fridge 1")
    play("cool apple 1 with fridge 1")
    assert play("examine apple 1") == "This is a cool sliced apple 1."


def test_only_one_thing_is_held_and_only_that_is_examined() -> None:
    play = Play(TWO)
    play("go to table 1")
    assert "examine apple 1" not in play.commands
    play("take apple 1 from table 1")
    assert play("inventory") == "You are carrying: a apple 1."
    assert not any(command.startswith("take ") for command in play.commands)
    play("go to fridge 1")
    play("open fridge 1")
    play("move apple 1 to fridge 1")
    assert not play.won and play.progress == (1, 2)
    play("go to table 1")
    play("take mug 1 from table 1")
    play("go to fridge 1")
    play("move mug 1 to fridge 1")
    assert play.won and play.progress == (2, 2)


def test_the_older_dialect() -> None:
    play = Play(dialect="2.1.1")
    assert "help" not in play.commands
    assert play("go to table 1") == "You arrive at loc 2. On the table 1, you see a mug 1, a knife 1, and a apple 1."
    play("take knife 1 from table 1")
    assert play("put knife 1 in/on table 1") == "You put the knife 1 in/on the table 1."


@pytest.mark.parametrize("dialect", ["2.1.1", "2.1.3"])
def test_commands_are_written_as_they_are_read(dialect: str) -> None:
    play = Play(dialect=dialect)
    for command in ("go to table 1", "take knife 1 from table 1"):
        assert all(play.engine.command(action) == text for text, action in play.commands.items())
        play(command)
    assert all(play.engine.command(action) == text for text, action in play.commands.items())
