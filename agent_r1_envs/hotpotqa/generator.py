"""Generates HotpotQA-like tasks: rows of the official JSON schema over a synthetic encyclopedia.

A call makes one consistent encyclopedia of all the names that a split owns, and asks distinct questions over
it. Different seeds give different facts about the same names, so that a model which trains on many seeds learns to
read and not to remember. Splits never share an entity, whatever the seeds.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from agent_r1_envs.hotpotqa.encyclopedia import Encyclopedia, build_encyclopedia, shuffle
from agent_r1_envs.hotpotqa.lexicon import COUNTRIES, NAMESPACES, PRODUCTS, ROLES, SPLITS, YEARS, Split, names
from agent_r1_envs.hotpotqa.questions import KINDS, SHARES, heads, paragraphs

# split -> (number of tasks, seed) of the panel that the environment embeds.
PANEL: Final[dict[Split, tuple[int, int]]] = {"train": (4000, 0), "validation": (500, 0), "test": (500, 0)}

_LEVELS: Final = {8: "easy", 9: "medium", 10: "hard"}

_PLAIN_WORDS: Final = (
    "In which town was the director of the film born Who wrote the novel that is based on singer band made album "
    "taught founder company Which river flows through where mayor set earlier or released Are and towns in same "
    "country a It it its by directed written Its formed founded makes The student yes no"
)


def generate(split: Split, *, tasks: int, seed: int) -> list[dict[str, Any]]:
    """Make the first ``tasks`` questions of the encyclopedia of ``split`` and ``seed``.

    The result is the same on every machine, and a prefix of what a larger ``tasks`` gives.

    Args:
        split: ``train``, ``validation`` or ``test``; decides which names exist.
        tasks: How many rows, at most ``capacity(split)``.
        seed: Any integer; decides all facts and questions.

    Returns:
        Rows with the official keys ``_id, question, answer, type, level, supporting_facts, context``. An id reads
        ``<split>-<seed>-<number>-<kind>``, where kind is a key of ``questions.KINDS``.

    Raises:
        ValueError: An unknown split, or more tasks than one encyclopedia has distinct questions.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")
    if not 0 <= tasks <= capacity(split):
        raise ValueError(
            f"one {split} encyclopedia has 0 to {capacity(split)} questions; got tasks={tasks}: use stream() or "
            "more seeds"
        )
    rng = Random(f"agent-r1 hotpotqa {split} {seed}")
    encyclopedia = build_encyclopedia(split, rng)
    queues = {name: heads(encyclopedia, kind) for name, kind in KINDS.items()}
    for queue in queues.values():
        shuffle(rng, queue)
    rows: list[dict[str, Any]] = []
    deck: list[str] = []
    while len(rows) < tasks:
        if not deck:
            deck = [name for name, share in SHARES.items() for _ in range(share)]
            shuffle(rng, deck)
        name = deck.pop()
        rows.append(_row(f"{split}-{seed}-{len(rows):05d}-{name}", encyclopedia, name, queues[name].pop(), rng))
    return rows


def stream(*, seed: int, split: Split = "train", tasks_per_world: int = 1000) -> Iterator[dict[str, Any]]:
    """Yield rows for ever, ``tasks_per_world`` from each of those of seeds ``seed``, ``seed + 1``, ...

    Ids stay unique; a name keeps its split but means something else in every encyclopedia.
    """
    while True:
        yield from generate(split, tasks=tasks_per_world, seed=seed)
        seed += 1


def capacity(split: Split) -> int:
    """Return how many distinct questions an encyclopedia of ``split`` is sure to have, in whole decks."""
    sizes = {namespace: len(names(namespace, split)) for namespace in NAMESPACES}
    available = {"film": sizes["works"] // 3, "novel": sizes["works"] // 3, "album": sizes["works"] // 3}
    available |= {"company": sizes["groups"] // 2, "town": sizes["places"] * 2 // 3, "person": sizes["people"]}
    decks = min(available[KINDS[name].head] // share for name, share in SHARES.items())
    return decks * sum(SHARES.values())


def vocabulary() -> tuple[str, ...]:
    """Return every word that questions, paragraphs and answers can hold, sorted, punctuation apart."""
    words = {word for pools in NAMESPACES.values() for pool in pools for word in pool.split()}
    words.update(COUNTRIES, ROLES, PRODUCTS, YEARS, _PLAIN_WORDS.split())
    return tuple(sorted(words))


def _row(task_id: str, encyclopedia: Encyclopedia, name: str, head: Any, rng: Random) -> dict[str, Any]:
    draft = KINDS[name].draft(encyclopedia, head, rng)
    chosen = paragraphs(encyclopedia, draft, rng)
    return {
        "_id": task_id,
        "question": draft.text,
        "answer": draft.answer,
        "type": draft.type,
        "level": _LEVELS[len(chosen)],
        "supporting_facts": [[entity.name, sentence] for entity, sentence in draft.gold],
        "context": [[entity.name, list(entity.sentences)] for entity in chosen],
    }
