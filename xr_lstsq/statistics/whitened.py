"""Problems whose noise is autocorrelated, turned into problems whose noise is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from xr_lstsq.method import Method
from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.statistics.autocorrelation import before

__all__ = ["Whitened", "whiten"]


@dataclass(frozen=True)
class Whitened:
    """What a whitened problem was made of.

    Attributes
    ----------
    problem : Problem
        As it was before.
    rho : Tensor
        (b,) autocorrelation one step of time apart.
    log_determinant : Tensor
        (b,) logarithm of the determinant of the matrix that whitens.
    """

    problem: Problem
    rho: Tensor
    log_determinant: Tensor


def whiten(problem: Problem, rho: Tensor, method: Method) -> tuple[Problem, Whitened]:
    """Return the problem of generalised least squares for noise that is AR(1) in time.

    Each row, times the root of its weight, loses phi times the one before it of those that count,
    and is divided by sqrt(1 - phi^2), with phi = rho^d and d the steps of time between the two; the
    first is kept as it is (Prais and Winsten 1954). The answer, covariance and likelihood are those
    of the noise's own covariance W^-1/2 R W^-1/2 with R_ij = rho^|d_ij|.

    Parameters
    ----------
    problem : Problem
        The batch.
    rho : Tensor
        (b,) in [0, 1); where it is not, or NaN, the rows of a pixel are weighted only.
    method : Method
        With the positions of the samples.

    Returns
    -------
    problem : Problem
        With a design for each pixel.
    whitened : Whitened
        What it was made of.
    """
    known = torch.where(rho < 1, rho, 0.0)
    counts = problem.weights > 0
    flags = counts.to(problem.y.dtype)
    root = problem.full_weights.sqrt() * flags
    index, steps = before(counts, method)
    # 0 where there is none before
    phi = torch.where(torch.isfinite(steps), known**steps, 0.0)
    spread = torch.where(counts, (1.0 - phi.square()).rsqrt(), 0.0)

    def turn(values: Tensor) -> Tensor:
        """Return weighted values (n, b), whitened."""
        return (values - phi * values.gather(0, index)) * spread

    if isinstance(problem.design, Shared):
        plain = problem.design.plain
        rows = torch.stack([turn(root * plain[:, j, None]) for j in range(plain.shape[1])], 1)
    else:
        columns = problem.design.unbind(1)
        rows = torch.stack([turn(root * column) for column in columns], 1)
    y = turn(root * problem.y)
    log_root = torch.where(counts, (root * spread).log(), 0.0)
    return (
        replace(
            problem,
            y=y,
            weights=flags,
            square=y.square().sum(0),
            flags=True,
            design=rows,
            constant=turn(root),
        ),
        Whitened(problem, rho, log_root.sum(0)),
    )
