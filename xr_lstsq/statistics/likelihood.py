"""Likelihood of normal noise, and criteria made of it; params counted as statsmodels does."""

from __future__ import annotations

from torch import Tensor

from xr_lstsq.statistics.solved import Solved

__all__ = ["aic", "bic", "loglik"]


def loglik(solved: Solved) -> Tensor:
    """Return -nobs/2 (log(2 pi) + log(rss/nobs) + 1) + 1/2 sum log w, (b,).

    Modelled noise adds the logarithm of the determinant of its whitening.
    """
    return solved.loglik


def aic(solved: Solved) -> Tensor:
    """Return -2 loglik + 2 rank, (b,)."""
    return -2 * solved.loglik + 2 * solved.solution.rank


def bic(solved: Solved) -> Tensor:
    """Return -2 loglik + log(nobs) rank, (b,)."""
    nobs = solved.problem.nobs.to(solved.rss.dtype)
    return -2 * solved.loglik + nobs.log() * solved.solution.rank
