"""Singular values of a batch of small matrices, pixels last."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["condition", "singular_values"]


def singular_values(matrices: Tensor) -> Tensor:
    """Return the singular values of (s, p, b) matrices, (b, min(s, p)), largest first.

    NaN where a matrix is not finite: LAPACK would refuse the whole batch for one such pixel.
    """
    matrices = matrices.permute(2, 0, 1)
    usable = torch.isfinite(matrices).all(2).all(1)[:, None]
    values = torch.linalg.svdvals(torch.where(usable[..., None], matrices, 0.0))
    return torch.where(usable, values, torch.nan)


def condition(matrices: Tensor) -> Tensor:
    """Return the condition of (s, p, b) matrices with columns of unit norm, (b,)."""
    # The largest entry first, so that no square of one is too large or too small for a number
    for norm in (float("inf"), 2):
        sizes = torch.linalg.vector_norm(matrices, ord=norm, dim=0)
        matrices = matrices / torch.where(sizes > 0, sizes, 1.0)
    values = singular_values(matrices)
    return values[:, 0] / values[:, -1]
