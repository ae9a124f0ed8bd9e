"""How the shop behaves where the original has quirks: the original's rules, or repaired ones, switch by switch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

__all__ = ["ORIGINAL", "REVISED", "Rules", "RulesSpec", "make_rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Switches; with all of them off the shop behaves as the original.

    Attributes:
        show_selected: Item pages say which options are selected. The original's text never does.
        explain_invalid: The observation after an invalid action begins with the reason. The original repeats the page.
        bounded_pages: ``Next >`` is there only where there is a next page. The original goes on past the end.
        hide_score: The last page does not tell the score, nor the fields that the original leaves empty.
        literal_queries: Every query is searched for, and does nothing else. In the original ``<r>``, ``<a>``, ``<c>``
            or ``<q>`` as the first word lists products without a search, or crashes, and ``search_results`` or
            ``item_page`` among the words confuses ``< Prev``.
        qualified_options: An option is clicked as ``group: value``. In the original as ``value``, so that of a value
            in two groups only the last can be had, and a value called like a button is that button.
        nested_brackets: An argument reaches from the first ``[`` to a ``]`` at the end, and may hold brackets and line
            breaks. In the original it begins at the last ``[``, and names of commands are strict about case and space.
    """

    show_selected: bool = False
    explain_invalid: bool = False
    bounded_pages: bool = False
    hide_score: bool = False
    literal_queries: bool = False
    qualified_options: bool = False
    nested_brackets: bool = False


ORIGINAL: Final = Rules()
REVISED: Final = Rules(*(True for _ in fields(Rules)))

RulesSpec = str | Mapping[str, bool]


def make_rules(spec: RulesSpec) -> Rules:
    """Return the rules that ``spec`` names.

    Args:
        spec: ``"original"``, ``"revised"``, or the switches that differ from the original, by name.

    Raises:
        ValueError: There is no such bundle or switch, or a switch is no bool.
    """
    if isinstance(spec, str):
        bundles = {"original": ORIGINAL, "revised": REVISED}
        if spec not in bundles:
            raise ValueError(f"rules must be 'original', 'revised' or a mapping of switches; got {spec!r}")
        return bundles[spec]
    if not isinstance(spec, Mapping):
        raise ValueError(f"rules must be 'original', 'revised' or a mapping of switches; got {spec!r}")
    known = asdict(ORIGINAL)
    for name, value in spec.items():
        if name not in known:
            raise ValueError(f"rules: there is no switch {name!r}; there are {', '.join(known)}")
        if not isinstance(value, bool):
            raise ValueError(f"rules: {name} must be true or false; got {value!r}")
    return Rules(**{**known, **spec})
