"""Seeds as pure functions of what they are for.

No random draw of a rollout comes from a global generator: the seed of an episode and of every reply in it is computed
from the run's seed and the names of what is drawn. So a resumed run, an evaluation in between, another number of
processes or another order of episodes changes no sample.
"""

from __future__ import annotations

import hashlib

_BITS = 31  # Gymnasium passes seeds on to libraries that take a signed 32-bit integer


def derive_seed(*parts: int | str) -> int:
    """Mix `parts` into one seed, the same on every machine, process and Python version.

    Args:
        *parts: What the seed is for, for example `(run seed, "env", rollout, group)`. Integers and strings are told
            apart, and so are `("ab", "c")` and `("a", "bc")`.

    Returns:
        An integer in `[0, 2**31)`.

    Example:
        >>> derive_seed(0, "env", 3) == derive_seed(0, "env", 3)
        True
        >>> derive_seed(0, "env", 3) == derive_seed(0, "env", "3")
        False
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % (1 << _BITS)
