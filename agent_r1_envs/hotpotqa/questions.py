"""The kinds of question over a synthetic encyclopedia, and the paragraphs that a task comes with."""

from dataclasses import dataclass
from random import Random
from typing import Final

from agent_r1_envs.hotpotqa.encyclopedia import SENTENCE, Encyclopedia, Entity, below, pick, shuffle


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its answer and the facts it stands on, before the distractors are chosen.

    Attributes:
        text: The question.
        answer: An entity's name, or ``yes`` or ``no``.
        type: ``bridge`` or ``comparison``.
        gold: The supporting facts, as (entity, index of the sentence).
        decoys: Entities worth having among the distractors, best first.
    """

    text: str
    answer: str
    type: str
    gold: tuple[tuple[Entity, int], ...]
    decoys: tuple[Entity, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """A bridge question: from the head by ``first`` to a hidden entity, and from there by ``second`` to the answer."""

    head: str
    first: str
    second: str
    template: str

    def draft(self, encyclopedia: Encyclopedia, head: Entity, rng: Random) -> Draft:
        """Ask about ``head``; the answer's own paragraph is a decoy."""
        middle = head.links[self.first]
        answer = middle.links[self.second]
        gold = ((head, SENTENCE[self.first]), (middle, SENTENCE[self.second]))
        return Draft(self.template.format(head.name), answer.name, "bridge", gold, (answer,))


@dataclass(frozen=True, slots=True)
class Earlier:
    """A comparison of two entities of one kind by a year."""

    head: str
    value: str
    template: str

    def draft(self, encyclopedia: Encyclopedia, head: Entity, rng: Random) -> Draft:
        """Compare ``head`` with another entity whose year differs."""
        other = head
        while other.values[self.value] == head.values[self.value]:
            other = pick(rng, encyclopedia.kinds[other.kind])
        pair = [head, other]
        shuffle(rng, pair)
        answer = min(pair, key=lambda entity: entity.values[self.value])
        gold = tuple((entity, SENTENCE[self.value]) for entity in pair)
        return Draft(self.template.format(pair[0].name, pair[1].name), answer.name, "comparison", gold)


@dataclass(frozen=True, slots=True)
class Same:
    """A yes or no question: do two entities of one kind have the same value? Half of the answers are yes."""

    head: str
    value: str
    template: str

    def draft(self, encyclopedia: Encyclopedia, head: Entity, rng: Random) -> Draft:
        """Draw the answer first, then an entity that makes it true."""
        same = rng.random() < 0.5
        other = head
        while other is head or (other.values[self.value] == head.values[self.value]) != same:
            other = pick(rng, encyclopedia.kinds[head.kind])
        gold = tuple((entity, SENTENCE[self.value]) for entity in (head, other))
        return Draft(self.template.format(head.name, other.name), "yes" if same else "no", "comparison", gold)


Kind = Chain | Earlier | Same

KINDS: Final[dict[str, Kind]] = {
    "director-birthplace": Chain(
        "film", "director", "birthplace", "In which town was the director of the film {} born?"
    ),
    "source-author": Chain("film", "source", "author", "Who wrote the novel that the film {} is based on?"),
    "band-singer": Chain("album", "band", "singer", "Who is the singer of the band that made the album {}?"),
    "founder-teacher": Chain("company", "founder", "teacher", "Who taught the founder of the company {}?"),
    "birthplace-river": Chain("person", "birthplace", "river", "Which river flows through the town where {} was born?"),
    "setting-mayor": Chain("novel", "setting", "mayor", "Who is the mayor of the town where the novel {} is set?"),
    "born-earlier": Earlier("person", "born", "Who was born earlier, {} or {}?"),
    "released-earlier": Earlier("film", "released", "Which film was released earlier, {} or {}?"),
    "same-country": Same("town", "country", "Are {} and {} towns in the same country?"),
}

_MAX_HOLDERS: Final = 3

# Of 50 questions; yes or no is a modest share.
SHARES: Final = {
    "director-birthplace": 6,
    "source-author": 6,
    "band-singer": 7,
    "founder-teacher": 6,
    "birthplace-river": 7,
    "setting-mayor": 6,
    "born-earlier": 4,
    "released-earlier": 3,
    "same-country": 5,
}


def heads(encyclopedia: Encyclopedia, kind: Kind) -> list[Entity]:
    """Return the entities that a question of ``kind`` can start from."""
    return encyclopedia.people if kind.head == "person" else list(encyclopedia.kinds[kind.head])


def paragraphs(encyclopedia: Encyclopedia, draft: Draft, rng: Random) -> list[Entity]:
    """Choose the 8 to 10 paragraphs of a task: the gold ones, look-alikes by name and by kind, strangers; shuffled."""
    size = 8 + below(rng, 3)
    chosen = [entity for entity, _ in draft.gold]
    gold = tuple(chosen)
    crowd = [word for entity in gold for word in entity.words]

    def add(entity: Entity) -> None:
        # BM25 gives no weight to a word that half of the paragraphs hold: a name must stay rare enough to be found.
        crowded = any(word in entity.mentions and _holders(chosen, word) >= _MAX_HOLDERS for word in crowd)
        if entity not in chosen and len(chosen) < size and not crowded:
            chosen.append(entity)

    # Two look-alikes of each gold paragraph; whatever a look-alike leads to is the false trail's next paragraph.
    for entity in gold:
        for word in entity.words:
            add(_lookalike(encyclopedia, entity, word, rng))
    trail = [link for entity in chosen[len(gold) :] for link in entity.links.values() if link.kind == gold[-1].kind]
    for entity in (*trail[:2], *draft.decoys):
        add(entity)
    while len(chosen) < size:
        add(pick(rng, encyclopedia.kinds[gold[len(chosen) % 2].kind]))
    shuffle(rng, chosen)
    return chosen


def _holders(entities: list[Entity], word: str) -> int:
    return sum(word in entity.mentions for entity in entities)


def _lookalike(encyclopedia: Encyclopedia, entity: Entity, word: str, rng: Random) -> Entity:
    """Draw an entity whose name has ``word`` too, of the same kind if there is one."""
    sharers = encyclopedia.sharers[word]
    twins = [other for other in sharers if other.kind == entity.kind and other is not entity]
    return pick(rng, twins or sharers)
