"""The Gram lane: S z = Q'Wy with S = Q'WQ, for any weights; and its limit, no gaps at all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers import cholesky
from xr_lstsq.solvers.lane import Begun
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
    def begin(cls, design: Shared, weights: Tensor, weighted: Tensor) -> Begun:
        """Factorise and solve for (n, b) weights, of which the largest of a pixel is about 1."""
        factor = cholesky.factorise(_packed(design, weights), design.basis.whole.shape[1])
        projected = design.basis.whole.T @ weighted
        z, smallest = cholesky.solve_and_judge(factor, projected)
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
    def begin(cls, design: Shared, y: Tensor) -> Begun:
        """Solve for samples (n, b)."""
        z = design.basis.whole.T @ y
        return Begun(cls(design), z, z, y.new_ones(y.shape[1]))

    def solve(self, y: Tensor) -> Tensor:
        """Return z (r, b) for samples (n, b)."""
        return self.design.basis.whole.T @ y

    def take(self, pixels: Tensor) -> Complete:
        """Return some of the pixels."""
        del pixels
        return self


def _packed(design: Shared, weights: Tensor) -> Tensor:
    """Return all S of a batch, (r(r+1)/2, b) packed, column by column where Q is too large."""
    if design.products.numel():
        return design.products @ weights
    basis = design.basis.whole
    r = basis.shape[1]
    packed = weights.new_empty(r * (r + 1) // 2, weights.shape[1])
    for k in range(r):
        products = basis[:, k:] * basis[:, k : k + 1]
        torch.mm(products.T, weights, out=packed[cholesky.column(r, k)])
    return packed
