"""An argument that there is not: the error names the one that was meant."""

from collections.abc import Iterator
from typing import Any

import agent_r1_wrappers  # noqa: F401  (registers the recipes)
import gymnasium
import pytest
from gymnasium.spaces import Text

from agent_r1_envs.arguments import argument_names
from agent_r1_envs.hotpotqa.env import HotpotQAEnv
from agent_r1_trainer.commands.play import play_in_terminal
from agent_r1_trainer.environments.factory import EnvFactory
from agent_r1_trainer.train.settings import read_envs
from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.registered import DIRECTORY, register_directory

IDS = [name for name in gymnasium.registry if name.startswith("AgentR1/")]


@pytest.mark.parametrize("env_id", IDS)
def test_every_environment_and_recipe_knows_its_near_misses(env_id: str) -> None:
    with pytest.raises(TypeError, match=r"Env\(\) got an unexpected keyword argument 'oder': did you mean 'order'\?"):
        gymnasium.make(env_id, oder="sequential")
    with pytest.raises(TypeError, match=r"'zzz': there are .*split.*order.*shard"):
        gymnasium.make(env_id, zzz=1)


def test_classes_are_asked_directly_too() -> None:
    with pytest.raises(TypeError, match=r"HotpotQAEnv\(\) got .* 'topk': did you mean 'top_k'\?"):
        HotpotQAEnv(topk=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"DirectoryEnv\(\) got .* 'max_cals': did you mean 'max_calls'\?"):
        DirectoryEnv(max_cals=3)
    assert {"people", "max_calls", "order", "shard"} < set(argument_names(DirectoryEnv))


class Strict(gymnasium.Env[str, str]):
    """Knows nothing of this project."""

    observation_space = action_space = Text(10)

    def __init__(self, rooms: int = 3) -> None:
        self.rooms = rooms + ""  # type: ignore[operator]


@pytest.fixture
def strict() -> Iterator[str]:
    gymnasium.register("Strict-v0", entry_point=Strict)
    yield "Strict-v0"
    del gymnasium.registry["Strict-v0"]


def test_environments_of_other_makers_are_asked_for_their_arguments(strict: str) -> None:
    for source in (strict, Strict, gymnasium.spec(strict)):
        with pytest.raises(TypeError, match=r"Strict.__init__\(\) got .* 'room': did you mean 'rooms'\?"):
            EnvFactory(source, {"room": 2})()
        with pytest.raises(TypeError, match="unsupported operand"):  # another error keeps its own words
            EnvFactory(source, {"rooms": 2})()
    with pytest.raises(TypeError, match=r"'seeed': did you mean 'seed'\?"):
        EnvFactory(lambda seed=0: Strict(), {"seeed": 1})()


def test_a_function_without_arguments_says_so() -> None:
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'a'$"):
        EnvFactory(lambda: Strict(), {"a": 1})()


def test_a_mixture_and_the_command_line_say_it(capsys: Any) -> None:
    entry = read_envs({"one": {"env": DIRECTORY, "kwargs": {"peple": 3}}}, "file")["one"]
    register_directory()
    with pytest.raises(TypeError, match=r"'peple': did you mean 'people'\?"):
        EnvFactory(entry.env, entry.kwargs)()
    assert play_in_terminal("AgentR1/HotpotQA-v0", "test", None, None, '{"topk": 3}') == 2
    assert "did you mean 'top_k'?" in capsys.readouterr().err
