"""Facts about solved pixels, one function each: a problem and its solution in, a tensor out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from xr_lstsq.solvers.problem import Problem, Solution

__all__ = [
    "NEEDS_FITTED",
    "NEEDS_RESIDUAL",
    "STATISTICS",
    "dof",
    "fitted",
    "residual",
    "rmse",
    "rss",
]


def dof(problem: Problem, solution: Solution) -> Tensor:
    """Return nobs - rank, (b,)."""
    return problem.nobs - solution.rank


def residual(problem: Problem, solution: Solution) -> Tensor:
    """Return y - A x, (n, b), NaN at missing samples."""
    return torch.where(problem.weights > 0, _given(solution.residual), torch.nan)


def fitted(problem: Problem, solution: Solution) -> Tensor:
    """Return A x, (n, b), also at missing samples."""
    del problem
    return _given(solution.fitted)


def rss(problem: Problem, solution: Solution) -> Tensor:
    """Return the sum of w (y - A x)^2 over the samples that count, (b,).

    From the residuals themselves, never as ||y||^2 - ||A x||^2, which loses all digits of a
    close fit.
    """
    return (problem.full_weights * _given(solution.residual).square()).sum(0)


def rmse(problem: Problem, solution: Solution) -> Tensor:
    """Return sqrt(rss / nobs), (b,)."""
    return (rss(problem, solution) / problem.nobs).sqrt()


STATISTICS: dict[str, Callable[[Problem, Solution], Tensor]] = {
    function.__name__: function for function in (dof, rss, rmse, residual, fitted)
}
"""The function of each statistic, by the name of its `Output` row."""
NEEDS_RESIDUAL = frozenset({"rss", "rmse", "residual"})
NEEDS_FITTED = frozenset({"fitted"})


def _given(values: Tensor | None) -> Tensor:
    """Return what the solver was asked to return along."""
    if values is None:
        msg = "the solver was not asked for the values that this statistic needs"
        raise RuntimeError(msg)
    return values
