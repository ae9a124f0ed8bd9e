"""The options of the environment, its infos, and how it deals with what it is sent."""

import sys

import gymnasium
import pytest

from agent_r1_envs import restore, snapshot
from agent_r1_envs.alfworld.env import ALFWorldEnv
from agent_r1_envs.alfworld.game.model import TASK_TYPES
from agent_r1_envs.errors import DataError, ResetNeeded
from tests.data import real_data


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path))


def official(split="valid_seen", **kwargs):
    return ALFWorldEnv(split, data=str(real_data("alfworld") / "json_2.1.1"), **kwargs)


def finish(env):
    """Follow the expert to the end and return rewards and the last info."""
    rewards, terminated, info = [], False, {}
    while not terminated:
        _, reward, terminated, truncated, info = env.step(env.expert_action())
        assert not truncated and "invalid_action" not in info
        rewards.append(reward)
    return rewards, info


def test_an_episode():
    env = ALFWorldEnv("test")
    observation, info = env.reset(options={"task": 2})
    assert observation.startswith("-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room.")
    assert observation.endswith(f"Your task is to: {info['instruction']}")
    assert (info["task_type"], info["split"], info["dataset"]) == (TASK_TYPES[2], "valid_unseen", "synthetic")
    assert info["goal_source"] == "grammar" and "help" not in info["admissible_actions"]
    assert info["protocol"]["dialect"] == "2.1.3" and info["protocol"]["backend"] == "engine"
    assert info["reward_info"] == {"won": 0.0, "goal_condition_success": 0.0, f"won/{TASK_TYPES[2]}": 0.0}
    rewards, info = finish(env)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert info["success"] and info["score"] == 1.0
    assert info["reward_info"] == {"won": 1.0, "goal_condition_success": 1.0, f"won/{TASK_TYPES[2]}": 1.0}
    assert env.expert_action() is None


@pytest.mark.parametrize("alias, name", [("validation", "valid_seen"), ("test", "valid_unseen"), ("train", "train")])
def test_splits_have_aliases(alias, name):
    assert ALFWorldEnv(alias).tasks is ALFWorldEnv(name).tasks
    assert ALFWorldEnv(alias).tasks.split == name


def test_the_reward_may_follow_the_conditions_of_the_goal():
    env = ALFWorldEnv("test", reward="goal_conditions")
    for task in range(12):
        env.reset(options={"task": task})
        rewards, info = finish(env)
        assert sum(rewards) == pytest.approx(1.0), info["task_id"]
        assert sum(reward > 0 for reward in rewards) == {0: 1, 1: 2, 5: 2}.get(task % 6, 2)
    env.reset(options={"task": 2})
    while env.step(env.expert_action())[1] == 0:
        pass
    state = env.get_state()
    assert 0 < env._score().reward_info["goal_condition_success"] < 1
    env.set_state(state)
    assert env.get_state() == state


def test_admissible_commands_may_be_shown_and_help_among_them():
    env = ALFWorldEnv("test", show_admissible=True, show_help=True)
    observation, info = env.reset(options={"task": 0})
    assert observation.endswith("\n\nAdmissible commands:\n" + "\n".join(info["admissible_actions"]))
    assert "help" in info["admissible_actions"]
    assert env.step("fly")[0].startswith("Nothing happens.\n\nAdmissible commands:\n")
    hidden = ALFWorldEnv("test")
    hidden.reset(options={"task": 0})
    observation, *_, info = hidden.step("help")
    assert observation.startswith("Available commands:") and "invalid_action" not in info


@pytest.mark.parametrize("own", ["2.1.1", "2.1.3"])
def test_a_game_is_told_in_either_dialect(own):
    data = real_data("alfworld") / ("json_2.1.3_dialect" if own == "2.1.3" else "") / "json_2.1.1"
    for dialect in ("game", "2.1.1", "2.1.3"):
        env = ALFWorldEnv("valid_seen", data=str(data), dialect=dialect)
        _, info = env.reset(options={"task": 0})
        assert info["protocol"]["dialect"] == (own if dialect == "game" else dialect)
        first, _, _, _, info = env.step(info["admissible_actions"][0])
        assert first.startswith("You arrive at loc ") == (info["turn"] == 1 and env._talks == "2.1.1")
        assert finish(env)[1]["success"]


