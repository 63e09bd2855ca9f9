"""The Gram lane: S z = Q'Wy with S = Q'WQ, for any weights; and its limit, no gaps at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers import cholesky
from xr_lstsq.solvers.lane import Begun
from xr_lstsq.solvers.meat import between, meat, outer, scores
from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.solvers.singular import condition
from xr_lstsq.solvers.wanted import Sandwich

__all__ = ["CACHE", "ByGram", "Complete", "Gram"]

CACHE = 2**20
"""Bytes of the right sides that are solved together for variances: what a core keeps near."""


@dataclass(frozen=True)
class Gram:
    """The factorised Gram matrices of a batch of pixels that share a design.

    All of them come from one matrix product: the products of the columns of Q, (r(r+1)/2, n),
    times the weights, (n, b), of which the largest of a pixel is about 1. With S = L L' the
    covariance is T'T with T = L^-1 B+'.
    """

    problem: Problem
    weights: Tensor
    factor: Tensor

    @classmethod
    def of(cls, problem: Problem, weights: Tensor | None = None) -> Gram:
        """Factorise, by weights (n, b) of which the largest of a pixel is about 1."""
        weights = problem.normalised_weights() if weights is None else weights
        r, b = problem.shared.basis.whole.shape[1], weights.shape[1]
        out = problem.workspace.empty(r * (r + 1) // 2, b, dtype=problem.precision.systems)
        packed = _packed(problem.shared_systems, weights.to(out.dtype), out)
        return cls(problem, weights, cholesky.factorise(packed, r))

    @classmethod
    def begin(cls, problem: Problem, weights: Tensor, weighted: Tensor) -> Begun:
        """Factorise and solve for (n, b) weights, of which the largest of a pixel is about 1."""
        gram = cls.of(problem, weights)
        projected = problem.project(weighted)
        both = problem.workspace.empty(gram.size, 2, weights.shape[1], dtype=gram.factor.dtype)
        z, smallest = cholesky.solve_and_judge(gram.factor, projected, both)
        return Begun(gram, z, projected, smallest)

    @property
    def design(self) -> Shared:
        """The design in the dtype of the samples."""
        return self.problem.shared_samples

    @property
    def size(self) -> int:
        """The rank of the design."""
        return self.design.basis.whole.shape[1]

    def solve(self, weighted: Tensor) -> Tensor:
        """Return z (r, b) for weighted samples (n, b), 0 at gaps."""
        return cholesky.solve(self.factor, self.design.basis.whole.T @ weighted)

    def take(self, pixels: Tensor) -> Gram:
        """Return the matrices of some pixels."""
        return Gram(
            self.problem.take(pixels),
            self.weights.index_select(1, pixels),
            self.factor.index_select(1, pixels),
        )

    def variance(self) -> Tensor:
        """Return the diagonal of (A'WA)+, (p, b)."""
        to_coef, order, starts = self.design.columns_by_start
        p, r = to_coef.shape
        b, dtype = self.factor.shape[1], self.factor.dtype
        out = self.problem.workspace.empty(p, b, dtype=dtype)
        group = max(1, CACHE // max(1, r * b * dtype.itemsize))
        half = self.problem.workspace.empty(r, min(group, p), b, dtype=dtype)
        for low in range(0, p, group):
            high = min(p, low + group)
            first = starts[low]
            some = half[first:, : high - low]
            some.copy_(to_coef[low:high, first:].T[:, :, None])
            cholesky.forward(self.factor, r, some, starts[low:high])
            out[list(order[low:high])] = some.mul_(some).sum(0)
        return self.problem.unnormalised(out)

    def covariance(self) -> Tensor:
        """Return (A'WA)+, (p, p, b)."""
        half = cholesky.forward(self.factor, self.size, self._sides())
        return self.problem.unnormalised(outer(half))

    def leverage(self) -> Tensor:
        """Return the diagonal of the hat matrix, w_i q_i' S^-1 q_i, (n, b)."""
        basis = self.design.basis.whole
        inverse = cholesky.inverse(self.factor, self.size)
        total = torch.zeros_like(self.weights)
        for k in range(self.size):
            # The triangle once, since S^-1 is symmetric
            share = inverse[k, k:].clone()
            share[1:] *= 2
            total.addcmul_(basis[:, k : k + 1], basis[:, k:] @ share)
        return total.mul_(self.weights)

    def cond(self) -> Tensor:
        """Return the condition of the weighted rows with columns of unit norm, (b,)."""
        design = self.design
        if self.size < design.plain.shape[1]:
            return torch.full_like(self.factor[0], torch.inf)
        # W^(1/2) Q has the singular values of L', and A = Q B
        triangle = cholesky.times_factor(self.factor, self.size, design.basis.whole.T @ design.rows)
        return condition(triangle)

    def constant(self) -> Tensor:
        """Return the share of a constant that no x can fit, (b,)."""
        return _unfitted_constant(self.problem, self.weights, self.solve)

    def sandwich(self, sandwich: Sandwich, residual: Tensor) -> Tensor:
        """Return the robust covariance, (p, p, b)."""
        problem, design = self.problem, self.design
        weighted = residual * self.weights * design.root_weights[:, None]
        of_samples = scores(sandwich, problem, weighted, self.leverage, self.size)
        middle = meat(design.basis.whole, of_samples, sandwich.kernel)
        # The scale of the weights cancels
        return between(cholesky.solve(self.factor, self._sides()), middle)

    def _sides(self) -> Tensor:
        """Return B+' as right sides of each pixel, (r, p, b), to be written over."""
        return self.design.to_coef.whole.T[:, :, None].repeat(1, 1, self.factor.shape[1])


class ByGram(ABC):
    """Facts that any lane of 0/1 weights and a shared design reads from Gram matrices."""

    problem: Problem

    @abstractmethod
    def solve(self, weighted: Tensor) -> Tensor:
        """Return z (r, b) for samples (n, b), 0 at gaps."""

    def constant(self) -> Tensor:
        """Return the share of a constant that no x can fit, (b,)."""
        return _unfitted_constant(self.problem, self.problem.weights, self.solve)

    def leverage(self) -> Tensor:
        """Return the diagonal of the hat matrix, (n, b)."""
        return Gram.of(self.problem).leverage()

    def cond(self) -> Tensor:
        """Return the condition of the weighted rows with columns of unit norm, (b,)."""
        return Gram.of(self.problem).cond()

    def sandwich(self, sandwich: Sandwich, residual: Tensor) -> Tensor:
        """Return the robust covariance, (p, p, b)."""
        return Gram.of(self.problem).sandwich(sandwich, residual)


@dataclass(frozen=True)
class Complete(ByGram):
    """Pixels without gaps: S is the identity."""

    problem: Problem

    @classmethod
    def begin(cls, problem: Problem, flags: Tensor, y: Tensor) -> Begun:
        """Solve for samples (n, b)."""
        del flags
        z = problem.project(y)
        return Begun(cls(problem), z, z, torch.ones_like(y[0]))

    def solve(self, y: Tensor) -> Tensor:
        """Return z (r, b) for samples (n, b)."""
        return self.problem.shared_samples.basis.whole.T @ y

    def take(self, pixels: Tensor) -> Complete:
        """Return some of the pixels."""
        return Complete(self.problem.take(pixels))

    def variance(self) -> Tensor:
        """Return the diagonal of (A'A)+, (p, b)."""
        to_coef = self.problem.shared_samples.to_coef.whole
        return to_coef.square().sum(1)[:, None].expand(-1, self.problem.y.shape[1])

    def covariance(self) -> Tensor:
        """Return (A'A)+, (p, p, b)."""
        to_coef = self.problem.shared_samples.to_coef.whole
        return (to_coef @ to_coef.T)[:, :, None].expand(-1, -1, self.problem.y.shape[1])


def _unfitted_constant(
    problem: Problem, weights: Tensor, solve: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return the share of a constant that no x can fit, (b,).

    Parameters
    ----------
    problem : Problem
        With a shared design.
    weights : Tensor
        (n, b), up to a factor for each pixel.
    solve : callable
        As `System.solve`.
    """
    design = problem.shared_samples
    one = problem.one() * design.root_weights[:, None]
    weighted = weights * one
    left = one - design.basis.whole @ solve(weighted)
    return (weights * left.square()).sum(0) / (weighted * one).sum(0)


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
