import pytest
from agent_r1_wrappers.fitting import count_characters, count_words, estimate_tokens, message_length
from hypothesis import given
from hypothesis import strategies as st


def test_counts():
    assert (count_words(" a  bc\nd "), count_characters("a b")) == (3, 3)
    assert estimate_tokens("") == 0
    assert estimate_tokens("Who wrote Dubliners, and when?") == 8
    assert estimate_tokens("x" * 400) == 100
    assert estimate_tokens("{}[]") == 4
    assert estimate_tokens("\ud800" * 8) > 0


@given(st.text(), st.text())
def test_a_longer_text_is_no_shorter(text, more):
    assert estimate_tokens(text) <= estimate_tokens(text + more)


def test_messages():
    messages = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]
    assert message_length("agent_r1_wrappers.fitting:count_words", "text")(messages) == 3 + 2 * 4
    assert message_length(len, "messages")(messages) == 2
    with pytest.raises(ValueError, match="length_of"):
        message_length(len, "tokens")
    with pytest.raises(TypeError, match="length must be a callable"):
        message_length("agent_r1_wrappers.fitting:MESSAGE_OVERHEAD", "text")
