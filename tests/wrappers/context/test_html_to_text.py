import gymnasium
import pytest
from agent_r1_wrappers import HtmlToText, ParseTags
from bs4 import BeautifulSoup

from tests.helpers.text_envs import RoomsEnv
from tests.helpers.webshop import folder


def shop(**kwargs):
    return gymnasium.make("AgentR1/WebShop-v0", split="test", **kwargs)


def titles(page):
    return " | ".join(heading.get_text(" ") for heading in page.find_all("h4"))


def test_a_page_reads_as_in_the_text_mode():
    html, text = HtmlToText(shop(observation="html"), separator=" [SEP] "), shop()
    pair = [env.reset(options={"task": 3})[0] for env in (html, text)]
    assert pair[0] == pair[1]
    while (action := text.unwrapped.expert_action()) is not None:
        shown, *_ = html.step(action)
        assert shown == text.step(action)[0]
        assert shown in html.observation_space


def test_hidden_things_are_not_shown():
    env = HtmlToText(RoomsEnv())
    page = "<!DOCTYPE html><head><title>t</title><style>s</style></head><body>a<!-- c --><script>x</script> <b>&lt;"
    assert env.text(page) == "a\n<"
    assert env.text("a < b <p>c") == "a < b\nc"
    assert env.text("") == ""


def test_a_rendering_of_ones_own():
    env = HtmlToText(shop(observation="html"), render=titles)
    assert env.reset(options={"task": 0})[0].startswith("Instruction:")
    live = HtmlToText(shop(observation="html"), render=lambda page: page.h2.get_text())
    assert live.reset(options={"task": 0})[0] == "WebShop"


def test_the_length_is_kept():
    env = HtmlToText(shop(observation="html"), max_length=20)
    observation, _ = env.reset(options={"task": 0})
    assert len(observation) == 20 and observation in env.observation_space
    with pytest.raises(ValueError, match="max_length"):
        HtmlToText(RoomsEnv(), max_length=0)


def test_under_an_action_format():
    env = ParseTags(HtmlToText(shop(observation="html")))
    env.reset(options={"task": 0})
    assert "Page 1" in env.step("<action>search[lamp]</action>")[0]


def test_pages_of_the_original():
    for path in sorted((folder() / "page_html").iterdir()):
        html = path.read_text()
        shown = HtmlToText(RoomsEnv(), max_length=100_000).text(html)
        assert "Instruction:" in shown and "Back to Search" in shown and "<" not in shown.replace("< Prev", "")
        buttons = [button.get_text() for button in BeautifulSoup(html, "html.parser").find_all("button")]
        assert all(button in shown.split("\n") for button in buttons)
