"""The Gram lane: S z = Q'Wy with S = Q'WQ, for any weights; and its limit, no gaps at all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers import cholesky
from xr_lstsq.solvers.lane import Begun
from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.shared import Shared

__all__ = ["Complete", "Gram"]


@dataclass(frozen=True)
class Gram:
    """The factorised Gram matrices of a batch of pixels that share a design.

    All of them come from one matrix product: the products of the columns of Q, (r(r+1)/2, n),
    times the weights, (n, b).
    """

    design: Shared
    factor: Tensor

    @classmethod
    def begin(cls, problem: Problem, weights: Tensor, weighted: Tensor) -> Begun:
        """Factorise and solve for (n, b) weights, of which the largest of a pixel is about 1."""
        design, workspace = problem.shared_samples, problem.workspace
        r, b = design.basis.whole.shape[1], weights.shape[1]
        out = workspace.empty(r * (r + 1) // 2, b, dtype=problem.precision.systems)
        factor = cholesky.factorise(_packed(problem.shared_systems, weights.to(out.dtype), out), r)
        projected = problem.project(weighted)
        both = workspace.empty(r, 2, b, dtype=out.dtype)
        z, smallest = cholesky.solve_and_judge(factor, projected, both)
        return Begun(cls(design, factor), z, projected, smallest)

    def solve(self, weighted: Tensor) -> Tensor:
        """Return z (r, b) for weighted samples (n, b), 0 at gaps."""
        return cholesky.solve(self.factor, self.design.basis.whole.T @ weighted)

    def take(self, pixels: Tensor) -> Gram:
        """Return the matrices of some pixels."""
        return Gram(self.design, self.factor.index_select(1, pixels))


@dataclass(frozen=True)
class Complete:
    """Pixels without gaps: S is the identity."""

    design: Shared

    @classmethod
    def begin(cls, problem: Problem, flags: Tensor, y: Tensor) -> Begun:
        """Solve for samples (n, b)."""
        del flags
        design = problem.shared_samples
        z = problem.project(y)
        return Begun(cls(design), z, z, torch.ones_like(y[0]))

    def solve(self, y: Tensor) -> Tensor:
        """Return z (r, b) for samples (n, b)."""
        return self.design.basis.whole.T @ y

    def take(self, pixels: Tensor) -> Complete:
        """Return some of the pixels."""
        del pixels
        return self


def _packed(design: Shared, weights: Tensor, out: Tensor) -> Tensor:
    """Write all S of a batch, (r(r+1)/2, b) packed, column by column where Q is too large."""
    if design.products.numel():
        return torch.mm(design.products, weights, out=out)
    basis = design.basis.whole
    r = basis.shape[1]
    for k in range(r):
        products = basis[:, k:] * basis[:, k : k + 1]
        torch.mm(products.T, weights, out=out[cholesky.column(r, k)])
    return out
