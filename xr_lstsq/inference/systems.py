"""Weighted rows of one pixel, solved in the plainest way, and the correlation of what they leave.

Letters: v samples that count, p params, r rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["EPS", "FEWEST_PAIRS", "Rounding", "System", "correlation", "solve", "tied", "whiten"]

Floats = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
CONSTANT = 1e-9
"""Share of a constant that its fit may leave where it is said to lie in the span of the rows."""
FEWEST_PAIRS = 10
"""Pairs of samples under which no correlation is told."""
CELLS = 60
"""Cells of the rates of decay among which that of an irregular axis is looked for first."""


@dataclass(frozen=True)
class System:
    """Weighted rows and samples, and the shortest coefficients that fit them best.

    Attributes
    ----------
    rows, target : ndarray, shapes (v, p) and (v,)
        The weighted rows and samples.
    constant : ndarray, shape (v,)
        What a constant of 1 is among them.
    coef : ndarray, shape (p,)
    rank : int
        Number of singular values of the rows, with columns of unit norm, above the cut-off.
    inverse : ndarray, shape (p, v)
        Pseudo-inverse of the rows.
    residual, leverage, free : ndarray, shape (v,)
        Of the weighted samples; 1 - leverage.
    cond : float
        Of the rows with columns of unit norm; infinite where the rank is short.
    centred : bool
        Whether the constant lies in the span of the rows.
    kept : float
        Largest over smallest of the singular values that count.
    margin : float
        Factor between the cut-off of the rank and the nearest singular value.
    """

    rows: Floats
    target: Floats
    constant: Floats
    coef: Floats
    rank: int
    inverse: Floats
    residual: Floats
    leverage: Floats
    free: Floats
    cond: float
    centred: bool
    kept: float
    margin: float


@dataclass(frozen=True)
class Rounding:
    """How far a solver may be off beside what a change of its input does.

    Attributes
    ----------
    residual : ndarray, shape (v,) or (n,)
        Share of what cancels in each residual.
    target : ndarray, shape (v,) or (n,)
        Share of the norm of all weighted samples, for each as it enters the coefficients; and by
        how much 1 - leverage is off.
    across, back : ndarray, shapes (r, p) and (p, r)
        Takes coefficients to those of an orthonormal basis of the design; its pseudo-inverse.
    equations : ndarray, shape (r, r)
        What the inverse of the normal equations, in that basis, is multiplied by, for what is
        added to it.
    scores : ndarray, shape (r, r)
        Share of the products of the scores in that basis, the middle of a robust covariance.
    """

    residual: Floats
    target: Floats
    across: Floats
    back: Floats
    equations: Floats
    scores: Floats

    def take(self, keep: NDArray[np.bool_]) -> Rounding:
        """Return that of the samples that count."""
        return replace(self, residual=self.residual[keep], target=self.target[keep])

    def extend(self, k: int) -> Rounding:
        """Return that of k more rows after the samples, each as much as some sample's."""
        residual, target = (np.resize(part, part.size + k) for part in (self.residual, self.target))
        return replace(self, residual=residual, target=target)


def solve(
    rows: Floats,
    target: Floats,
    constant: Floats,
    *,
    rcond: float | None = None,
    rank: int | None = None,
    centred: bool | None = None,
    rounding: Rounding | None = None,
) -> System:
    """Minimise ||rows x - target||; where the rank is short, by the shortest x that does.

    Parameters
    ----------
    rows, target, constant : ndarray, shapes (v, p), (v,) and (v,)
        Of the samples that count, times the roots of their weights.
    rcond : float, optional
        Cut-off of the singular values relative to the largest; None means eps * max(v, p).
    rank, centred : int and bool, optional
        Decided already.
    rounding : Rounding, optional
        By how much to be off.
    """
    v, p = rows.shape
    if v == 0 or not np.isfinite(rows).all():
        lost, blank = np.full(p, np.nan), np.zeros(v)
        return System(rows, target, constant, coef=lost, rank=0, inverse=np.zeros((p, v)),
                      residual=blank, leverage=blank, free=blank, cond=np.inf, centred=False,
                      kept=np.inf, margin=np.inf)  # fmt: skip
    norms = np.linalg.norm(rows, axis=0)
    norms[norms == 0] = 1.0
    basis, triangle = _qr(rows / norms)
    left, sizes, right = np.linalg.svd(triangle, full_matrices=False)
    cut = (EPS * max(v, p) if rcond is None else rcond) * sizes[0]
    rank = int((sizes > cut).sum()) if rank is None else rank
    seen = target if rounding is None else target + rounding.target * np.linalg.norm(target)
    if rank == p:
        inverse = np.linalg.solve(triangle, basis.T) / norms[:, None]
        coef = np.linalg.solve(triangle, basis.T @ seen) / norms
    else:
        # rows = basis @ diag(scale) @ wide, whose last factor has independent rows. Where all
        # rows are independent they may be it themselves, so that no weight is lost to another.
        basis, scale, wide = basis @ left[:, :rank], sizes[:rank], right[:rank] * norms
        if rank == v:
            basis, scale = np.eye(v), np.linalg.norm(rows, axis=1)
            wide = rows / scale[:, None]
        across, triangle = _qr(wide.T)
        inverse = across @ np.linalg.solve(triangle.T, (basis / scale).T)
        coef = np.zeros(p)
        for _ in range(2):  # the second time for what rounding has left
            rest = basis.T @ (seen - rows @ coef) / scale
            coef = coef + across @ np.linalg.solve(triangle.T, rest)
    if centred is None:
        rest = constant - basis @ (basis.T @ constant)
        centred = bool(np.linalg.norm(rest) < CONSTANT * np.linalg.norm(constant))
    residual, leverage = target - basis @ (basis.T @ target), (basis**2).sum(axis=1)
    free = 1 - leverage
    cond = float(sizes[0] / sizes[-1]) if rank == p else np.inf
    if rounding is not None:
        residual += rounding.residual * (np.abs(target) + np.abs(rows) @ np.abs(coef))
        more = rounding.back @ rounding.equations @ rounding.across @ inverse
        inverse, leverage = inverse + more, leverage + (rows * more.T).sum(axis=1)
        free = 1 - leverage + rounding.target
    return System(
        rows,
        target,
        constant,
        coef=coef,
        rank=rank,
        inverse=inverse,
        residual=residual,
        leverage=leverage,
        free=free,
        cond=cond,
        centred=centred,
        kept=float(sizes[0] / sizes[rank - 1]) if rank else 1.0,
        margin=_margin(sizes, cut),
    )


