"""Least squares for a batch of pixels: each in the cheapest lane that may keep it.

All lanes give one answer. For a design that pixels share: no gaps at all (`gram.Complete`), few
gaps (`missing_system`), any weights (`gram.Gram`), no more samples than params in the design
(`wide`) or in the pixel (`valid_rows`). Each keeps only the pixels that it can prove safe; every
other pixel goes to the rank-revealing `minimum_norm`. See docs/explanation/solver.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import torch
from torch import Tensor

from xr_lstsq.solvers.close_fit import refined
from xr_lstsq.solvers.gram import Complete, Gram
from xr_lstsq.solvers.lane import Begun, Kept
from xr_lstsq.solvers.minimum_norm import minimum_norm
from xr_lstsq.solvers.missing_system import MissingSystem
from xr_lstsq.solvers.own_design import solve_own
from xr_lstsq.solvers.powers import power_of_two
from xr_lstsq.solvers.problem import Problem, Solution
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.solvers.valid_rows import interpolate_valid
from xr_lstsq.solvers.wide import interpolate

__all__ = ["Lane", "choose", "solve", "solve_carefully"]

MAJORITY = 0.9
"""Share of a batch from which its lane runs on all pixels: cheaper than to pick those apart."""
COPIES = 16
"""Copies of a pixel's design that the rank-revealing lane holds at its peak, as measured."""
LARGEST_SQUARE = 1e30
"""Sum of squares, and one over it, up to which float32 can hold what is made of the samples."""
FEW = 0.2
"""Share of a batch below which pixels for the rank-revealing lane are left to be collected."""


class Lane(IntEnum):
    """How a pixel is solved."""

    NONE = 0
    COMPLETE = 1
    MISSING = 2
    WIDE = 3
    VALID_ROWS = 4
    GRAM = 5
    OWN_DESIGN = 6
    MINIMUM_NORM = 7


def choose(problem: Problem) -> Tensor:
    """Return the cheapest lane of each pixel, (b,) int64, as `solvers.cost` says.

    A lane need not keep its pixels: what it cannot prove safe goes to `Lane.MINIMUM_NORM`.
    """
    design, nobs = problem.design, problem.nobs
    if not isinstance(design, Shared):
        lanes = torch.full_like(nobs, Lane.OWN_DESIGN)
    elif design.tau >= 1 or not design.basis.whole.numel():
        lanes = torch.full_like(nobs, Lane.MINIMUM_NORM)
    elif not problem.flags:
        lanes = torch.full_like(nobs, Lane.GRAM)
    else:
        missing = problem.missing
        lanes = torch.where(missing <= design.most_missing, Lane.MISSING, Lane.GRAM)
        few = design.basis.whole.shape[1]
        if design.wide is not None:
            bad = design.wide.refine and problem.precision.samples == torch.float32
            lanes = torch.full_like(lanes, Lane.MINIMUM_NORM if bad else Lane.WIDE)
            few = design.usable // 2  # where the valid rows are the smaller of the two systems
        if design.row_products.numel():
            lanes = torch.where(nobs <= few, Lane.VALID_ROWS, lanes)
        lanes = torch.where(missing == 0, Lane.COMPLETE, lanes)
    return torch.where(nobs > 0, lanes, Lane.NONE)


def solve(
    problem: Problem,
    *,
    residual: bool = False,
    fitted: bool = False,
    max_bytes: int = 2**27,
) -> Solution:
    """Solve a batch of pixels in the precision of the problem.

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
        Coefficients equal to dropping each pixel's missing rows and solving in float64 (see
        `precision` for how nearly), but for the pixels that are True in ``left``. They are few, and
        wait for float64 or, in float64, for `solve_carefully`: those of many batches together cost
        hardly more than those of one. The solution lies in the problem's workspace.
    """
    b, fit = problem.y.shape[1], residual or fitted
    lanes = choose(problem)
    counts = torch.bincount(lanes, minlength=len(Lane)).tolist()
    left = (lanes == Lane.MINIMUM_NORM) | _out_of_range(problem)
    # The largest lane first: where it runs on the whole batch, its answers are the start
    order = sorted((lane for lane in _LANES if counts[lane]), key=lambda lane: -counts[lane])
    solution = None
    for lane in order:
        mine, solve_lane = lanes == lane, _LANES[lane]
        if counts[lane] >= MAJORITY * b:
            kept = solve_lane(problem, fit)
            left |= mine & ~kept.keep
            solution = _all_of(problem, kept, mine & ~left, left, residual, fitted)
            continue
        if solution is None:
            solution = _blank(problem, left, residual=residual, fitted=fitted)
        pixels = mine.nonzero()[:, 0]
        part = problem.take(pixels)
        kept = solve_lane(part, fit)
        left[pixels] |= ~kept.keep
        _write(part, solution, kept, pixels)
    if solution is None:
        solution = _blank(problem, left, residual=residual, fitted=fitted)
    if problem.precision.last:
        rest = left.nonzero()[:, 0]
        if rest.numel() >= FEW * b:
            _solve_rest(problem, solution, rest, max_bytes)
    else:
        left |= solution.not_finite()
    return solution


def _out_of_range(problem: Problem) -> Tensor:
    """Return the pixels, (b,) bool, whose samples float32 cannot square or square to nothing."""
    if problem.precision.samples == torch.float64:
        return torch.zeros_like(problem.nobs, dtype=torch.bool)
    square = problem.square
    in_range = (square > 1 / LARGEST_SQUARE) & (square < LARGEST_SQUARE)
    return (problem.nobs > 0) & ~in_range


