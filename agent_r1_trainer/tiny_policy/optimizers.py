"""The optimizers of cloning: AdamW, and Muon beside it for the matrices of the layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["clip_and_step", "make_optimizers", "set_rate"]

_RELATIVE = "relative_rate"


def make_optimizers(
    model: torch.nn.Module, learning_rate: float, muon_learning_rate: float | None
) -> list[torch.optim.Optimizer]:
    """Make the optimizers of a model.

    Muon (Jordan et al., 2024) takes steps whose singular values are all alike. Here it learns from a demonstration what
    AdamW learns from about one and a half.

    Args:
        model: Its parameters are trained.
        learning_rate: Of AdamW.
        muon_learning_rate: Of Muon, for matrices other than the embeddings; None leaves everything to AdamW.

    Raises:
        ValueError: PyTorch has no Muon.
    """
    matrices = [
        parameter
        for name, parameter in model.named_parameters()
        if muon_learning_rate is not None and parameter.ndim == 2 and "embed" not in name
    ]
    chosen = {id(parameter) for parameter in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    ]
    if muon_learning_rate is not None:
        if not hasattr(torch.optim, "Muon"):
            raise ValueError(f"muon_learning_rate needs PyTorch 2.9 or later, this is {torch.__version__}")
        optimizers.append(torch.optim.Muon(matrices, lr=muon_learning_rate, weight_decay=0.01))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group[_RELATIVE] = group["lr"] / learning_rate
    return optimizers


def set_rate(optimizers: Sequence[torch.optim.Optimizer], learning_rate: float) -> None:
    """Set AdamW's learning rate; Muon's goes up and down with it."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * group[_RELATIVE]


def clip_and_step(
    optimizers: Sequence[torch.optim.Optimizer], model: torch.nn.Module, loss: torch.Tensor, max_grad_norm: float
) -> None:
    """Take one step down the gradient of `loss`, whose norm over all parameters is clipped."""
    model.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    for optimizer in optimizers:
        optimizer.step()
