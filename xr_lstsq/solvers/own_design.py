"""A design per pixel: normal equations on unit-norm columns, where they are safe."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers import cholesky
from xr_lstsq.solvers.close_fit import REFINE_BELOW
from xr_lstsq.solvers.factor import SAFE_EIGENVALUE
from xr_lstsq.solvers.lane import Kept
from xr_lstsq.solvers.meat import between, meat, scores
from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.singular import condition
from xr_lstsq.solvers.wanted import Sandwich, Wanted

__all__ = ["solve_own"]


@dataclass(frozen=True)
class Own:
    """The factorised normal equations of a batch of pixels with a design each.

    Attributes
    ----------
    problem : Problem
        The batch.
    weights : Tensor
        (n, b), of which the largest of a pixel is about 1.
    scale : Tensor
        (p, b) norms of the weighted columns.
    factor : Tensor
        (p(p+1)/2, b) of the Gram matrices of unit columns.
    """

    problem: Problem
    weights: Tensor
    scale: Tensor
    factor: Tensor

    def variance(self) -> Tensor:
        """Return the diagonal of (A'WA)+, (p, b)."""
        return torch.diagonal(self.covariance(), dim1=0, dim2=1).T

    def covariance(self) -> Tensor:
        """Return (A'WA)+, (p, p, b)."""
        return self.problem.unnormalised(self._inverse())

    def leverage(self) -> Tensor:
        """Return the diagonal of the hat matrix, (n, b)."""
        design, inverse = _rows(self.problem), self._inverse()
        total = torch.zeros_like(self.weights)
        for k in range(design.shape[1]):
            total.addcmul_(design[:, k], self.problem.evaluate(inverse[k]))
        return total.mul_(self.weights)

    def cond(self) -> Tensor:
        """Return the condition of the weighted rows with columns of unit norm, (b,)."""
        p = self.scale.shape[0]
        eye = torch.eye(p, dtype=self.factor.dtype, device=self.factor.device)
        return condition(cholesky.times_factor(self.factor, p, eye))

    def constant(self) -> Tensor:
        """Return the share of a constant that no x can fit, (b,)."""
        problem, design = self.problem, _rows(self.problem)
        one = problem.one()
        weighted = self.weights * one
        rhs = torch.stack([(design[:, j] * weighted).sum(0) for j in range(design.shape[1])])
        coef = cholesky.solve(self.factor, rhs / self.scale) / self.scale
        left = one - problem.evaluate(coef)
        return (self.weights * left.square()).sum(0) / (weighted * one).sum(0)

    def sandwich(self, sandwich: Sandwich, residual: Tensor) -> Tensor:
        """Return the robust covariance, (p, p, b)."""
        problem, design = self.problem, _rows(self.problem)
        weighted = residual * self.weights
        of_samples = scores(sandwich, problem, weighted, self.leverage, design.shape[1])
        middle = meat(design, of_samples, sandwich.kernel)
        return between(self._inverse(), middle)

    def _inverse(self) -> Tensor:
        """Return the inverse for weights of which the largest is about 1, (p, p, b)."""
        inverse = cholesky.inverse(self.factor, self.scale.shape[0])
        return inverse.div_(self.scale).div_(self.scale[:, None])


def _rows(problem: Problem) -> Tensor:
    """Return the design of each pixel, (n, p, b)."""
    assert isinstance(problem.design, Tensor)
    return problem.design


def solve_own(problem: Problem, wanted: Wanted) -> Kept:
    """Solve pixels that have a design each, keeping those whose Gram matrix is safe.

    Parameters
    ----------
    problem : Problem
        With rows (n, p, b).
    wanted : Wanted
        What will be asked of the answer.
    """
    design = _rows(problem)
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
    limit = max(SAFE_EIGENVALUE, problem.precision.trusted, wanted.least_eigenvalue)
    # not where it is NaN
    keep = in_range & (smallest > limit)
    at = (keep & (smallest <= REFINE_BELOW)).nonzero()[:, 0]
    if at.numel() and coef.dtype == torch.float64:
        left = weights * (problem.y - evaluate(coef))
        step = cholesky.solve(factor, project(left)) / scale
        coef[:, at] += step.index_select(1, at)
    rank = torch.full_like(problem.nobs, p)
    inverse = Own(problem, weights, scale, factor)
    return Kept(coef, rank, keep, inverse, evaluate=lambda: evaluate(coef))
