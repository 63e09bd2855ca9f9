"""Autocorrelation of the residuals of a pixel, and the number of samples that it leaves.

Residuals are those of samples of equal variance, f = sqrt(w) e.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.method import Method
from xr_lstsq.solvers.problem import Problem

__all__ = ["FEWEST_PAIRS", "before", "effective", "positions", "rho"]

FEWEST_PAIRS = 10
"""Pairs of samples from which an autocorrelation is estimated."""
DECADES, PER_DECADE = 6, 10
"""Rates of decay, from 1e-3 to 1e3 a step, among which the best is looked for first."""
HALVINGS = 40
"""Of the interval about it."""


def rho(problem: Problem, residual: Tensor, method: Method) -> Tensor:
    """Return the correlation of residuals one step of time apart, (b,).

    0 where it would be negative, NaN under `FEWEST_PAIRS` pairs. On regular time it is taken over
    the pairs of samples that are truly one step apart, about 0:
    sum f_i f_j / sqrt(sum f_i^2 sum f_j^2). On irregular time noise is taken to lose its memory as
    exp(-dt / tau): of the pairs of consecutive samples that count, d steps apart,
    rho = exp(-step / tau) minimises sum (f_j - rho^d f_i)^2 (Mudelsee 2002,
    doi:10.1016/S0098-3004(01)00041-3).

    Parameters
    ----------
    problem : Problem
        The batch.
    residual : Tensor
        (n, b), 0 at gaps.
    method : Method
        With the positions of the samples.
    """
    standard = residual * problem.full_weights.sqrt()
    counts = (problem.weights > 0).to(standard.dtype)
    if method.regular:
        value, pairs = _regular(standard, counts, positions(method, standard.device))
    else:
        value, pairs = _irregular(standard, *before(problem.weights > 0, method))
    return torch.where(pairs >= FEWEST_PAIRS, value.clamp(min=0.0), torch.nan)


def effective(nobs: Tensor, rho: Tensor) -> Tensor:
    """Return nobs (1 - rho) / (1 + rho), (b,): as many independent samples would say as much.

    The usual practice for trends of climate (Santer et al. 2008, doi:10.1002/joc.1756). With gaps
    it is on the safe side, since samples further apart are less alike.
    """
    return nobs * (1.0 - rho) / (1.0 + rho)


def before(counts: Tensor, method: Method) -> tuple[Tensor, Tensor]:
    """Return for each sample the one before it, of those of its pixel that count.

    Parameters
    ----------
    counts : Tensor
        (n, b) bool.
    method : Method
        With the positions of the samples.

    Returns
    -------
    index : Tensor
        (n, b) int64 sample before; the sample itself where there is none, or where it does not
        count.
    steps : Tensor
        (n, b) float64 steps of time since then; infinite where there is none.
    """
    position = positions(method, counts.device)
    n, b = counts.shape
    order = position.argsort()
    place = torch.arange(n, device=counts.device)[:, None]
    sorted_counts = counts[order]
    last = torch.where(sorted_counts, place, -1).cummax(0).values
    last = torch.cat([last.new_full((1, b), -1), last[:-1]])
    found = (last >= 0) & sorted_counts
    earlier = order[torch.where(found, last, place)]
    steps = torch.where(found, position[order][:, None] - position[earlier], torch.inf)
    index, out = torch.empty_like(earlier), torch.empty_like(steps)
    index[order], out[order] = earlier, steps
    return index, out


def positions(method: Method, device: torch.device) -> Tensor:
    """Return the position of each sample in time, (n,) float64."""
    return torch.as_tensor(method.position, dtype=torch.float64, device=device)


def _regular(values: Tensor, counts: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """Return correlation and number of pairs one step apart, (b,)."""
    order = position.argsort()
    place = position[order]
    later = torch.searchsorted(place, place + 1).clamp(max=len(place) - 1)
    paired = place[later] == place + 1
    first, second = order[paired], order[later[paired]]
    both = counts[first] * counts[second]
    left, right = values[first] * both, values[second] * both
    norms = (left.square().sum(0) * right.square().sum(0)).sqrt()
    # What is all 0 has nothing in common
    return (left * right).sum(0) / torch.where(norms > 0, norms, 1.0), both.sum(0)


def _irregular(values: Tensor, index: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Return rho and number of pairs of consecutive samples, (b,)."""
    paired = torch.isfinite(steps)
    left = torch.where(paired, values.gather(0, index), 0.0)
    right = torch.where(paired, values, 0.0)
    steps = torch.where(paired, steps, 1.0)

    def rising(rate: Tensor) -> Tensor:
        """Return where the sum of squares rises with the rate of decay, (b,) bool."""
        power = (-rate * steps).exp_()
        return ((right - power * left) * left * power * steps).sum(0) > 0

    count = int(DECADES * PER_DECADE) + 1
    grid = torch.linspace(
        -DECADES / 2, DECADES / 2, count, dtype=values.dtype, device=values.device
    )
    sums = torch.stack(
        [(right - left * (-(10**power) * steps).exp_()).square().sum(0) for power in grid.tolist()]
    )
    middle = grid[sums.argmin(0)]
    low, high = middle - 1 / PER_DECADE, middle + 1 / PER_DECADE
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        up = rising(10**middle)
        low, high = torch.where(up, low, middle), torch.where(up, middle, high)
    return (-(10**low)).exp(), paired.sum(0)
