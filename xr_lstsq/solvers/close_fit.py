"""One step of refinement, where an answer needs it: S nearly singular, or a close fit.

Where a fit leaves little of the samples, coefficients much smaller than the samples still have
digits to be right in, and rounding of the large numbers that cancel in them would be seen.
"""

from __future__ import annotations

from torch import Tensor

from xr_lstsq.solvers.lane import Begun
from xr_lstsq.solvers.shared import Shared

__all__ = ["refined"]

REFINE_BELOW = 1e-2
"""Eigenvalue of S below which one refinement step is worth its cost (5e-15 above, without)."""
CLOSE_FIT = 1e-4
"""Share of the sum of squares that a fit leaves, below which it is refined."""


def refined(
    design: Shared, begun: Begun, keep: Tensor, y: Tensor, weights: Tensor, total: Tensor
) -> tuple[Tensor, Tensor]:
    """Return coefficients (p, b) and basis coefficients z (r, b), refined where it matters.

    Parameters
    ----------
    design : Shared
        The design.
    begun : Begun
        What the lane found; its z is changed in place.
    keep : Tensor
        (b,) bool, pixels whose answer counts.
    y, weights : Tensor
        (n, b) samples with the root of the shared weights, and the weights of each pixel.
    total : Tensor
        (b,) weighted sum of the squares of the samples.

    Notes
    -----
    The residual and the coefficients are sums of large numbers that cancel, so both are formed from
    products without rounding (see `shared.Split`).
    """
    z, system = begun.z, begun.system
    close = total - (z * begun.projected).sum(0) < CLOSE_FIT * total
    at = (keep & (close | (begun.smallest <= REFINE_BELOW))).nonzero()[:, 0]
    coef = design.to_coef.whole @ z
    if not at.numel():
        return coef, z
    if at.numel() == z.shape[1]:
        some, left, weights_at = z, y, weights
    else:
        some, left, weights_at = (t.index_select(1, at) for t in (z, y, weights))
        system = system.take(at)
    fit, rest = design.basis.product(some)
    step = system.solve(weights_at * ((left - fit) - rest))
    exact, rest = design.to_coef.product(some)
    coef[:, at] = exact + (rest + design.to_coef.whole @ step)
    z[:, at] = some + step
    return coef, z
