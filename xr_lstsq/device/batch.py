"""Solve a batch of pixels that lies on a device: gaps to weights, a solution, its facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from xr_lstsq.device.plan import Plan, bytes_of_a_pixel, stages
from xr_lstsq.outputs import STATUS
from xr_lstsq.solvers import least_squares
from xr_lstsq.solvers.factor import Factor
from xr_lstsq.solvers.precision import DOUBLE, Precision
from xr_lstsq.solvers.problem import Problem, Weighed, weigh
from xr_lstsq.solvers.shared import Shared, share
from xr_lstsq.solvers.tied import tie
from xr_lstsq.solvers.wanted import Wanted
from xr_lstsq.solvers.workspace import Workspace
from xr_lstsq.statistics import STATISTICS, Solved, solve_with_noise, wanted

__all__ = ["BatchSolver"]

Array = NDArray[Any]


@dataclass(frozen=True)
class BatchSolver:
    """Solves the batches of one block.

    Attributes
    ----------
    plan : Plan
        What to do.
    shared : Shared or None
        The design, unless each pixel has its own.
    broken : bool
        True when a shared weight is negative, so that every pixel fails.
    wanted : Wanted
        What the statistics of the plan need of the solver.
    stages : tuple of Precision or None
        In which precisions pixels are solved, in turn (see `plan.stages`).
    """

    plan: Plan
    shared: Shared | None
    broken: bool
    wanted: Wanted
    stages: tuple[Precision | None, ...]

    @classmethod
    def of(cls, plan: Plan, design: Factor | Array, device: torch.device) -> BatchSolver:
        """Put the design of a block on a device, unless each pixel has its own."""
        if not isinstance(design, Factor):
            needs = _needs(plan, device, has_constant=False)
            return cls(plan, None, False, needs, stages(plan, None, needs, device))
        shared = share(design, device)
        needs = _needs(plan, device, has_constant=shared.has_constant)
        solver = cls(plan, shared, design.negative, needs, stages(plan, shared, needs, device))
        for precision in solver.stages:
            if precision is not None:
                shared.in_dtype(precision.systems)
        if device.type == "cuda":
            # The batches' streams are others than this one
            torch.cuda.current_stream(device).synchronize()
        return solver

    def bytes_of_a_pixel(self, inputs: dict[str, Array], precision: Precision | None) -> int:
        """Return about how much working memory a pixel of these inputs takes."""
        own = self.shared is None or self.plan.method.noise is not None
        p = inputs["rows"].shape[1] if self.shared is None else self.shared.plain.shape[1]
        return bytes_of_a_pixel(inputs["y"].shape[0], p, precision, own=own, wanted=self.wanted)

    def run(
        self,
        batch: dict[str, Tensor],
        max_bytes: int,
        precision: Precision | None,
        workspace: Workspace,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Solve a batch.

        Parameters
        ----------
        batch : dict of str to Tensor
            (n, b) ``y``, and as they are given ``masked``, ``weights``, ``valid`` and, (n, p, b),
            ``rows``.
        max_bytes : int
            Working memory.
        precision : Precision or None
            Number types to solve in, with pixels left that need more. None leaves no pixel: each is
            solved by the solver that is right for all.
        workspace : Workspace
            Memory for the solver. The results may lie in it.

        Returns
        -------
        results : dict of str to Tensor
            Every output of the plan.
        left : Tensor
            (k,) pixels that were left.
        """
        samples, problem, finite = self.read(batch, precision or DOUBLE, workspace)
        solve = least_squares.solve if precision else least_squares.solve_carefully
        solved = solve_with_noise(problem, self.wanted, self.plan.method, solve, max_bytes)
        if self.plan.constraint is not None:
            rows = torch.as_tensor(self.plan.constraint, device=problem.y.device)
            tie(problem, solved.solution, rows, self.wanted, max_bytes)
        if self.plan.to_coef is not None:
            solved = replace(solved, to_coef=torch.as_tensor(self.plan.to_coef).to(problem.y))
        solution = solved.solution
        status, rank = self._judge(samples, solved, problem.p)
        solved = replace(solved, solution=replace(solution, rank=rank))
        results = {
            "coef": solved.coef,
            "nobs": problem.nobs,
            "rank": rank,
            "status": status,
        }
        no_answer = torch.isnan(solution.coef[0])
        some = bool(no_answer.any())
        for row in self.plan.outputs:
            if row.name not in results:
                values = STATISTICS[row.name].function(solved)
                if some and values.is_floating_point():
                    values = values.masked_fill(no_answer, torch.nan)
                results[row.name] = values
        if "fitted" in results:
            results["fitted"] = torch.where(finite, results["fitted"], torch.nan)
        left = solution.left.nonzero()[:, 0]
        return {row.name: results[row.name] for row in self.plan.outputs}, left

    def read(
        self, batch: dict[str, Tensor], precision: Precision, workspace: Workspace
    ) -> tuple[Weighed, Problem, Tensor]:
        """Return the samples, the problem, and which rows of the design are finite."""
        y = batch["y"]
        if "masked" in batch:
            y = torch.where(batch["masked"], torch.nan, y)
        design: Shared | Tensor
        usable: Tensor | None
        if self.shared is not None:
            design, finite = self.shared, self.shared.finite[:, None]
            plain = self.shared.plain_weights
            usable = None if plain else (self.shared.root_weights > 0)[:, None]
        else:
            finite = usable = torch.isfinite(batch["rows"]).all(1)
            design = torch.where(finite[:, None], batch["rows"].to(precision.samples), 0.0)
        weights = batch["weights"].to(torch.float64) if "weights" in batch else None
        samples = weigh(
            y,
            nodata=self.plan.nodata,
            usable=usable,
            valid=batch.get("valid"),
            weights=weights,
            dtype=precision.samples,
            workspace=workspace,
        )
        problem = Problem(
            samples.y,
            samples.weights,
            samples.nobs,
            samples.square,
            flags=weights is None,
            design=design,
            rcond=self.plan.rcond,
            precision=precision,
            workspace=workspace,
        )
        return samples, problem, finite

    def _judge(self, samples: Weighed, solved: Solved, p: int) -> tuple[Tensor, Tensor]:
        """Return the status and rank of each pixel, (b,); without an answer, coef becomes NaN."""
        solution, nobs = solved.solution, samples.nobs
        coef, rank = solution.coef, solution.rank
        failed = samples.broken | solution.not_finite()
        few = nobs < self.plan.min_obs
        if solved.whitened is not None:
            few |= torch.isnan(solved.whitened.rho)
            failed |= solved.whitened.rho >= 1
        if self.plan.required is not None:
            groups, least = self.plan.required
            counts = torch.as_tensor(groups).to(solved.problem.y) @ solved.counts
            few |= (counts < least).any(0)
        if self.broken:
            failed = torch.ones_like(failed)
        # From the weakest fact to the strongest
        status = torch.where(rank < p, STATUS["rank_deficient"], STATUS["solved"])
        status = torch.where(few, STATUS["too_few_obs"], status)
        status = torch.where(nobs == 0, STATUS["no_data"], status)
        status = torch.where(failed, STATUS["failed"], status)
        blank = (status != STATUS["solved"]) & (status != STATUS["rank_deficient"])
        if not self.plan.keep_short:
            blank = status != STATUS["solved"]
        if blank.any():
            coef.masked_fill_(blank, torch.nan)
        return status, rank.masked_fill(failed, 0)


def _needs(plan: Plan, device: torch.device, *, has_constant: bool) -> Wanted:
    """Return what the statistics of a plan need of the solver."""
    names = [row.name for row in plan.outputs]
    needs = wanted(names, plan.method, device, has_constant=has_constant)
    if plan.to_coef is not None and "variance" in needs.facts:
        # Of another basis the whole covariance makes each variance
        needs = replace(needs, facts=needs.facts - {"variance"} | {"covariance"})
    return needs
