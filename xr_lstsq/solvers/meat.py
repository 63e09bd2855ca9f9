"""The middle of a robust covariance: sums over pairs of samples of a pixel."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.wanted import Sandwich

__all__ = ["between", "meat", "outer", "scores"]

FULL_LEVERAGE = 1e-10
"""1 - h below which a sample's own residual is 0 whatever its value: nothing is known of it."""


def scores(
    sandwich: Sandwich,
    problem: Problem,
    weighted: Tensor,
    leverage: Callable[[], Tensor],
    rank: int | Tensor,
) -> Tensor:
    """Return weighted residuals (n, b) as the kind of covariance takes them.

    Parameters
    ----------
    sandwich : Sandwich
        Which.
    problem : Problem
        The batch.
    weighted : Tensor
        (n, b) residuals times weights, or their roots; 0 at gaps. Overwritten.
    leverage : callable
        Returns the leverage (n, b); called where the kind needs it.
    rank : int or Tensor
        Of the design on them.
    """
    if sandwich.kind == "HC1":
        ratio = problem.nobs.to(weighted.dtype) / (problem.nobs - rank)
        return weighted.mul_(ratio.sqrt())
    if not sandwich.power:
        return weighted
    left = 1.0 - leverage()
    left = torch.where(left > FULL_LEVERAGE, left, torch.nan)
    raised = left.sqrt() if sandwich.power == 0.5 else left
    return torch.where(problem.weights == 0, 0.0, weighted / raised)


def meat(rows: Tensor, scores: Tensor, kernel: Tensor | None) -> Tensor:
    """Return M = sum_ij k_ij s_i s_j q_i q_j', (r, r, b).

    Parameters
    ----------
    rows : Tensor
        (n, r) q of all pixels, or (n, r, b) of each.
    scores : Tensor
        (n, b) s.
    kernel : Tensor or None
        (n, n) k; None means the identity.
    """
    r, b = rows.shape[1], scores.shape[1]
    out = scores.new_empty(r, r, b)
    for k in range(r):
        column = rows[:, k, None] if rows.ndim == 2 else rows[:, k]
        seen = scores * column
        if kernel is not None:
            seen = kernel.to(seen.dtype) @ seen
        seen *= scores
        if rows.ndim == 2:
            torch.mm(rows.T, seen, out=out[k])
        else:
            for j in range(r):
                torch.sum(rows[:, j] * seen, dim=0, out=out[k, j])
    return out


def between(left: Tensor, middle: Tensor) -> Tensor:
    """Return X' M X, (p, p, b), of (r, p, b) X and (r, r, b) M."""
    r = middle.shape[0]
    right = torch.stack([(middle[k, :, None] * left).sum(0) for k in range(r)])
    return torch.stack([(left[:, j, None] * right).sum(0) for j in range(left.shape[1])])


def outer(half: Tensor) -> Tensor:
    """Return T' T, (p, p, b), of (k, p, b) T."""
    return torch.stack([(half[:, j, None] * half).sum(0) for j in range(half.shape[1])])
