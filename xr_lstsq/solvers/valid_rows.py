"""Pixels with no more valid samples than the design has rank: interpolated from those samples.

With K = A A' of rows of unit norm, restricted to the valid rows v, the shortest x with A_v x = y_v
is x = A_v' K_vv^-1 y_v: a system as large as the samples that are left. It squares the condition of
the rows, so one refinement step follows, x += A_v' K_vv^-1 (y_v - A_v x).
"""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.solvers.factor import SAFE_EIGENVALUE
from xr_lstsq.solvers.missing_system import Gaps
from xr_lstsq.solvers.shared import Shared

__all__ = ["interpolate_valid"]

FAR_FROM_SHORT = 100.0
"""How far above the cut-off of the rank the singular values of the rows must surely lie."""


def interpolate_valid(
    design: Shared, y: Tensor, flags: Tensor, nobs: Tensor, cutoffs: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the minimum-norm coefficients of pixels with few valid samples.

    Parameters
    ----------
    design : Shared
        With `row_products`.
    y : Tensor
        (n, b) samples with the root of the shared weights, 0 at gaps.
    flags : Tensor
        (n, b) 1 where a sample counts.
    nobs : Tensor
        (b,) int64 number of those.
    cutoffs : Tensor
        (b,) cut-off of the rank.

    Returns
    -------
    coef : Tensor
        (p, b).
    keep : Tensor
        (b,) bool, False where the rank of the rows could be below their number.
    """
    valid = Gaps.of(1.0 - flags, nobs)
    factors = valid.factorise(design.row_products)
    scale = design.row_scale[:, None]
    smallest = y.new_ones(y.shape[1])
    rhs = y.new_empty(y.shape[0] + 1, y.shape[1])
    torch.mul(y, scale, out=rhs[:-1])
    coef = design.rows.T @ (valid.solve(factors, rhs, smallest) * scale)
    torch.mul(y - design.rows @ coef, scale, out=rhs[:-1])  # read at valid rows only
    coef += design.rows.T @ (valid.solve(factors, rhs) * scale)
    # The rank rule sees rows of their own size on columns of unit norm. Its smallest singular value
    # is at least that of unit rows times the smallest row, over the largest column; its largest
    # singular value is at most sqrt(p).
    limit = FAR_FROM_SHORT * cutoffs * design.row_spread
    rows_and_params = nobs * design.rows.shape[1]
    keep = (smallest > SAFE_EIGENVALUE) & (smallest > limit.square() * rows_and_params)
    return coef, keep
