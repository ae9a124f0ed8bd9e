"""Generates a synthetic catalogue: families of look-alikes, as rows of the official files.

The members of a family share brand, line and kind of product. The first one is the model for the others: one lacks an
attribute, and has another in its place; two do not come in one of its choices; one costs more than any goal for the
first allows. So a goal is only met by who reads the pages. Each product has an instruction as people write them, and
the first of each family a synthetic one; both name the split of the family.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any, Final, TypeVar

from agent_r1_envs.webshop.generator.words import BRAND_ENDS, BRAND_STARTS, DEPARTMENTS, LINES, Department

PANEL: Final = (3000, 0)
"""Number of products, and seed, of the embedded catalogue."""

_SPLITS: Final = ("test", "eval", "train", "train", "train", "train", "train", "train")
_STRIDE: Final = 7919  # coprime to the number of brands, so that neighbours have unlike names
_MOST_EXPENSIVE: Final = 960.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Draft:
    """A product before it is written down; ``cost`` and ``dearest`` are its price or the ends of its range."""

    brand: str
    line: str
    kind: str
    department: str
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    place: str
    cost: float
    dearest: float


@dataclass(frozen=True, slots=True)
class Item:
    """A generated product.

    Attributes:
        row: Its row in the file of products.
        attributes: Its entry in the file of attributes.
        human: Its entry in the file of instructions that people wrote.
        nouns: The nouns of its title.
    """

    row: dict[str, Any]
    attributes: dict[str, Any]
    human: list[dict[str, Any]]
    nouns: list[str]

    @property
    def asin(self) -> str:
        """Its id."""
        return str(self.row["asin"])


def generate(products: int, *, seed: int) -> list[Item]:
    """Make the first ``products`` products of a seed; the same on every machine, and a prefix of what more would give.

    >>> [item.row["name"] for item in generate(2, seed=0)][0] == generate(1, seed=0)[0].row["name"]
    True
    """
    return list(islice(stream(seed=seed), products))


def stream(*, seed: int) -> Iterator[Item]:
    """Yield products for ever; past 1,200 families, brands have numbers."""
    family = number = 0
    while True:
        rng = Random(f"agent-r1 webshop {seed} {family}")
        split = _SPLITS[family % len(_SPLITS)]
        for place, draft in enumerate(_family(family, rng)):
            yield _item(draft, f"SYN{number:07d}", split, rng, first=not place)
            number += 1
        family += 1


def _family(family: int, rng: Random) -> list[_Draft]:
    name = list(DEPARTMENTS)[family % len(DEPARTMENTS)]
    department = DEPARTMENTS[name]
    cost = round(department.cost * (0.4 + 1.8 * rng.random()), 2)
    first = _Draft(
        brand=_brand(family),
        line=_pick(LINES, rng),
        kind=_pick(tuple(department.types), rng),
        department=name,
        attributes=_sample(department.attributes, 4, rng),
        options={group: _sample(values, 3 + (rng.random() < 0.5), rng) for group, values in department.options.items()},
        place=_pick(department.places, rng),
        cost=cost,
        dearest=round(cost * (1.0 + 0.3 * rng.random()), 2) if rng.random() < 0.2 else cost,
    )
    twins = [_lacks_attribute(first, department, rng), _costs_more(first)]
    twins += [_lacks_option(first, group) for group in first.options]
    return [first, *twins][: 3 + int(rng.random() * 3)]


def _lacks_attribute(draft: _Draft, department: Department, rng: Random) -> _Draft:
    others = tuple(attribute for attribute in department.attributes if attribute not in draft.attributes)
    return replace(draft, attributes=(_pick(others, rng), *draft.attributes[1:]))


def _lacks_option(draft: _Draft, group: str) -> _Draft:
    return replace(draft, options={**draft.options, group: draft.options[group][1:]})


def _costs_more(draft: _Draft) -> _Draft:
    cost = round(min(draft.dearest + 50.0 + draft.cost * 0.5, _MOST_EXPENSIVE), 2)
    return replace(draft, cost=cost, dearest=cost)


def _item(draft: _Draft, asin: str, split: str, rng: Random, *, first: bool) -> Item:
    department = DEPARTMENTS[draft.department]
    title = f"{draft.brand} {draft.line} {draft.kind.title()} for {draft.place.title()}, {draft.attributes[0].title()}"
    price = f"${draft.cost:.2f}" if draft.dearest <= draft.cost else f"${draft.cost:.2f} - ${draft.dearest:.2f}"
    row = {
        "asin": asin,
        "name": title,
        "full_description": _description(draft),
        "small_description": [f"{attribute.capitalize()}." for attribute in draft.attributes],
        "pricing": price,
        "images": [f"https://shop.invalid/{asin}.png"],
        "category": draft.department,
        "query": _plural(draft.kind),
        "product_category": f"{department.path} › {department.types[draft.kind]} › {_plural(draft.kind).title()}",
        "customization_options": {
            group: [{"value": value, "image": None} for value in values] for group, values in draft.options.items()
        },
    }
    entry: dict[str, Any] = {"attributes": list(draft.attributes)}
    if first:
        wanted = list(_sample(draft.attributes, 2, rng))
        entry |= {"instruction": f"Find me {_plural(draft.kind)} with {' and '.join(wanted)}", "split": split}
        entry["instruction_attributes"] = wanted
    human = [{"asin": asin, **_instruction(draft, rng), "split": split}]
    nouns = [draft.brand.split()[0].lower(), draft.line.lower(), *draft.kind.split(), draft.place.split()[-1]]
    return Item(row, entry, human, nouns)


def _description(draft: _Draft) -> str:
    choices = " ".join(f"Choose your {group}: {', '.join(values)}." for group, values in draft.options.items())
    return (
        f"The {draft.line} {draft.kind} by {draft.brand}, made for {draft.place}. "
        f"It offers {', '.join(draft.attributes[:-1])} and {draft.attributes[-1]}. {choices}"
    )


def _instruction(draft: _Draft, rng: Random) -> dict[str, Any]:
    # The first attribute and the first choices are what look-alikes lack.
    wanted = [draft.attributes[0], *_sample(draft.attributes[1:], 1 + (rng.random() < 0.4), rng)]
    chosen = [values[0] if rng.random() < 0.5 else _pick(values, rng) for values in draft.options.values()]
    if rng.random() < 0.2:
        chosen = chosen[:1]
    opening = _pick(("i need", "i am looking for", "show me", "please find"), rng)
    options = " and ".join(f"{group} {value}" for group, value in zip(draft.options, chosen, strict=False))
    return {
        "instruction": f"{opening} a {draft.kind} from {draft.brand} with {', '.join(wanted)}, in {options}.",
        "instruction_attributes": wanted,
        "instruction_options": chosen,
    }


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("ch") else f"{kind}s"


def _brand(family: int) -> str:
    total = len(BRAND_STARTS) * len(BRAND_ENDS)
    start, end = divmod(family * _STRIDE % total, len(BRAND_ENDS))
    again = family // total
    return f"{BRAND_STARTS[start]}{BRAND_ENDS[end]}" + (f" {again + 1}" if again else "")


def _pick(values: Sequence[_T], rng: Random) -> _T:
    return values[int(rng.random() * len(values))]  # not choice(): random() alone is the same in every Python


def _sample(values: Sequence[_T], count: int, rng: Random) -> tuple[_T, ...]:
    left = list(values)
    return tuple(left.pop(int(rng.random() * len(left))) for _ in range(min(count, len(left))))
