"""Names and dates of papers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_r1_envs.paper_search.papers.identity import (
    arxiv_month,
    date_digits,
    earliest,
    is_arxiv,
    last_allowed,
    paper_key,
)

NEW = st.from_regex(r"[0-9]{2}(0[1-9]|1[0-2])\.[0-9]{4,5}", fullmatch=True)
OLD = st.from_regex(r"[a-z]{2,8}(-[a-z]{2})?/[0-9]{2}(0[1-9]|1[0-2])[0-9]{3}", fullmatch=True)


@given(NEW | OLD, st.integers(1, 99), st.sampled_from(["", "arXiv:", "ARXIV:", "https://arxiv.org/abs/", "arxiv: "]))
def test_versions_and_prefixes_do_not_matter(name: str, version: int, prefix: str) -> None:
    assert paper_key(f"{prefix}{name}v{version}") == paper_key(name) == name
    assert is_arxiv(name) and len(arxiv_month(name)) == 6


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("https://arxiv.org/pdf/2501.10120v3.pdf", "2501.10120"),
        ("10.48550/arXiv.2501.10120", "2501.10120"),
        ("math.GT/0309136v2", "math/0309136"),
        ("[2501.10120]", "2501.10120"),
        (" 'e945ca4fdcf45b1a118f1462db7afa12629a131f' ", "e945ca4fdcf45b1a118f1462db7afa12629a131f"),
        ("10.2139/ssrn.2250500", "10.2139/ssrn.2250500"),
        ("250110120", "250110120"),
        ("2501.1012", "2501.1012"),
        ("2501.101", "2501.101"),
        ("\u0662501.10120", "\u0662501.10120"),
        ("", ""),
    ],
)
def test_keys(text: str, key: str) -> None:
    assert paper_key(text) == key


@given(st.text())
def test_a_key_is_its_own_key(text: str) -> None:
    assert paper_key(paper_key(text)) == paper_key(text)


@pytest.mark.parametrize(
    ("date", "cutoff", "fits"),
    [
        ("20230325", "20230325", True),
        ("20230326", "20230325", False),
        ("2023", "20230325", True),
        ("2024", "20230325", False),
        ("202304", "20230325", False),
        ("20231231", "2023", True),
        ("", "19990101", True),
        ("20990101", "", True),
    ],
)
def test_dates_are_compared_as_precisely_as_they_are_known(date: str, cutoff: str, fits: bool) -> None:
    assert (earliest(date) <= last_allowed(cutoff)) is fits


@pytest.mark.parametrize("value", [None, True, 12.5, "x", "202", "20231", "2023-", [], "20230325T10:00"])
def test_what_is_no_date(value: object) -> None:
    assert date_digits(value) in ("", "20230325", "2023")
