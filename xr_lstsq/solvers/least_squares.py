"""Least squares for a batch of pixels: each in the cheapest lane that may keep it.

Two lanes give one answer. The Gram lane solves S z = Q'Wy with S = Q'WQ for all pixels at once
and keeps those whose smallest eigenvalue of S proves them safe; every other pixel goes to the
rank-revealing lane of `minimum_norm`. See docs/explanation/solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers import cholesky
from xr_lstsq.solvers.factor import SAFE_EIGENVALUE, Factor, Halves
from xr_lstsq.solvers.minimum_norm import minimum_norm
from xr_lstsq.solvers.problem import Problem, Shared, Solution, Split

__all__ = ["share", "solve"]

REFINE_BELOW = 1e-2
"""Eigenvalue of S below which one refinement step is worth its cost (5e-15 above, without)."""
CLOSE_FIT = 1e-4
"""Share of the sum of squares that a fit leaves, below which it is refined: where the samples have
so little noise, coefficients much smaller than the samples still have digits to be right in."""


def share(factor: Factor, device: torch.device) -> Shared:
    """Put a factorised design on a device."""

    def put(array: object) -> Tensor:
        return torch.as_tensor(array, dtype=torch.float64, device=device)

    def split(halves: Halves) -> Split:
        return Split(put(halves.whole), put(halves.high), put(halves.low))

    basis = split(factor.basis)
    low, high = cholesky.pack_order(basis.whole.shape[1])
    return Shared(
        plain=put(factor.plain),
        rows=put(factor.rows),
        finite=torch.as_tensor(factor.finite, device=device),
        basis=basis,
        to_coef=split(factor.to_coef),
        to_fit=put(factor.to_fit),
        root_weights=put(factor.root_weights),
        plain_weights=bool((factor.root_weights == 1).all()),
        products=(basis.whole[:, low] * basis.whole[:, high]).T.contiguous(),
        tau=factor.tau,
    )


def solve(
    problem: Problem, *, residual: bool = False, fitted: bool = False, max_bytes: int = 2**27
) -> Solution:
    """Solve a batch of pixels.

    Parameters
    ----------
    problem : Problem
        The batch.
    residual, fitted : bool
        Whether to return (n, b) residuals and fitted values as well.
    max_bytes : int
        Working memory of the rank-revealing lane, which holds a few copies of the design for each
        of its pixels and so takes them in smaller batches.

    Returns
    -------
    Solution
        Coefficients equal to dropping each pixel's missing rows and solving in float64.
    """
    n, b = problem.y.shape
    solution = Solution(
        coef=problem.y.new_zeros(problem.p, b),
        rank=torch.zeros_like(problem.nobs),
        residual=problem.y.new_zeros(n, b) if residual else None,
        fitted=problem.y.new_full((n, b), torch.nan) if fitted else None,
    )
    gram = _gram_shared if isinstance(problem.design, Shared) else _gram_own
    left = gram(problem, solution)
    per_step = max(1, max_bytes // (8 * 6 * n * (problem.p + 2))) if n else 1
    for pixels in left.split(per_step) if left.numel() else ():
        _rank_revealing(problem.take(pixels), pixels, solution)
    return solution


@dataclass(frozen=True)
class _Normal:
    """Normal equations of a batch, solved: z, where it is safe, and where it is not yet right."""

    z: Tensor
    factor: Tensor
    keep: Tensor
    smallest: Tensor


def _solve_normal(packed: Tensor, rhs: Tensor, tau: float) -> _Normal:
    """Solve S z = rhs and judge, by an estimate of the smallest eigenvalue, where it is safe."""
    s = rhs.shape[0]
    factor = cholesky.factorise(packed, s)
    z = cholesky.solve(factor, rhs.clone())
    smallest = cholesky.smallest_eigenvalue(factor, s)
    return _Normal(z, factor, smallest > tau, smallest)  # not kept where it is NaN


def _normalised(problem: Problem) -> Tensor:
    """Return weights (n, b) divided by a power of two near each pixel's largest."""
    if problem.flags:
        return problem.weights
    largest = problem.weights.amax(0)
    exponent = torch.frexp(torch.where(largest > 0, largest, 1.0)).exponent
    return torch.ldexp(problem.weights, -exponent)


def _gram_shared(problem: Problem, solution: Solution) -> Tensor:
    """Fill in the pixels that the Gram lane may keep; return the indices of the others."""
    design = problem.design
    assert isinstance(design, Shared)
    some = problem.nobs > 0
    r = design.basis.whole.shape[1]
    if r == 0 or design.tau >= 1 or problem.y.shape[0] == 0:
        return some.nonzero()[:, 0]
    weights = _normalised(problem)
    y = problem.y if design.plain_weights else problem.y * design.root_weights[:, None]
    weighted = y if problem.flags else weights * y
    rhs = design.basis.whole.T @ weighted
    normal = _solve_normal(design.products @ weights, rhs, design.tau)
    z = normal.z
    coef = design.to_coef.whole @ z
    total = (weighted * y).sum(0)
    close = total - (z * rhs).sum(0) < CLOSE_FIT * total
    at = (normal.keep & (close | (normal.smallest <= REFINE_BELOW))).nonzero()[:, 0]
    if at.numel():
        coef[:, at], z[:, at] = _refined(normal, design, weights, y, at)
    keep = normal.keep
    solution.coef.copy_(torch.where(keep, coef, 0.0))
    solution.rank.copy_(torch.where(keep, r, 0))
    if solution.fitted is not None or solution.residual is not None:
        fit = design.to_fit @ z
        if solution.fitted is not None:
            solution.fitted.copy_(torch.where(keep, fit, torch.nan))
        if solution.residual is not None:
            counts = keep & (problem.weights > 0)
            solution.residual.copy_(torch.where(counts, problem.y - fit, 0.0))
    return (some & ~keep).nonzero()[:, 0]


