"""Covariances of pixels that their own samples determine exactly, with no sample to spare.

Their degrees of freedom are 0, so that nothing is known of the variance of a sample, unless its
weight says so. With A_v of full row rank the pseudo-inverse is A_v' (A_v A_v')^-1, whose row of
param j is u_j = (A_v A_v')^-1 a_j, with a_j the valid samples of column j: one system a param.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.singular import condition
from xr_lstsq.solvers.wanted import Sandwich, Wanted

__all__ = ["Interpolated"]


@dataclass(frozen=True)
class Interpolated:
    """The pseudo-inverses of a batch of pixels of full row rank.

    Attributes
    ----------
    problem : Problem
        The batch.
    wanted : Wanted
        Whether variances are of use at all.
    invert : callable
        Takes samples (n, b), 0 at gaps, to (A_v A_v')^-1 times them, 0 at gaps.
    """

    problem: Problem
    wanted: Wanted
    invert: Callable[[Tensor], Tensor]

    def variance(self) -> Tensor:
        """Return the diagonal of (A'A)+ of the valid rows, (p, b)."""
        if not self.wanted.without_dof:
            return self._nothing()
        return torch.stack([self._row(j).square().sum(0) for j in range(self.problem.p)])

    def covariance(self) -> Tensor:
        """Return (A'A)+ of the valid rows, (p, p, b)."""
        if not self.wanted.without_dof:
            return self._nothing(self.problem.p)
        # u_i' u_j = a_i' (A_v A_v')^-1 u_j, so that one row at a time is held
        rows = self.problem.shared_samples.rows
        return torch.stack([rows.T @ self.invert(self._row(j)) for j in range(self.problem.p)])

    def leverage(self) -> Tensor:
        """Return the diagonal of the hat matrix: 1, since the fit goes through every sample."""
        return torch.ones_like(self.problem.y)

    def cond(self) -> Tensor:
        """Return the condition: infinite but for as many samples as params."""
        problem = self.problem
        out = problem.y.new_full((problem.y.shape[1],), torch.inf)
        square = (problem.nobs == problem.p).nonzero()[:, 0]
        if square.numel():
            # Of the rows themselves: A'A has the square of their condition
            counts = problem.weights.index_select(1, square).T > 0
            index = counts.nonzero()[:, 1].view(-1, problem.p)
            rows = problem.shared_samples.rows[index].permute(1, 2, 0)
            out[square] = condition(rows)
        return out

    def constant(self) -> Tensor:
        """Return the share of a constant that no x can fit: 0, since every sample is fitted."""
        return torch.zeros_like(self.problem.y[0])

    def sandwich(self, sandwich: Sandwich, residual: Tensor) -> Tensor:
        """Return NaN, (p, p, b): residuals of 0 say nothing."""
        del sandwich, residual
        return self._nothing(self.problem.p)

    def _row(self, j: int) -> Tensor:
        """Return row j of each pseudo-inverse, (n, b)."""
        column = self.problem.shared_samples.rows[:, j, None]
        return self.invert(column * self.problem.weights)

    def _nothing(self, *more: int) -> Tensor:
        """Return NaN of the shape (p, *more, b)."""
        return self.problem.y.new_full((self.problem.p, *more, 1), torch.nan).expand(
            *(self.problem.p, *more), self.problem.y.shape[1]
        )
