"""One pixel in the plainest way: rows that do not count are dropped, and numpy solves the rest.

Nothing here is shared with the solver, so that an error would have to be made twice to be missed.
It is not fast, and not meant to be.

Letters: n samples, p params, v samples that count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from xr_lstsq.inference.systems import EPS, Rounding, System, correlation, solve, tied, whiten
from xr_lstsq.outputs import STATUS

__all__ = ["Refit", "Rules", "refit"]

Floats = NDArray[np.float64]

ROUNDING = 16 * EPS
"""Share of the size of the samples up to which what is left of them is their rounding."""
FULL_LEVERAGE = 1e-10
"""1 - leverage up to which a sample's own residual is 0 whatever its value."""


@dataclass(frozen=True)
class Rules:
    """What decides on the numbers of a pixel: the arguments of `xr_lstsq.solve`, and its terms.

    Attributes
    ----------
    to_coef : ndarray, shape (p, p), optional
        Turns coefficients of the rows into those of the params.
    required : (ndarray of bool, shape (k, n), int), optional
        Groups of samples, and how many of each group a pixel needs.
    constraint : ndarray, shape (k, p), optional
        Rows towards 0 that a pixel of short rank is solved with beside its own.
    """

    min_obs: int = 1
    deficient: str = "min_norm"
    rcond: float | None = None
    cov_type: str = "nonrobust"
    maxlags: int | None = None
    absolute_sigma: bool = False
    noise: str | None = None
    level: float = 0.95
    to_coef: Floats | None = None
    required: tuple[NDArray[np.bool_], int] | None = None
    constraint: Floats | None = None


@dataclass(frozen=True)
class Refit:
    """What is known of a pixel.

    Attributes
    ----------
    values : mapping of str to array or number
        Every variable that a fit can have: coef, stderr, tvalue and pvalue (p,), conf_int (p, 2),
        cov (p, p), residual, fitted and leverage (n,); the others are single numbers.
    answer : bool
        Whether there are coefficients.
    centred : bool
        Whether R2 is measured from the weighted mean.
    kept : float
        Largest over smallest of the singular values that count, of columns of unit norm.
    margin : float
        Factor between the cut-off of the rank and the nearest singular value. Below 10 the rank is
        a matter of rounding.
    solved : ndarray, shape (p,)
        Coefficients of the rows.
    """

    values: Mapping[str, Any]
    answer: bool
    centred: bool
    kept: float
    margin: float
    solved: Floats


def refit(
    y: Floats,
    design: Floats,
    weights: Floats | None = None,
    valid: Any = None,
    *,
    rules: Rules | None = None,
    steps: Floats | None = None,
    regular: bool = True,
    like: Refit | None = None,
    rounding: Rounding | None = None,
) -> Refit:
    """Fit one pixel in float64.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Samples; one that is not finite does not count.
    design : ndarray, shape (n, p)
        A sample whose row is not finite does not count.
    weights : ndarray, shape (n,), optional
        Inverse variances; 0, NaN and infinity do not count, a negative one makes the pixel fail.
    valid : ndarray, shape (n,), optional
        0 does not count; anything but 0 and 1 makes the pixel fail.
    rules : Rules, optional
        The arguments of the fit.
    steps : ndarray, shape (n,), optional
        Where the samples lie in time, in steps of their axis, for what needs time.
    regular : bool
        Whether these are whole steps.
    like : Refit, optional
        Where to take what is a decision (rank, span of the constant) from.
    rounding : Rounding, optional
        By how much to be off, for all n samples.
    """
    rules = Rules() if rules is None else rules
    keep = np.isfinite(y) & np.isfinite(design).all(axis=1)
    failed = False
    if weights is not None:
        failed |= bool((weights < 0).any())
        keep &= np.isfinite(weights) & (weights > 0)
    if valid is not None:
        failed |= not np.isin(valid, (0, 1)).all()
        keep &= np.asarray(valid) == 1
    (n, p), nobs = design.shape, int(keep.sum())
    root = np.ones(nobs) if weights is None else np.sqrt(weights[keep])
    at = (np.arange(n, dtype=np.float64) if steps is None else steps)[keep]
    rows, target, constant = design[keep] * root[:, None], y[keep] * root, root
    decided: dict[str, Any] = {"rcond": rules.rcond}
    if like is not None:
        decided |= {"rank": like.values["rank"], "centred": like.centred}

    if rounding is not None:
        decided["rounding"] = rounding.take(keep)

    system = solve(rows, target, constant, **decided)
    rho, log_factors = np.nan, float(np.log(root).sum())  # 1/2 sum log w
    if "ar1" in (rules.noise, rules.cov_type):
        rho = correlation(system.residual, at, regular=regular)
    unknown = rules.noise == "ar1" and bool(np.isnan(rho))
    if rules.noise == "ar1" and not unknown:
        with np.errstate(all="ignore"):
            (rows, factors), (target, _), (constant, _) = (
                whiten(values, at, rho) for values in (rows, target, constant)
            )
        log_factors += factors
        system = solve(rows, target, constant, **decided)

    if rules.constraint is not None and nobs > 0 and system.rank < p:
        system = tied(system, rules.constraint * root.max(), decided.get("rounding"))

    failed |= nobs > 0 and not np.isfinite(system.coef).all()
    rank = 0 if failed else system.rank
    status = "solved" if rank == p else "rank_deficient"
    few = nobs < rules.min_obs or unknown
    if rules.required is not None:
        groups, least = rules.required
        few |= bool((groups[:, keep].sum(axis=1) < least).any())
    status = "too_few_obs" if few else status
    status = "no_data" if nobs == 0 else status
    status = "failed" if failed else status
    n_eff = nobs * (1 - rho) / (1 + rho)
    dof = n_eff - rank if rules.cov_type == "ar1" else nobs - rank
    counts = {"nobs": nobs, "rank": rank, "status": STATUS[status], "dof": dof}
    short = status == "rank_deficient" and rules.deficient == "min_norm"
    answer = status == "solved" or short
    with np.errstate(all="ignore"):
        fitted = design @ system.coef
        left, leverage = np.full(n, np.nan), np.full(n, np.nan)
        if rounding is not None:
            fitted += rounding.residual * (np.abs(design) @ np.abs(system.coef))
            y = y * (1 + rounding.residual)
        left[keep], leverage[keep] = (y - fitted)[keep], system.leverage
        facts = {
            "cond": system.cond,
            "fitted": fitted,
            "residual": left,
            "leverage": leverage,
            "temporal_coherence": np.abs(np.exp(1j * left[keep]).sum()) / np.float64(nobs),
            "rho": rho,
            "n_eff": n_eff,
        }
        facts |= _of_samples(system, nobs, rank, dof, log_factors)
        facts |= _of_params(system, nobs, dof, _kernel(at, n, rules), rules, rounding)
    if not answer:
        facts = {name: np.full_like(value, np.nan, float) for name, value in facts.items()}
    decisions = answer, system.centred, system.kept, system.margin
    return Refit(facts | counts, *decisions, solved=system.coef)