def test_goals_in_the_words_of_people():
    grammar, human, second = official(), official(goals="human"), official(goals="human", annotation=1)
    texts = [env.reset(options={"task": 0})[1]["instruction"] for env in (grammar, human, second)]
    assert texts == [
        "look at alarmclock under the desklamp.",
        "look at the clock under the lamp",
        "Look at an alarm clock by the light of a lamp.",
    ]
    observation, info = human.reset(options={"task": 0})
    assert observation.endswith("Your task is to: look at the clock under the lamp")
    assert info["goal_source"] == "human" and info["protocol"]["goals_told_by"] == "human"
    assert grammar.reset(options={"task": 0})[1]["goal_source"] == "grammar"
    nobody = ALFWorldEnv("test", goals="human")
    assert nobody.reset(options={"task": 0})[1]["goal_source"] == "grammar"


@pytest.mark.parametrize(
    "said", ["Go To  Countertop 1", "go to countertop 1.", "GO TO COUNTERTOP 1 ..", "\tgo to\ncountertop 1 "]
)
def test_lenient_matching_is_a_choice(said):
    strict, lenient = official("valid_unseen"), official("valid_unseen", lenient=True)
    task = next(index for index, task in enumerate(strict.tasks) if "Bread" in task.id)
    for env in (strict, lenient):
        env.reset(options={"task": task})
    observation, *_, info = strict.step(said)
    assert observation == "Nothing happens." and "'go to countertop 1'" in info["invalid_action"]
    assert lenient.step(said)[0].startswith("You arrive at loc ")


@pytest.mark.parametrize("preposition", ["in/on", "in", "on", "into", "onto", "to"])
@pytest.mark.parametrize("verb", ["put", "move"])
def test_lenient_matching_forgives_how_putting_is_said(verb, preposition):
    env = ALFWorldEnv("test", lenient=True)
    env.reset(options={"task": 0})
    while not env.expert_action().startswith("move "):
        env.step(env.expert_action())
    thing, receptacle = env.expert_action().removeprefix("move ").split(" to ")
    assert env.step(f"{verb} {thing} {preposition} {receptacle}")[2]


def test_reasons_of_invalid_commands():
    env = ALFWorldEnv("train", difficulty="easy", task_types=[3])
    env.reset(options={"task": 1})
    game = env.task.load().game
    openable = [name for number, name in enumerate(game.receptacles) if game.openable >> number & 1]
    reasons = {
        "": "the command is empty",
        "dance": "'dance' is no command; commands begin with go to, open,",
        "go to attic 1": "there is no receptacle 'attic 1'",
        "open attic 1": "there is no receptacle 'attic 1'",
        "take x 1 from attic 1": "there is no receptacle 'attic 1'",
        f"take x 1 from {game.receptacles[0]}": f"the {game.receptacles[0]} is not at this place: go to it first",
        f"open {game.receptacles[0]}": f"the {game.receptacles[0]} is not at this place: go to it first",
        "move x 1 to attic 1": "the hand does not hold 'x 1'",
        "clean x 1 with sinkbasin 1": "the hand does not hold 'x 1'",
        f"examine {game.objects[0]}": f"only an object in the hand can be examined, not the {game.objects[0]}",
        "LOOK": "commands are matched exactly: 'look' would be one",
    }
    for command, reason in reasons.items():
        observation, reward, terminated, _, info = env.step(command)
        assert (observation, reward, terminated) == ("Nothing happens.", 0.0, False)
        assert info["invalid_action"].startswith(reason), command
    if openable:
        env.step(f"go to {openable[0]}")
        expected = f"the {openable[0]} is at this place already: act on it without going to it"
        assert env.step(f"go to {openable[0]}")[-1]["invalid_action"] == expected
        assert env.step(f"take x 1 from {openable[0]}")[-1]["invalid_action"] == f"the {openable[0]} is closed"
        assert env.step(f"close {openable[0]}")[-1]["invalid_action"] == f"the {openable[0]} is closed already"


