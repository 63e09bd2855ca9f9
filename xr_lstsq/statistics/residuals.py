"""Statistics of residuals and samples."""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.statistics.solved import Solved

__all__ = [
    "cond",
    "dof",
    "fitted",
    "leverage",
    "n_eff",
    "resid_std",
    "residual",
    "rho",
    "rmse",
    "rss",
    "temporal_coherence",
]


def dof(solved: Solved) -> Tensor:
    """Return nobs - rank, or n_eff - rank, (b,)."""
    return solved.dof


def rss(solved: Solved) -> Tensor:
    """Return the sum of w (y - A x)^2 over the samples that count, (b,)."""
    return solved.rss


def rmse(solved: Solved) -> Tensor:
    """Return sqrt(rss / nobs), (b,)."""
    return (solved.rss / solved.problem.nobs).sqrt()


def resid_std(solved: Solved) -> Tensor:
    """Return sqrt(rss / dof), (b,); NaN without degrees of freedom."""
    return solved.scale.sqrt()


def residual(solved: Solved) -> Tensor:
    """Return y - A x, (n, b), NaN at missing samples."""
    if solved.whitened is not None:
        problem = solved.whitened.problem
        values = problem.y - problem.evaluate(solved.solution.coef)
        return torch.where(problem.weights > 0, values, torch.nan)
    values = solved.solution.facts["residual"]
    return torch.where(solved.problem.weights > 0, values, torch.nan)


def fitted(solved: Solved) -> Tensor:
    """Return A x, (n, b), also at missing samples."""
    if solved.whitened is not None:
        return solved.whitened.problem.evaluate(solved.solution.coef)
    return solved.solution.facts["fitted"]


def leverage(solved: Solved) -> Tensor:
    """Return the diagonal of the hat matrix of the weighted rows, (n, b), NaN at gaps."""
    return torch.where(solved.problem.weights > 0, solved.solution.facts["leverage"], torch.nan)


def cond(solved: Solved) -> Tensor:
    """Return the condition of the weighted rows with columns of unit norm, (b,)."""
    return solved.solution.facts["cond"]


def temporal_coherence(solved: Solved) -> Tensor:
    """Return |mean of exp(i e)| over the samples that count, unweighted, (b,).

    For phases in radians (Pepe and Lanari 2006, IEEE TGRS 44, 2374-2383,
    doi:10.1109/TGRS.2006.873207).
    """
    angle = residual(solved)
    parts = [torch.nansum(wave(angle), 0) for wave in (torch.cos, torch.sin)]
    return torch.hypot(*parts) / solved.problem.nobs


def rho(solved: Solved) -> Tensor:
    """Return the autocorrelation of residuals one step of time apart, (b,)."""
    return solved.rho


def n_eff(solved: Solved) -> Tensor:
    """Return the effective number of samples, nobs (1 - rho) / (1 + rho), (b,)."""
    return solved.n_eff
