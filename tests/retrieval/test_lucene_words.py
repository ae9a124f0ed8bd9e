import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_r1_envs.retrieval import lucene_words
from agent_r1_envs.retrieval.lucene_stem import PorterStemmer
from agent_r1_envs.retrieval.lucene_words import LuceneEnglish
from tests.helpers import porter

ENGLISH = LuceneEnglish()
STEMMER = PorterStemmer()
ENDINGS = (
    "bly bli logy logies logi ing ed eed ational ive ness s es ies y blied lling kking ation ical e ll ement".split()
)


@example("byyy", ["ing"])
@example("ayyy", ["ed"])
@given(st.text("aeioubcdgklmnrstwxyz1", max_size=6), st.lists(st.sampled_from(ENDINGS), max_size=3))
def test_stems_are_those_of_porters_program(start: str, endings: list[str]) -> None:
    word = start + "".join(endings)
    assert STEMMER.stem(word) == porter.stem(word)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The women's running shoes", ["women", "run", "shoe"]),
        ("children’s toys, kids'", ["children", "toi", "kid"]),
        ("3.5 oz. 1,000 x 2;3 a.b", ["3.5", "oz", "1,000", "x", "2;3", "a.b"]),
        ('28" x 28" twin/full', ["28", "x", "28", "twin", "full"]),
        ("snake_case _ __x__", ["snake_cas", "__x__"]),
        ("material：wood", ["material：wood"]),  # a full-width colon joins letters
        ("Größe Ü", ["größe", "ü"]),
        ("½ cup ² ™", ["cup", "™"]),
        ("日本語 カタカナ ひら", ["日", "本", "語", "カタカナ", "ひ", "ら"]),
        ("one★two ❤️❤️ 👨‍💼 🇩🇪🇫🇷 #️⃣ 👍🏽", ["on", "★", "two", "❤️", "❤️", "👨‍💼", "🇩🇪", "🇫🇷", "#️⃣", "👍🏽"]),
        ("✿◆●—", []),
        ("cafe\u0301 so\u00adft", ["cafe\u0301", "so\u00adft"]),
        ("a an and the", []),
        ("", []),
    ],
)
def test_words(text: str, terms: list[str]) -> None:
    assert ENGLISH(text) == terms


def test_a_word_of_more_than_255_characters_is_cut() -> None:
    assert [len(term) for term in ENGLISH("7" * 600)] == [255, 255, 90]


@given(st.text(st.characters(max_codepoint=127)))
def test_both_patterns_find_the_same_words_in_ascii(text: str) -> None:
    assert lucene_words._ASCII.findall(text) == lucene_words._general().findall(text)


@given(st.text())
def test_any_text_has_terms_without_white_space(text: str) -> None:
    assert not any(character.isspace() for term in ENGLISH(text) for character in term)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lucene_words, "_REMEMBERED", 3)
    english = LuceneEnglish()
    assert english("red blue green black white red") == ["red", "blue", "green", "black", "white", "red"]
    assert len(english._terms) <= 3
