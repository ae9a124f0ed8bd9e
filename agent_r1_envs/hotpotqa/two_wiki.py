"""2WikiMultihopQA's scores, equal to its two official scripts item by item, oddities included.

Sources: ``2wikimultihop_evaluate.py`` (version 1.0) and ``2wikimultihop_evaluate_v1.1.py``, which also takes the other
names of an entity, from ``id_aliases.json``, for an answer and for the ends of an evidence triple. Both compare titles
of supporting facts in lower case, and evidence in lower case without punctuation; articles stay.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

from agent_r1_envs.files import read_rows
from agent_r1_envs.hotpotqa.metric import (
    Overlap,
    average,
    best_overlap,
    harmonic,
    joint,
    set_overlap,
    without_punctuation,
)

ALIASES_FILE: Final = "id_aliases.json"
"""The official name of the file of aliases, which comes in one folder with the questions that have ids."""

Aliases = Mapping[str, tuple[str, ...]]
"""Other names of each Wikidata entity."""

_PARTS: Final = ("answer", "sp", "evidence")


def read_aliases(path: Path) -> dict[str, tuple[str, ...]]:
    """Read ``id_aliases.json``, JSON lines of ``Q_id``, ``aliases`` and ``demonyms``.

    Raises:
        DataError: The file is missing or damaged.
    """
    return {
        row.text("Q_id"): tuple(dict.fromkeys(row.strings("aliases") + row.strings("demonyms")))
        for row in read_rows(path)
    }


def normalize_evidence(text: str) -> str:
    """Lower-case, drop ASCII punctuation and collapse white space.

    >>> normalize_evidence("The  Film (1950)")
    'the film 1950'
    """
    return " ".join(without_punctuation(text.lower()).split())


def supporting_overlap(predicted: Iterable[Iterable[Any]], truth: Iterable[Iterable[Any]]) -> Overlap:
    """Compare supporting facts (title, sentence index), titles in lower case.

    Repetitions count once only where they are spelled alike: two spellings of one title are two facts.
    """
    found, wanted = (
        [(title.lower(), *rest) for title, *rest in set(map(tuple, facts))] for facts in (predicted, truth)
    )
    hits = sum(fact in wanted for fact in found)
    missed = sum(fact not in found for fact in wanted)
    precision = hits / len(found) if found else 0.0
    recall = hits / (hits + missed) if hits else 0.0
    em = float(hits == len(found) and not missed)
    return Overlap(em, harmonic(precision, recall), precision, recall)


def evidence_overlap(predicted: Iterable[Iterable[str]], truth: Iterable[Iterable[str]]) -> Overlap:
    """Compare evidence triples (subject, relation, object) as version 1.0 does."""
    return set_overlap(map(_normalized, predicted), map(_normalized, truth))


def evidence_overlap_with_aliases(
    predicted: Iterable[Iterable[str]], truth: Iterable[Iterable[Iterable[str]]]
) -> Overlap:
    """Compare evidence triples as version 1.1 does.

    Args:
        predicted: The triples.
        truth: For each gold triple all the ways to write it.

    Returns:
        The figures of the script. Its recall counts predicted triples over gold ones, so that it is above 1 where two
        ways to write one gold triple were predicted, and so may F1 be.
    """
    found = set(map(_normalized, predicted))
    ways = [set(map(_normalized, triples)) for triples in truth]
    hits = len(found & set().union(*ways))
    precision = hits / len(found) if found else 0.0
    recall = hits / len(ways) if ways else 0.0
    return Overlap(float(hits == len(found) == len(ways)), harmonic(precision, recall), precision, recall)


def evaluate(
    predictions: Mapping[str, Mapping[str, Any]], rows: Iterable[Mapping[str, Any]], aliases: Aliases | None = None
) -> dict[str, float]:
    """Score a file of predictions.

    Args:
        predictions: ``answer``, ``sp`` and ``evidence``, each by question id, as in ``prediction_format.json``. A
            question that one of them lacks scores 0 there and on the joint figures.
        rows: The official gold rows.
        aliases: What :func:`read_aliases` returned, for version 1.1; None for version 1.0.

    Returns:
        ``em, f1, prec, recall`` of the answers, and the same with ``sp_``, ``evi_`` and ``joint_``, as fractions; the
        scripts print percentages of two places.

    Raises:
        ValueError: There is no row, or the ids of a row's evidence do not belong to it.
    """
    answers, facts, evidence = (predictions.get(part, {}) for part in _PARTS)
    scored = []
    for row in rows:
        key = row["_id"]
        parts: dict[str, Overlap] = {}
        if key in answers:
            parts[""] = best_overlap(answers[key], (row["answer"], *_names(row.get("answer_id"), aliases)))
        if key in facts:
            parts["sp_"] = supporting_overlap(facts[key], row["supporting_facts"])
        if key in evidence:
            parts["evi_"] = (
                evidence_overlap(evidence[key], row["evidences"])
                if aliases is None
                else evidence_overlap_with_aliases(evidence[key], _ways(row, aliases))
            )
        if len(parts) == len(_PARTS):
            parts["joint_"] = joint(*parts.values())
        scored.append(parts)
    return average(scored, ("", "sp_", "evi_", "joint_"))


def _normalized(triple: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(normalize_evidence, triple))


def _names(identity: str | None, aliases: Aliases | None) -> tuple[str, ...]:
    return aliases.get(identity, ()) if aliases is not None and identity is not None else ()


def _ways(row: Mapping[str, Any], aliases: Aliases) -> list[list[tuple[str, ...]]]:
    """Return for each gold triple all the ways to write it; a row without ids has one each."""
    triples = [tuple(triple) for triple in row["evidences"]]
    ids = [tuple(triple) for triple in row["evidences_id"] or [(None, triple[1], None) for triple in triples]]
    if [triple[1] for triple in triples] != [named[1] for named in ids]:
        raise ValueError(f"question {row['_id']!r}: expected evidences_id to name the relations of evidences in order")
    return [
        list(product((head, *_names(first, aliases)), (relation,), (tail, *_names(last, aliases))))
        for (head, relation, tail), (first, _, last) in zip(triples, ids, strict=True)
    ]
