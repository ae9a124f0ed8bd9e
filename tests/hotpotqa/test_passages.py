"""How search results are written."""

from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.hotpotqa.passages import NOTHING, SHORTEST, show
from agent_r1_envs.retrieval import Passage

TEXTS = st.text(alphabet="ab \n", max_size=300)
PASSAGES = st.lists(st.builds(Passage, st.just("0"), TEXTS.map(lambda text: text[:20]), TEXTS), max_size=6)


def test_nothing_is_said_plainly() -> None:
    assert show([], [], passage_chars=100, budget=1000) == NOTHING


def test_short_texts_leave_their_room_to_long_ones() -> None:
    hits = [Passage("0", "A", "x" * 300), Passage("1", "B", "y" * 60), Passage("2", "C", "z" * 300)]
    lines = show(hits, [], passage_chars=1000, budget=400).split("\n")
    assert lines[1] == "[2] B: " + "y" * 60
    assert 155 < len(lines[0]) == len(lines[2]) and len("\n".join(lines)) <= 400


def test_line_breaks_inside_a_passage_become_spaces() -> None:
    assert show([Passage("0", "A\nB", " x \n\n y")], [], passage_chars=100, budget=1000) == "[1] A B: x y"


def test_the_same_text_under_another_title_is_another_passage() -> None:
    shown: list[Passage] = []
    assert show([Passage("0", "A", "x"), Passage("1", "B", "x")], shown, passage_chars=100, budget=1000) == (
        "[1] A: x\n[2] B: x"
    )
    assert show([Passage("9", "B", "x")], shown, passage_chars=100, budget=1000) == "[2] B (seen)"


@given(PASSAGES, PASSAGES, st.integers(SHORTEST, 400), st.integers(700, 1500))
def test_numbers_and_budgets(first: list[Passage], second: list[Passage], passage_chars: int, budget: int) -> None:
    shown: list[Passage] = []
    for hits in (first, second):
        text = show(hits, shown, passage_chars=passage_chars, budget=budget)
        assert len(text) <= budget
        assert text.count("\n") == max(len(hits) - 1, 0)
        for line, hit in zip(text.split("\n"), hits, strict=False):
            number = int(line[1 : line.index("]")])
            assert (shown[number - 1].title, shown[number - 1].text) == (hit.title, hit.text)
    assert len(shown) == len({(p.title, p.text) for p in shown}) == len({(p.title, p.text) for p in first + second})
