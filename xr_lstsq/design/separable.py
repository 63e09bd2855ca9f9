"""Which params of a design its samples cannot tell apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["inseparable"]

SHARE = 1e-6
"""Part of a param in what the samples do not see from which it is named."""
LARGEST = 10**9
"""n p^2 up to which this is told: what a singular value decomposition does in about a second."""


def inseparable(matrix: NDArray[np.float64], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the params that samples without gaps leave undetermined.

    Parameters
    ----------
    matrix : ndarray, shape (n, p)
        Rows of missing labels are NaN, and do not count.
    names : sequence of str
        The params.

    Notes
    -----
    Those with a part in the null space of the rows, with columns of unit norm: the param of a step
    after the last sample, or both of two terms that are equal on the samples.
    """
    rows = matrix[np.isfinite(matrix).all(axis=1)]
    n, p = rows.shape
    if n == 0 or n * p * p > LARGEST:
        return ()
    norms = np.linalg.norm(rows, axis=0)
    unit = rows / np.where(norms > 0, norms, 1.0)
    _, sizes, right = np.linalg.svd(unit, full_matrices=n < p)
    cut = np.finfo(np.float64).eps * max(n, p) * sizes[0]
    unseen = right[int((sizes > cut).sum()) :]
    part = np.linalg.norm(unseen, axis=0)
    return tuple(name for name, share in zip(names, part, strict=True) if share > SHARE)
