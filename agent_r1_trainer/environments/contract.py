"""What an environment returned, checked where it enters: everything behind this line may trust its types.

Training, evaluation, the benchmark, demonstrations and play all look at an environment through `CheckedEnv`. What can
be repaired without a guess is repaired and counted (text that is no valid Unicode); a number or a flag in another type
that has one reading becomes a plain one (numpy scalars, 0 and 1); anything else breaks the contract and raises a
`ContractError` that names environment, field and value. `docs/environments.md` has the table.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from operator import is_not
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from agent_r1_envs.text import clean, is_unicode, mend

__all__ = [
    "REWARD",
    "REWARD_LIMIT",
    "CheckedEnv",
    "ContractError",
    "as_flag",
    "as_number",
    "check_field",
    "check_ids",
    "check_observation",
    "checked_info",
    "close_quietly",
    "error_text",
    "mended",
    "shown",
    "verdict",
]

REWARD_LIMIT = 1e6
"""Largest size of a reward: squares of it and sums over a rollout stay exact enough in float32."""

_NUMBER_LIMIT = 1e30  # of what is only reported: its mean must not overflow
_LEAVES = frozenset({bool, int, float, type(None)})
_SHOWN = 120
_ERROR = 500

REWARD = f"a reward is one finite number of at most {REWARD_LIMIT:g} in size"
_NUMBER = "it must be one finite number"
_FLAG = "it must be True or False (or 0 or 1)"
_OBSERVATION = (
    "an observation is a string, a list of chat messages (each with a role, and text as content) or a list of token ids"
)
_RETURNS = {
    "reset": (2, "the pair (observation, info)"),
    "step": (5, "the five values (observation, reward, terminated, truncated, info)"),
}


class ContractError(ValueError):
    """An environment, a reward function or a flow returned something that nobody can use."""


class CheckedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose returns have been checked.

    Observations are valid text, chat messages or token ids; rewards are floats, `terminated` and `truncated` bools. In
    `info`, `success` and `foreign_limit` are bools, `score` is a float, `reward_info` a dict of floats, `task_id` and
    `invalid_action` strings, `protocol` and `chat_template_kwargs` dicts, `stop_strings` a list of strings, each where
    it is there at all: None counts as absent, and so does an `invalid_action` that says no. Other keys are passed on.

    Message objects keep their identity from turn to turn, repaired ones too, since that is how a prompt builder sees
    that a conversation only grew.

    Args:
        env: Any environment.
        text_only: Whether an observation must be a string, as for the wrappers that make messages of it.
        vocabulary: Token ids must be below this; None does not limit them.
    """

    stateless = True

    def __init__(self, env: gymnasium.Env[Any, Any], *, text_only: bool = False, vocabulary: int | None = None) -> None:
        super().__init__(env)
        self._text_only = text_only
        self._vocabulary = vocabulary
        self._messages: list[tuple[Any, Any, Any]] = []
        self._repaired = 0

    @property
    def repaired(self) -> int:
        """Texts that were repaired since the environment was built, here and by such a wrapper further inside."""
        count, inner = self._repaired, self.env
        while isinstance(inner, gymnasium.Wrapper):
            count += inner._repaired if isinstance(inner, CheckedEnv) else 0
            inner = inner.env
        return count

    @property
    def spec(self) -> EnvSpec | None:
        """That of the environment: this wrapper changes nothing that could be told apart."""
        return self.env.spec

    @spec.setter
    def spec(self, value: EnvSpec | None) -> None:
        self.env.spec = value

    @property
    def label(self) -> str:
        """What errors call the environment: its id, or its class."""
        spec = self.env.spec
        return type(self.env.unwrapped).__name__ if spec is None else spec.id

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Raises:
            ContractError: What the environment returned cannot be used.
        """
        self._messages = []
        observation, info = self._call("reset", seed=seed, options=options)
        return self._observation("reset", observation), self._info("reset", info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pass the action on.

        Raises:
            ContractError: What the environment returned cannot be used.
        """
        observation, reward, terminated, truncated, info = self._call("step", action)
        where = f"{self.label}.step() returned"
        return (
            self._observation("step", observation),
            check_field(as_number(reward, REWARD_LIMIT), reward, f"{where} reward", REWARD),
            check_field(as_flag(terminated), terminated, f"{where} terminated", _FLAG),
            check_field(as_flag(truncated), truncated, f"{where} truncated", _FLAG),
            self._info("step", info),
        )

    def _call(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        count, wanted = _RETURNS[method]
        try:
            returned = getattr(self.env, method)(*args, **kwargs)
        except (TypeError, ValueError) as error:
            wrapper = _puzzled_wrapper(error, method)
            if wrapper is None:
                raise
            found = f"something else than {wrapper} takes ({error})"
        else:
            if isinstance(returned, tuple) and len(returned) == count:
                return returned
            found = shown(returned)
        raise ContractError(
            f"{self.label}.{method}() returned {found}: it must be {wanted} of Gymnasium's interface; environments of "
            "the older Gym need a wrapper that converts them"
        )

    def _observation(self, method: str, observation: Any) -> Any:
        where = f"{self.label}.{method}() returned observation"
        if self._text_only and not isinstance(observation, str):
            raise ContractError(
                f"{where} = {shown(observation)}: it must be a string, since the observation_space is one of text"
            )
        if isinstance(observation, (list, tuple)) and observation and isinstance(observation[0], Mapping):
            return self._conversation(where, observation)
        return self._mend(check_observation(observation, where, self._vocabulary))

    def _conversation(self, where: str, messages: Sequence[Any]) -> Sequence[Any]:
        """Check the messages that are new; those of earlier turns are known by identity."""
        same = 0
        for message, (before, content, _) in zip(messages, self._messages, strict=False):
            if message is not before or message.get("content") is not content:
                break
            same += 1
        known = {id(entry[0]): entry for entry in self._messages[same:]}
        del self._messages[same:]
        for index, message in enumerate(messages[same:], same):
            entry = known.get(id(message))
            content = message.get("content") if isinstance(message, Mapping) else None
            if entry is None or entry[0] is not message or entry[1] is not content:
                _check_message(message, f"{where}[{index}]")
                entry = (message, content, self._mend(message))
            self._messages.append(entry)
        result = [entry[2] for entry in self._messages]
        return result if any(map(is_not, messages, result)) else messages

    def _info(self, method: str, info: Any) -> dict[str, Any]:
        return checked_info(self._mend(info), f"{self.label}.{method}() returned")

    def _mend(self, value: Any) -> Any:
        result, count = mended(value)
        self._repaired += count
        return result


def _puzzled_wrapper(error: Exception, method: str) -> str | None:
    """Name the wrapper of Gymnasium or of ours that could not take apart what the environment in it returned."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_name != method or "unpack" not in str(error):
        return None
    wrapper = trace.tb_frame.f_locals.get("self")
    ours = type(wrapper).__module__.startswith(("gymnasium.", "agent_r1_"))
    return type(wrapper).__name__ if ours and isinstance(wrapper, gymnasium.Wrapper) else None


def check_observation(observation: Any, where: str, vocabulary: int | None = None) -> Any:
    """Return an observation that prompts can be made of; token ids as a list of ints.

    Args:
        observation: What was given.
        where: What it is called in an error.
        vocabulary: Token ids must be below this; None does not limit them.

    Raises:
        ContractError: It is neither text, nor messages, nor token ids.
    """
    if isinstance(observation, str):
        return observation
    if getattr(observation, "ndim", None) == 1 and not isinstance(observation, memoryview):  # an array, or a tensor
        observation = observation.tolist()
    if not isinstance(observation, (list, tuple)) or not observation:
        raise ContractError(f"{where} = {shown(observation)}: {_OBSERVATION}")
    if isinstance(observation[0], Mapping):
        for index, message in enumerate(observation):
            _check_message(message, f"{where}[{index}]")
        return observation
    return check_ids(observation, where, _OBSERVATION, vocabulary)


def check_ids(ids: Any, where: str, wanted: str, vocabulary: int | None = None) -> list[int]:
    """Return token ids as a list of ints.

    Args:
        ids: What was given.
        where: What it is called in an error.
        wanted: What it must be, for the error.
        vocabulary: Ids must be below this; None does not limit them.

    Raises:
        ContractError: It is no list of ids, it is empty, or an id is out of range.
    """
    if not isinstance(ids, (list, tuple)) or not ids:
        raise ContractError(f"{where} = {shown(ids)}: {wanted}")
    found = list(ids)
    if set(map(type, ids)) != {int}:
        known = [_as_id(token) for token in ids]
        found = [token for token in known if token is not None]
        if len(found) < len(known):
            raise ContractError(f"{where} = {shown(ids)}: {wanted}")
    smallest, largest = min(found), max(found)
    if smallest < 0 or (vocabulary is not None and largest >= vocabulary):
        limit = "" if vocabulary is None else f" and below {vocabulary}, the size of the vocabulary"
        wrong = smallest if smallest < 0 else largest
        raise ContractError(f"{where} holds the token id {wrong}: ids are at least 0{limit}")
    return found


def checked_info(info: Any, where: str) -> dict[str, Any]:
    """Return `info` with plain values for the keys that are read; see `CheckedEnv`.

    Raises:
        ContractError: It is no dict, or a key that is read holds another kind of value.
    """
    if not isinstance(info, Mapping):
        raise ContractError(f"{where} info = {shown(info)}: it must be a dict")
    checked = dict(info)
    for key, (read, wanted) in _FIELDS.items():
        value = checked.pop(key, None)
        if value is not None:
            checked[key] = check_field(read(value), value, f"{where} info[{key!r}]", wanted)
    if "invalid_action" in checked and not checked["invalid_action"]:
        del checked["invalid_action"]
    return checked


def verdict(info: Mapping[str, Any], *, terminated: bool, total: float) -> tuple[bool, float]:
    """Success and score of an episode.

    Environments of other makers may not report success: then ending the task with a positive return is one.

    Args:
        info: The last one, checked.
        terminated: Whether the task ended by its own rules.
        total: The undiscounted return.
    """
    success = info.get("success", terminated and total > 0)
    return success, info.get("score", float(success))


def check_field(checked: Any, value: Any, where: str, wanted: str) -> Any:
    """Return `checked`, unless it is None, which says that `value` is not what it should be.

    Raises:
        ContractError: It says so.
    """
    if checked is None:
        raise ContractError(f"{where} = {shown(value)}: {wanted}")
    return checked


def as_number(value: Any, limit: float = _NUMBER_LIMIT) -> float | None:
    """Return a number as a float: an int, float or bool, numpy's too, or an array or tensor without dimensions.

    Returns:
        None for anything else, for NaN and for what is above the limit in size.
    """
    value = _scalar(value)
    if not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) <= limit else None


def as_flag(value: Any) -> bool | None:
    """Return a bool, numpy's too, or a number that is 0 or 1, as a bool; None for anything else."""
    number = as_number(value)
    return bool(number) if number in (0.0, 1.0) else None


def mended(value: Any) -> tuple[Any, int]:
    """Replace halves of surrogate pairs in all text of plain data.

    Args:
        value: Text, or mappings, lists and tuples of it, keys included; other objects are left alone.

    Returns:
        The data, the same object where there was nothing to replace; and how many texts were replaced.
    """
    if _is_valid(value):
        return value, 0
    if isinstance(value, str):
        return mend(value), 1
    if isinstance(value, Mapping):
        pairs = [(mended(key), mended(item)) for key, item in value.items()]
        return {key[0]: item[0] for key, item in pairs}, sum(key[1] + item[1] for key, item in pairs)
    items = [mended(item) for item in value]
    return type(value)(item[0] for item in items), sum(item[1] for item in items)


def shown(value: Any) -> str:
    """Quote a value of somebody else in an error, at most 120 characters of it."""
    try:
        text = repr(value)
    except Exception:  # a `__repr__` of a user
        text = f"an object of {type(value).__name__}"
    return clean(text, _SHOWN)


def error_text(error: BaseException) -> str:
    """Kind and message of an exception, at most 500 characters of valid text."""
    try:
        text = str(error)
    except Exception:  # a `__str__` of a user
        text = ""
    return clean(f"{type(error).__name__}: {text}", _ERROR)


def close_quietly(env: gymnasium.Env[Any, Any]) -> str:
    """Close an environment that is not needed any more; what it raises now changes nothing that was done.

    Returns:
        What it raised, in words; empty if nothing.
    """
    try:
        env.close()
    except Exception as error:
        reason = error_text(error)
        gymnasium.logger.warn(f"closing {type(env.unwrapped).__name__} failed: {reason}")
        return reason
    return ""


def _is_valid(value: Any) -> bool:
    """Whether all text in plain data is valid Unicode: nearly always, so this is what has to be quick."""
    kind = type(value)
    if kind in _LEAVES:
        return True
    if kind is str or isinstance(value, str):
        return is_unicode(value)
    if kind is dict or isinstance(value, Mapping):
        return all(map(_is_valid, value)) and all(map(_is_valid, value.values()))
    return kind not in (list, tuple) or all(map(_is_valid, value))


def _scalar(value: Any) -> Any:
    """What an array or tensor without dimensions holds, numpy's scalars among them; other values as they are."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def _as_id(token: Any) -> int | None:
    token = _scalar(token)
    return int(token) if isinstance(token, numbers.Integral) and not isinstance(token, bool) else None


def _check_message(message: Any, where: str) -> None:
    if not isinstance(message, Mapping):
        raise ContractError(f"{where} = {shown(message)}: it must be a chat message like those before it")
    if not isinstance(message.get("role"), str):
        raise ContractError(f"{where} has the role {shown(message.get('role'))}: it must be a string, such as 'user'")
    content = message.get("content")
    if isinstance(content, str) or (content is None and message.get("tool_calls")):
        return
    if isinstance(content, (list, tuple)) and content and all(map(_is_text_part, content)):
        return
    raise ContractError(
        f"{where} has the content {shown(content)}: it must be a string, or a list of parts "
        '{"type": "text", "text": ...}; only a message with tool_calls may have none'
    )


def _is_text_part(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _as_numbers(value: Any) -> dict[str, float] | None:
    if not isinstance(value, Mapping):
        return None
    found = {key: as_number(item) for key, item in value.items() if item is not None}
    return None if None in found.values() or not all(isinstance(key, str) for key in found) else found  # type: ignore[return-value]


def _as_name(value: Any) -> str | None:
    value = _scalar(value)
    if isinstance(value, str):
        return value
    return str(int(value)) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else None


def _as_reason(value: Any) -> str | None:
    """The reason why an action is invalid, empty if it is valid."""
    if isinstance(value, str):
        return value
    flag = as_flag(value)
    return None if flag is None else "no reason given" * flag


def _as_options(value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) and all(isinstance(key, str) for key in value) else None


def _as_strings(value: Any) -> list[str] | None:
    whole = isinstance(value, (list, tuple)) and all(isinstance(item, str) and item for item in value)
    return list(value) if whole else None


def _as_json(value: Any) -> dict[str, Any] | None:
    """A dict as JSON data: it is written to logs, and what has no form there is written as it is shown."""
    return _plain(value) if isinstance(value, Mapping) else None


def _plain(value: Any) -> Any:
    value = _scalar(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else shown(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return shown(value)


_FIELDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "success": (as_flag, _FLAG),
    "score": (as_number, _NUMBER),
    "reward_info": (_as_numbers, "it must be a dict of names and finite numbers"),
    "task_id": (_as_name, "it must be a string or an integer"),
    "invalid_action": (_as_reason, "it must be the reason, a string, or True or False"),
    "foreign_limit": (as_flag, _FLAG),
    "chat_template_kwargs": (_as_options, "it must be a dict of arguments"),
    "stop_strings": (_as_strings, "it must be a list of strings, none of them empty"),
    "protocol": (_as_json, "it must be a dict"),
}
