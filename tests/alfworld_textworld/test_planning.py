"""Fast Downward plans generated games, and its plans win on TextWorld."""

import pytest

from agent_r1_envs.alfworld.expert.planner import shortest_plan
from tests.alfworld_textworld.games import COUNT, generated
from tests.alfworld_textworld.original import Original


@pytest.mark.parametrize("number", range(COUNT))
def test_fast_downward_solves_generated_games(number: int, quick: Original) -> None:
    made = generated(number)
    state = quick.begin(made.file)
    assert not state["won"]
    plan = quick.plan()
    for position, command in enumerate(plan, start=1):
        assert command in state["admissible_commands"]
        state, score, done = quick.step(command)
        assert (state["won"], score, done) == ((position == len(plan)),) * 3
    ours = shortest_plan(made.game, made.game.start)
    assert ours is not None and len(plan) == len(ours) > 0
