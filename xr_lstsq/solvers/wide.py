"""Designs of full row rank, with no more samples than params: every pixel is interpolated.

Two forms of one answer, the shortest x with A_v x = y_v. With few gaps m, from the shared inverse
G = (AA')^-1: G_mm t = (G y0)_m and x = A+(y0 - t). Both A A' and its inverse are those of rows of
unit norm. This squares the condition of the rows, which the pivots cannot see, so it is used only
for designs whose A A' is well conditioned.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.solvers.interpolated import Interpolated
from xr_lstsq.solvers.lane import Kept
from xr_lstsq.solvers.missing_system import Gaps
from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.wanted import Wanted

__all__ = ["interpolate"]


def interpolate(problem: Problem, wanted: Wanted) -> Kept:
    """Solve pixels that share a design of rank r = n."""
    at_systems, precise = problem.shared_systems.wide, problem.shared_samples.wide
    assert at_systems is not None
    assert precise is not None
    workspace, samples = problem.workspace, problem.precision.samples
    gaps = Gaps.of(problem.weights, problem.missing, workspace)
    factors = gaps.factorise(at_systems.inverse)
    rows, row_scale = problem.shared_samples.rows, problem.shared_samples.row_scale[:, None]

    def fill(values: Tensor) -> tuple[Tensor, Tensor]:
        """Return scaled values that are 0 at gaps after G, and memory for one row more."""
        scaled = torch.mul(values, row_scale, out=workspace.empty(*values.shape, dtype=samples))
        rhs = workspace.empty(values.shape[0] + 1, values.shape[1], dtype=samples)
        # Not refined by the residual: A x = y0 - t holds at valid samples whatever t is
        for _ in range(1 + problem.precision.steps):
            torch.mm(precise.inverse, scaled, out=rhs[:-1])
            scaled.sub_(gaps.solve(factors, rhs))
        return scaled, rhs

    def invert(values: Tensor) -> Tensor:
        scaled, rhs = fill(values)
        torch.mm(precise.inverse, scaled, out=rhs[:-1])
        return rhs[:-1].mul_(row_scale).mul_(problem.weights)

    y = problem.scaled_samples()
    coef = workspace.empty(problem.p, y.shape[1], dtype=samples)
    if precise.refine:  # a sum of valid rows alone, so that the residual says what it lacks
        torch.mm(rows.T, invert(y), out=coef)
        coef += rows.T @ invert((y - rows @ coef) * problem.weights)
    else:
        torch.mm(precise.to_coef, fill(y)[0], out=coef)
    keep = torch.ones_like(problem.nobs, dtype=torch.bool)
    inverse = Interpolated(problem, wanted, invert)
    return Kept(coef, problem.nobs, keep, inverse, (problem.shared_samples.plain, coef))
