"""What a vLLM server is asked for a reply, and what its answer must hold: ids in, sampled ids and numbers out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_r1_trainer.generation.protocol import Generation, SamplingParams
from agent_r1_trainer.generation.stop_strings import StopStrings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["BadAnswerError", "checked_reply", "completion_request", "finished", "read_completion", "token_logprobs"]


class BadAnswerError(Exception):
    """An answer that no policy can learn from; the text says what is wrong with it."""


def completion_request(model: str, prompt: list[int], sampling: SamplingParams, seed: int) -> dict[str, Any]:
    """The body of a request to `/v1/completions`.

    The end token is no stop by itself: which ids end a reply is said in `stop_token_ids`, as for every back end. What
    is not said a server takes from the model's generation_config, a penalty on repetitions for example, so all is said.

    Args:
        model: What the server calls the policy.
        prompt: Token ids.
        sampling: How to sample.
        seed: Of this reply.
    """
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": seed,
        "logprobs": 0,
        "stop_token_ids": list(sampling.stop_token_ids),
        "ignore_eos": True,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }
    if sampling.stop_strings:
        body |= {"stop": list(sampling.stop_strings), "include_stop_str_in_output": True}
    return body


def read_completion(
    answer: Any, model: str, sampling: SamplingParams, tokenizer: PreTrainedTokenizerBase | None
) -> Generation:
    """The reply in an answer of `/v1/completions`.

    Args:
        answer: JSON data.
        model: What was asked; another one is another policy.
        sampling: What was asked for.
        tokenizer: Reads the reply; needed where there are stop strings.

    Raises:
        BadAnswerError: Ids or log-probabilities are missing, no numbers or too many, or another model answered.
    """
    try:
        choice = answer["choices"][0]
        ids, logprobs = choice["token_ids"], (choice.get("logprobs") or {}).get("token_logprobs")
        said, ended = answer.get("model", model), choice.get("finish_reason")
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise BadAnswerError(f"no reply in the answer ({type(error).__name__}: {error})") from None
    if said != model:
        raise BadAnswerError(f"the model {said!r} answered, not {model!r}")
    ids, logprobs = checked_reply(ids, logprobs, sampling)
    if ended not in ("stop", "length"):
        raise BadAnswerError(f"finish_reason is {ended!r}: the reply was broken off")
    reply = finished(ids, logprobs, sampling, tokenizer, ended=ended == "stop")
    if reply.finish == "length" and len(ids) < sampling.max_new_tokens:
        raise BadAnswerError(f"the reply ended after {len(ids)} of {sampling.max_new_tokens} tokens: no room for more")
    return reply


def checked_reply(ids: Any, logprobs: Any, sampling: SamplingParams) -> tuple[list[int], list[float]]:
    """Ids and log-probabilities, unless no policy can learn from them.

    Args:
        ids: As they were sampled.
        logprobs: One for each.
        sampling: What was asked for.

    Raises:
        BadAnswerError: They are missing, no numbers or too many.
    """
    if not isinstance(ids, list) or not ids or not all(type(token) is int and token >= 0 for token in ids):
        raise BadAnswerError(f"token_ids is {str(ids)[:80]}: expected at least one id")
    if len(ids) > sampling.max_new_tokens:
        raise BadAnswerError(f"{len(ids)} tokens came, and at most {sampling.max_new_tokens} were asked for")
    if not isinstance(logprobs, list) or len(logprobs) != len(ids):
        raise BadAnswerError(f"token_logprobs is {str(logprobs)[:80]}: expected {len(ids)} numbers")
    for value in logprobs:
        if type(value) not in (int, float) or not math.isfinite(value):
            raise BadAnswerError(f"a log-probability is {value!r}")
    return ids, [float(value) for value in logprobs]


def finished(
    ids: Sequence[int],
    logprobs: Sequence[float],
    sampling: SamplingParams,
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    ended: bool,
) -> Generation:
    """A reply of another engine, ended where this package's own sampler would have ended it.

    What was sampled after the token that completes a stop string is dropped: that engine looked at the text later.

    Args:
        ids: As they were sampled.
        logprobs: One for each.
        sampling: How.
        tokenizer: Reads the reply; needed where there are stop strings.
        ended: Whether the engine says that it ended at a stop, not for its length.
    """
    end, stopped = len(ids), ended
    if sampling.stop_strings and tokenizer is not None:
        stops = StopStrings(tokenizer, [sampling.stop_strings])
        place = next((place for place, token in enumerate(ids) if stops.completed(0, token)), None)
        if place is not None:
            end, stopped = place + 1, True
    return Generation(list(ids[:end]), list(logprobs[:end]), "stop" if stopped else "length")


def token_logprobs(prompt: Sequence[int], answer: Mapping[str, Any]) -> list[float]:
    """Log-probabilities of a prompt's tokens but the first, from an answer that was asked for `prompt_logprobs`.

    Raises:
        BadAnswerError: They are not all there.
    """
    try:
        rows = answer["choices"][0]["prompt_logprobs"]
        return [float(row[str(token)]["logprob"]) for row, token in zip(rows[1:], prompt[1:], strict=True)]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise BadAnswerError(f"no prompt_logprobs in the answer ({type(error).__name__}: {error})") from None
