"""Where the published agents' own code plays paper search otherwise than this environment, as one choice.

Sources: the runtime, the client and the evaluation of Agent-R1's recipe ``paper_search``, which the published runs of
StepPO and CAPO use; PaperScout's pool is the same.
"""

from dataclasses import dataclass
from typing import Final, Literal, get_args

RulesName = Literal["own", "published"]


@dataclass(frozen=True, slots=True)
class Rules:
    """A set of rules.

    Attributes:
        name: Its name.
        threshold: From which relevance on a paper of the pool counts as found, unless an env is told otherwise.
        threshold_counts: Whether a paper that is exactly at the threshold counts.
        references: Most cited papers of an expansion, unless an env is told otherwise.
        abstract_needed: Whether an expansion leaves out papers without an abstract; a search never does.
        ties_by_id: Whether equal scores are listed by descending id, and in the list the expanded papers first;
            otherwise in the order of finding.
        exact_queries: Whether a query is a repetition only of an equal string of an earlier turn; otherwise case and
            white space do not matter, nor does the turn.
        failures_count: Whether a call that the service failed was made: trying again is a repetition.
        unjudged_is_zero: Whether a paper that the selector could not judge is worth 0; otherwise its call has failed.
        misses_are_free: Whether a call that adds no paper costs nothing.
        extra_calls_dropped: Whether calls beyond the most of a turn are left out; otherwise nothing of it runs.
    """

    name: RulesName
    threshold: float
    threshold_counts: bool
    references: int
    abstract_needed: bool
    ties_by_id: bool
    exact_queries: bool
    failures_count: bool
    unjudged_is_zero: bool
    misses_are_free: bool
    extra_calls_dropped: bool


OWN: Final = Rules("own", 0.5, False, 1000, False, False, False, False, False, False, False)
PUBLISHED: Final = Rules("published", 0.0, True, 99, True, True, True, True, True, True, True)


def rules_of(name: str) -> Rules:
    """Return the rules of a name.

    Raises:
        ValueError: There are none.
    """
    if name not in get_args(RulesName):
        raise ValueError(f"rules must be one of {', '.join(get_args(RulesName))}; got {name!r}")
    return PUBLISHED if name == "published" else OWN
