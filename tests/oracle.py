"""Least squares of one pixel in the plainest way, to compare the package with.

Rows that do not count are physically dropped; what is left is solved by LAPACK in float64
(`fit`) or with 60 decimal digits (`exact`). Nothing here comes from the package.

Letters: n samples, p params, v valid samples, r rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from mpmath import mp

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Fit:
    """The answer for one pixel and how far two good float64 solvers may lie apart.

    Attributes
    ----------
    coef : ndarray, shape (p,)
        NaN where no sample is valid.
    rank, nobs, dof : int
        Numerical rank, valid samples, nobs - rank.
    rss, rmse : float
        Weighted residual sum of squares; sqrt(rss / nobs). NaN where no sample is valid.
    fitted, residual : ndarray, shape (n,)
        The residual is NaN where a sample does not count.
    cond : float
        First over last kept singular value of the unit-norm, sqrt-weighted valid columns.
    margin : float
        How far the nearest singular value lies from the cut-off, as a factor of at least 1.
        Two solvers need not agree on the rank where it is below 10.
    coef_tol, fitted_tol : ndarray, shape (p,) and (n,)
        From eps times condition, see `_tolerances`.
    rss_tol : float
        The same for `rss`.
    """

    coef: Floats
    rank: int
    nobs: int
    dof: int
    rss: float
    rmse: float
    fitted: Floats
    residual: Floats
    cond: float
    margin: float
    coef_tol: Floats
    fitted_tol: Floats
    rss_tol: float


def valid_rows(
    y: ArrayLike,
    design: ArrayLike,
    weights: ArrayLike | None = None,
    valid: ArrayLike | None = None,
) -> NDArray[np.bool_]:
    """Return True, shape (n,), where a sample counts."""
    y, design = np.asarray(y, np.float64), np.asarray(design, np.float64)
    keep = np.isfinite(y) & np.isfinite(design).all(axis=1)
    if weights is not None:
        weights = np.asarray(weights, np.float64)
        keep &= np.isfinite(weights) & (weights > 0)
    if valid is not None:
        keep &= np.asarray(valid, bool)
    return keep


def fit(
    y: ArrayLike,
    design: ArrayLike,
    weights: ArrayLike | None = None,
    valid: ArrayLike | None = None,
    *,
    rcond: float | None = None,
) -> Fit:
    """Fit one pixel in float64.

    Parameters
    ----------
    y : array_like, shape (n,)
        Samples; a sample that is not finite does not count.
    design : array_like, shape (n, p)
        A row that is not finite does not count.
    weights : array_like, shape (n,), optional
        Inverse variances; 0 and NaN do not count.
    valid : array_like of bool, shape (n,), optional
        False does not count.
    rcond : float, optional
        Cut-off of the singular values of the unit-norm columns; eps * max(nobs, p) by default.

    Returns
    -------
    Fit
    """
    y, design = np.asarray(y, np.float64), np.asarray(design, np.float64)
    n, p = design.shape
    keep = valid_rows(y, design, weights, valid)
    nobs = int(keep.sum())
    if nobs == 0:
        nan, nans = float("nan"), np.full(n, np.nan)
        return Fit(np.full(p, np.nan), 0, 0, 0, nan, nan, nans, nans, nan, np.inf,
                   np.zeros(p), np.zeros(n), 0.0)  # fmt: skip

    root = np.ones(nobs) if weights is None else np.sqrt(np.asarray(weights, np.float64)[keep])
    rows, target = design[keep] * root[:, None], y[keep] * root
    unit, norms = _unit_columns(rows)
    left, sv, right = scipy.linalg.svd(unit, full_matrices=False)
    cut = (EPS * max(nobs, p) if rcond is None else rcond) * sv[0]
    rank = int((sv > cut).sum())

    if rank == p:
        # QR of the unit columns: backward stable, and it never forms a small singular value.
        q, triangle = scipy.linalg.qr(unit, mode="economic")
        coef = scipy.linalg.solve_triangular(triangle, q.T @ target) / norms
        units_cond, units_inverse = 0.0, 1.0 / norms
    else:
        coordinates = (left[:, :rank].T @ target) / sv[:rank]
        coef = _minimum_norm(right[:rank] * norms, coordinates)
        units_cond, units_inverse = _units(right[:rank], norms)

    fitted = design @ coef
    residual = np.where(keep, y - fitted, np.nan)
    weighted_residual = residual[keep] * root
    rss = float(weighted_residual @ weighted_residual)
    cond = float(sv[0] / sv[rank - 1]) if rank else 1.0
    coef_tol, fitted_tol, rss_tol = _tolerances(
        design, coef, norms, target, rss, cond, units_cond, units_inverse, keep, root
    )
    return Fit(
        coef=coef,
        rank=rank,
        nobs=nobs,
        dof=nobs - rank,
        rss=rss,
        rmse=float(np.sqrt(rss / nobs)),
        fitted=fitted,
        residual=residual,
        cond=cond,
        margin=_margin(sv, cut),
        coef_tol=coef_tol,
        fitted_tol=fitted_tol,
        rss_tol=rss_tol,
    )


def exact(
    y: ArrayLike,
    design: ArrayLike,
    weights: ArrayLike | None = None,
    valid: ArrayLike | None = None,
    *,
    rcond: float | None = None,
    digits: int = 60,
) -> tuple[Floats, int, float]:
    """Return (coef, rank, rss) of one pixel, computed with `digits` decimal digits.

    The numbers are taken as they stand in float64, the rank rule is the one of `fit`. A singular
    value that is zero up to rounding of the inputs is not zero here: use it for designs that are
    exactly rank short or clearly of full rank.
    """
    y, design = np.asarray(y, np.float64), np.asarray(design, np.float64)
    p = design.shape[1]
    keep = valid_rows(y, design, weights, valid)
    nobs = int(keep.sum())
    if nobs == 0:
        return np.full(p, np.nan), 0, float("nan")
    with mp.workdps(digits):
        w = np.ones(nobs) if weights is None else np.asarray(weights, np.float64)[keep]
        root = [mp.sqrt(mp.mpf(float(x))) for x in w]
        rows = mp.matrix(nobs, p)
        target = mp.matrix(nobs, 1)
        for i, (a, b) in enumerate(zip(design[keep], y[keep], strict=True)):
            target[i] = root[i] * mp.mpf(float(b))
            for j in range(p):
                rows[i, j] = root[i] * mp.mpf(float(a[j]))
        norms = [mp.norm(rows[:, j]) or mp.mpf(1) for j in range(p)]
        unit = rows * mp.diag([1 / x for x in norms])
        left, sv, right = mp.svd_r(unit)
        cut = (EPS * max(nobs, p) if rcond is None else rcond) * sv[0]
        rank = sum(1 for s in sv if s > cut)
        if rank == 0:
            coef = mp.matrix(p, 1)
        else:
            coordinates = left[:, :rank].T * target
            for k in range(rank):
                coordinates[k] /= sv[k]
            map_ = right[:rank, :] * mp.diag(norms)
            coef = map_.T * mp.lu_solve(map_ * map_.T, coordinates)
        residual = target - rows * coef
        rss = mp.fsum(x * x for x in residual)
        return np.array([float(c) for c in coef]), rank, float(rss)


def _unit_columns(rows: Floats) -> tuple[Floats, Floats]:
    """Return the columns scaled to norm 1 and their norms (1 for a zero column)."""
    largest = np.abs(rows).max(axis=0)
    largest[largest == 0] = 1.0
    norms = largest * np.linalg.norm(rows / largest, axis=0)  # no overflow of the squares
    norms[norms == 0] = 1.0
    return rows / norms, norms


def _minimum_norm(map_: Floats, coordinates: Floats) -> Floats:
    """Return the shortest x with ``map_ @ x = coordinates``, shapes (r, p), (p,) and (r,).

    Columns of `map_` may differ in size by many orders; QR of its transpose, rows sorted by size
    and columns pivoted, keeps the small ones right (Cox and Higham 1998, BIT 38,
    doi 10.1007/BF02510915).
    """
    r, p = map_.shape
    if r == 0:
        return np.zeros(p)
    order = np.argsort(-np.abs(map_).max(axis=0))
    q, triangle, pivots = scipy.linalg.qr(map_.T[order], mode="economic", pivoting=True)
    x = np.zeros(p)
    x[order] = q @ scipy.linalg.solve_triangular(triangle, coordinates[pivots], trans="T")
    return x


def _units(rows: Floats, norms: Floats) -> tuple[float, Floats]:
    """Return what the step from unit-norm columns to own units does to errors of a short rank.

    Parameters
    ----------
    rows : ndarray, shape (r, p)
        Orthonormal basis of the row space of the unit-norm columns.
    norms : ndarray, shape (p,)
        Norms of the columns.

    Returns
    -------
    cond : float
        The null space in own units is D^-1 N: an error of N grows by max(1/D) against the
        smallest singular value of D^-1 N.
    inverse : ndarray, shape (p,)
        Norms of the rows of the pseudo-inverse of ``rows * norms``.
    """
    r, p = rows.shape
    null = scipy.linalg.qr(rows.T)[0][:, r:]
    smallest = scipy.linalg.svdvals(null / norms[:, None])[-1]
    # Columns of a graded matrix: solve for each basis vector instead of squaring or inverting.
    inverse = np.array([_minimum_norm(rows * norms, e) for e in np.eye(r)]).reshape(r, p)
    return float((1 / norms).max() / smallest), np.linalg.norm(inverse, axis=0)


def _margin(sv: Floats, cut: float) -> float:
    """Return the factor between the cut-off and the nearest singular value.

    A singular value at rounding level of the largest counts as zero: it is one in exact
    arithmetic, and every backward-stable method finds it below the cut-off.
    """
    noise = 4 * EPS * sv[0]
    factors = [max(s / cut, cut / s) for s in sv if cut > 0 and s > min(noise, cut)]
    return min(factors, default=np.inf)


def _tolerances(
    design: Floats,
    coef: Floats,
    norms: Floats,
    target: Floats,
    rss: float,
    cond: float,
    units_cond: float,
    units_inverse: Floats,
    keep: NDArray[np.bool_],
    root: Floats,
) -> tuple[Floats, Floats, float]:
    """Return how far a backward-stable solver may stray: coef (p,), fitted (n,), rss.

    With z the coefficients of unit-norm columns, Wedin's bound is
    |dz| <= K eps (cond (|z| + |b|) + cond^2 |residual|); for a short rank the null space moves
    by K eps cond as well, times what `_units` says of the coefficients' own units (Bjorck 1996,
    Numerical Methods for Least Squares Problems, section 1.4). K = 16 max(n, p) stands for the
    growth of rounding errors.
    """
    n, p = design.shape
    unit = 16 * max(n, p) * EPS
    size = float(np.linalg.norm(coef * norms) + np.linalg.norm(target))
    loss = float(np.sqrt(rss))
    step = unit * (cond * size + cond**2 * loss)
    coef_tol = units_inverse * step
    if units_cond:
        coef_tol = coef_tol + unit * cond * units_cond * np.linalg.norm(coef)
    inside = unit * (size + cond * loss)
    fitted_tol = np.abs(np.nan_to_num(design)) @ coef_tol
    # A fit may be made as sample minus residual, so it is never sharper than the sample.
    fitted_tol[keep] = np.minimum(fitted_tol[keep], inside / root) + 4 * EPS * np.abs(target) / root
    return coef_tol, fitted_tol, 2 * loss * inside + inside**2
