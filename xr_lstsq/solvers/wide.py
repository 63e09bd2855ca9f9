"""Designs of full row rank, with no more samples than params: every pixel is interpolated.

Two forms of one answer, the shortest x with A_v x = y_v. With few gaps m, from the shared inverse
G = (AA')^-1: G_mm t = (G y0)_m and x = A+(y0 - t). Both A A' and its inverse are those of rows of
unit norm. This squares the condition of the rows, which the pivots cannot see, so it is used only
for designs whose A A' is well conditioned.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xr_lstsq.solvers.missing_system import Gaps
from xr_lstsq.solvers.shared import Shared, Wide

__all__ = ["interpolate"]


def interpolate(design: Shared, wide: Wide, y: Tensor, flags: Tensor, missing: Tensor) -> Tensor:
    """Return the minimum-norm coefficients (p, b) of samples (n, b), 0 at gaps.

    Parameters
    ----------
    design : Shared
        With rank r = n.
    wide : Wide
        What `solvers.factor` prepared for it.
    y : Tensor
        (n, b) samples with the root of the shared weights.
    flags : Tensor
        (n, b) 1 where a sample counts.
    missing : Tensor
        (b,) int64 gaps.
    """
    gaps = Gaps.of(flags, missing)
    factors = gaps.factorise(wide.inverse)

    def solve(values: Tensor) -> Tensor:
        scaled = values * design.row_scale[:, None]
        rhs = scaled.new_empty(scaled.shape[0] + 1, scaled.shape[1])
        torch.mm(wide.inverse, scaled, out=rhs[:-1])
        return wide.to_coef @ scaled.sub_(gaps.solve(factors, rhs))

    coef = solve(y)
    if not wide.refine:
        return coef
    return coef + solve((y - design.rows @ coef) * flags)
