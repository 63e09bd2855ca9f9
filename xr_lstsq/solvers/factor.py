"""Factorise a design that all pixels share, once, on the host and in extended precision.

The work grows with n p^2 but not with the pixels, so it is done with twice float64's digits: every
pixel then works in plain float64 with factors that are right to the last bit. An error of
eps * cond^2 * residual becomes eps * cond * residual at no cost per pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xr_lstsq.solvers import extended
from xr_lstsq.solvers.extended import Extended

__all__ = ["Factor", "factorise"]

Float = NDArray[np.float64]
Order = NDArray[np.intp]

EPS = float(np.finfo(np.float64).eps)
SAFE_EIGENVALUE = 1e-8
"""Below this eigenvalue of Q'WQ one refinement step no longer restores full accuracy."""
BITS = 24
"""Bits of the leading half of a `Halves`: two such numbers multiply exactly, with sums of 32."""
MOST_WIDE, REFINE_WIDE = 1e4, 1e2
"""Condition of A A' up to which a design of full row rank is inverted, and refined from."""
SAFE_WIDE = 1e-4
"""The largest tau at which any choice of rows is a factor of 100 sqrt(p) away from a lower rank."""
DIGITS_SINGLE = 15
"""Digits before or after the point of a design's largest numbers up to which float32 holds it."""
MOST_SINGLE = 1e4
"""Condition of the unit-norm columns of a design from which float32 has too few digits."""
LOST_TO_WEIGHTS = 1e-14
"""Relative error of Q, in rows that weigh little beside others, past which Q is not used."""


@dataclass(frozen=True)
class Halves:
    """A matrix of twice float64's digits as a sum whose first part has few bits.

    Attributes
    ----------
    whole : array
        The matrix, rounded to float64.
    high : array
        Its leading `BITS` bits, on one grid a row: sums of products with another such part are
        exact.
    low : array
        What `high` leaves, in float64.
    """

    whole: Float
    high: Float
    low: Float


@dataclass(frozen=True)
class WideFactor:
    """The attributes of `xr_lstsq.solvers.shared.Wide` as numpy arrays."""

    to_coef: Float
    inverse: Float
    refine: bool


@dataclass(frozen=True)
class Factor:
    """A shared design as numpy arrays, the form that travels through dask graphs.

    The attributes are those of `xr_lstsq.solvers.shared.Shared`, with `negative` beside them:
    True when a shared weight is below 0, which makes every pixel fail.
    """

    plain: Float
    rows: Float
    finite: NDArray[np.bool_]
    basis: Halves
    to_coef: Halves
    to_fit: Float
    root_weights: Float
    tau: float
    single: bool
    wide: WideFactor | None
    negative: bool


