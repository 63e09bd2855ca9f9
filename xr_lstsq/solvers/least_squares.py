"""Least squares for a batch of pixels: each in the cheapest lane that may keep it.

All lanes give one answer. For a design that pixels share: no gaps at all (`gram.Complete`), few
gaps (`missing_system`), any weights (`gram.Gram`), no more samples than params in the design
(`wide`) or in the pixel (`valid_rows`). Each keeps only the pixels that it can prove safe; every
other pixel goes to the rank-revealing `minimum_norm`. See docs/explanation/solver.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.solvers.lane import Kept
from xr_lstsq.solvers.lanes import LANES, Lane
from xr_lstsq.solvers.problem import Problem, Solution
from xr_lstsq.solvers.reflected import solve_reflected
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.solvers.wanted import NOTHING, Wanted, blank_facts

__all__ = ["Lane", "choose", "solve", "solve_carefully"]

MAJORITY = 0.9
"""Share of a batch from which its lane runs on all pixels: cheaper than to pick those apart."""
COPIES = 16
"""Copies of a pixel's design that the rank-revealing lane holds at its peak, as measured."""
LARGEST_SQUARE = 1e30
"""Sum of squares, and one over it, up to which float32 can hold what is made of the samples."""
FEW = 0.2
"""Share of a batch below which pixels for the rank-revealing lane are left to be collected."""


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


def solve(problem: Problem, wanted: Wanted = NOTHING, *, max_bytes: int = 2**27) -> Solution:
    """Solve a batch of pixels in the precision of the problem.

    Parameters
    ----------
    problem : Problem
        The batch.
    wanted : Wanted
        What to return beside coefficients and ranks.
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
    b = problem.y.shape[1]
    lanes = choose(problem)
    counts = torch.bincount(lanes, minlength=len(Lane)).tolist()
    left = (lanes == Lane.MINIMUM_NORM) | _out_of_range(problem)
    # The largest lane first: where it runs on the whole batch, its answers are the start
    order = sorted((lane for lane in LANES if counts[lane]), key=lambda lane: -counts[lane])
    solution = None
    for lane in order:
        mine, solve_lane = lanes == lane, LANES[lane]
        if counts[lane] >= MAJORITY * b:
            kept = solve_lane(problem, wanted)
            left |= mine & ~kept.keep
            solution = _all_of(problem, kept, mine & ~left, left, wanted)
            continue
        if solution is None:
            solution = _blank(problem, left, wanted)
        pixels = mine.nonzero()[:, 0]
        part = problem.take(pixels)
        kept = solve_lane(part, wanted)
        left[pixels] |= ~kept.keep
        _write(part, solution, kept, pixels, wanted)
    if solution is None:
        solution = _blank(problem, left, wanted)
    if problem.precision.last:
        rest = left.nonzero()[:, 0]
        if rest.numel() >= FEW * b:
            _solve_rest(problem, solution, rest, wanted, max_bytes)
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
    problem: Problem, wanted: Wanted = NOTHING, *, max_bytes: int = 2**27
) -> Solution:
    """Solve a batch by the rank-revealing lane alone; arguments as those of `solve`."""
    left = torch.zeros_like(problem.nobs, dtype=torch.bool)
    solution = _blank(problem, left, wanted)
    _solve_rest(problem, solution, (problem.nobs > 0).nonzero()[:, 0], wanted, max_bytes)
    return solution


def _blank(problem: Problem, left: Tensor, wanted: Wanted) -> Solution:
    """Return a solution to be filled in."""
    return Solution(
        coef=problem.y.new_zeros(problem.p, problem.y.shape[1]),
        rank=torch.zeros_like(problem.nobs),
        left=left,
        facts=blank_facts(wanted, problem.y.shape[0], problem.p, problem.y),
    )


def _solve_rest(
    problem: Problem, solution: Solution, rest: Tensor, wanted: Wanted, max_bytes: int
) -> None:
    """Solve what no other lane may keep, in batches that fit."""
    if not rest.numel():
        return
    n, p = problem.y.shape[0], problem.p
    numbers = COPIES * n * (p + 2) + wanted.numbers_of_a_pixel(n, p)
    per_step = max(1, max_bytes // (8 * numbers))
    for pixels in rest.split(per_step):
        part = problem.take(pixels)
        _write(part, solution, solve_reflected(part), pixels, wanted)
    solution.left[rest] = False


def _all_of(problem: Problem, kept: Kept, keep: Tensor, left: Tensor, wanted: Wanted) -> Solution:
    """Return the solution of a batch by the answers of a lane that ran on all of it."""
    rank, coef = kept.rank, kept.coef
    facts = kept.facts(problem, wanted)
    if not keep.all():
        drop = ~keep
        coef, rank = coef.masked_fill_(drop, 0.0), rank.masked_fill(drop, 0)
        facts = {
            name: values.masked_fill(drop, 0.0 if name == "residual" else torch.nan)
            for name, values in facts.items()
        }
    return Solution(coef, rank, left, facts)


def _write(
    problem: Problem, solution: Solution, kept: Kept, pixels: Tensor, wanted: Wanted
) -> None:
    """Put the answers of a lane that ran on some pixels in their places; what it drops is 0."""
    solution.coef[:, pixels] = kept.coef
    solution.rank[pixels] = torch.where(kept.keep, kept.rank, 0)
    for name, values in kept.facts(problem, wanted).items():
        solution.facts[name][..., pixels] = values
