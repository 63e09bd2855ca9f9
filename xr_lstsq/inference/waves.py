"""Amplitudes, phases and peaks of sums of cosines and sines, with errors: the arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNIFORM", "amplitudes", "peaks", "phases"]

UNIFORM = math.pi / math.sqrt(3)
"""Standard deviation of an angle of which nothing is known: uniform over a turn."""
POINTS = 64
"""Points of the grid on which the largest value is sought, for each harmonic."""
BLOCK = 2**18
"""Values on that grid that are held at once."""
STEPS = 60
"""Most steps from a point of the grid to the maximum beside it; a halving needs 52."""
EQUAL = 1e-12
"""Difference of two values, over the sum of the amplitudes, that counts as none."""
FLAT = 1e-8
"""Curvature, over the largest of these amplitudes, from which no error of a peak is told."""

Floats = NDArray[np.float64]


def amplitudes(coef: NDArray[Any], cov: NDArray[Any] | None = None) -> Any:
    """Return the amplitude of each harmonic, and its error where there is a covariance.

    Parameters
    ----------
    coef : array, (..., 2 n)
        cos_1, sin_1, cos_2, ...
    cov : array, (..., 2 n, 2 n), optional
        Their covariance.

    Returns
    -------
    array or tuple of two, (..., n)
        float64; NaN where coefficients are, and the error at amplitude 0.
    """
    cos, sin, size = _split(coef)
    if cov is None:
        return size
    with np.errstate(divide="ignore", invalid="ignore"):
        return size, _error(cov, cos / size, sin / size)


def phases(coef: NDArray[Any], cov: NDArray[Any] | None = None) -> Any:
    """Return the phase of each harmonic in (-pi, pi], and its error where there is a covariance.

    Arguments and shapes are those of `amplitudes`. NaN also at amplitude 0; errors are at most
    `UNIFORM`.
    """
    cos, sin, size = _split(coef)
    # Plus 0: the angle of (-1, -0.0) would be -pi.
    angle = np.where(size > 0, np.arctan2(sin + 0.0, cos), np.nan)
    angle = np.where(angle <= -math.pi, math.pi, angle)
    if cov is None:
        return angle
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = _error(cov, -sin / size, cos / size) / size
    return angle, np.minimum(error, UNIFORM)


def peaks(coef: NDArray[Any], cov: NDArray[Any] | None = None) -> Any:
    """Return the angle of the largest value of a sum of harmonics.

    Parameters
    ----------
    coef : array, (..., 2 n)
        cos_1, sin_1, cos_2, ...: f(a) is the sum of cos_k cos(k a) + sin_k sin(k a).
    cov : array, (..., 2 n, 2 n), optional
        Their covariance.

    Returns
    -------
    array or tuple of two, (...)
        float64: the angle in [0, 2 pi), the first of those with equal values; NaN where
        coefficients are, and where all are 0. Its error, at most `UNIFORM`; NaN where f'' is 0.

    Notes
    -----
    Every maximum on a grid that can be the largest is refined between its neighbours there, by
    Newton's method, and by halving where that would leave them. Memory beside arguments and answers
    is a few times `BLOCK` numbers.
    """
    flat = np.asarray(coef, np.float64).reshape(-1, coef.shape[-1])
    scale = np.abs(flat).max(axis=1)
    known = np.flatnonzero(np.isfinite(scale) & (scale > 0))
    angle, error = (np.full(scale.shape, np.nan) for _ in range(2))
    matrix = None if cov is None else cov.reshape(-1, *cov.shape[-2:])
    step = max(1, BLOCK // (POINTS * flat.shape[1] // 2))
    for start in range(0, len(known), step):
        part = known[start : start + step]
        scaled = flat[part] / scale[part, None]
        angle[part] = _largest(scaled)
        if matrix is not None:
            root = scale[part, None, None]
            error[part] = _peak_error(scaled, matrix[part] / root / root, angle[part])
    found = [one.reshape(coef.shape[:-1]) for one in (angle, error)]
    return found[0] if cov is None else tuple(found)


def _split(coef: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """Return cosines, sines and amplitudes, (..., n) each."""
    cos, sin = (np.asarray(coef[..., first::2], np.float64) for first in (0, 1))
    return cos, sin, np.hypot(cos, sin)


def _error(cov: NDArray[Any], by_cos: Floats, by_sin: Floats) -> Floats:
    """Return the error of a function of each harmonic with these derivatives, (..., n)."""
    even, odd = np.arange(0, cov.shape[-1], 2), np.arange(1, cov.shape[-1], 2)
    variance = (
        by_cos**2 * cov[..., even, even]
        + 2 * by_cos * by_sin * cov[..., even, odd]
        + by_sin**2 * cov[..., odd, odd]
    )
    # A negative variance is 0, rounded; a missing one stays.
    root: Floats = np.sqrt(np.maximum(variance, 0))
    return root


def _largest(coef: Floats) -> Floats:
    """Return the angle of the largest value, (b,), of coefficients (b, 2 n) of size 1."""
    n = coef.shape[1] // 2
    k = np.arange(1, n + 1)
    width = math.tau / (POINTS * n)
    turns = np.arange(POINTS * n) * width
    waves = np.stack([f(one * turns) for one in k for f in (np.cos, np.sin)])
    values = coef @ waves
    size = np.hypot(coef[:, ::2], coef[:, 1::2])
    # No maximum lies higher above the grid than this: half a step, at the largest curvature.
    above = width**2 / 8 * (k**2 * size).sum(axis=1, keepdims=True)
    top = values >= values.max(axis=1, keepdims=True) - above
    top &= (values >= np.roll(values, 1, axis=1)) & (values > np.roll(values, -1, axis=1))
    row, place = np.nonzero(top)
    angle = _refine(coef[row], turns[place], width)
    height = _derivatives(coef[row], angle)[0]
    best = np.full(len(coef), -np.inf)
    np.maximum.at(best, row, height)
    equal = np.flatnonzero(height >= (best - EQUAL * size.sum(axis=1))[row])
    first = equal[np.unique(row[equal], return_index=True)[1]]
    found = angle[first] % math.tau
    # The remainder of -1e-20 is 2 pi, rounded.
    return np.where(found < math.tau, found, 0.0)


def _refine(coef: Floats, angle: Floats, width: float) -> Floats:
    """Return the maxima within `width` of angles (b,), of coefficients (b, 2 n)."""
    low, high = angle - width, angle + width
    for _ in range(STEPS):
        _, slope, curve = _derivatives(coef, angle)
        low, high = np.where(slope > 0, angle, low), np.where(slope < 0, angle, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            better = angle - slope / curve
        inside = (curve < 0) & (better >= low) & (better <= high)
        better = np.where(inside, better, np.where(slope == 0, angle, (low + high) / 2))
        moved = np.abs(better - angle).max()
        angle = better
        # Newton's method squares what is left.
        if moved < 1e-9:
            break
    return angle


def _derivatives(coef: Floats, angle: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the sum of harmonics and its first two derivatives at angles (b,), (b,) each."""
    total, slope, curve = (np.zeros(angle.shape) for _ in range(3))
    for k in range(1, coef.shape[1] // 2 + 1):
        a, b = coef[:, 2 * k - 2], coef[:, 2 * k - 1]
        cos, sin = np.cos(k * angle), np.sin(k * angle)
        wave = a * cos + b * sin
        total += wave
        slope += k * (b * cos - a * sin)
        curve -= k**2 * wave
    return total, slope, curve


def _peak_error(coef: Floats, cov: Floats, angle: Floats) -> Floats:
    """Return sqrt(g C g') / |f''|, g the derivatives of f' by the coefficients, (b,)."""
    k = np.arange(1, coef.shape[1] // 2 + 1)
    turns = k * angle[:, None]
    by = np.stack([-k * np.sin(turns), k * np.cos(turns)], axis=2).reshape(coef.shape)
    variance = (by[:, None, :] @ cov @ by[:, :, None])[:, 0, 0]
    curve = np.abs(_derivatives(coef, angle)[2])
    most = (k**2 * np.hypot(coef[:, ::2], coef[:, 1::2])).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = np.minimum(np.sqrt(np.maximum(variance, 0)) / curve, UNIFORM)
    return np.where(curve > FLAT * most, error, np.nan)
