"""A design per pixel: normal equations on unit-norm columns, where they are safe."""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.solvers import cholesky
from xr_lstsq.solvers.close_fit import REFINE_BELOW
from xr_lstsq.solvers.factor import SAFE_EIGENVALUE
from xr_lstsq.solvers.lane import Kept
from xr_lstsq.solvers.problem import Problem

__all__ = ["solve_own"]


def solve_own(problem: Problem, fit: bool) -> Kept:
    """Solve pixels that have a design each, keeping those whose Gram matrix is safe.

    Parameters
    ----------
    problem : Problem
        With rows (n, p, b).
    fit : bool
        Whether fitted values are asked for.
    """
    design = problem.design
    assert isinstance(design, Tensor)
    p = design.shape[1]
    least = torch.finfo(design.dtype).tiny ** 0.4  # whose square has all its digits
    weights = problem.normalised_weights()
    scale = torch.stack([(weights * design[:, j].square()).sum(0) for j in range(p)]).sqrt()
    in_range = ((scale > least) & (scale < 1 / least)).all(0)
    scale = torch.where(scale > 0, scale, 1.0)
    low, high = cholesky.pack_order(p)
    packed = torch.stack(
        [
            (weights * design[:, i] * design[:, j]).sum(0) / (scale[i] * scale[j])
            for i, j in zip(low, high, strict=True)
        ]
    )
    product = torch.empty_like(problem.y)

    def project(values: Tensor) -> Tensor:
        for j in range(p):
            torch.mul(values, design[:, j], out=product)
            rhs[j] = product.sum(0) / scale[j]
        return rhs

    def evaluate(coef: Tensor) -> Tensor:
        total = design[:, 0] * coef[0]
        for j in range(1, p):
            total.addcmul_(design[:, j], coef[j])
        return total

    rhs = torch.empty(p, problem.y.shape[1], dtype=problem.y.dtype, device=problem.y.device)
    factor = cholesky.factorise(packed, p)
    both = torch.empty(p, 2, problem.y.shape[1], dtype=problem.y.dtype, device=problem.y.device)
    coef, smallest = cholesky.solve_and_judge(factor, project(weights * problem.y), both)
    coef = coef / scale
    # not where it is NaN
    keep = in_range & (smallest > max(SAFE_EIGENVALUE, problem.precision.trusted))
    at = (keep & (smallest <= REFINE_BELOW)).nonzero()[:, 0]
    if at.numel() and coef.dtype == torch.float64:
        left = weights * (problem.y - evaluate(coef))
        step = cholesky.solve(factor, project(left)) / scale
        coef[:, at] += step.index_select(1, at)
    rank = torch.full_like(problem.nobs, p)
    return Kept(coef, rank, keep, evaluate(coef) if fit else None)
