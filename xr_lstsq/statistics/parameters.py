"""Statistics of the params: how well each is known, and whether it differs from 0."""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.statistics import student
from xr_lstsq.statistics.solved import Solved

__all__ = ["conf_int", "cov", "pvalue", "stderr", "tvalue"]


def stderr(solved: Solved) -> Tensor:
    """Return the roots of the diagonal of `cov`, (p, b).

    At short rank it is the error of the minimum-norm estimate, which is not one of the params.
    """
    return solved.stderr


def tvalue(solved: Solved) -> Tensor:
    """Return coef / stderr, (p, b); NaN where both are rounding of the samples."""
    return solved.tvalue


def pvalue(solved: Solved) -> Tensor:
    """Return two-sided p-values of Student's t, (p, b), or of the normal for known variances."""
    if solved.method.absolute_sigma:
        return student.two_sided_normal(solved.tvalue)
    if solved.method.real_dof:
        return student.two_sided_real(solved.tvalue, solved.dof)
    return student.two_sided(solved.tvalue, solved.dof)


def conf_int(solved: Solved) -> Tensor:
    """Return the lower and upper bound of each param, (p, 2, b)."""
    dof = None if solved.method.absolute_sigma else solved.dof
    half = solved.stderr * student.quantile(solved.method.level, dof, like=solved.stderr)
    coef = solved.coef
    return torch.stack([coef - half, coef + half], dim=1)


def cov(solved: Solved) -> Tensor:
    """Return the covariance of the params, (p, p, b).

    ``nonrobust``: rss / dof (A'WA)+, or (A'WA)+ where weights are true inverse variances.
    ``HC0`` to ``HC3``: the sandwich of MacKinnon and White
    (1985, doi:10.1016/0304-4076(85)90158-7).
    ``HAC``: that of Newey and West (1987, doi:10.2307/1913610), with lags counted in time.
    ``ar1``: rss / (n_eff - rank) (A'WA)+ (Santer et al. 2008, doi:10.1002/joc.1756).
    """
    if solved.method.absolute_sigma:
        return solved.covariance
    if solved.method.robust:
        return torch.where(solved.dof > 0, solved.sandwich, torch.nan)
    return solved.covariance * solved.scale
