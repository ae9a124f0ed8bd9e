"""What every env of this project promises, as checks that any env can be put through."""

import json
import math
import pickle
import random
from collections.abc import Iterator
from typing import Any

import gymnasium

from agent_r1_envs.core import AgentEnv
from agent_r1_envs.text import is_unicode

TYPES: dict[str, type] = {
    "task_id": str,
    "split": str,
    "dataset": str,
    "instruction": str,
    "turn": int,
    "success": bool,
    "score": float,
    "reward_info": dict,
}
OPTIONAL: dict[str, type] = {
    "admissible_actions": list,
    "calls": list,
    "invalid_action": str,
    "tools": list,
    "protocol": dict,
}


def base(env: gymnasium.Env) -> AgentEnv:
    """Return the env under its wrappers."""
    assert isinstance(env.unwrapped, AgentEnv)
    return env.unwrapped


def check_info(info: dict[str, Any], *, at_reset: bool) -> None:
    """Check keys and types of an info, and that it can be written, pickled and encoded."""
    for key, kind in TYPES.items():
        assert type(info[key]) is kind, f"{key} is {type(info[key])}"
    for key, kind in OPTIONAL.items():
        assert key not in info or type(info[key]) is kind, f"{key} is {type(info[key])}"
    assert not any(value is None for value in info.values()), "absent keys are left out, never None"
    assert 0.0 <= info["score"] <= 1.0
    assert all(type(value) is float and math.isfinite(value) for value in info["reward_info"].values())
    assert ("protocol" in info) == at_reset
    for call in info.get("calls", []):
        kinds = {key: type(value) for key, value in call.items()}
        assert kinds == {"name": str, "arguments": dict, "ok": bool, "error": str, "reward": float}
        assert call["ok"] == (call["error"] == "")
    json.dumps(info, allow_nan=False, ensure_ascii=False).encode("utf-8")
    pickle.dumps(info)


def check_step(env: gymnasium.Env, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """Step and check everything that holds for any action at all."""
    before = base(env).get_state()
    result = env.step(action)
    observation, reward, terminated, truncated, info = result
    assert observation in env.observation_space
    assert is_unicode(observation)
    assert math.isfinite(reward) and type(reward) is float
    assert type(terminated) is bool and type(truncated) is bool
    check_info(info, at_reset=False)
    assert info["turn"] == before["turn"] + 1
    if "invalid_action" in info:
        assert info["invalid_action"]
        assert not terminated, "an invalid action cannot end an episode"
        after = base(env).get_state()
        assert {**after, "turn": before["turn"]} == before, "an invalid action changed the state"
    return result


def check_reset(env: gymnasium.Env, **kwargs: Any) -> tuple[str, dict[str, Any]]:
    """Reset and check what holds for every reset."""
    observation, info = env.reset(**kwargs)
    assert observation in env.observation_space
    check_info(info, at_reset=True)
    assert info["turn"] == 0
    protocol = info["protocol"]
    assert protocol["panel_hash"] == base(env).tasks.content_hash
    assert protocol["goals"] == len(base(env).tasks)
    return observation, info


def check_random_actions(env: gymnasium.Env, *, actions: int, seed: int = 0) -> dict[str, int]:
    """Send random actions and check each step; return how many were valid and how many were not."""
    counts = {"valid": 0, "invalid": 0}
    _, info = check_reset(env, seed=seed)
    source = random_actions(env, info, seed)
    for _ in range(actions):
        *_, terminated, truncated, info = check_step(env, next(source))
        counts["invalid" if "invalid_action" in info else "valid"] += 1
        if terminated or truncated:
            check_reset(env)
    return counts


CONTROLS = "".join(map(chr, [*range(32), *range(127, 160), 0x2028, 0x2029, 0x202E, 0xFEFF, 0xFFFF]))
ODD = "\ud800\udfff\U0001f600\U0010ffff\u0301\u200dé漢\u00a0"
JSON_PIECES = (
    *'{}[],:"',
    '"name"',
    '"arguments"',
    '{"name": ',
    '"arguments": {',
    "'",
    "\\u0000",
    "\\ud83d",
    '"\\ud800"',
    "NaN",
    "-Infinity",
    "1e999",
    "null",
    "true",
    "0",
    "9" * 50,
    "\n",
    " ",
    "```json",
)


def random_actions(env: gymnasium.Env, info: dict[str, Any], seed: int) -> Iterator[str]:
    """Yield what a model, or an enemy, might send: noise, broken calls, giants, and now and then a valid command."""
    rng = random.Random(seed)
    names = [tool["function"]["name"] for tool in info.get("tools", [])] or ["look", "go to desk 1", "search"]
    while True:
        kind = rng.random()
        if kind < 0.002:
            yield _giant(rng, names)
        elif kind < 0.25:
            yield _noise(rng, rng.randrange(60))
        elif kind < 0.5:
            pieces = [*JSON_PIECES, *(f'"{name}"' for name in names)]
            yield "".join(rng.choices(pieces, k=rng.randrange(1, 25)))
        elif kind < 0.75:
            separator = rng.choice(["\n", "\r\n", " ", "\x0b", "\u2028", ""])
            lines = (f"{rng.choice(names)}[{_noise(rng, rng.randrange(12))}]" for _ in range(rng.randrange(1, 7)))
            yield separator.join(lines)
        else:
            yield _damage(rng, base(env).expert_action() or rng.choice(names))


def _noise(rng: random.Random, length: int) -> str:
    pools = (CONTROLS, ODD, "abc XYZ[]{}\"'\\/<>:,.-_0123456789", None)
    pool = rng.choice(pools)
    if pool is None:
        return "".join(chr(rng.randrange(0x110000)) for _ in range(length))
    return "".join(rng.choices(pool, k=length))


def _giant(rng: random.Random, names: list[str]) -> str:
    piece = rng.choice(
        ["[", "{", '{"a":', "]", "x", "\n", "\0", "漢", " ", f"{names[0]}[a]\n", f"{names[0]}[", '"\\', "1"]
    )
    return (rng.choice(["", f"{names[0]}[", '{"name": "']) + piece * (1_000_000 // len(piece)))[:1_000_000]


def _damage(rng: random.Random, command: str) -> str:
    """Change a good command in up to two places; sometimes in none."""
    text = command
    for _ in range(rng.randrange(3)):
        place = rng.randrange(len(text) + 1)
        text = (
            text[:place] + rng.choice(["", _noise(rng, 2), text[place : place + 3]]) + text[place + rng.randrange(3) :]
        )
    return text
