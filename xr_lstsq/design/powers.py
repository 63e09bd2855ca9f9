"""Powers of time in a basis that keeps its digits where the powers themselves lose them.

Over a span that is short beside its distance from the origin, powers of time are all but parallel:
over ten years about the year 2015, counted from the year 0, the unit-norm columns of degree 8 have
a condition beyond 1e18, and no solver can help once they are rounded. Legendre polynomials over the
span of the samples are the same model, and their coefficients become those of the powers by exact
fractions.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from xr_lstsq.design.columns import Stable

__all__ = ["stable_powers"]

Floats = NDArray[np.float64]
LARGEST_CONDITION = 1e6
"""Condition of unit-norm columns up to which the extended precision of the solver has digits to
spare."""


def stable_powers(matrix: Floats, times: list[Fraction | None]) -> Stable | None:
    """Return the columns in a basis of Legendre polynomials where powers would lose digits.

    Parameters
    ----------
    matrix : ndarray, shape (n, degree + 1)
        Powers of the times.
    times : list of Fraction or None, length n
        Exact times; None where a label is missing.

    Returns
    -------
    Stable or None
        None where the powers are good enough, or not finite, or the samples have one time only.
    """
    there = [time for time in times if time is not None]
    rows = matrix[[time is not None for time in times]]
    degree = matrix.shape[1] - 1
    if degree == 0 or not there or min(there) == max(there) or not np.isfinite(rows).all():
        return None
    norms = np.linalg.norm(rows, axis=0)
    sizes = np.linalg.svd(rows / np.where(norms > 0, norms, 1.0), compute_uv=False)
    middle, half = (min(there) + max(there)) / 2, (max(there) - min(there)) / 2
    if len(rows) <= degree or sizes[-1] * LARGEST_CONDITION > sizes[0]:
        return None
    unit = [float("nan") if time is None else float((time - middle) / half) for time in times]
    columns = [_powers_of(k, middle, half, degree) for k in range(degree + 1)]
    to_coef = np.array([[float(value) for value in column] for column in columns]).T
    return Stable(legendre.legvander(np.array(unit), degree), to_coef)


def _powers_of(k: int, middle: Fraction, half: Fraction, degree: int) -> list[Fraction]:
    """Return the coefficients of powers of t of the k-th Legendre polynomial of (t - m) / h."""
    line = [-middle / half, 1 / half]
    before, here = [Fraction(1)], line
    if k == 0:
        here = before
    for j in range(1, k):
        # (j + 1) P_(j+1) = (2j + 1) u P_j - j P_(j-1)
        product = [Fraction(0)] * (len(here) + 1)
        for power, value in enumerate(here):
            product[power] += line[0] * value
            product[power + 1] += line[1] * value
        older = before + [Fraction(0)] * (len(product) - len(before))
        following = [
            ((2 * j + 1) * new - j * old) / (j + 1) for new, old in zip(product, older, strict=True)
        ]
        before, here = here, following
    return here + [Fraction(0)] * (degree + 1 - len(here))