def _refined(
    normal: _Normal, design: Shared, weights: Tensor, y: Tensor, at: Tensor
) -> tuple[Tensor, Tensor]:
    """Return coefficients and z of the pixels `at` after one step of refinement.

    The residual and the coefficients are sums of large numbers that cancel where the fit is close
    or S is nearly singular, so both are formed from products without rounding.
    """
    z = normal.z.index_select(1, at)
    fit, rest = design.basis.product(z)
    missing = (y.index_select(1, at) - fit) - rest
    step = design.basis.whole.T @ (weights.index_select(1, at) * missing)
    step = cholesky.solve(normal.factor.index_select(1, at), step)
    coef, rest = design.to_coef.product(z)
    return coef + (rest + design.to_coef.whole @ step), z + step


def _gram_own(problem: Problem, solution: Solution) -> Tensor:
    """Do the same for a design per pixel, on unit-norm columns of its valid weighted rows."""
    design = problem.design
    assert isinstance(design, Tensor)
    some = problem.nobs > 0
    n, p, _ = design.shape
    if n == 0 or p == 0:
        return some.nonzero()[:, 0]
    weights = _normalised(problem)
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

    def fit(coef: Tensor) -> Tensor:
        total = design[:, 0] * coef[0]
        for j in range(1, p):
            total.addcmul_(design[:, j], coef[j])
        return total

    rhs = torch.empty(p, problem.y.shape[1], dtype=problem.y.dtype, device=problem.y.device)
    normal = _solve_normal(packed, project(weights * problem.y), SAFE_EIGENVALUE)
    coef = normal.z / scale
    at = (normal.keep & (normal.smallest <= REFINE_BELOW)).nonzero()[:, 0]
    if at.numel():
        step = cholesky.solve(normal.factor, project(weights * (problem.y - fit(coef)))) / scale
        coef[:, at] += step.index_select(1, at)
    keep = normal.keep
    solution.coef.copy_(torch.where(keep, coef, 0.0))
    solution.rank.copy_(torch.where(keep, p, 0))
    if solution.fitted is not None or solution.residual is not None:
        values = fit(coef)
        if solution.fitted is not None:
            solution.fitted.copy_(torch.where(keep, values, torch.nan))
        if solution.residual is not None:
            counts = keep & (problem.weights > 0)
            solution.residual.copy_(torch.where(counts, problem.y - values, 0.0))
    return (some & ~keep).nonzero()[:, 0]


def _rank_revealing(problem: Problem, pixels: Tensor, solution: Solution) -> None:
    """Fill in pixels by the rank-revealing lane; those with equal gaps share a factorisation."""
    root = problem.weights.sqrt()
    cutoffs = problem.cutoffs()
    y = problem.y * root
    pattern = None
    if isinstance(problem.design, Shared):
        y = y * problem.design.root_weights[:, None]
        if problem.flags:
            first, pattern = _patterns(problem.weights)
            root, cutoffs = root.index_select(1, first), cutoffs.index_select(0, first)
        rows = problem.design.rows[:, :, None] * root[:, None]
    else:
        rows = problem.design * root[:, None]
    coef, rank, weighted = minimum_norm(rows, y, cutoffs, pattern)
    solution.coef[:, pixels] = coef
    solution.rank[pixels] = rank
    if solution.residual is None and solution.fitted is None:
        return
    counts = problem.weights > 0
    residual = torch.where(counts, weighted / problem.full_weights.sqrt(), 0.0)
    if solution.residual is not None:
        solution.residual[:, pixels] = residual
    if solution.fitted is not None:
        solution.fitted[:, pixels] = torch.where(
            counts, problem.y - residual, _evaluate(problem, coef)
        )


def _evaluate(problem: Problem, coef: Tensor) -> Tensor:
    """Return A x, (n, b)."""
    if isinstance(problem.design, Shared):
        return problem.design.plain @ coef
    return (problem.design * coef).sum(1)


def _patterns(flags: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first pixel of each distinct column of flags, and each pixel's pattern."""
    n, b = flags.shape
    bits = 52
    powers = torch.ldexp(
        torch.ones(n, dtype=torch.float64, device=flags.device),
        torch.arange(n, device=flags.device) % bits,
    )
    words = [powers[k : k + bits] @ flags[k : k + bits] for k in range(0, n, bits)]
    if len(words) == 1:
        _, pattern = torch.unique(words[0], return_inverse=True)
    else:
        _, pattern = torch.unique(torch.stack(words), dim=1, return_inverse=True)
    first = torch.full((int(pattern.max()) + 1,), b, dtype=torch.int64, device=flags.device)
    first.scatter_reduce_(0, pattern, torch.arange(b, device=flags.device), "amin")
    return first, pattern
