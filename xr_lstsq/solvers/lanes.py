"""The table of lanes: each solves a batch, and says which pixels may keep its answers."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import torch
from torch import Tensor

from xr_lstsq.solvers.close_fit import refined
from xr_lstsq.solvers.gram import Complete, Gram
from xr_lstsq.solvers.lane import Begun, Kept
from xr_lstsq.solvers.missing_system import MissingSystem
from xr_lstsq.solvers.own_design import solve_own
from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.valid_rows import interpolate_valid
from xr_lstsq.solvers.wanted import Wanted
from xr_lstsq.solvers.wide import interpolate

__all__ = ["LANES", "Lane"]


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


def _in_basis(
    begin: Callable[[Problem, Tensor, Tensor], Begun],
) -> Callable[[Problem, Wanted], Kept]:
    """Make a lane out of a way to find z = argmin ||W^(1/2) (Q z - y)|| from W and Wy."""

    def run(problem: Problem, wanted: Wanted) -> Kept:
        weights = problem.normalised_weights()
        y = problem.scaled_samples()
        weighted = y if problem.flags else weights * y
        begun = begin(problem, weights, weighted)
        # Not where it is NaN
        least = max(problem.shared.tau, problem.precision.trusted, wanted.least_eigenvalue)
        keep = begun.smallest > least
        plain = problem.flags and problem.shared.plain_weights
        total = problem.square if plain else (weighted * y).sum(0)
        coef, z = refined(problem, begun, keep, y, weights, total)
        rank = torch.full_like(problem.nobs, z.shape[0])
        design = problem.shared_samples
        # Rows of Q, unlike those of samples that count for no pixel, are not longer than 1
        bounded = design.plain_weights
        return Kept(coef, rank, keep, begun.system, (design.to_fit, z), bounded=bounded)

    return run


LANES: dict[Lane, Callable[[Problem, Wanted], Kept]] = {
    Lane.COMPLETE: _in_basis(Complete.begin),
    Lane.MISSING: _in_basis(MissingSystem.begin),
    Lane.GRAM: _in_basis(Gram.begin),
    Lane.WIDE: interpolate,
    Lane.VALID_ROWS: interpolate_valid,
    Lane.OWN_DESIGN: solve_own,
}
"""Every lane but the rank-revealing one, which keeps what these leave."""
