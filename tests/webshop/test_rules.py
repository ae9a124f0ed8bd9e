"""The original's quirks, which the samples of its walks do not show, and the switches that repair them."""

from typing import Any

import pytest

from agent_r1_envs.webshop.env import WebShopEnv
from agent_r1_envs.webshop.pages.rules import ORIGINAL, REVISED, Rules, make_rules
from tests.helpers.webshop import Reader, hostile, real1k

PILLOW = "search[Acme Red Cotton Pillow Cover for Sofa]"


def play(env: WebShopEnv, *actions: str, task: int = 0) -> tuple[str, dict[str, Any]]:
    observation, info = env.reset(options={"task": task})
    for action in actions:
        observation, *_, info = env.step(action)
    return observation, info


def page(observation: str) -> list[str]:
    return observation.split(" [SEP] ")[2:]


def test_bundles() -> None:
    assert make_rules("original") == ORIGINAL == Rules()
    assert make_rules("revised") == REVISED and all(getattr(REVISED, name) for name in Rules.__slots__)
    assert make_rules({"hide_score": True}) == Rules(hide_score=True)
    for wrong in ("new", {"hide": True}, {"hide_score": 1}, 3):
        with pytest.raises(ValueError, match="rules"):
            make_rules(wrong)  # type: ignore[arg-type]


def test_search_works_on_every_page_but_the_last() -> None:
    env = hostile()
    play(env)
    for action in (PILLOW, "click[b000000001]", "click[red]", "click[features]"):
        env.step(action)
        assert "Page 1 (Total results: 38)" in env.step("search[lamp]")[0]
        play(env, PILLOW, "click[b000000001]", "click[red]", PILLOW, "click[b000000001]")
    assert env.url.endswith("/acme+red+cotton+pillow+cover+for+sofa/1/{}"), "a search clears the options"


def test_pages_go_on_past_the_end() -> None:
    original, _ = play(hostile(), "search[lamp]", *["click[next >]"] * 7)
    assert page(original) == ["Back to Search", "Page 8 (Total results: 38)", "< Prev", "Next >"]
    env = hostile(rules={"bounded_pages": True})
    observation, info = play(env, "search[lamp]", *["click[next >]"] * 9)
    assert "Page 4 (Total results: 38)" in observation and "next >" not in info["clickables"]
    assert info["invalid_action"]
    assert "next >" not in play(env, "search[zzz]")[1]["clickables"]


def test_names_go_before_options() -> None:
    """An option called like a button is the button, and a value in two groups belongs to the last one."""
    env = hostile()
    play(env, PILLOW, "click[b000000001]", "click[small]")
    assert env.url.endswith('/{"color": "small"}')
    *_, terminated, _, info = env.step("click[buy now]")
    assert terminated and info["reward_info"]
    observation, info = play(env, PILLOW, "click[b000000001]", "click[< prev]")
    assert "Page 1" in observation and "invalid_action" not in info

    env = hostile(rules={"qualified_options": True})
    _, info = play(env, PILLOW, "click[b000000001]", "click[size: small]", "click[color: buy now]")
    assert env.url.endswith('/{"size": "small", "color": "buy now"}')
    assert "invalid_action" not in info
    assert "invalid_action" in env.step("click[small]")[-1]


def test_brackets() -> None:
    assert "invalid_action" in play(hostile(), PILLOW, "click[b000000001]", "click[set [2]]")[1]
    env = hostile(rules={"nested_brackets": True})
    assert "invalid_action" not in play(env, PILLOW, "click[b000000001]", "CLICK [set [2]]")[1]
    assert env.url.endswith('/{"color": "set [2]"}')


def test_what_is_selected() -> None:
    shown = [play(hostile(), PILLOW, "click[b000000001]", *more)[0] for more in ((), ("click[red]",))]
    assert shown[0] == shown[1], "the original's text never shows it"
    env = hostile(rules={"show_selected": True})
    assert play(env, PILLOW, "click[b000000001]")[0].endswith(" [SEP] Buy Now [SEP] Selected: nothing")
    assert env.step("click[red]")[0].endswith("Selected: color: red")
    assert env.step('click[28" x 28"]')[0].endswith('Selected: color: red; size: 28" x 28"')
    assert "Selected" not in play(env, "search[Plain Steel Lamp]", "click[b000000002]")[0], "there is nothing to select"


def test_rich_text_takes_what_the_address_says_for_clicked() -> None:
    env = hostile(observation="text_rich")
    play(env, PILLOW, "click[b000000001]", "click[größe ü]")
    assert "clicked" not in env.last_observation, "JSON writes other letters than ASCII as escapes"
    assert "clicked" not in env.step('click[28" x 28"]')[0], "and double quotes"
    clicked = env.step("click[small]")[0]
    assert clicked.startswith("You have clicked small.\nYou have clicked small.\n"), "in both groups"
    observation, _ = play(env, 'search["red" acme pillow]', "click[b000000001]")
    assert "[clicked button] red [clicked button_]" in observation, "a quoted word of the query"
    assert "\n\n[clicked button] B000000001 [clicked button_]\n" in env.step("click[< prev]")[0]


