"""Metrics as sums and weights, so that micro-batches and ranks add up to exact means."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["MetricSums"]


@dataclass(slots=True)
class MetricSums:
    """Weighted sums and maxima of named metrics.

    Which names there are depends on the configuration only, never on the data, so `stack` gives tensors of equal
    shape on every rank: all-reduce the first by sum and the second by max, then `unstack`.

    Attributes:
        sums: Name to ``sum(weight * x)``, a scalar tensor without gradient.
        weights: Name to ``sum(weight)``.
        maxima: Name to the largest value.
    """

    sums: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    maxima: dict[str, Tensor] = field(default_factory=dict)

    def record(self, name: str, x: Tensor, weights: Tensor) -> None:
        """Add the weighted sum of ``x`` [n] under ``name``; entries of weight 0 count for nothing."""
        x, weights = x.detach().to(torch.float64), weights.detach().to(torch.float64)
        total = torch.where(weights != 0, x * weights, torch.zeros_like(weights)).sum()
        self.sums[name] = self.sums[name] + total if name in self.sums else total
        self.weights[name] = self.weights[name] + weights.sum() if name in self.weights else weights.sum()

    def record_max(self, name: str, x: Tensor) -> None:
        """Keep the largest entry of ``x`` [n], which must not be negative, under ``name``; 0 for an empty one."""
        x = x.detach().to(torch.float64)
        largest = x.max() if x.numel() else torch.zeros((), dtype=torch.float64, device=x.device)
        self.maxima[name] = torch.maximum(self.maxima[name], largest) if name in self.maxima else largest

    def add(self, other: "MetricSums") -> None:
        """Add the sums and take the maxima of another set."""
        for name, value in other.sums.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value
            self.weights[name] = (
                self.weights[name] + other.weights[name] if name in self.weights else other.weights[name]
            )
        for name, value in other.maxima.items():
            self.maxima[name] = torch.maximum(self.maxima[name], value) if name in self.maxima else value

    def stack(self) -> tuple[Tensor, Tensor]:
        """Return ([n, 2] sums and weights, [m] maxima), float64, in the order of the sorted names."""
        pairs = [torch.stack([self.sums[name], self.weights[name]]) for name in sorted(self.sums)]
        maxima = [self.maxima[name] for name in sorted(self.maxima)]
        return (
            torch.stack(pairs) if pairs else torch.zeros(0, 2, dtype=torch.float64),
            torch.stack(maxima) if maxima else torch.zeros(0, dtype=torch.float64),
        )

    def unstack(self, pairs: Tensor, maxima: Tensor) -> "MetricSums":
        """Return the same names with the (reduced) values of `stack`."""
        names, maxima_names = sorted(self.sums), sorted(self.maxima)
        return MetricSums(
            sums={name: pairs[i, 0] for i, name in enumerate(names)},
            weights={name: pairs[i, 1] for i, name in enumerate(names)},
            maxima={name: maxima[i] for i, name in enumerate(maxima_names)},
        )

    def means(self) -> dict[str, float]:
        """Return each metric's weighted mean (NaN where nothing was recorded with weight), and the maxima."""
        result = {name: _mean(float(self.sums[name]), float(self.weights[name])) for name in self.sums}
        result.update({name: float(value) for name, value in self.maxima.items()})
        return result


def _mean(total: float, weight: float) -> float:
    return total / weight if weight != 0.0 else float("nan")