def factorise(design: Any, weights: Any = None, rcond: float | None = None) -> Factor:
    """Factorise W^(1/2) A = Q B with A of shape (n, p) and optional shared weights (n,).

    Parameters
    ----------
    design : array of (n, p)
        Any real dtype. A row that is not finite is left out for all pixels.
    weights : array of (n,), optional
        Inverse variances; 0 or not finite leaves the sample out for all pixels.
    rcond : float, optional
        Cut-off of the rank on unit-norm columns; None means eps * max(n, p).

    Returns
    -------
    Factor
        With rank r: Q (n, r), B+ (p, r) by which z = argmin ||Qz - y|| becomes the unique
        coefficients (r = p) or the minimum-norm ones in their own units (r < p).

    Notes
    -----
    Columns are scaled by a power of two near their norm, which is exact, before a Householder QR
    with column pivoting. Rank is judged on columns of unit norm. Householder QR with rows sorted
    by size and columns pivoted is stable row by row (Cox and Higham 1998, in Numerical Analysis
    1997, 57-73), which the minimum norm needs when params stand in very different units.
    """
    given: Float = np.asarray(design, dtype=np.float64)
    n, p = given.shape
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(given).all(axis=1))
    plain: Float = np.where(finite[:, None], given, 0)
    shared: Float = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    negative = bool((shared < 0).any())
    weight: Float = np.where(finite & np.isfinite(shared) & (shared > 0), shared, 0)
    # Powers of two out of the way first, so that nothing can overflow: of the largest weight (an
    # even one, for the root) and of the largest entry of each column.
    unit = 2 * _exponent(weight.max(initial=0) ** 0.5)
    root = Extended(np.ldexp(weight, -unit)).sqrt()
    column = _exponent(np.abs(plain).max(axis=0, initial=0))
    scaled = Extended(np.ldexp(plain, -column)) * root[:, None]

    sort = _by_size(scaled)
    reflectors, upper, order = _pivoted_qr(scaled[sort])
    sizes = np.sqrt((scaled.hi * scaled.hi).sum(axis=0))[order]
    cutoff = EPS * max(n, p) if rcond is None else rcond
    rank, tau, condition = _rank_and_tau(upper.hi / np.where(sizes > 0, sizes, 1), cutoff)
    positive = root.hi[root.hi > 0]
    if positive.size and extended.EPS * positive.max() > LOST_TO_WEIGHTS * positive.min():
        tau = 1.0  # only reflectors applied to y keep the light rows' digits

    basis = Extended(np.zeros((n, rank)))
    basis[sort] = _apply(reflectors, Extended(np.eye(n, rank)))
    # scaled = Q B, with B (r, p) in the order of the params
    back = Extended(np.zeros((rank, p)))
    back[:, order] = upper[:rank]
    if rank == p:
        to_coef = _inverse(upper, order)
        to_coef = _shift(to_coef, -column[:, None])
    else:
        to_coef = _minimum_norm(_shift(back, column))
    # W^(1/2) A B+ = Q, so A B+ needs no product but in rows of weight 0
    heavy = root.hi > 0
    to_fit: Float = plain @ to_coef.hi
    to_fit[heavy] = (basis[heavy] / root[heavy][:, None]).hi
    # The largest weight was divided by 2^unit: z grows by 2^(unit/2), B+ shrinks by as much
    to_coef = _shift(to_coef, -(unit // 2))
    root_weights = np.ldexp(root.hi, unit // 2)
    rows, to_fit = plain * root_weights[:, None], np.ldexp(to_fit, -(unit // 2))
    return Factor(
        plain=plain,
        rows=rows,
        finite=finite,
        basis=_halve(basis),
        to_coef=_halve(to_coef),
        to_fit=to_fit,
        root_weights=root_weights,
        tau=tau,
        single=condition < MOST_SINGLE and _in_range(rows, to_coef.hi, to_fit),
        wide=_wide(root_weights, plain, basis, to_coef, tau),
        negative=negative,
    )


def _in_range(*matrices: Float) -> bool:
    """Tell whether float32 has room for matrices, and for products with them."""
    sizes = np.hstack([np.abs(matrix).max(axis=0, initial=0) for matrix in matrices])
    return bool((np.abs(np.log10(sizes[sizes > 0])) < DIGITS_SINGLE).all())


def _wide(
    root: Float, plain: Float, basis: Extended, to_coef: Extended, tau: float
) -> WideFactor | None:
    """Return what a well conditioned design of full row rank needs, else None."""
    n, rank = basis.shape
    # Rows of unit norm say nothing of the rank rule, which sees how large they are; tau does
    if rank < n or not n or tau > SAFE_WIDE or not (root > 0).all():
        return None
    sizes = np.linalg.norm(plain * root[:, None], axis=1)
    inverse = Extended(np.zeros((to_coef.shape[0], n)))
    for k in range(rank):
        inverse = inverse + to_coef[:, k : k + 1] * basis[:, k : k + 1].T
    scaled = inverse * Extended(sizes)[None]
    gram_inverse = scaled.hi.T @ scaled.hi
    values = np.linalg.eigvalsh(gram_inverse)
    if not values[-1] < MOST_WIDE * values[0]:
        return None
    return WideFactor(
        to_coef=scaled.hi,
        inverse=gram_inverse,
        refine=bool(values[-1] > REFINE_WIDE * values[0]),
    )


def _exponent(sizes: Any) -> Any:
    """Return the exponent of the power of two near each size; 0 for a size of 0."""
    return np.frexp(sizes)[1]


def _shift(matrix: Extended, exponent: Any) -> Extended:
    """Return the matrix times 2^exponent."""
    return Extended(np.ldexp(matrix.hi, exponent), np.ldexp(matrix.lo, exponent))


def _halve(matrix: Extended) -> Halves:
    """Split a matrix into its leading bits and the rest."""
    grid = _exponent(np.abs(matrix.hi).max(axis=1, initial=0))[:, None] - BITS
    high = np.ldexp(np.round(np.ldexp(matrix.hi, -grid)), grid)
    return Halves(matrix.hi, high, (matrix.hi - high) + matrix.lo)


def _by_size(matrix: Extended) -> Order:
    """Return the order that puts the rows with the largest entries first."""
    return np.argsort(-np.abs(matrix.hi).max(axis=1, initial=0), kind="stable")


def _rank_and_tau(upper: Float, cutoff: float) -> tuple[int, float, float]:
    """Return of a pivoted triangle of unit columns its rank, safe eigenvalue and condition."""
    steps, p = upper.shape
    values = np.linalg.svd(upper, compute_uv=False)
    if not values.size or values[0] == 0:
        return 0, 1.0, 1.0
    rank = int((values > cutoff * values[0]).sum())
    smallest = values[rank - 1] / values[0]
    # Singular values past the rank lie below float64 rounding; the norm of the triangle that is
    # left, in extended precision, is the honest bound for them.
    left = np.linalg.norm(upper[rank:, rank:]) / values[0] if rank < min(steps, p) else 0.0
    tau = max(SAFE_EIGENVALUE, p * (cutoff / smallest) ** 2, p * (left / (EPS * p)) ** 2)
    return rank, float(tau), float(1 / smallest)


def _pivoted_qr(matrix: Extended) -> tuple[list[Extended], Extended, Order]:
    """Return Householder vectors of norm sqrt(2), the triangle (min(n, p), p), the column order."""
    work = matrix.copy()
    n, p = work.shape
    order = np.arange(p)
    reflectors: list[Extended] = []
    for k in range(min(n, p)):
        tail = work.hi[k:, k:]
        pick = k + int((tail * tail).sum(axis=0).argmax())
        work[:, [k, pick]] = work[:, [pick, k]]
        order[[k, pick]] = order[[pick, k]]
        vector = work[k:, k].copy()
        size = (vector * vector).sum().sqrt()
        if size.hi > 0:
            vector[0] = vector[0] + (size if vector.hi[0] >= 0 else -size)
            # v v' with v'v = 2 is I - 2 v v' / v'v without a division a step
            vector = vector / ((vector * vector).sum() * Extended(np.asarray(0.5))).sqrt()
            _reflect(work[k:, k:], vector)
        work[k + 1 :, k] = Extended(np.zeros(n - k - 1))
        reflectors.append(vector)
    return reflectors, work[: min(n, p)], order


def _reflect(part: Extended, vector: Extended) -> None:
    """Overwrite a part of a matrix, a view of it, with (I - v v') part."""
    inner = (vector[:, None] * part).sum()
    part[:] = part - vector[:, None] * inner[None]


def _apply(reflectors: list[Extended], matrix: Extended) -> Extended:
    """Return Q matrix."""
    result = matrix.copy()
    for k, vector in reversed(list(enumerate(reflectors))):
        _reflect(result[k:], vector)
    return result


def _inverse(upper: Extended, order: Order) -> Extended:
    """Return the inverse of a square triangle, its rows put in the order of the params."""
    p = upper.shape[0]
    inverse = Extended(np.zeros((p, p)))
    for k in range(p - 1, -1, -1):
        row = -(upper[k, k + 1 :][:, None] * inverse[k + 1 :]).sum()
        row[k] = row[k] + Extended(np.asarray(1.0))
        inverse[k] = row / upper[k, k]
    result = Extended(np.zeros((p, p)))
    result[order] = inverse
    return result


def _minimum_norm(back: Extended) -> Extended:
    """Return B+ (p, r) of B (r, p) with full row rank, in the params' own units."""
    rank, p = back.shape
    sort = _by_size(back.T)
    reflectors, upper, order = _pivoted_qr(back.T[sort])
    # B' = Q R P', so B+ = Q R^-T P'
    padded = Extended(np.zeros((p, rank)))
    padded[:rank, order] = _inverse(upper, np.arange(rank)).T
    result = Extended(np.zeros((p, rank)))
    result[sort] = _apply(reflectors, padded)
    return result
