import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.retrieval import Passage
from agent_r1_envs.retrieval.contents import parse_contents, read_document


@given(st.text().filter(lambda t: "\n" not in t), st.text())
def test_a_quoted_title_and_a_text_come_back(title: str, text: str) -> None:
    assert parse_contents(f'"{title}"\n{text}') == (title, text)


@given(st.text())
def test_parse_reads_any_string_and_loses_no_text(contents: str) -> None:
    title, text = parse_contents(contents)
    assert title in contents and text in contents
    assert len(title) + len(text) <= len(contents)


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ('"Lorin"\nA town.', ("Lorin", "A town.")),
        ("Lorin\nA town.", ("Lorin", "A town.")),
        ("A town.", ("", "A town.")),
        ('"Lorin"', ("Lorin", "")),
        ('"The "Old" Bridge"\nStone.', ('The "Old" Bridge', "Stone.")),
        ('""\nStone.', ("", "Stone.")),
        ('"\nStone.', ('"', "Stone.")),
        ("", ("", "")),
    ],
)
def test_parse_examples(contents: str, expected: tuple[str, str]) -> None:
    assert parse_contents(contents) == expected


def test_documents_of_several_servers() -> None:
    assert read_document({"id": 7, "contents": '"T"\nx'}) == Passage("7", "T", "x")
    assert read_document({"id": "p", "title": "T", "text": "x"}) == Passage("p", "T", "x")
    assert read_document({"title": "T", "contents": "x\ny"}) == Passage(
        read_document({"title": "T", "text": "y"}).id, "T", "y"
    )
    nameless = read_document({"contents": '"T"\nx'})
    assert nameless.id == read_document({"title": "T", "text": "x"}).id != read_document({"text": "x"}).id


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["contents", "title", "text", "id"]), inner),
    max_leaves=8,
)


@given(json_like)
def test_any_document_is_read_or_refused_as_a_value(document: object) -> None:
    try:
        assert isinstance(read_document(document), Passage)
    except ValueError as error:
        assert "expected a document" in str(error)
