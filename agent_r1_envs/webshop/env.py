"""The environment: buy what an instruction asks for in a web shop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from html import escape
from typing import Any, Final, Literal, get_args

from gymnasium.utils import seeding

from agent_r1_envs.core import AgentEnv, Outcome, Score
from agent_r1_envs.sampling import Order, task_position
from agent_r1_envs.text import cut
from agent_r1_envs.webshop.catalogue.data import Goal
from agent_r1_envs.webshop.catalogue.opening import DEFAULT_SEED, open_catalogue
from agent_r1_envs.webshop.expert import Plan, Purchase, make_plan, next_action
from agent_r1_envs.webshop.pages import contents
from agent_r1_envs.webshop.pages.elements import Element, Kind
from agent_r1_envs.webshop.pages.html import page_html
from agent_r1_envs.webshop.pages.render import SEPARATOR, ansi, plain, rich
from agent_r1_envs.webshop.pages.rules import ORIGINAL, REVISED, RulesSpec, make_rules
from agent_r1_envs.webshop.pages.session import Page, Session
from agent_r1_envs.webshop.pages.views import View
from agent_r1_envs.webshop.reward import RewardKind
from agent_r1_envs.webshop.shop import Refused
from agent_r1_envs.webshop.tasks import Sampling, load_judge, load_panel, load_shop

__all__ = ["Observation", "WebShopEnv"]

Observation = Literal["text", "text_rich", "html", "url"]

_NOTHING: Final = Score(False, 0.0, {})


class WebShopEnv(AgentEnv[Goal]):
    """Buy what an instruction asks for: search, look at products, choose options, and buy one.

    Actions are ``search[words]``, on any page, and ``click[name]``, where ``name`` is one of ``info["clickables"]``.
    ``click[buy now]`` ends the episode; its reward is the score of the purchase, from 0 to 1, and every other reward is
    0. Success is a score of 1. Anything else changes nothing, and with the original's rules nothing says so but
    ``info["invalid_action"]``.

    Args:
        split: ``train``, ``eval`` (or ``validation``), ``test`` or ``all``.
        data: A folder with the official files, the path of each, or a store; None for the embedded synthetic catalogue.
        goals: ``synthetic``, an instruction for each combination of a product's options, or ``human``, written by
            people.
        catalogue_seed: Decides the price behind each shown range, and the price caps of the goals.
        nouns: Where the nouns of titles come from: see
            :func:`~agent_r1_envs.webshop.catalogue.opening.open_catalogue`, as for ``strict``, ``limit`` and ``store``.
        strict: Whether a damaged row of the data is an error.
        limit: How many products to read; None for all.
        store: Where the compact form of the data is built.
        observation: ``text``, ``text_rich`` (one text a line, buttons marked), ``html``, or ``url`` (the address).
        rules: ``original``, ``revised``, or switches by name: see :class:`~agent_r1_envs.webshop.pages.rules.Rules`.
        reward: ``original`` (fuzzy) or ``strict``: see :class:`~agent_r1_envs.webshop.reward.Judge`.
        show_attrs: Whether products have a sub-page of their attributes.
        sampling: How ``order="random"`` draws: ``uniform``; ``weighted`` by the goals' weights; ``original``, the same
            as the original does it, which never draws its first goal and gives the last one two shares.
        max_length: The most characters of an observation.
        order: See :class:`~agent_r1_envs.core.AgentEnv`, as for ``shard``.
        shard: The part of the panel to use.
        render_mode: None, ``"ansi"`` or ``"html"``: the page as a person would see it.

    Raises:
        ValueError: An argument is out of range.
        DataError: A data file is missing or damaged.

    Attributes:
        shop: The catalogue under the rules.
        judge: What scores purchases.

    ``info["clickables"]`` is the original's list, ``info["has_search_bar"]`` its companion;
    ``info["admissible_actions"]`` has the clicks as commands, without those that cannot work, and on the home page
    ``search[<your query>]``.
    """

    metadata = {"render_modes": ["ansi", "html"], "render_fps": 1}

    def __init__(
        self,
        split: str = "train",
        *,
        data: str | Mapping[str, str] | None = None,
        goals: Literal["synthetic", "human"] = "synthetic",
        catalogue_seed: int = DEFAULT_SEED,
        nouns: str = "auto",
        strict: bool = True,
        limit: int | None = None,
        store: str | None = None,
        observation: Observation = "text",
        rules: RulesSpec = "original",
        reward: RewardKind = "original",
        show_attrs: bool = False,
        sampling: Sampling = "uniform",
        max_length: int = 262_144,
        order: Order = "random",
        shard: tuple[int, int] = (0, 1),
        render_mode: Literal["ansi", "html"] | None = None,
    ) -> None:
        if observation not in get_args(Observation):
            raise ValueError(f"observation must be one of {', '.join(get_args(Observation))}; got {observation!r}")
        if sampling not in get_args(Sampling):
            raise ValueError(f"sampling must be one of {', '.join(get_args(Sampling))}; got {sampling!r}")
        self._catalogue = open_catalogue(
            data, catalogue_seed=catalogue_seed, nouns=nouns, strict=strict, limit=limit, store=store
        )
        self._panel = load_panel(self._catalogue, goals, split)
        self.shop = load_shop(self._catalogue, make_rules(rules), show_attrs)
        self.judge = load_judge(self._catalogue, reward)
        super().__init__(
            self._panel.tasks,
            order=order,
            shard=shard,
            max_length=max_length,
            render_mode=render_mode,  # type: ignore[arg-type]
        )
        self._mode = observation
        self._sampling = sampling
        self._show_attrs = show_attrs
        self._session = Session()
        self._view: View = self.shop.views.index()
        self._found: tuple[tuple[str, tuple[str, ...], int], Sequence[int]] | None = None
        self._result = _NOTHING
        self._head = ""
        self._plan: tuple[Goal, Plan] | None = None

    # The hooks of the base class

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; see :meth:`agent_r1_envs.core.AgentEnv.reset`."""
        weighted = self._sampling != "uniform" and self._sampler.order == "random"
        if not weighted or task_position(self.tasks, options) is not None:
            return super().reset(seed=seed, options=options)
        if seed is not None:
            self._np_random, self._np_random_seed = seeding.np_random(seed)
        position = self._panel.draw(self.np_random.random(), self.shard, original=self._sampling == "original")
        return super().reset(options={"task": position})

    def _begin(self) -> str:
        self._head = plain(contents.header(self.task.instruction_text))
        self._enter(Session())
        return self._observe()

    def _act(self, action: str) -> Outcome:
        try:
            session = self.shop.act(self._session, self._view, action, self.session_id)
        except Refused as refused:
            return self._refuse(str(refused))
        self._enter(session)
        over = session.page is Page.DONE
        return Outcome(self._observe(), self._result.score if over else 0.0, over, info=self._reset_info())

    def _refuse(self, reason: str) -> Outcome:
        shown = self._observe()
        if self.shop.rules.explain_invalid:
            shown = self._explain(shown, reason)
        return Outcome(shown, invalid=reason, info=self._reset_info())

    def _score(self) -> Score:
        return self._result

    def _instruction(self) -> str:
        return self.task.instruction_text

    def _reset_info(self) -> dict[str, Any]:
        view = self._view
        return {
            "admissible_actions": list(view.commands),
            "clickables": list(view.keys),
            "has_search_bar": view.search_bar,
        }

    def _get_world(self) -> Session:
        return self._session

    def _set_world(self, world: Session) -> None:
        self._head = plain(contents.header(self.task.instruction_text))
        self._enter(world)

    def _state_facts(self) -> Any:
        """The page with its options and the products marked as seen, in whatever order they were chosen."""
        session = self._session
        return replace(session, options=tuple(sorted(session.options)), visited=tuple(sorted(session.visited)))

    def _presentable(self, text: str) -> str:
        """Keep the original's text to the last character, control characters as well."""
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return cut(text, self._max_length)

    def _protocol(self) -> dict[str, Any]:
        rules = self.shop.rules
        name = {ORIGINAL: "original", REVISED: "revised"}.get(rules)
        return {
            "rules": asdict(rules) if name is None else name,
            "reward": self.judge.kind,
            "observation": self._mode,
            "show_attrs": self._show_attrs,
            "sampling": self._sampling,
            "goal_kind": self._panel.kind,
            **self._catalogue.protocol(),
        }

    def expert_action(self) -> str | None:
        """Go on to the best purchase of the goal's product; None after the end, or if no query finds the product."""
        hits = self._hits() if self._session.page is Page.RESULTS else ()
        return next_action(self._planned(), self.shop, self._session, hits)

    def best_purchase(self) -> Purchase:
        """Return the purchase with the highest score for the goal of the episode; see ``purchase.py``."""
        return self._planned().purchase

    def render(self) -> str | None:
        """Return the page as a person would see it: text, or an HTML document."""
        if self.render_mode == "html":
            return self._html(mark_selected=True)
        if self.render_mode != "ansi":
            return super().render()
        session = self._session
        page = ansi(self._elements(), options=dict(session.options), visited=session.visited)
        return f"[{self.task_id}, turn {self.turn}]\n{self.url}\n\n{page}"

    # Parts

    @property
    def session_id(self) -> str:
        """What stands for the session in addresses: the place of the goal among all of its kind, as in the original."""
        return str(self._panel.places[self._position])

    @property
    def url(self) -> str:
        """The address of the page."""
        return self._session.url(self.session_id)

    def _planned(self) -> Plan:
        if self._plan is None or self._plan[0] is not self.task:
            self._plan = (self.task, make_plan(self.shop, self.judge, self.task))
        return self._plan[1]

    def _enter(self, session: Session) -> None:
        """Go to a page."""
        self._session = session
        self._result = _NOTHING
        if session.page is Page.DONE:
            position = self.shop.position_of(session.asin)
            score, components = self.judge.score(self.task, position, dict(session.options))
            self._result = Score(score == 1.0, score, components)
        hits = self._hits() if session.page is Page.RESULTS else ()
        self._view = self.shop.view(session, hits, self._result.score)

    def _hits(self) -> Sequence[int]:
        """Return what the session's query finds, kept while the query stays the same."""
        key = (self.task_id, self._session.keywords, self._session.draws)
        if self._found is None or self._found[0] != key:
            self._found = (key, self.shop.hits(self._session, self.task_id))
        return self._found[1]

    def _observe(self) -> str:
        match self._mode:
            case "text":
                return self._text()
            case "text_rich":
                return rich(self._elements(), url=self.url, visited=self._session.visited)
            case "html":
                return self._html(mark_selected=self.shop.rules.show_selected)
        return self.url

    def _text(self) -> str:
        """Return the mode ``text``, put together from the texts of pages that are kept."""
        page = self._session.page
        if page is Page.INDEX:
            return plain(self._elements())
        if page is Page.DONE:
            return self._view.plain
        text = f"{self._head}{SEPARATOR}{self._view.plain}"
        selection = self._selection()
        return f"{text}{SEPARATOR}{plain(selection)}" if selection else text

    def _elements(self) -> list[Element]:
        page = self._session.page
        if page is Page.INDEX:
            return contents.index(self.task.instruction_text)
        if page is Page.DONE:
            return list(self._view.body)
        return [*contents.header(self.task.instruction_text), *self._view.body, *self._selection()]

    def _selection(self) -> list[Element]:
        """Return the line that says what is selected, where the rules want one."""
        if not self.shop.rules.show_selected or self._session.page is not Page.ITEM:
            return []
        if not any(element.kind is Kind.OPTION for element in self._view.body):
            return []
        return [contents.selection(dict(self._session.options))]

    def _html(self, *, mark_selected: bool) -> str:
        session = self._session
        products = {
            element.value: self._catalogue.product(self.shop.position_of(element.value))
            for element in self._view.body
            if element.kind is Kind.LINK
        }
        if session.page is Page.ITEM:
            products[session.asin] = self._catalogue.product(self.shop.position_of(session.asin))
        return page_html(
            [*self._view.body, *self._selection()],
            session,
            session_id=self.session_id,
            instruction=self.task.instruction_text,
            products=products,
            mark_selected=mark_selected,
        )

    def _explain(self, shown: str, reason: str) -> str:
        text = f"Invalid action: {reason}"
        match self._mode:
            case "text":
                return f"{text}{SEPARATOR}{shown}"
            case "text_rich":
                return f"{text}\n{shown}"
            case "html":
                return shown.replace("<body>", f"<body>\n<p>{escape(text)}</p>", 1)
        return shown
