"""A synthetic encyclopedia: entities with functional facts, each told in exactly one sentence of one paragraph.

A fact (the director of a film, the town of a birth) is written only in its subject's own paragraph. So a chain of two
facts has one answer over the whole encyclopedia, and the second paragraph of a chain shares no name with the question.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from agent_r1_envs.hotpotqa.lexicon import COUNTRIES, PRODUCTS, ROLES, YEARS, Split, names

T = TypeVar("T")

# The kinds of entity that share a namespace, repeated to set their proportions.
_KINDS: Final = {
    "people": ROLES,
    "places": ("town", "town", "river"),
    "works": ("film", "novel", "album"),
    "groups": ("band", "company"),
}

# Which sentence of its subject's paragraph tells a fact.
SENTENCE: Final = {
    "birthplace": 0,
    "born": 0,
    "teacher": 1,
    "country": 0,
    "river": 1,
    "mayor": 1,
    "director": 0,
    "released": 0,
    "source": 1,
    "author": 0,
    "setting": 1,
    "band": 0,
    "singer": 1,
    "founder": 0,
}


@dataclass(slots=True, eq=False)
class Entity:
    """One article: a name of two words, what sort of thing it is, its facts, and the sentences that tell them.

    Attributes:
        words: The two words of the name.
        kind: A role of a person, ``town``, ``river``, ``film``, ``novel``, ``album``, ``band`` or ``company``.
        name: The words, joined.
        links: Facts whose value is another entity.
        values: Facts whose value is a plain word.
        sentences: The paragraph.
        mentions: All the words of names that the paragraph holds.
    """

    words: tuple[str, str]
    kind: str
    name: str = ""
    links: dict[str, "Entity"] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    mentions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Encyclopedia:
    """All the entities of one split and seed.

    Attributes:
        kinds: Entities of each kind (``film``, ``town``, ...), in an order drawn with the seed.
        sharers: Word of a name -> the entities that have it in theirs.
    """

    kinds: dict[str, list[Entity]]
    sharers: dict[str, list[Entity]]

    @property
    def entities(self) -> list[Entity]:
        """Every entity, kind after kind."""
        return [entity for group in self.kinds.values() for entity in group]

    @property
    def people(self) -> list[Entity]:
        """The entities of all the roles that a person can have."""
        return [entity for role in ROLES for entity in self.kinds[role]]


def below(rng: Random, n: int) -> int:
    """Draw an integer in ``[0, n)`` from ``rng.random()``, the one method that Python promises never to change."""
    return int(rng.random() * n)


def pick(rng: Random, items: Sequence[T]) -> T:
    """Draw one of ``items``."""
    return items[int(rng.random() * len(items))]


def shuffle(rng: Random, items: list) -> None:
    """Shuffle ``items`` in place (Fisher and Yates)."""
    for i in range(len(items) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        items[i], items[j] = items[j], items[i]


def build_encyclopedia(split: Split, rng: Random) -> Encyclopedia:
    """Draw an encyclopedia of all names that ``split`` owns: who is what, then every fact, then the sentences."""
    kinds: dict[str, list[Entity]] = {}
    sharers: dict[str, list[Entity]] = {}
    for namespace, cycle in _KINDS.items():
        pairs = names(namespace, split)
        shuffle(rng, pairs)
        for position, words in enumerate(pairs):
            entity = Entity(words, cycle[position % len(cycle)], f"{words[0]} {words[1]}")
            kinds.setdefault(entity.kind, []).append(entity)
            for word in words:
                sharers.setdefault(word, []).append(entity)
    encyclopedia = Encyclopedia(kinds, sharers)
    _draw_facts(encyclopedia, rng)
    for entity in encyclopedia.entities:
        entity.sentences = _sentences(entity)
        entity.mentions = frozenset(entity.words).union(*(link.words for link in entity.links.values()))
    return encyclopedia


def _draw_facts(encyclopedia: Encyclopedia, rng: Random) -> None:
    kinds, people = encyclopedia.kinds, encyclopedia.people
    towns = kinds["town"]
    for person in people:
        person.links = {"birthplace": pick(rng, towns), "teacher": _other(rng, people, person)}
        person.values["born"] = pick(rng, YEARS)
    for town in towns:
        town.links = {"river": pick(rng, kinds["river"]), "mayor": pick(rng, people)}
        town.values["country"] = pick(rng, COUNTRIES)
    for river in kinds["river"]:
        river.values["country"] = pick(rng, COUNTRIES)
    for film in kinds["film"]:
        film.links = {"director": pick(rng, kinds["director"]), "source": pick(rng, kinds["novel"])}
        film.values["released"] = pick(rng, YEARS)
    for novel in kinds["novel"]:
        novel.links = {"author": pick(rng, kinds["writer"]), "setting": pick(rng, towns)}
        novel.values["released"] = pick(rng, YEARS)
    for album in kinds["album"]:
        album.links = {"band": pick(rng, kinds["band"])}
        album.values["released"] = pick(rng, YEARS)
    for band in kinds["band"]:
        band.links = {"town": pick(rng, towns), "singer": pick(rng, kinds["singer"])}
    for company in kinds["company"]:
        company.links = {"founder": pick(rng, kinds["merchant"])}
        company.values = {"founded": pick(rng, YEARS), "product": pick(rng, PRODUCTS)}


def _other(rng: Random, items: list[Entity], than: Entity) -> Entity:
    while True:
        item = pick(rng, items)
        if item is not than:
            return item


def _sentences(e: Entity) -> tuple[str, ...]:
    """Write the one or two sentences of an entity; later ones carry their leading space, as in the official files."""
    n, link, value = e.name, e.links, e.values
    match e.kind:
        case "town":
            second = f" The river {link['river'].name} flows through it and its mayor is {link['mayor'].name}."
            return f"{n} is a town in {value['country']}.", second
        case "river":
            return (f"{n} is a river in {value['country']}.",)
        case "film":
            second = f" It is based on the novel {link['source'].name}."
            return f"{n} is a {value['released']} film directed by {link['director'].name}.", second
        case "novel":
            second = f" It is set in the town {link['setting'].name}."
            return f"{n} is a {value['released']} novel written by {link['author'].name}.", second
        case "album":
            return (f"{n} is a {value['released']} album by the band {link['band'].name}.",)
        case "band":
            return f"{n} is a band formed in {link['town'].name}.", f" Its singer is {link['singer'].name}."
        case "company":
            second = f" It makes {value['product']}."
            return f"{n} is a company founded by {link['founder'].name} in {value['founded']}.", second
        case role:
            second = f" The {role} was a student of {link['teacher'].name}."
            return f"{n} is a {role} born in {link['birthplace'].name} in {value['born']}.", second
