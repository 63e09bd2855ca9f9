"""Statistics of what a fit explains."""

from __future__ import annotations

import torch
from scipy import special
from torch import Tensor

from xr_lstsq.statistics.solved import Solved

__all__ = ["f_pvalue", "fvalue", "rsquared", "rsquared_adj"]


def rsquared(solved: Solved) -> Tensor:
    """Return 1 - rss / tss, (b,).

    With tss about the pixel's own weighted mean where a constant lies in the span of its rows that
    count, else about 0; NaN where that is rounding.
    """
    return 1.0 - solved.rss / solved.total


def rsquared_adj(solved: Solved) -> Tensor:
    """Return 1 - (1 - R2) (nobs - k) / dof, (b,), with k = 1 where R2 is about the mean, else 0."""
    free = solved.problem.nobs - solved.centred.to(torch.int64)
    dof = solved.problem.nobs - solved.solution.rank
    return 1.0 - solved.rss / solved.total * free / torch.where(dof > 0, dof, torch.nan)


def fvalue(solved: Solved) -> Tensor:
    """Return the F ratio of a model against its constant alone, (b,).

    ((tss - rss) / (rank - k)) / (rss / dof), with k as for `rsquared_adj`; NaN for a model that is
    no more than a constant.
    """
    params, dof = _degrees(solved)
    total = solved.total
    return (total - solved.rss).clamp(min=0.0) / params / (solved.rss / dof)


def f_pvalue(solved: Solved) -> Tensor:
    """Return the p-value of `fvalue`, (b,)."""
    params, dof = _degrees(solved)
    host = [values.to("cpu", torch.float64).numpy() for values in (params, dof, fvalue(solved))]
    values = special.fdtrc(*host)
    return torch.as_tensor(values, dtype=solved.rss.dtype, device=solved.rss.device)


def _degrees(solved: Solved) -> tuple[Tensor, Tensor]:
    """Return the degrees of freedom above and below, (b,); NaN where there are none."""
    params = solved.solution.rank - solved.centred.to(torch.int64)
    dof = solved.problem.nobs - solved.solution.rank
    dtype = solved.rss.dtype
    above, below = (torch.where(d > 0, d, torch.nan).to(dtype) for d in (params, dof))
    return above, below