def test_explanations() -> None:
    silent = hostile()
    before, _ = play(silent, PILLOW)
    after, *_, info = silent.step("click[add to cart]")
    assert after == before and "add to cart" in info["invalid_action"]
    for mode, beginning in (("text", "Invalid action: "), ("text_rich", "Invalid action: "), ("html", "<!DOCTYPE")):
        env = hostile(rules={"explain_invalid": True}, observation=mode)
        play(env, PILLOW)
        explained, *_, info = env.step("click[add to cart]")
        assert explained.startswith(beginning) and "Invalid action: there is nothing called" in explained
        assert env.step("click[next >]")[0].count("Invalid action") == 0


def test_the_last_page() -> None:
    buy = (PILLOW, "click[b000000001]", "click[buy now]")
    assert "Your score (min 0.0, max 1.0) [SEP] 0." in play(hostile(), *buy)[0]
    hidden, _ = play(hostile(rules={"hide_score": True}), *buy)
    assert (
        hidden == "Thank you for shopping with us! [SEP] Purchased [SEP] asin [SEP] B000000001 [SEP] options [SEP] {}"
    )


def test_special_queries() -> None:
    env = real1k()
    _, info = play(env, "search[<C> beauty]")
    assert len(info["clickables"]) == 12 and int(env.last_observation.split("results: ")[1].split(")")[0]) > 50
    _, info = play(env, "search[<q> women's sandals]")
    assert env.shop.catalogue.product(info["clickables"][-1].upper()).query == "women's sandals"
    first, _ = play(env, "search[<r>]")
    second = env.step("click[next >]")[0]
    assert "Total results: 50" in first and first.split("Next >")[1] != second.split("Next >")[1]
    assert play(env, "search[<r>]")[0] == first, "the same episode draws the same"
    for crash in ("search[<a> soft]", "search[<c>]"):
        assert "invalid_action" in play(env, crash)[1]
    assert "invalid_action" in play(hostile(), "search[<r>]")[1], "fewer than 50 products"
    assert "Total results: 0" in play(env, "search[<q> no such]")[0]

    words = [f"lamp{number}" for number in range(1025)]
    assert "invalid_action" in play(env, f"search[{' '.join(words)}]")[1], "Lucene takes 1,024 terms"
    assert "invalid_action" not in play(env, f"search[{' '.join(words[:1024])} lamp0]")[1]

    literal = real1k(rules={"literal_queries": True})
    listed, info = play(literal, "search[<a> soft]")
    assert "invalid_action" not in info and "Total results: 50" in listed


def test_words_that_confuse_the_original() -> None:
    """The original finds out on which page it is by looking for names in the address."""
    env = hostile()
    play(env, "search[search_results lamp]", "click[b000000002]", "click[< prev]")
    assert "Page 0 (Total results: 38)" in env.last_observation
    observation, info = play(env, "search[item_page lamp]", "click[b000000002]", "click[features]", "click[< prev]")
    assert "Page 1" in observation, "from a sub-page back to the results"
    assert info["clickables"][:3] == ["back to search", "next >", "b000000002"]
    env = hostile(rules={"literal_queries": True})
    observation, _ = play(env, "search[item_page lamp]", "click[b000000002]", "click[features]", "click[< prev]")
    assert "Buy Now" in observation


def test_attributes_page() -> None:
    env = hostile(show_attrs=True)
    _, info = play(env, PILLOW, "click[b000000001]")
    assert info["clickables"][4:7] == ["reviews", "attributes", "buy now"]
    observation, *_ = env.step("click[attributes]")
    assert page(observation) == [
        "Back to Search", "< Prev", "soft cotton", "machine washable", "garden", "wall art",
        "Home & Kitchen \u203a Wall Art \u203a Posters",
    ]  # fmt: skip
    assert "/Attributes/" in env.url
    rich = hostile(show_attrs=True, observation="text_rich")
    observation, _ = play(rich, PILLOW, "click[b000000001]", "click[attributes]")
    assert observation.endswith(
        " soft cotton\n machine washable\ngarden\nwall art\nHome & Kitchen \u203a Wall Art \u203a Posters\n"
    )


def test_html_of_the_revised_rules() -> None:
    env = hostile(rules="revised", observation="html")
    observation, info = play(env, PILLOW, "click[b000000001]", "click[size: small]")
    shown = Reader(observation)
    assert shown.available() == {"has_search_bar": False, "clickables": info["clickables"]}
    assert [radio["value"] for radio in shown.page.select("input[checked]")] == ["size: small"]
    assert shown.text().endswith("Buy Now [SEP] Selected: size: small")