def _of_samples(
    system: System, nobs: int, rank: int, dof: float, log_factors: float
) -> dict[str, Any]:
    """Return what is made of sums of squares of the samples."""
    rss = np.float64(system.residual @ system.residual)
    total, one, k = system.target, system.constant, int(system.centred)
    if system.centred:
        total = total - one * (one @ total) / (one @ one)
    tss = np.float64(total @ total)
    if tss <= ROUNDING**2 * (system.target @ system.target):
        tss = np.float64(np.nan)
    above = rank - k if rank > k else np.nan
    below = nobs - rank if nobs > rank else np.nan  # whatever is known of the noise
    fvalue = np.clip(tss - rss, 0, None) / above / (rss / below)
    loglik = log_factors - nobs / 2 * (np.log(2 * np.pi) + np.log(rss / nobs) + 1)
    return {
        "rss": rss,
        "rmse": np.sqrt(rss / nobs),
        "resid_std": np.sqrt(rss / dof) if dof > 0 else np.nan,
        "rsquared": 1 - rss / tss,
        "rsquared_adj": 1 - rss / tss * (nobs - k) / below,
        "fvalue": fvalue,
        "f_pvalue": special.fdtrc(above, below, fvalue),
        "loglik": loglik,
        "aic": -2 * loglik + 2 * rank,
        "bic": -2 * loglik + np.log(nobs) * rank,
    }


def _of_params(
    system: System, nobs: int, dof: float, kernel: Floats, rules: Rules, rounding: Rounding | None
) -> dict[str, Any]:
    """Return the covariance of the coefficients, and what follows from it."""
    rss = np.float64(system.residual @ system.residual)
    spare = dof if dof > 0 else np.nan
    unscaled = system.inverse @ system.inverse.T
    if rules.absolute_sigma:
        cov = unscaled
    elif rules.cov_type in ("nonrobust", "ar1"):
        cov = unscaled * rss / spare
    else:
        left = np.where(system.free > FULL_LEVERAGE, system.free, np.nan)
        factors = {"HC1": np.sqrt(nobs / spare), "HC2": 1 / np.sqrt(left), "HC3": 1 / left}
        scores = system.residual * factors.get(rules.cov_type, 1.0)
        cov = _sandwich(system, scores[:, None] * kernel * scores, rounding) * (spare / spare)
    coef = system.coef
    if rules.to_coef is not None:
        turn = rules.to_coef
        coef, cov, unscaled = turn @ coef, turn @ cov @ turn.T, turn @ unscaled @ turn.T
    stderr = np.sqrt(np.diag(cov))
    tvalue, tail = coef / stderr, (1 - rules.level) / 2
    if rules.absolute_sigma:
        pvalue, reach = 2 * special.ndtr(-np.abs(tvalue)), -special.ndtri(tail)
    else:
        least = ROUNDING**2 * float(system.target @ system.target)
        nothing = (rss <= least) & (coef**2 <= np.diag(unscaled) * least)
        tvalue = np.where(nothing, np.nan, tvalue)
        pvalue, reach = 2 * special.stdtr(spare, -np.abs(tvalue)), -special.stdtrit(spare, tail)
    half = reach * stderr
    return {
        "coef": coef,
        "cov": cov,
        "stderr": stderr,
        "tvalue": tvalue,
        "pvalue": pvalue,
        "conf_int": np.stack([coef - half, coef + half], axis=1),
    }


def _sandwich(system: System, products: Floats, rounding: Rounding | None) -> Floats:
    """Return (A'WA)+ A' P A (A'WA)+ by the products P of the scores."""
    if rounding is None:
        return system.inverse @ products @ system.inverse.T
    basis = system.rows @ rounding.back
    outer = rounding.back @ rounding.across @ system.inverse @ system.inverse.T @ rounding.across.T
    return outer @ (basis.T @ products @ basis * (1 + rounding.scores)) @ outer.T


def _kernel(at: Floats, n: int, rules: Rules) -> Floats:
    """Return how much each pair of samples counts in a robust covariance, (v, v)."""
    if rules.cov_type != "HAC":
        return np.eye(at.size)
    lags = int(4 * (n / 100) ** (2 / 9)) if rules.maxlags is None else rules.maxlags
    return np.maximum(0.0, 1 - np.abs(at[:, None] - at) / (lags + 1))
