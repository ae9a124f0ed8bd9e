"""Generated households: solvable, varied, split fairly, the same everywhere, and exported without loss."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from agent_r1_envs.alfworld.embedded import HASHES, content_hash, load_panel
from agent_r1_envs.alfworld.expert.planner import shortest_plan
from agent_r1_envs.alfworld.export import export_game, export_panel, installed_rules
from agent_r1_envs.alfworld.game.model import TASK_TYPES, Game
from agent_r1_envs.alfworld.game.scoring import is_won
from agent_r1_envs.alfworld.generator.generator import (
    DIFFICULTIES,
    PANEL,
    Difficulty,
    difficulty_of,
    generate_game,
    is_held_out,
)
from agent_r1_envs.alfworld.generator.vocabulary import ACCEPTS, OBJECTS, RECEPTACLES
from agent_r1_envs.alfworld.official.parsing import kind_of, parse_game
from agent_r1_envs.alfworld.sources import load_tasks
from agent_r1_envs.errors import DataError
from tests.alfworld.games import raw_game, rules

# A change of any of these needs a new version of the environment's id.
PINNED = {
    "train": (3600, "d8f2fbef59e079e689935555c62f59960c7c27a9064178e6694ff95ec905be9e"),
    "valid_seen": (240, "4a345e7d0f32dffa2be6eb0c3b6c46fe62186dd5cc0ba7c01e0e06aad18a699a"),
    "valid_unseen": (240, "a6f2bddd227953b51fe7d81fd9956ee2c17b4567bf9d6cdf92882abd6e2f2613"),
}


@pytest.mark.parametrize("split", sorted(PINNED))
def test_embedded_panels_are_pinned(split: str) -> None:
    panel = load_panel(split)
    assert (len(panel), content_hash(panel)) == PINNED[split]
    assert panel.content_hash == HASHES[split] == PINNED[split][1]
    assert panel.dataset == "synthetic"


def pair(game: Game) -> tuple[str, str]:
    spelled = {kind.lower(): kind for kind in (*OBJECTS, *RECEPTACLES)}
    return spelled[game.goal.target], spelled[game.goal.receptacle or game.goal.lamp]


def test_held_out_pairs_never_come_in_training() -> None:
    trained = {
        pair(generate_game(split, n, seed=s)) for split in ("train", "valid_seen") for s in (0, 9) for n in range(900)
    }
    unseen = [pair(generate_game("valid_unseen", number)) for number in range(240)]
    assert not trained.intersection(unseen)
    assert not any(is_held_out(*one) for one in trained) and all(is_held_out(*one) for one in unseen)
    assert len(trained) > 150 and len(set(unseen)) > 40


@pytest.mark.parametrize("split", sorted(PINNED))
def test_every_game_can_be_solved_and_is_not_yet(split: str) -> None:
    count = PANEL[split][0]
    lengths = []
    for number in range(0, count, 7 if count > 1000 else 1):
        game = generate_game(split, number)
        assert not is_won(game, game.start)
        plan = shortest_plan(game, game.start)
        assert plan
        lengths.append(len(plan))
        assert game.goal.task_type == TASK_TYPES[number % 6]
        assert game.start.place not in game.sites, "nothing is where the game begins"
    assert min(lengths) == 3 and max(lengths) <= 12 and 5 < sum(lengths) / len(lengths) < 7.5


@pytest.mark.parametrize("name", sorted(DIFFICULTIES))
def test_difficulties(name: str) -> None:
    level = DIFFICULTIES[name]
    for number in range(120):
        game = generate_game("train", number, difficulty=level)
        needed = 4  # a goal, a source, a tool or a lamp's site at most
        assert len(game.receptacles) <= max(level.receptacles[1], needed)
        assert len(game.objects) <= level.objects[1] + level.distractors[1] + 4
        for receptacle, inside in enumerate(game.start.contents):
            assert not inside & ~game.accepts[receptacle] & game.pickupable, "everything is where it belongs"


def test_difficulties_are_names_or_ranges() -> None:
    assert difficulty_of("easy") == Difficulty((4, 6), (2, 4), (0, 1))
    assert difficulty_of({"receptacles": 5, "objects": [0, 2]}) == Difficulty((5, 5), (0, 2), (1, 4))
    for wrong in (
        "simple",
        {"rooms": 1},
        {"objects": [3, 1]},
        {"objects": -1},
        {"objects": [1, 2, 3]},
        {"objects": "x"},
        3,
    ):
        with pytest.raises(ValueError, match="difficulty"):
            difficulty_of(wrong)  # type: ignore[arg-type]


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="split must be one of train"):
        generate_game("test", 0)
    with pytest.raises(ValueError, match="task_type must be one of"):
        generate_game("train", 0, task_type="clean")


def test_a_game_is_the_same_in_another_process() -> None:
    code = (
        "from agent_r1_envs.alfworld.embedded import *; from agent_r1_envs.alfworld.sources import load_tasks;"
        "print(content_hash(load_tasks('test', games=30, games_seed=4)))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == content_hash(load_tasks("test", games=30, games_seed=4))


def test_other_panels_have_other_hashes() -> None:
    panels = [
        load_panel("train"),
        load_panel("train", games=12),
        load_panel("train", seed=1),
        load_panel("train", difficulty="easy"),
        load_panel("train", difficulty={"objects": 3}),
        load_panel("train", task_types=TASK_TYPES[:2]),
        load_panel("valid_seen"),
    ]
    assert len({panel.content_hash for panel in panels}) == len(panels)
    assert load_panel("train", difficulty={}).content_hash == panels[0].content_hash
    assert load_panel("train", games=3).ids == load_panel("train", games=30).ids[:3]


def test_what_is_exported_is_read_again_without_loss() -> None:
    written = rules()
    rng = random.Random(1)
    for level in DIFFICULTIES.values():
        for number in range(20):
            game = generate_game("train", rng.randrange(10_000), difficulty=level)
            assert parse_game(json.loads(json.dumps(export_game(game, written)))) == game, number


def test_a_panel_is_exported_as_alfworld_expects_it(tmp_path: Path) -> None:
    tasks = load_tasks("valid_seen", games=12)
    files = export_panel(tasks, tmp_path, rules())
    again = load_tasks("valid_seen", tmp_path)
    assert len(again) == len(files) == 12
    assert sorted(task.load().game.task for task in again) == sorted(task.load().game.task for task in tasks)
    assert raw_game(files[0])["solvable"] is True
    assert {json.loads((file.parent / "traj_data.json").read_text())["task_type"] for file in files} == set(TASK_TYPES)


def test_export_needs_the_rules_of_alfworld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_r1_envs.alfworld.export.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'agent-r1\[alfworld\]'"):
        installed_rules()
    with pytest.raises(DataError, match="backend='textworld'"):
        export_game(generate_game("train", 0), ("(define (domain alfred))", rules()[1]))


def test_the_vocabulary_is_consistent() -> None:
    for kind, accepted in ACCEPTS.items():
        assert accepted <= set(OBJECTS), kind
    game = generate_game("train", 1)
    assert {kind_of(name) for name in game.receptacles} <= {kind.lower() for kind in RECEPTACLES}
