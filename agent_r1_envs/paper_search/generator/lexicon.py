"""The words of the synthetic literature, and how they are drawn.

What is the same is worded in several ways, as in real titles and abstracts: objects and operations have synonyms, and
methods have a full name and a coined one, of which most papers use only one. Draws are made of ``random()`` alone, the
one method of a generator that Python promises never to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

# What is studied, in two wordings each; groups of four belong to one field.
FIELDS: Final = ("hydrology", "ecology", "transport", "energy", "agriculture", "geology")

OBJECTS: Final = (
    ("river level", "stream stage"),
    ("snow melt", "spring thaw"),
    ("harbour depth", "port sounding"),
    ("soil moisture", "ground wetness"),
    ("bird song", "avian call"),
    ("coral growth", "reef extension"),
    ("whale track", "cetacean path"),
    ("pollen count", "airborne spore load"),
    ("traffic queue", "road congestion"),
    ("ship route", "vessel course"),
    ("tram delay", "streetcar lateness"),
    ("parking demand", "kerb occupancy"),
    ("wind power", "turbine output"),
    ("roof solar", "rooftop photovoltaic"),
    ("kiln heat", "furnace temperature"),
    ("battery wear", "cell ageing"),
    ("crop yield", "harvest size"),
    ("leaf disease", "foliage blight"),
    ("orchard pest", "fruit insect"),
    ("milk quality", "dairy grade"),
    ("glacier motion", "ice flow"),
    ("tunnel strain", "underground load"),
    ("quarry dust", "stone pit particles"),
    ("slope failure", "landslide onset"),
)

OPERATIONS: Final = (
    ("forecasting", "prediction", "projection"),
    ("classification", "recognition", "labelling"),
    ("mapping", "charting", "spatial estimation"),
    ("anomaly detection", "fault finding", "outlier spotting"),
)

ADJECTIVES: Final = (
    "sparse",
    "gated",
    "spectral",
    "recursive",
    "contrastive",
    "Bayesian",
    "modular",
    "masked",
    "hybrid",
    "quantised",
)
NOUNS: Final = ("transformers", "forests", "filters", "autoencoders", "ensembles", "graph networks")

# The coined name of a method: the first part from its adjective, the second from its noun.
COINED: Final = (
    ("Spa", "Gat", "Lumo", "Reku", "Kontra", "Bayo", "Modu", "Maska", "Hybo", "Quanto"),
    ("former", "sylva", "sieve", "coder", "choir", "mesh"),
)

DATA_FIRST: Final = (
    "Avon Brook Calder Dove Eden Frome Glen Humber Irwell Kennet Lune Medway Nene Ouse Parrett Quaggy "
    "Ribble Severn Tamar Usk Wye Yare Test Tweed Trent Derwent Exe Clyde Tay Spey Don Ure"
).split()
DATA_SECOND: Final = ("Bench", "Base", "Set", "Log", "Atlas", "Archive")

# What a paper reports: how a query asks for it, and how abstracts say it.
FINDINGS: Final = (
    ("halves the training time", ("training time is halved", "it trains in half the time")),
    ("needs few labels", ("few labels are enough", "a handful of annotated records suffices")),
    ("fails under distribution shift", ("accuracy drops under distribution shift", "it breaks when conditions change")),
    ("stays calibrated", ("its probabilities stay calibrated", "confidence matches accuracy")),
    ("runs on small devices", ("it runs on small devices", "a microcontroller can host it")),
    ("is matched by a linear baseline", ("a linear baseline does as well", "simple regression is not worse")),
)

# What sets a paper apart from others on the same subject.
ANGLES: Final = (
    "missing sensors",
    "night images",
    "rural sites",
    "long horizons",
    "noisy labels",
    "rare events",
    "citizen records",
    "winter months",
    "satellite scenes",
    "cheap loggers",
    "mountain regions",
    "coastal towns",
    "irregular sampling",
    "shared models",
    "legal limits",
    "expert feedback",
    "historic archives",
    "mobile stations",
    "delayed reports",
    "privacy rules",
    "seasonal drift",
    "crowded scenes",
    "low budgets",
    "mixed resolutions",
    "daily operation",
    "uneven coverage",
    "radio links",
    "manual audits",
    "public tenders",
    "field trials",
)

# Short reports say nothing of their subject: all hold the same words, in another order.
REPORT_TITLE: Final = ("Short report", "supplement", "results")

REPORT_SENTENCES: Final = (
    "We describe the setting and the outcome.",
    "Full details are in the text.",
    "Tables are given at the end.",
    "Comments are welcome.",
)


def below(rng: Random, n: int) -> int:
    """Draw an integer in ``[0, n)``."""
    return int(rng.random() * n)


def pick(rng: Random, items: Sequence[T]) -> T:
    """Draw one item."""
    return items[int(rng.random() * len(items))]


def sample(rng: Random, items: Sequence[T], most: int) -> list[T]:
    """Draw up to ``most`` distinct items, in the order in which they are drawn."""
    left = list(items)
    return [left.pop(int(rng.random() * len(left))) for _ in range(min(most, len(left)))]


def shuffled(rng: Random, items: Sequence[T]) -> list[T]:
    """Return the items in a random order."""
    return sample(rng, items, len(items))
