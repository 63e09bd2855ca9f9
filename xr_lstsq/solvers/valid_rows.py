"""Pixels with no more valid samples than the design has rank: interpolated from those samples.

With K = A A' of rows of unit norm, restricted to the valid rows v, the shortest x with A_v x = y_v
is x = A_v' K_vv^-1 y_v: a system as large as the samples that are left. It squares the condition of
the rows, so one refinement step follows, x += A_v' K_vv^-1 (y_v - A_v x).
"""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.solvers.factor import SAFE_EIGENVALUE
from xr_lstsq.solvers.interpolated import Interpolated
from xr_lstsq.solvers.lane import Kept
from xr_lstsq.solvers.missing_system import Gaps
from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.wanted import Wanted

__all__ = ["interpolate_valid"]

FAR_FROM_SHORT = 100.0
"""How far above the cut-off of the rank the singular values of the rows must surely lie."""


def interpolate_valid(problem: Problem, wanted: Wanted) -> Kept:
    """Solve pixels with no more samples than the rank of the design.

    Pixels whose rows could have a rank below their number are not kept.
    """
    design, nobs, workspace = problem.shared_samples, problem.nobs, problem.workspace
    y, dtype = problem.scaled_samples(), problem.precision.samples
    valid = Gaps.of(1.0 - problem.weights, nobs, workspace)
    factors = valid.factorise(problem.shared_systems.row_products)
    scale = design.row_scale[:, None]
    smallest = torch.ones_like(y[0], dtype=problem.precision.systems)

    def invert(values: Tensor, smallest: Tensor | None = None) -> Tensor:
        rhs = workspace.empty(values.shape[0] + 1, values.shape[1], dtype=dtype)
        torch.mul(values, scale, out=rhs[:-1])  # read at valid rows only
        return valid.solve(factors, rhs, smallest).mul_(scale)

    coef = design.rows.T @ invert(y, smallest)
    for _ in range(max(1, problem.precision.steps)):
        coef += design.rows.T @ invert(y - design.rows @ coef)
    # The rank rule sees rows of their own size on columns of unit norm. Its smallest singular value
    # is at least that of unit rows times the smallest row, over the largest column; its largest
    # singular value is at most sqrt(p).
    limit = FAR_FROM_SHORT * problem.cutoffs() * design.row_spread
    keep = smallest > max(SAFE_EIGENVALUE, problem.precision.trusted, wanted.least_eigenvalue)
    keep &= smallest > limit.square() * (nobs * problem.p)
    return Kept(coef, nobs, keep, Interpolated(problem, wanted, invert), (design.plain, coef))
