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
    weights = problem.normalised_weights()
    scale = torch.stack([(weights * design[:, j].square()).sum(0) for j in range(p)]).sqrt()
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
    coef, smallest = cholesky.solve_and_judge(factor, project(weights * problem.y))
    coef = coef / scale
    keep = smallest > SAFE_EIGENVALUE  # not where it is NaN
    at = (keep & (smallest <= REFINE_BELOW)).nonzero()[:, 0]
    if at.numel():
        left = weights * (problem.y - evaluate(coef))
        step = cholesky.solve(factor, project(left)) / scale
        coef[:, at] += step.index_select(1, at)
    rank = torch.full_like(problem.nobs, p)
    return Kept(coef, rank, keep, evaluate(coef) if fit else None)
