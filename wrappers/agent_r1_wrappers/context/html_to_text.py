"""HTML pages as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agent_r1_envs.spaces import FreeText
from agent_r1_envs.text import clean
from agent_r1_wrappers.callables import load_callable, recordable
from agent_r1_wrappers.stack import require_text

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.element import NavigableString

_HIDDEN = frozenset(("head", "meta", "script", "style", "template", "title"))
_BLANK = " \t\r\n\f"


class HtmlToText(gymnasium.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Shows a page of HTML as the text that a person reads on it, or as a function of one's own renders it.

    Args:
        env: An env whose observations are HTML, such as WebShop with ``observation="html"``.
        separator: What stands between two pieces of text.
        render: What makes text of a page: a callable or ``"module:function"`` from the parsed page, a
            ``bs4.BeautifulSoup``, to a string; None for the visible texts, joined by ``separator``.
        max_length: The most characters of an observation; None for those of ``env``. Longer ones are cut.

    Raises:
        WrapperOrderError: If observations or actions of ``env`` are not text.
        ValueError: If ``max_length`` is less than 1.

    Example:
        >>> import gymnasium, agent_r1_envs
        >>> from agent_r1_wrappers import HtmlToText
        >>> env = HtmlToText(gymnasium.make("AgentR1/WebShop-v0", observation="html"), separator=" / ")
        >>> env.text("<h1>WebShop</h1><button>Search</button>")
        'WebShop / Search'
    """

    stateless = True

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        *,
        separator: str = "\n",
        render: str | Callable[[BeautifulSoup], str] | None = None,
        max_length: int | None = None,
    ) -> None:
        render = recordable(render)
        RecordConstructorArgs.__init__(self, separator=separator, render=render, max_length=max_length)
        gymnasium.Wrapper.__init__(self, env)
        space = require_text(self, env)
        self._max_length = space.max_length if max_length is None else max_length
        if self._max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        self.observation_space = FreeText(self._max_length)
        self._separator = separator
        self._render = None if render is None else load_callable(render, "render")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.text(observation), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Pass the action on and show the page that answers it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.text(observation), reward, terminated, truncated, info

    def text(self, html: str) -> str:
        """Return the text of a page."""
        from bs4 import BeautifulSoup  # not at the top: importing the package stays cheap

        page = BeautifulSoup(html, "html.parser")
        shown = self._separator.join(visible_texts(page)) if self._render is None else self._render(page)
        return clean(shown, self._max_length)


def visible_texts(page: BeautifulSoup) -> list[str]:
    """Return the texts that a person sees on a page, stripped, without empty ones.

    Args:
        page: The parsed page.
    """
    return [string.strip() for string in page.find_all(string=True) if _is_visible(string)]


def _is_visible(string: NavigableString) -> bool:
    from bs4.element import PreformattedString  # comments, declarations and the like

    if isinstance(string, PreformattedString) or not string.strip(_BLANK):
        return False
    return string.parent is not None and string.parent.name not in _HIDDEN