def tied(system: System, constraint: Floats, rounding: Rounding | None = None) -> System:
    """Return a system solved with rows (k, p) towards 0 beside its own.

    They count in nothing else. They come times the roots of their weights; `rounding` is that of
    the v samples.
    """
    v, k = system.rows.shape[0], constraint.shape[0]
    whole = solve(
        np.concatenate([system.rows, constraint]),
        np.concatenate([system.target, np.zeros(k)]),
        np.concatenate([system.constant, np.zeros(k)]),
        rounding=None if rounding is None else rounding.extend(k),
    )
    return replace(
        system,
        coef=whole.coef,
        inverse=whole.inverse,
        residual=whole.residual[:v],
        leverage=whole.leverage[:v],
        free=whole.free[:v],
        kept=whole.kept,
    )


def _qr(matrix: Floats) -> tuple[Floats, Floats]:
    """Return Q and R; large rows are taken first, so that small ones keep their digits."""
    order = np.argsort(-np.abs(matrix).max(axis=1, initial=0))
    basis = np.empty((matrix.shape[0], min(matrix.shape)))
    basis[order], triangle = np.linalg.qr(matrix[order])
    return basis, triangle


def _margin(sizes: Floats, cut: float) -> float:
    """Return the factor between the cut-off and the nearest singular value.

    One at the rounding of the largest counts as 0, which it is in exact arithmetic.
    """
    noise = min(4 * EPS * float(sizes[0]), cut)
    return min((float(max(s / cut, cut / s)) for s in sizes if s > noise > 0), default=np.inf)


def correlation(residual: Floats, at: Floats, *, regular: bool) -> float:
    """Return the correlation of residuals one step of time apart, in [0, 1).

    Parameters
    ----------
    residual : ndarray, shape (v,)
        Weighted residuals.
    at : ndarray, shape (v,)
        Where the samples lie in time, in steps.
    regular : bool
        Whether these are whole steps. Then all pairs one step apart count, else consecutive
        samples, whose correlation falls as rho^distance.

    Returns
    -------
    float
        0 where it would be negative, NaN for fewer than 10 pairs.
    """
    order = np.argsort(at, kind="stable")
    f, at = residual[order], at[order]
    first, second = np.arange(at.size - 1), np.arange(1, at.size)
    if regular:
        first, second = np.nonzero(at[None, :] - at[:, None] == 1)
    if first.size < FEWEST_PAIRS:
        return float("nan")
    with np.errstate(all="ignore"):
        if not regular:
            return _decay(f[first], f[second], at[second] - at[first])
        product = float(f[first] @ f[second])
        size = float(np.sqrt((f[first] @ f[first]) * (f[second] @ f[second])))
        return max(0.0, product / size) if size > 0 else 0.0


def _decay(f: Floats, g: Floats, distance: Floats) -> float:
    """Return the rho in [0, 1) that minimises sum (g - rho^distance f)^2.

    M. Mudelsee, TAUEST: a computer program for estimating persistence in unevenly spaced
    weather/climate time series, Computers & Geosciences 28, 69-72, 2002,
    doi:10.1016/S0098-3004(01)00041-3.
    """

    def rising(rate: float) -> bool:
        """Return whether the sum rises with the rate of decay, rho = exp(-rate)."""
        power = np.exp(-rate * distance)
        return bool(((g - power * f) * f * power * distance).sum() > 0)

    # Of several minima the one next to the best of a grid, 1e-3 to 1e3 a step
    grid = np.linspace(-3.0, 3.0, CELLS + 1)
    sums = [((g - np.exp(-(10.0**rate) * distance) * f) ** 2).sum() for rate in grid]
    middle = float(grid[int(np.argmin(sums))])
    low, high = middle - 6.0 / CELLS, middle + 6.0 / CELLS
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(10.0**middle) else (middle, high)
    return float(np.exp(-(10.0**low)))


def whiten(values: Floats, at: Floats, rho: float) -> tuple[Floats, float]:
    """Return weighted rows (v,) or (v, p) freed of their correlation, and its log-determinant.

    Each row loses rho^d times the one before it in time, d steps away, and is divided by
    sqrt(1 - rho^2d); the first is kept as it is.
    """
    order = np.argsort(at, kind="stable")
    phi = rho ** np.diff(at[order])
    innovation = np.sqrt(1 - phi**2)
    before, after = values[order[:-1]], values[order[1:]]
    out = values.copy()
    out[order[1:]] = ((after.T - phi * before.T) / innovation).T
    return out, -float(np.log(innovation).sum())
