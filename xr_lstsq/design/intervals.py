"""What the params of a network of dates give from one date to another, as plain matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["DEGREES", "UNKNOWNS", "WEAK", "between", "weak_rows"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

UNKNOWNS = ("velocity", "displacement", "increment")
DEGREES = {"linear": 1, "quadratic": 2}
"""Degree of the polynomial of time that each constraint ties displacements to."""
WEAK = 1e-4
"""Root of the weight of a row of a constraint, where a pair of weight 1 has 1: it moves what pairs
determine by about the square of it, and still stands far above rounding."""


def between(
    unknown: str, ticks: Sequence[int], unit: int, start: int, first: Places, second: Places
) -> Floats:
    """Return what the params give from one date to another.

    Parameters
    ----------
    unknown : {"velocity", "displacement", "increment"}
        What the params are.
    ticks : sequence of int, length k
        The dates, from early to late.
    unit : int
        Ticks of the unit of time of velocities.
    start : int
        Place among the dates of the one that has no displacement.
    first, second : ndarray of int64, shape (n,)
        Places of the dates from which and to which.

    Returns
    -------
    ndarray of float64, shape (n, k - 1)
        Each length of an interval is the float64 next to the exact one, and enters with its sign,
        so that sums and differences of rows along a chain of dates are exact.
    """
    if unknown == "displacement":
        every = np.arange(len(ticks))
        ends = (second[:, None] == every).astype(np.float64) - (first[:, None] == every)
        return np.delete(ends, start, axis=1)
    # Whole numbers divide to the float64 next to the exact ratio
    spans = [(late - early) / unit for early, late in pairwise(ticks)]
    lengths = np.array(spans) if unknown == "velocity" else np.ones(len(spans))
    interval = np.arange(len(spans))
    early, late = np.minimum(first, second)[:, None], np.maximum(first, second)[:, None]
    signed = np.where((first < second)[:, None], lengths, -lengths)
    return np.where((early <= interval) & (interval < late), signed, 0.0)


def weak_rows(at_dates: Floats, ticks: Sequence[int], degree: int) -> Floats | None:
    """Return rows that ought to give 0 where displacements follow a polynomial of time.

    Parameters
    ----------
    at_dates : ndarray of float64, shape (k, p)
        What makes displacements at all dates of the params.
    ticks : sequence of int, length k
        The dates, from early to late.
    degree : int
        Degree of the polynomial, which has a constant too.

    Returns
    -------
    ndarray of float64, shape (k - degree - 1, p), or None
        Their sum of squares is `WEAK` squared times that of the displacements less the polynomial
        nearest to them. None where one goes through all dates whatever their displacements.
    """
    if len(ticks) <= degree + 1:
        return None
    time = [(2 * tick - ticks[0] - ticks[-1]) / (ticks[-1] - ticks[0]) for tick in ticks]
    polynomials = np.polynomial.legendre.legvander(time, degree)
    # What no polynomial reaches, in as many rows as that has dims: of a projection, which has more,
    # rounding would make rows of their own
    beyond = np.linalg.qr(polynomials, mode="complete")[0][:, degree + 1 :]
    rows: Floats = WEAK * (beyond.T @ at_dates)
    return rows
