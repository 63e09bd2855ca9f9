"""Likelihood of normal noise, and criteria made of it; params counted as statsmodels does."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from xr_lstsq.statistics.solved import Solved

__all__ = ["aic", "bic", "loglik"]


def loglik(solved: Solved) -> Tensor:
    """Return -nobs/2 (log(2 pi) + log(rss/nobs) + 1) + 1/2 sum log w, (b,).

    The variance is the one that makes it largest, rss / nobs. Modelled noise adds the logarithm of
    the determinant of its whitening.
    """
    nobs = solved.problem.nobs
    value = -nobs / 2 * (math.log(2 * math.pi) + (solved.rss / nobs).log() + 1)
    if solved.whitened is not None:
        return value + solved.whitened.log_determinant
    if solved.plain:
        return value
    weights = solved.weights
    return value + torch.where(weights > 0, weights, 1.0).log().sum(0) / 2


def aic(solved: Solved) -> Tensor:
    """Return -2 loglik + 2 rank, (b,)."""
    return -2 * loglik(solved) + 2 * solved.solution.rank


def bic(solved: Solved) -> Tensor:
    """Return -2 loglik + log(nobs) rank, (b,)."""
    return (
        -2 * loglik(solved) + solved.problem.nobs.to(solved.rss.dtype).log() * solved.solution.rank
    )
