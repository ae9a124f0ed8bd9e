"""Ids of environments, and the nearest ones to an id that there is not."""

from __future__ import annotations

from importlib import import_module

import gymnasium
from gymnasium.envs.registration import EnvSpec

__all__ = ["find_spec"]


def find_spec(env_id: str) -> EnvSpec:
    """Return the spec of a registered environment.

    Args:
        env_id: An id, or ``"module:id"`` with the module that registers it.

    Raises:
        ImportError: The module cannot be imported.
        gymnasium.error.Error: There is no such environment; the message names near ones.
    """
    import agent_r1_wrappers  # noqa: F401  (registers the ids of environments and recipes)

    module, _, name = env_id.rpartition(":")
    if module:
        import_module(module)
    try:
        return gymnasium.spec(name)
    except gymnasium.error.Error as error:
        near = [] if "Did you mean" in str(error) else _near(name)
        if not near:
            raise
        raise type(error)(
            f"{str(error).rstrip('.')}. Did you mean: {', '.join(f'`{other}`' for other in near)}?"
        ) from None


def _near(name: str) -> list[str]:
    from rapidfuzz import fuzz, process, utils

    # Gymnasium compares within a namespace only, so a forgotten one leaves it without a suggestion. Ids with one first.
    ids = sorted(gymnasium.registry, key=lambda other: "/" not in other)
    names = {other: other.rpartition("/")[2].rpartition("-v")[0] for other in ids}
    wanted = name.rpartition("/")[2]
    found = process.extract(wanted, names, scorer=fuzz.ratio, processor=utils.default_process, limit=3, score_cutoff=70)
    return [other for _, _, other in found]
