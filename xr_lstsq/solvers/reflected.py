"""The rank-revealing lane: pixels by reflectors; those with equal gaps share a factorisation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers.lane import Kept
from xr_lstsq.solvers.meat import meat, outer, scores
from xr_lstsq.solvers.minimum_norm import MinimumNorm
from xr_lstsq.solvers.powers import power_of_two
from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.solvers.wanted import Sandwich

__all__ = ["solve_reflected"]


def solve_reflected(problem: Problem) -> Kept:
    """Solve pixels of any rank, in float64."""
    root = problem.weights.sqrt()
    cutoffs = problem.cutoffs()
    pattern = None
    if isinstance(problem.design, Shared):
        y = problem.scaled_samples() * root
        if problem.flags:
            first, pattern = _patterns(problem.weights)
            root, cutoffs = root.index_select(1, first), cutoffs.index_select(0, first)
        rows = problem.design.rows[:, :, None] * root[:, None]
    else:
        y = problem.y * root
        rows = problem.design * root[:, None]
    system = MinimumNorm.of(rows, cutoffs, pattern)
    coef, weighted = system.solve(y)
    rank = system.take(system.rank)

    def fitted() -> Tensor:
        counts = problem.weights > 0
        residual = torch.where(counts, weighted / problem.full_weights.sqrt(), 0.0)
        return torch.where(counts, problem.y - residual, problem.evaluate(coef))

    keep = torch.ones_like(rank, dtype=torch.bool)
    return Kept(coef, rank, keep, Reflections(problem, system), evaluate=fitted)


@dataclass(frozen=True)
class Reflections:
    """Covariances by the factors of the weighted rows, A_w = Q B and A_w+ = C Q'."""

    problem: Problem
    system: MinimumNorm

    def variance(self) -> Tensor:
        """Return the diagonal of (A'WA)+ = C C', (p, b)."""
        return self.system.take(self.system.maps().square().sum(1))

    def covariance(self) -> Tensor:
        """Return (A'WA)+, (p, p, b)."""
        return self.system.take(outer(self.system.maps().transpose(0, 1)))

    def leverage(self) -> Tensor:
        """Return the diagonal of Q Q', (n, b)."""
        return self.system.take(self.system.directions().square().sum(1))

    def cond(self) -> Tensor:
        """Return the condition of the weighted rows with columns of unit norm, (b,)."""
        return self.system.take(self.system.cond)

    def constant(self) -> Tensor:
        """Return the share of a constant that no x can fit, (b,)."""
        one = self.problem.one() * self.problem.full_weights.sqrt()
        _, left = self.system.solve(one)
        return left.square().sum(0) / one.square().sum(0)

    def sandwich(self, sandwich: Sandwich, residual: Tensor) -> Tensor:
        """Return the robust covariance, (p, p, b)."""
        problem, system = self.problem, self.system
        weighted = residual * problem.full_weights.sqrt()
        rank = system.take(system.rank)
        of_samples = scores(sandwich, problem, weighted, self.leverage, rank)
        maps, directions = system.maps(), system.directions()
        rows = maps.new_zeros(weighted.shape[0], *maps.shape[::2])  # (n, p, u), A_w+'
        for k in range(maps.shape[1]):
            rows.addcmul_(directions[:, None, k], maps[:, k])
        return meat(system.take(rows), of_samples, sandwich.kernel)


def _patterns(flags: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first pixel of each distinct column of flags, and each pixel's pattern."""
    n, b = flags.shape
    bits = 52
    powers = power_of_two(torch.arange(n, device=flags.device) % bits, torch.float64)
    words = [powers[k : k + bits] @ flags[k : k + bits] for k in range(0, n, bits)]
    if len(words) == 1:
        _, pattern = torch.unique(words[0], return_inverse=True)
    else:
        _, pattern = torch.unique(torch.stack(words), dim=1, return_inverse=True)
    first = torch.full((int(pattern.max()) + 1,), b, dtype=torch.int64, device=flags.device)
    first.scatter_reduce_(0, pattern, torch.arange(b, device=flags.device), "amin")
    return first, pattern
