"""How far a value of a fit may lie from the plain reference: as far as rounding can move it.

A pixel is fitted again a few times with each of its numbers moved at random by what rounding does
to it. That follows each value's own condition, through all that is made of it (statistical
condition estimation: C. S. Kenney, A. J. Laub and M. S. Reese, SIAM J. Sci. Comput. 19, 566-583,
1998, doi:10.1137/S1064827595282519).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xr_lstsq.inference.drawn import Drawn
from xr_lstsq.inference.reference import Refit, Rules, refit
from xr_lstsq.inference.systems import EPS, FEWEST_PAIRS, Rounding

__all__ = ["EXACT", "Moves"]

Floats = NDArray[np.float64]

COPIES = 4
"""Times that a pixel is fitted with its numbers moved."""
NUMBER = {np.float64: 1024, np.float32: 64}
"""Roundings by which each sample, entry of the design and weight is moved, and each residual by
those of what cancels in it."""
SUM = {np.float64: 512, np.float32: 32}
"""Roundings of the norm of all weighted samples by which each is moved where coefficients are made,
since they are sums. In float32 times the condition: that is not made up for there, and is small."""
SHORT = 8
"""Times as many where the rank is short: the shortest coefficients are a second problem, in their
own units, on top of the first."""
SPREAD = 8
"""Roundings by which variances are off, times the condition of the equations they are read from:
the square of that of the rows, or of the same rows of an orthonormal basis of the design."""
MOST_SQUARED = {np.float64: 1e6, np.float32: 1e3}
"""Largest condition of these equations; pixels beyond are solved without them."""
FORMULA = 2.0**-42
"""Share of itself by which a value may differ: formulas and special functions are evaluated in
other orders."""
MOST_SINGLE = 1e4
"""Condition of a design on unit-norm columns up to which dtype float32 solves in float32."""
CLEAR = 10.0
"""Factor between a singular value and the cut-off from which all good solvers see one rank."""
EXACT = ("nobs", "rank", "status")
UNITS = ("rho", "rsquared", "rsquared_adj", "temporal_coherence")
"""Variables whose rounding is that of numbers near 1."""
RATIOS = ("tvalue", "pvalue", "fvalue", "f_pvalue", "loglik", "aic", "bic")
"""Variables that mean nothing where residuals are rounding: they are divided by them, or
logarithms of them."""
CORRELATED = ("rho", "n_eff", "dof", "resid_std", "stderr", "cov", "conf_int")
"""Those that mean nothing either where they are made with the correlation of residuals."""


class _Sizes(NamedTuple):
    """Shares by which numbers, sums, variances and products of scores are moved."""

    number: float
    sum: float
    spread: float
    scores: float


@dataclass(frozen=True, eq=False)
class Moves:
    """Fits pixels again, as they are and moved.

    Attributes
    ----------
    drawn : Drawn
        The pixels.
    rules : Rules
        How they were fitted.
    single : bool
        Whether pixels may have been solved in float32.
    basis : ndarray, shape (n, r)
        Orthonormal, of the design; 0 where its rows are not finite.
    across, back : ndarray, shapes (r, p) and (p, r)
        Takes coefficients to those of the basis; its pseudo-inverse.
    shares : list of tuple of array
        For each copy, between -1 and 1: of the samples (n,), the design (n, p), the weights (n,),
        the residuals (n,), the weighted samples (n,), and twice (r, r) for the equations.
    """

    drawn: Drawn
    rules: Rules
    single: bool
    basis: Floats
    across: Floats
    back: Floats
    shares: list[tuple[Floats, ...]]

    @classmethod
    def of(cls, drawn: Drawn, rules: Rules, dtype: str, rng: np.random.Generator) -> Moves:
        """Draw the shares for pixels that were fitted with this `dtype`."""
        n, p = drawn.rows.shape
        finite = np.asarray(np.isfinite(drawn.rows).all(axis=1))
        rows = np.where(finite[:, None], drawn.rows, 0.0)
        left, kept = _singular(rows)
        single = dtype == "float32" and (rules.noise is not None or _ratio(kept) <= MOST_SINGLE)
        r = kept.size
        shapes = ((n,), (n, p), (n,), (n,), (n,), (r, r), (r, r))
        shares = [tuple(rng.uniform(-1, 1, shape) for shape in shapes) for _ in range(COPIES)]
        across, norms = left.T @ rows, _norms(rows)  # rows = left @ across
        back = np.linalg.pinv(across / norms) / norms[:, None]
        return cls(drawn, rules, single, left, across, back, shares)

    def refit(
        self, k: int, dtypes: Iterable[tuple[str, np.dtype[Any]]]
    ) -> tuple[Refit, dict[str, Floats], bool]:
        """Fit a pixel again.

        Parameters
        ----------
        k : int
            Which.
        dtypes : iterable of (str, dtype)
            Variables to bound, and how the fit stores them.

        Returns
        -------
        fit : Refit
            The reference.
        bounds : dict of str to array
            For each variable; infinite where rounding decides whether it is a number at all.
        settled : bool
            Whether its rank and its noise are beyond doubt; if not, only that of nobs is finite.
        """
        fit = refit(**self._pixel(k))
        settled = fit.margin > CLEAR and not self._noise_is_rounding(k)
        moved = []
        if fit.answer and settled:
            sizes = self._sizes(k, fit)
            moved = [refit(**self._moved(k, share, sizes), like=fit) for share in self.shares]
        vague = self._vague(fit, moved)
        bounds = {}
        for name, dtype in dtypes:
            value = np.asarray(fit.values[name], np.float64)
            bound = np.zeros_like(value)
            if name == "nobs":
                pass
            elif not settled or name in vague:
                bound += np.inf
            elif name not in EXACT:
                changes = [_change(value, other.values[name]) for other in moved]
                bound = np.max([bound, *changes], axis=0) + _own_rounding(name, value, dtype)
                if name == "cond" and moved:  # judged on the design, however that was taken apart
                    bound += sizes.scores * np.nan_to_num(value, posinf=0.0) ** 3
            bounds[name] = bound
        return fit, bounds, settled

    def _pixel(self, k: int) -> dict[str, Any]:
        """Return the arguments by which a pixel is fitted again."""
        drawn = self.drawn
        return {
            "y": drawn.y[:, k],
            "design": drawn.rows,
            "weights": None if drawn.weights is None else drawn.weights[:, k],
            "valid": None if drawn.valid is None else drawn.valid[:, k],
            "rules": self.rules,
            "steps": drawn.steps,
            "regular": drawn.regular,
        }

    def _moved(self, k: int, shares: tuple[Floats, ...], sizes: _Sizes) -> dict[str, Any]:
        """Return the same with its numbers moved."""
        pixel = self._pixel(k)
        for name, share in zip(("y", "design", "weights"), shares, strict=False):
            if pixel[name] is not None:
                pixel[name] = pixel[name] * (1 + sizes.number * share)
        of_residual, of_target, of_equations, of_scores = shares[3:]
        rounding = Rounding(
            residual=sizes.number * of_residual,
            target=sizes.sum * of_target,
            across=self.across,
            back=self.back,
            equations=sizes.spread * of_equations,
            scores=sizes.scores * of_scores,
        )
        return pixel | {"rounding": rounding}

    def _sizes(self, k: int, fit: Refit) -> _Sizes:
        """Return by how much the numbers of a pixel are moved."""
        root = np.isfinite(fit.values["leverage"]) * 1.0
        if self.drawn.weights is not None:
            root *= np.sqrt(np.where(root > 0, self.drawn.weights[:, k], 0.0))
        kept = max(fit.kept, _ratio(_singular(self.basis * root[:, None])[1]))
        # What float32 leaves is a float64 answer, rounded
        most = MOST_SINGLE * np.sqrt(MOST_SQUARED[np.float32])
        kind = np.float32 if self.single and fit.kept <= most else np.float64
        eps, squared = float(np.finfo(kind).eps), min(kept**2, MOST_SQUARED[kind])
        growth = np.sqrt(squared) if kind is np.float32 else 1.0
        growth *= SHORT if fit.values["rank"] < self.drawn.rows.shape[1] else 1
        return _Sizes(
            number=eps * NUMBER[kind],
            sum=eps * SUM[kind] * growth,
            spread=eps * SPREAD * squared,
            scores=eps * SPREAD,
        )

    def _vague(self, fit: Refit, moved: list[Refit]) -> set[str]:
        """Return the variables of a pixel that mean nothing since its residuals are rounding."""
        rss = fit.values["rss"]
        if not any(abs(other.values["rss"] - rss) > rss / 2 for other in moved):
            return set()
        known = ("tvalue", "pvalue") if self.rules.absolute_sigma else ()
        return {*RATIOS, *(CORRELATED if self.rules.cov_type == "ar1" else ())} - {*known}

    def _noise_is_rounding(self, k: int) -> bool:
        """Return whether a pixel is fitted by the correlation of residuals that are rounding."""
        if self.rules.noise is None:
            return False
        plain = self._pixel(k) | {"rules": replace(self.rules, noise=None)}
        fit, y = refit(**plain), plain["y"]
        root = np.ones_like(y)
        if plain["weights"] is not None:
            root = np.sqrt(np.where(plain["weights"] > 0, plain["weights"], 0.0))
        kind = np.float32 if self.single else np.float64
        cancels = np.abs(y) + np.abs(self.drawn.rows) @ np.abs(fit.solved)
        size, left = (np.nansum((root * part) ** 2) for part in (cancels, fit.values["residual"]))
        small = left <= (NUMBER[kind] * np.finfo(kind).eps) ** 2 * size
        return bool(small) and fit.values["nobs"] > FEWEST_PAIRS


def _singular(rows: Floats) -> tuple[Floats, Floats]:
    """Return left singular vectors and singular values of rows with columns of unit norm.

    Those that are 0 but for rounding are left out.
    """
    left, sizes, _ = np.linalg.svd(rows / _norms(rows), full_matrices=False)
    kept = sizes > EPS * max(rows.shape) * sizes.max(initial=0.0)
    return left[:, kept], sizes[kept]


def _norms(rows: Floats) -> Floats:
    """Return the norms of columns, 1 for those of 0."""
    norms = np.linalg.norm(rows, axis=0)
    return np.where(norms > 0, norms, 1.0)


def _ratio(sizes: Floats) -> float:
    """Return the largest over the smallest."""
    return float(sizes.max() / sizes.min()) if sizes.size else 1.0


def _change(value: Floats, other: Any) -> Floats:
    """Return how far a value has moved; infinite where it is NaN on one side only."""
    with np.errstate(invalid="ignore"):
        same = (other == value) | (np.isnan(other) & np.isnan(value))
        change = np.where(same, 0.0, np.abs(other - value))
    return np.where(np.isnan(change), np.inf, change)


def _own_rounding(name: str, value: Floats, dtype: np.dtype[Any]) -> Floats:
    """Return how far a value may lie off whatever its pixel."""
    if dtype.kind != "f":
        return np.zeros_like(value)
    size = np.abs(np.where(np.isfinite(value), value, 0.0))
    size = np.maximum(size, 1.0) if name in UNITS else size
    if name == "leverage":  # a square of what is rounded as a part of 1
        size = size + np.sqrt(size) * 2.0**-4
    stored = 0.0 if dtype == np.float64 else 4 * float(np.finfo(dtype).eps)
    return np.asarray(size * (FORMULA + stored) + float(np.finfo(dtype).tiny))