def test_task_types_and_difficulty():
    env = ALFWorldEnv("train", task_types=[1, "look_at_obj_in_light"], games=40, games_seed=2, difficulty="easy")
    assert len(env.tasks) == 40 and {task.task_type for task in env.tasks} == set(TASK_TYPES[:2])
    observation, _ = env.reset(seed=0)
    assert len(observation) < 400


@pytest.mark.parametrize(
    "wrong",
    [
        {"split": "dev"},
        {"dialect": "put"},
        {"goals": "me"},
        {"annotation": -1},
        {"annotation": True},
        {"reward": "dense"},
        {"expert": "oracle"},
        {"backend": "thor"},
        {"difficulty": "nightmare"},
        {"task_types": [7]},
        {"skip": ["x"]},
        {"games": -1},
        {"order": "backwards"},
        {"render_mode": "human"},
        {"backend": "textworld", "dialect": "2.1.1"},
        {"backend": "textworld", "goals": "human"},
    ],
)
def test_wrong_arguments_raise_at_once(wrong):
    with pytest.raises(ValueError):
        ALFWorldEnv(**wrong)


def test_missing_data_raise_at_once():
    with pytest.raises(DataError, match="no such file or folder"):
        ALFWorldEnv(data="nowhere")


@pytest.mark.parametrize("expert", ["planner", "explorer"])
def test_experts(expert):
    env = official("valid_unseen", expert=expert)
    turns = []
    for task in range(len(env.tasks)):
        env.reset(options={"task": task})
        rewards, info = finish(env)
        assert info["success"]
        turns.append(len(rewards))
    assert (max(turns) <= 10) == (expert == "planner")


def test_the_picture_shows_what_was_seen_and_no_more():
    env = ALFWorldEnv("test", render_mode="ansi", order="sequential")
    env.reset()
    picture = env.render()
    assert "At: the middle of the room" in picture and "Holds: nothing" in picture
    game = env.task.load().game
    assert all(f"{name}" in picture for name in game.receptacles) and picture.count("?") == len(game.receptacles)
    while "take" not in env.expert_action():
        env.step(env.expert_action())
    thing = env.expert_action().removeprefix("take ").split(" from ")[0]
    assert thing in env.render()
    env.step(env.expert_action())
    assert f"Holds: {thing}" in env.render()


def test_snapshots_hold_what_the_explorer_knows():
    env = gymnasium.make("AgentR1/ALFWorld-v0", split="test", expert="explorer")
    env.reset(options={"task": 8})
    for _ in range(4):
        env.step(env.unwrapped.expert_action())
    saved = snapshot(env)

    def rest():
        commands = []
        for _ in range(6):
            commands.append(env.unwrapped.expert_action())
            if env.step(commands[-1])[2]:
                break
        return commands

    expected = rest()
    env.reset(options={"task": 3})
    restore(env, saved)
    assert rest() == expected


def test_there_is_no_expert_before_the_first_reset():
    with pytest.raises(ResetNeeded):
        ALFWorldEnv("test").expert_action()


def test_the_limit_is_fifty_turns():
    env = gymnasium.make("AgentR1/ALFWorld-v0", split="test")
    env.reset(options={"task": 0})
    truncated = False
    while not truncated:
        *_, terminated, truncated, info = env.step("look")
        assert not terminated
    assert info["turn"] == 50


def test_the_original_is_named_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "textworld", None)
    with pytest.raises(ImportError, match=r"pip install 'agent-r1\[alfworld\]'"):
        ALFWorldEnv(backend="textworld")
