"""One step of refinement, where an answer needs it: S nearly singular, or a close fit.

Where a fit leaves little of the samples, coefficients much smaller than the samples still have
digits to be right in, and rounding of the large numbers that cancel in them would be seen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.solvers.lane import Begun
from xr_lstsq.solvers.problem import Problem

__all__ = ["refined"]

REFINE_BELOW = 1e-2
"""Eigenvalue of S below which one refinement step is worth its cost (5e-15 above, without)."""
CLOSE_FIT = 1e-4
"""Share of the sum of squares that a fit leaves, below which it is refined."""


def refined(
    problem: Problem, begun: Begun, keep: Tensor, y: Tensor, weights: Tensor, total: Tensor
) -> tuple[Tensor, Tensor]:
    """Return coefficients (p, b) and basis coefficients z (r, b), refined where it matters.

    Parameters
    ----------
    problem : Problem
        The problem.
    begun : Begun
        What the lane found; its z is changed in place.
    keep : Tensor
        (b,) bool, pixels whose answer counts.
    y, weights : Tensor
        (n, b) samples with the root of the shared weights, and the weights of each pixel.
    total : Tensor
        (b,) weighted sum of the squares of the samples.

    Notes
    -----
    The residual and the coefficients are sums of large numbers that cancel, so both are formed from
    products without rounding (see `shared.Split`). In float32 nothing is refined: the samples
    themselves have no more digits.
    """
    design, z = problem.shared_samples, begun.z
    for _ in range(problem.precision.steps):
        residual = weights * (y - design.basis.whole @ z)
        z += begun.system.solve(residual)
    to_coef = design.to_coef.whole
    coef = problem.workspace.empty(problem.p, z.shape[1], dtype=z.dtype)
    torch.mm(to_coef, z, out=coef)
    if z.dtype != torch.float64:
        return coef, z
    close = total - (z * begun.projected).sum(0) < CLOSE_FIT * total
    at = (keep & (close | (begun.smallest <= REFINE_BELOW))).nonzero()[:, 0]
    if not at.numel():
        return coef, z
    system = begun.system
    if at.numel() == z.shape[1]:
        some, left, weights_at = z, y, weights
    else:
        some, left, weights_at = (t.index_select(1, at) for t in (z, y, weights))
        system = system.take(at)
    fit, rest = design.basis.product(some)
    step = system.solve(weights_at * ((left - fit) - rest))
    exact, rest = design.to_coef.product(some)
    coef[:, at] = exact + (rest + to_coef @ step)
    z[:, at] = some + step
    return coef, z
