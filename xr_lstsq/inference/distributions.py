"""Tails of the distributions that tests and intervals come from, on arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

__all__ = ["f_tail", "quantile", "two_sided"]

Floats = NDArray[np.float64]


def two_sided(t: Floats, dof: Floats | None) -> Floats:
    """Return the probability of a value farther from 0 than `t`.

    Parameters
    ----------
    t : array
        Estimates over their standard errors.
    dof : array, optional
        Degrees of freedom of Student's t, real numbers; NaN and those up to 0 give NaN. None takes
        the normal distribution.

    Returns
    -------
    array of float64
        Twice the lower tail of -abs(t), so that small probabilities keep their digits.
    """
    tail = special.ndtr(-np.abs(t)) if dof is None else special.stdtr(_positive(dof), -np.abs(t))
    return np.asarray(2 * tail)


def quantile(dof: Any | None, level: float) -> Any:
    """Return how many standard errors an interval reaches to each side.

    Parameters
    ----------
    dof : array, optional
        As in `two_sided`; None takes the normal distribution and returns one number.
    level : float
        Share of the probability inside, in (0, 1).
    """
    tail = (1 - level) / 2
    return -special.ndtri(tail) if dof is None else -special.stdtrit(_positive(dof), tail)


def f_tail(f: Floats, dof_between: Floats, dof_within: Floats) -> Floats:
    """Return the probability of a larger F; NaN where degrees of freedom are NaN or up to 0."""
    return np.asarray(special.fdtrc(_positive(dof_between), _positive(dof_within), f))


def _positive(dof: Any) -> Floats:
    """Return degrees of freedom as float64, NaN where there are none left."""
    dof = np.asarray(dof, np.float64)
    return np.where(dof > 0, dof, np.nan)