def solve_carefully(
    problem: Problem, *, residual: bool = False, fitted: bool = False, max_bytes: int = 2**27
) -> Solution:
    """Solve a batch by the rank-revealing lane alone; arguments as those of `solve`."""
    left = torch.zeros_like(problem.nobs, dtype=torch.bool)
    solution = _blank(problem, left, residual=residual, fitted=fitted)
    _solve_rest(problem, solution, (problem.nobs > 0).nonzero()[:, 0], max_bytes)
    return solution


def _blank(problem: Problem, left: Tensor, *, residual: bool, fitted: bool) -> Solution:
    """Return a solution to be filled in."""
    n, b = problem.y.shape
    return Solution(
        coef=problem.y.new_zeros(problem.p, b),
        rank=torch.zeros_like(problem.nobs),
        left=left,
        residual=problem.y.new_zeros(n, b) if residual else None,
        fitted=problem.y.new_full((n, b), torch.nan) if fitted else None,
    )


def _solve_rest(problem: Problem, solution: Solution, rest: Tensor, max_bytes: int) -> None:
    """Solve what no other lane may keep, in batches that fit."""
    if not rest.numel():
        return
    per_step = max(1, max_bytes // (8 * COPIES * problem.y.shape[0] * (problem.p + 2)))
    fit = solution.residual is not None or solution.fitted is not None
    for pixels in rest.split(per_step):
        part = problem.take(pixels)
        _write(part, solution, _minimum_norm(part, fit), pixels)
    solution.left[rest] = False


def _all_of(
    problem: Problem, kept: Kept, keep: Tensor, left: Tensor, residual: bool, fitted: bool
) -> Solution:
    """Return the solution of a batch by the answers of a lane that ran on all of it."""
    rank, coef = kept.rank, kept.coef
    fit = kept.given_fit() if fitted else None
    rest = kept.residual(problem) if residual else None
    if not keep.all():
        drop = ~keep
        coef, rank = coef.masked_fill_(drop, 0.0), rank.masked_fill(drop, 0)
        fit = None if fit is None else fit.masked_fill(drop, torch.nan)
        rest = None if rest is None else rest.masked_fill_(drop, 0.0)
    return Solution(coef, rank, left, rest, fit)


def _write(problem: Problem, solution: Solution, kept: Kept, pixels: Tensor) -> None:
    """Put the answers of a lane that ran on some pixels in their places; what it drops is 0."""
    solution.coef[:, pixels] = kept.coef
    solution.rank[pixels] = torch.where(kept.keep, kept.rank, 0)
    if solution.fitted is not None:
        solution.fitted[:, pixels] = kept.given_fit()
    if solution.residual is not None:
        solution.residual[:, pixels] = kept.residual(problem)


def _in_basis(
    begin: Callable[[Problem, Tensor, Tensor], Begun],
) -> Callable[[Problem, bool], Kept]:
    """Make a lane out of a way to find z = argmin ||W^(1/2) (Q z - y)|| from W and Wy."""

    def run(problem: Problem, fit: bool) -> Kept:
        weights = problem.normalised_weights()
        y = problem.scaled_samples()
        weighted = y if problem.flags else weights * y
        begun = begin(problem, weights, weighted)
        # Not where it is NaN
        keep = begun.smallest > max(problem.shared.tau, problem.precision.trusted)
        plain = problem.flags and problem.shared.plain_weights
        total = problem.square if plain else (weighted * y).sum(0)
        coef, z = refined(problem, begun, keep, y, weights, total)
        rank = torch.full_like(problem.nobs, z.shape[0])
        return Kept(coef, rank, keep, problem.shared_samples.to_fit @ z if fit else None)

    return run


def _interpolated(problem: Problem, fit: bool) -> Kept:
    """Solve pixels of a design of full row rank."""
    coef = interpolate(problem)
    keep = torch.ones_like(problem.nobs, dtype=torch.bool)
    return Kept(coef, problem.nobs, keep, problem.shared_samples.plain @ coef if fit else None)


def _from_valid_rows(problem: Problem, fit: bool) -> Kept:
    """Solve pixels with no more samples than the rank of the design."""
    coef, keep = interpolate_valid(problem)
    return Kept(coef, problem.nobs, keep, problem.shared_samples.plain @ coef if fit else None)


def _minimum_norm(problem: Problem, fit: bool) -> Kept:
    """Solve pixels by reflectors; those with equal gaps share a factorisation."""
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
    coef, rank, weighted = minimum_norm(rows, y, cutoffs, pattern)
    fitted = None
    if fit:
        counts = problem.weights > 0
        residual = torch.where(counts, weighted / problem.full_weights.sqrt(), 0.0)
        fitted = torch.where(counts, problem.y - residual, _evaluate(problem, coef))
    return Kept(coef, rank, torch.ones_like(rank, dtype=torch.bool), fitted)


_LANES: dict[Lane, Callable[[Problem, bool], Kept]] = {
    Lane.COMPLETE: _in_basis(Complete.begin),
    Lane.MISSING: _in_basis(MissingSystem.begin),
    Lane.GRAM: _in_basis(Gram.begin),
    Lane.WIDE: _interpolated,
    Lane.VALID_ROWS: _from_valid_rows,
    Lane.OWN_DESIGN: solve_own,
}


def _evaluate(problem: Problem, coef: Tensor) -> Tensor:
    """Return A x, (n, b)."""
    if isinstance(problem.design, Shared):
        return problem.design.plain @ coef
    return (problem.design * coef).sum(1)


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
