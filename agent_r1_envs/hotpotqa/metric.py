"""The answer metrics of HotpotQA, 2WikiMultihopQA and MuSiQue, equal to their official scripts item by item.

2Wiki's supporting facts and evidence are in :mod:`agent_r1_envs.hotpotqa.two_wiki`.

Sources: ``hotpot_evaluate_v1.py``, ``2wikimultihop_evaluate.py`` and MuSiQue's ``metrics/answer.py``. All normalise in
the same way. They differ in F1: HotpotQA and 2Wiki give 0 where one side is yes, no or noanswer and the other is not,
MuSiQue has no such rule and counts two answers that normalise to nothing as equal.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_CLOSED: Final = ("yes", "no", "noanswer")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Exact match and overlap of a prediction with the truth, each from 0 to 1 (2Wiki's evidence aside)."""

    em: float
    f1: float
    precision: float
    recall: float


_NOTHING: Final = Overlap(0.0, 0.0, 0.0, 0.0)


def normalize(text: str) -> str:
    """Lower-case, drop ASCII punctuation, drop the words a, an and the, and collapse white space.

    >>> normalize("The  Beatles' (album)")
    'beatles album'
    """
    return " ".join(_ARTICLES.sub(" ", without_punctuation(text.lower())).split())


def without_punctuation(text: str) -> str:
    """Drop ASCII punctuation."""
    return text.translate(_NO_PUNCTUATION)


def exact_match(prediction: str, truth: str) -> bool:
    """Tell whether the two answers are equal after :func:`normalize`."""
    return normalize(prediction) == normalize(truth)


def cover_match(prediction: str, truth: str) -> bool:
    """Tell whether the words of ``truth`` stand in ``prediction`` in one run, after :func:`normalize`.

    A truth that normalises to nothing is covered only by a prediction that does too.
    """
    inside, whole = normalize(truth), normalize(prediction)
    return f" {inside} " in f" {whole} " if inside else inside == whole


def answer_overlap(prediction: str, truth: str) -> Overlap:
    """Compare two answers as HotpotQA's script does, with its rule for yes, no and noanswer."""
    a, b = normalize(prediction), normalize(truth)
    em = float(a == b)
    if a != b and (a in _CLOSED or b in _CLOSED):
        return Overlap(em, 0.0, 0.0, 0.0)
    return _token_overlap(em, a.split(), b.split())


def musique_overlap(prediction: str, truth: str) -> Overlap:
    """Compare two answers as MuSiQue's script does."""
    a, b = normalize(prediction), normalize(truth)
    if not a or not b:
        equal = float(a == b)
        return Overlap(equal, equal, equal, equal)
    return _token_overlap(float(a == b), a.split(), b.split())


def best_overlap(
    prediction: str, truths: Iterable[str], compare: Callable[[str, str], Overlap] = answer_overlap
) -> Overlap:
    """Return the best of each figure over all the accepted answers, as the scripts that know aliases do.

    Raises:
        ValueError: If there is no accepted answer.
    """
    results = [compare(prediction, truth) for truth in truths]
    if not results:
        raise ValueError("best_overlap needs at least one accepted answer")
    return Overlap(
        em=max(r.em for r in results),
        f1=max(r.f1 for r in results),
        precision=max(r.precision for r in results),
        recall=max(r.recall for r in results),
    )


def answer_scores(
    prediction: str, truths: Sequence[str], compare: Callable[[str, str], Overlap] = answer_overlap
) -> dict[str, float]:
    """Return ``em``, ``f1`` and ``cover_em`` of a prediction, the best over the accepted answers."""
    best = best_overlap(prediction, truths, compare)
    cover = any(cover_match(prediction, truth) for truth in truths)
    return {"em": best.em, "f1": best.f1, "cover_em": float(cover)}


def set_overlap(predicted: Iterable[tuple], truth: Iterable[tuple]) -> Overlap:
    """Compare two sets, such as supporting facts (title, sentence) or evidence triples; repetitions count once."""
    found, wanted = set(predicted), set(truth)
    hits = len(found & wanted)
    precision = hits / len(found) if found else 0.0
    recall = hits / len(wanted) if wanted else 0.0
    return Overlap(float(found == wanted), harmonic(precision, recall), precision, recall)


def joint(*parts: Overlap) -> Overlap:
    """Combine answer, supporting facts (and evidence) of one question: products, and the F1 of the products."""
    em = precision = recall = 1.0
    for part in parts:
        em, precision, recall = em * part.em, precision * part.precision, recall * part.recall
    return Overlap(em, harmonic(precision, recall), precision, recall)


def average(scored: Sequence[Mapping[str, Overlap]], prefixes: Sequence[str]) -> dict[str, float]:
    """Return ``em``, ``f1``, ``prec`` and ``recall`` over questions, each under every prefix.

    Args:
        scored: The parts of each question, by prefix; one that is not there counts 0.
        prefixes: All of them, in order.

    Raises:
        ValueError: There is no question.
    """
    if not scored:
        raise ValueError("evaluate needs at least one question")
    totals = dict.fromkeys((f"{prefix}{name}" for prefix in prefixes for name in ("em", "f1", "prec", "recall")), 0.0)
    for parts in scored:
        for prefix, part in parts.items():
            totals[f"{prefix}em"] += part.em
            totals[f"{prefix}f1"] += part.f1
            totals[f"{prefix}prec"] += part.precision
            totals[f"{prefix}recall"] += part.recall
    return {name: total / len(scored) for name, total in totals.items()}


def evaluate(
    answers: Mapping[str, str],
    gold_answers: Mapping[str, str],
    facts: Mapping[str, Iterable[tuple]] | None = None,
    gold_facts: Mapping[str, Iterable[tuple]] | None = None,
) -> dict[str, float]:
    """Score a file of predictions as HotpotQA's script does; all mappings go by question id.

    A question without a prediction scores 0 on that part, and on the joint figures.

    Args:
        answers: Predicted answers.
        gold_answers: Gold answers; these ids are the ones that count.
        facts: Predicted supporting facts (title, sentence index), where they are scored as well.
        gold_facts: Gold ones.

    Returns:
        ``em, f1, prec, recall``, the same with ``sp_`` where there are facts, and with ``joint_``, as fractions.

    Raises:
        ValueError: If there is no question.
    """
    scored = []
    for key, truth in gold_answers.items():
        parts = {"": answer_overlap(answers[key], truth) if key in answers else _NOTHING}
        if facts is not None and gold_facts is not None:
            parts["sp_"] = set_overlap(facts[key], gold_facts[key]) if key in facts else _NOTHING
        parts["joint_"] = joint(*parts.values())
        scored.append(parts)
    return average(scored, ("", "sp_", "joint_") if facts is not None else ("", "joint_"))


def harmonic(precision: float, recall: float) -> float:
    """Return F1."""
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def _token_overlap(em: float, predicted: Sequence[str], truth: Sequence[str]) -> Overlap:
    same = sum((Counter(predicted) & Counter(truth)).values())
    if same == 0:
        return Overlap(em, 0.0, 0.0, 0.0)
    precision, recall = same / len(predicted), same / len(truth)
    return Overlap(em, harmonic(precision, recall), precision, recall)
