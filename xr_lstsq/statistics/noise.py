"""Solve a batch by the model of its noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch

from xr_lstsq.method import Method
from xr_lstsq.solvers.problem import Problem, Solution
from xr_lstsq.solvers.wanted import Wanted
from xr_lstsq.statistics import autocorrelation
from xr_lstsq.statistics.solved import Solved
from xr_lstsq.statistics.whitened import whiten

__all__ = ["solve_with_noise"]


class Solve(Protocol):
    """A solver: `least_squares.solve` or `least_squares.solve_carefully`."""

    def __call__(self, problem: Problem, wanted: Wanted, *, max_bytes: int) -> Solution:
        """Solve."""


def solve_with_noise(
    problem: Problem, wanted: Wanted, method: Method, solve: Solve, max_bytes: int
) -> Solved:
    """Solve a batch: once, or where the noise is modelled a second time, by what the first left.

    Parameters
    ----------
    problem : Problem
        The batch.
    wanted : Wanted
        What its statistics need.
    method : Method
        How they are made.
    solve : callable
        The solver.
    max_bytes : int
        Working memory.
    """
    if method.noise is None:
        return Solved(problem, solve(problem, wanted, max_bytes=max_bytes), method)
    first = solve(problem, Wanted(frozenset({"residual"})), max_bytes=max_bytes)
    rho = autocorrelation.rho(problem, first.facts["residual"], method)
    white, whitened = whiten(problem, rho.masked_fill(first.left, torch.nan), method)
    solution = solve(white, wanted, max_bytes=max_bytes)
    solution = replace(solution, left=solution.left | first.left)
    return Solved(white, solution, method, whitened)
