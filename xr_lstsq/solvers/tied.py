"""Pixels whose own rows leave params undetermined, tied by weak rows that hold for all pixels.

The rows enter nothing but the coefficients, the covariance and what is fitted: rank, number of
samples and sums of squares stay those of the pixel's own rows, and so does every pixel that these
determine.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from xr_lstsq.solvers.precision import DOUBLE
from xr_lstsq.solvers.problem import Problem, Solution
from xr_lstsq.solvers.reflected import solve_reflected
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.solvers.wanted import FACTS, Wanted

__all__ = ["tie"]

COPIES = 20
"""Copies of its rows that a pixel takes, as measured for the rank-revealing lane and those here."""
OF_ROWS = frozenset({"cond", "constant"})
"""Facts that are those of the pixel's own rows."""


def tie(
    problem: Problem, solution: Solution, constraint: Tensor, wanted: Wanted, max_bytes: int
) -> None:
    """Solve pixels of short rank once more, with weak rows; write what changes into the solution.

    Parameters
    ----------
    problem : Problem
        The batch.
    solution : Solution
        Its solution, written to.
    constraint : Tensor
        (k, p) rows that ought to give 0, times the roots of their weights, which are relative to
        the largest weight of a pixel.
    wanted : Wanted
        What was asked beside coefficients.
    max_bytes : int
        Working memory.
    """
    short = (solution.rank < problem.p) & (problem.nobs > 0) & ~solution.left
    pixels = short.nonzero()[:, 0]
    each = 8 * COPIES * (problem.y.shape[0] + constraint.shape[0]) * (problem.p + 2)
    for some in pixels.split(max(1, max_bytes // each)) if pixels.numel() else ():
        coef, facts = _solve(problem.take(some), constraint, wanted)
        solution.coef[:, some] = coef.to(solution.coef.dtype)
        for name, values in facts.items():
            held = solution.facts[name]
            held[..., some] = values.to(held.dtype)


def _solve(
    problem: Problem, constraint: Tensor, wanted: Wanted
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return coefficients (p, b) and facts of pixels with the weak rows beside their own."""
    (n, b), k = problem.y.shape, constraint.shape[0]
    weights = problem.full_weights.to(torch.float64)
    if isinstance(problem.design, Shared):
        rows = problem.design.plain.to(torch.float64)[:, :, None].expand(-1, -1, b)
    else:
        rows = problem.design.to(torch.float64)
    more = weights.amax(0).expand(k, b)
    y = problem.y.to(torch.float64)
    whole = replace(
        problem,
        y=torch.cat([y, y.new_zeros(k, b)]),
        weights=torch.cat([weights, more]),
        flags=False,
        design=torch.cat([rows, constraint[:, :, None].expand(-1, -1, b)], 0),
        precision=DOUBLE,
        constant=None,
    )
    kept = solve_reflected(whole)
    residual = kept.residual(whole)
    residual[n:] = 0.0
    facts: dict[str, Tensor] = {}
    for name in wanted.facts - OF_ROWS:
        if name == "residual":
            values = residual
        elif name == "fitted":
            values = kept.fitted()
        elif name == "sandwich":
            assert wanted.sandwich is not None
            values = kept.inverse.sandwich(wanted.sandwich, residual)
        else:
            values = getattr(kept.inverse, name)()
        facts[name] = values[:n] if FACTS[name] == ("n",) else values
    return kept.coef, facts
