"""The one module that uses private or unstable names of TRL, transformers and accelerate.

TRL is released every two weeks and says that only documented names are stable; transformers renames keyword arguments
with a deprecation period. Everything of theirs that may move is imported, wrapped or detected here, so that supporting
a new release means changing this file and running its tests.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, revert_weight_conversion
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
from trl.models import unwrap_model_for_generation
from trl.trainer.base_config import _BaseConfig as BaseConfig
from trl.trainer.base_trainer import _BaseTrainer as BaseTrainer
from trl.trainer.utils import create_model_from_path, disable_dropout_in_model

__all__ = [
    "BaseConfig",
    "BaseTrainer",
    "RowCache",
    "SavedForm",
    "Trunk",
    "adapters_disabled",
    "apply_head",
    "attends_by_backend",
    "base_causal_lm",
    "cache_argument",
    "class_forward",
    "create_model_from_path",
    "derived_keys",
    "disable_dropout_in_model",
    "find_trunk",
    "generation_model",
    "mend_model_card",
    "is_peft_model",
    "new_cache",
    "recompute_activations",
    "reporting_fault",
    "synchronise_gradients",
    "unnumbered_cpu",
    "view_gradients",
]


def attends_by_backend(trunk: nn.Module) -> bool:
    """Whether attention passes on what its implementation is told, and nothing else remembers earlier tokens.

    A class that says nothing about it, as one that is not of transformers, is taken for one that does neither.
    """
    return not getattr(trunk, "_is_stateful", True) and getattr(trunk, "_supports_attention_backend", False)


def is_peft_model(model: nn.Module) -> bool:
    """Whether `model` is wrapped by PEFT; false, without importing it, when PEFT is not installed."""
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


def base_causal_lm(model: nn.Module) -> PreTrainedModel:
    """The causal language model inside `model`, PEFT's wrapper removed (injected adapters stay in place)."""
    return model.get_base_model() if is_peft_model(model) else model  # type: ignore[operator,return-value]


@contextmanager
def adapters_disabled(model: nn.Module) -> Iterator[None]:
    """Run the block with PEFT's adapters off, that is with the weights the adapters started from."""
    with model.disable_adapter():  # type: ignore[operator]
        yield


def derived_keys(model: nn.Module) -> set[str]:
    """Names in a state dict that no checkpoint holds because they are tied to others."""
    return set(getattr(base_causal_lm(model), "_tied_weights_keys", None) or ())


class SavedForm:
    """The names, and the parts, that saved models of a kind have, for tensors that come one after the other.

    Experts may be fused in memory only, and projections in folders only. What becomes one tensor is held until all of
    it is there.

    Args:
        model: The causal language model that the tensors belong to.
        names: In the model, of all tensors that will come.
    """

    def __init__(self, model: PreTrainedModel, names: Sequence[str]) -> None:
        self._model = model
        given = getattr(model, "_weight_conversions", None)
        conversions = get_model_conversion_mapping(model, add_legacy=False) if given is None else given
        converters = [each.reverse_transform() for each in reversed(conversions) if isinstance(each, WeightConverter)]
        self._groups: dict[str, list[str]] = {}
        """Names of tensors that are converted together, by each of them."""
        together: dict[str, list[str]] = {}
        for name in names:
            found = (converter.rename_source_key(name) for converter in converters)
            target = next((renamed for renamed, pattern in found if pattern is not None), None)
            if target is not None:
                self._groups[name] = together.setdefault(target, [])
                self._groups[name].append(name)
        numbers = {name: torch.tensor(place) for place, name in enumerate(names) if name not in self._groups}
        renamed = revert_weight_conversion(model, numbers)
        self._renamed = {names[int(number)]: saved for saved, number in renamed.items()}
        self._held: dict[str, torch.Tensor] = {}

    def take(self, name: str, tensor: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return what can be given now that a tensor is there, by its names in a folder."""
        if name in self._renamed:
            return {self._renamed[name]: tensor}
        self._held[name] = tensor
        if any(other not in self._held for other in self._groups[name]):
            return {}
        return revert_weight_conversion(self._model, {other: self._held.pop(other) for other in self._groups[name]})


def mend_model_card(card: Path) -> None:
    """Mend the model card of TRL, which calls models without a name on the hub "None", with a link to that.

    Args:
        card: The card's file.
    """
    text = card.read_text(encoding="utf-8")
    nameless = "a fine-tuned version of [None](https://huggingface.co/None)"
    text = text.replace(nameless, "a fine-tuned version of a local model")
    card.write_text(text.replace('model="None"', 'model="path/to/this/folder"'), encoding="utf-8")


def reporting_fault(name: str) -> str | None:
    """Say why nobody can be reported to under this name of `report_to`, or None where all is there."""
    if name not in INTEGRATION_TO_CALLBACK:
        return f"there are {', '.join(sorted(INTEGRATION_TO_CALLBACK))}"
    try:
        INTEGRATION_TO_CALLBACK[name]()
    except Exception as error:  # each says in its own way which package it needs
        return " ".join(str(error).split())
    return None


@contextmanager
def unnumbered_cpu(args: Any) -> Iterator[None]:
    """Call the CPU by its plain name while the block runs.

    One of several processes on a CPU computes on "cpu:0". Before 5.18 transformers gives that name to `torch.load` when
    it resumes, and torch restores nothing to a CPU with a number.

    Args:
        args: Arguments of a trainer.
    """
    device = args.device
    if device.type != "cpu":
        yield
        return
    vars(args)["_setup_devices"] = torch.device("cpu")
    try:
        yield
    finally:
        vars(args)["_setup_devices"] = device


def recompute_activations(module: nn.Module) -> None:
    """Turn activation checkpointing on, by whichever name this release of transformers has for it."""
    enable = getattr(module, "activation_checkpointing_enable", None) or module.gradient_checkpointing_enable
    enable()  # type: ignore[operator]


def class_forward(model: nn.Module) -> Callable[..., Any]:
    """The forward of the model's class, unbound: never one that was patched onto the instance."""
    return type(model).forward


def cache_argument(model: nn.Module) -> str:
    """Name of the key-value cache's argument: `cache` from transformers 5.2x on, `past_key_values` before."""
    names = inspect.signature(class_forward(model)).parameters
    return "cache" if "cache" in names else "past_key_values"


def new_cache(model: PreTrainedModel) -> DynamicCache:
    """An empty cache that grows with the sequence and lets rows be dropped."""
    return DynamicCache(config=model.config.get_text_config(decoder=True))


class RowCache(Cache):
    """Keys and values of B rows, each at the left of a tensor of fixed capacity and written at an offset of its own.

    So rows of different lengths need no padding on the left, and what a row holds stays valid from one call to the
    next. `aim` says which rows the next forward pass computes; the pass must bring its own attention mask [b, 1, q, w].
    Whatever changes the tensors goes through them one by one, so that two caches are never there at once.

    Args:
        rows: B.
        capacity: Most tokens of a row, C.

    Attributes:
        keys: [B, heads, C, width] of each layer, in the precision that attention computes in.
        values: The same.
    """

    def __init__(self, rows: int, capacity: int) -> None:
        super().__init__(layer_class_to_replicate=DynamicLayer)
        self.rows, self.capacity = rows, capacity
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    def aim(self, rows: torch.Tensor | None, columns: torch.Tensor, visible: int) -> None:
        """Prepare for a forward pass.

        Args:
            rows: [b] the rows that are computed; None for the first b, which spares a copy.
            columns: [b, q] where each row's new tokens go.
            visible: Tokens of a row that attention sees, from the left, w.
        """
        self._rows, self._columns, self._visible = rows, columns, visible

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new keys and values [b, heads, q, width]; return all that attention sees, [b, heads, w, width]."""
        if layer_idx == len(self.keys):
            for states, store in ((key_states, self.keys), (value_states, self.values)):
                shape = (self.rows, states.size(1), self.capacity, states.size(3))
                # Zeros, not garbage: a masked NaN would still be a NaN.
                store.append(torch.zeros(shape, dtype=_attention_dtype(states), device=states.device))
        count = len(key_states)
        rows = torch.arange(count, device=key_states.device) if self._rows is None else self._rows
        seen = []
        for states, store in ((key_states, self.keys), (value_states, self.values)):
            kept = store[layer_idx]
            kept[rows[:, None], :, self._columns] = states.transpose(1, 2).to(kept.dtype)
            seen.append((kept[:count] if self._rows is None else kept[rows])[:, :, : self._visible])
        return seen[0], seen[1]

    def arrange(self, order: Sequence[int], columns: int) -> None:
        """Put row `order[i]` at place i, as far as its first columns.

        Args:
            order: For each place a row; those that are named nowhere are lost.
            columns: What lies beyond is of no use to anyone.
        """
        moved = [place for place, row in enumerate(order) if place != row]
        if not moved:
            return
        for store in (self.keys, self.values):
            for kept in store:
                places = torch.tensor([moved, [order[place] for place in moved]], device=kept.device)
                kept[places[0], :, :columns] = kept[places[1], :, :columns]

    def resize(self, rows: int, capacity: int) -> None:
        """Drop rows and columns at the end, or add empty ones."""

        def remake(kept: torch.Tensor) -> torch.Tensor:
            made = kept.new_zeros(rows, kept.size(1), capacity, kept.size(3))
            made[: self.rows, :, : self.capacity] = kept[:rows, :, :capacity]
            return made

        for store in (self.keys, self.values):
            for layer in range(len(store)):
                store[layer] = remake(store[layer])
        self.rows, self.capacity = rows, capacity

    def split(self, rows: int) -> RowCache:
        """Cut the rows behind the first so many off, into a cache of their own."""
        rest = RowCache(self.rows - rows, self.capacity)
        for own, theirs in ((self.keys, rest.keys), (self.values, rest.values)):
            for layer in range(len(own)):
                theirs.append(own[layer][rows:].clone())
                own[layer] = own[layer][:rows].clone()
        self.rows = rows
        return rest

    def fill(self, sources: Sequence[tuple[RowCache, Sequence[int], Sequence[int]]], *, release: bool) -> None:
        """Copy rows of other caches into this one, which is new.

        Args:
            sources: Of each cache which of its rows go to which of these, as far as there is room.
            release: Nobody reads those caches any more: each of their tensors goes once it was copied.
        """
        for name in ("keys", "values"):
            stores = [getattr(cache, name) for cache, _, _ in sources]
            for layer in range(len(stores[0])):
                shape = (self.rows, stores[0][layer].size(1), self.capacity, stores[0][layer].size(3))
                made = stores[0][layer].new_zeros(shape)
                for (cache, rows, places), store in zip(sources, stores, strict=True):
                    columns = min(cache.capacity, self.capacity)
                    for row, place in zip(rows, places, strict=True):
                        made[place, :, :columns] = store[layer][row, :, :columns]
                    if release:
                        store[layer] = made.new_zeros(0)
                getattr(self, name).append(made)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The length of a row, as far as a model may ask: positions are always given."""
        return self._visible - self._columns.size(1)


def _attention_dtype(states: torch.Tensor) -> torch.dtype:
    """What attention rounds keys and values to: autocast may make one of them in 16 bits and the other in 32."""
    kind = states.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype


def synchronise_gradients(accelerator: Any, now: bool) -> None:
    """Say whether the next backward pass is an optimizer step's last one; accelerate counts on knowing."""
    accelerator.gradient_state._set_sync_gradients(now)


def view_gradients(accelerator: Any) -> None:
    """Let gradients be views of the buckets that ranks exchange, instead of copies of them."""
    if accelerator.ddp_handler is not None:
        accelerator.ddp_handler.gradient_as_bucket_view = True


@contextmanager
def generation_model(model: nn.Module, accelerator: Any) -> Iterator[nn.Module]:
    """The model without its distributed wrapper and without activation checkpointing, for the length of the block.

    Entering it gathers sharded parameters where there are any, so enter it once a rollout, never once a turn.
    """
    with ExitStack() as stack:
        with warnings.catch_warnings():
            # TRL 1.16 asks for the property's name before transformers 5.24.
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*", category=FutureWarning)
            unwrapped = stack.enter_context(unwrap_model_for_generation(model, accelerator))
        yield unwrapped


@dataclass(frozen=True, slots=True)
class Trunk:
    """The part of a causal language model whose hidden states its head reads.

    Attributes:
        name: Its path in the model; a deep copy of the model has its own trunk there.
        width: Of its hidden states.
    """

    name: str
    width: int


class _TrunkOutput(tuple):
    """Hidden states as any architecture reads them: by name or as the first item. There is nothing else."""

    @property
    def last_hidden_state(self) -> torch.Tensor:
        return self[0]

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


@contextmanager
def _given(trunk: nn.Module, hidden: torch.Tensor) -> Iterator[list[bool]]:
    """Let a trunk give some hidden states [M, width] instead of computing; the list holds an entry a call."""
    calls: list[bool] = []

    def forward(*args: Any, **kwargs: Any) -> _TrunkOutput:
        calls.append(True)
        return _TrunkOutput((hidden[None],))

    own = vars(trunk).get("forward")
    vars(trunk)["forward"] = forward
    try:
        yield calls
    finally:
        if own is None:
            del vars(trunk)["forward"]
        else:
            vars(trunk)["forward"] = own


def apply_head(model: PreTrainedModel, trunk: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    """Logits [M, vocabulary] of hidden states [M, width], by the model's own forward behind its trunk.

    What lies between hidden states and logits (a dense layer, a projection, a bias, a scale, a soft cap) differs from
    one architecture to the next and stands in its forward alone. So that runs, over a trunk that gives the hidden
    states instead of computing them.

    Args:
        model: The causal language model, without PEFT's wrapper.
        trunk: The module that `find_trunk` named.
        hidden: As the trunk computed them.
    """
    ids = torch.zeros(1, len(hidden), dtype=torch.long, device=hidden.device)  # nobody reads them
    with _given(trunk, hidden):
        # A view whose gradient is one: that of an index would be copied into zeros.
        return class_forward(model)(model, input_ids=ids, use_cache=False).logits.squeeze(0)


def find_trunk(model: PreTrainedModel) -> Trunk:
    """Find the trunk of a causal language model, and the width of its hidden states.

    Usually it is `base_model`. Some architectures call it otherwise, some read a part of it (decoders that were split
    off an encoder), and some project its hidden states to another width than `hidden_size`.

    Raises:
        ValueError: There is none: the model cannot be scored token by token.
    """
    models = [name for name, child in model.named_children() if isinstance(child, PreTrainedModel)]
    names = dict.fromkeys([model.base_model_prefix, *models, *(f"{name}.decoder" for name in models)])
    parts = dict(model.named_modules())
    head = model.get_output_embeddings()
    widths = dict.fromkeys(
        [model.config.get_text_config().hidden_size, *([] if head is None else head.weight.shape[-1:])]
    )
    for name in names:
        read = False
        for width in widths if name in parts and name else ():
            hidden = torch.zeros(1, width, dtype=model.dtype, device=model.device)
            with torch.no_grad(), _given(parts[name], hidden) as calls, suppress(Exception):
                class_forward(model)(model, input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device))
                if calls:
                    return Trunk(name, width)
            read = read or bool(calls)
        if read:  # a head that takes no hidden states outside of autocast, say
            return Trunk(name, next(iter(widths)))
    raise ValueError(
        f"a model of type {model.config.model_type!r} ({type(model).__name__}) cannot be trained: no part of it gives "
        "the hidden states that its logits are computed from"
    )
