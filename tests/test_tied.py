"""Groups of samples that a pixel must have, and weak rows for pixels of short rank."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from xr_lstsq.design.network import network

DATES = np.datetime64("2020-01-01", "ns") + np.arange(9) * np.timedelta64(12, "D")
PAIRS = [(i, j) for i in range(9) for j in range(i + 1, min(i + 4, 9))]
YEAR = np.timedelta64(31_557_600_000_000_000, "ns")
STATS = ("stderr", "cov", "residual", "fitted", "rss", "resid_std", "leverage")


def make_stack(k: int = 60, share: float = 0.5, seed: int = 0) -> xr.DataArray:
    """Return noisy pairs (pair, x) with gaps, of which some pixels lose dates or fall apart."""
    rng = np.random.default_rng(seed)
    signal = np.cumsum(rng.normal(size=(9, k)), axis=0)
    y = np.array([signal[j] - signal[i] for i, j in PAIRS]) + 0.1 * rng.normal(size=(len(PAIRS), k))
    y[:, 1:][rng.random((len(PAIRS), k - 1)) < share] = np.nan
    first, second = (DATES[list(ends)] for ends in zip(*PAIRS, strict=True))
    coords = {"reference": ("pair", first), "secondary": ("pair", second)}
    return xr.DataArray(y, coords, ("pair", "x"), name="unw")


def velocities() -> np.ndarray:
    """Return the rows of interval velocities, (pairs, intervals)."""
    edges = (DATES - DATES[0]) / YEAR
    steps = np.diff(edges)
    return np.array([[steps[k] if i <= k < j else 0.0 for k in range(8)] for i, j in PAIRS])


def counts_of_dates(stack: xr.DataArray) -> np.ndarray:
    """Return how many pairs with a value each date has, (dates, x)."""
    there = np.isfinite(stack.values)
    return np.array([there[[d in pair for pair in PAIRS]].sum(axis=0) for d in range(9)])


@pytest.mark.parametrize("least", [0, 1, 2, 3])
def test_a_pixel_has_so_many_pairs_at_each_date(least: int) -> None:
    stack = make_stack()
    fit = stack.lstsq.solve(network(min_redundancy=least), "pair")
    nobs = np.isfinite(stack.values).sum(axis=0)
    few = (counts_of_dates(stack) < least).any(axis=0) & (nobs > 0)
    assert few.any() == (least > 0)
    np.testing.assert_array_equal(fit["status"].values == 2, few)
    np.testing.assert_array_equal(np.isnan(fit["coef"].values).all(axis=0), few | (nobs == 0))


def test_weights_of_zero_are_no_pairs() -> None:
    stack = make_stack(share=0.3)
    weights = xr.DataArray(np.ones(stack.shape), stack.coords, stack.dims)
    weights[[0 in pair for pair in PAIRS], 3] = 0.0
    fit = stack.lstsq.solve(network(), "pair", weights=weights)
    assert fit["status"].values[3] == 2
    assert fit["status"].values[0] == 0


def constrained(y: np.ndarray, rows: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return the answer with weak rows: dates lie on a straight line but for what pairs say."""
    there = np.isfinite(y)
    edges = (DATES - DATES[0]) / YEAR
    # From velocities to displacements, and their distance from a straight line
    sums = np.tril(np.ones((9, 8)), -1) * np.diff(edges)
    line = np.vander(edges, 2)
    weak = 1e-4 * root[there].max() * (sums - line @ np.linalg.lstsq(line, sums, rcond=None)[0])
    whole = np.concatenate([rows[there] * root[there, None], weak])
    target = np.concatenate([y[there] * root[there], np.zeros(9)])
    return np.linalg.lstsq(whole, target, rcond=1e-15)[0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_weak_rows_tie_what_is_left_undetermined(weighted: bool, dtype: str) -> None:
    stack, rows = make_stack(), velocities()
    rng = np.random.default_rng(2)
    root = np.sqrt(rng.uniform(0.5, 50.0, stack.shape)) if weighted else np.ones(stack.shape)
    weights = xr.DataArray(root**2, stack.coords, stack.dims) if weighted else None
    plain = stack.lstsq.solve(
        network(min_redundancy=0), "pair", weights=weights, stats=STATS, dtype=dtype
    )
    term = network(min_redundancy=0, constraint="linear")
    fit = stack.lstsq.solve(term, "pair", weights=weights, stats=STATS, dtype=dtype)
    short = (fit["rank"].values < 8) & (fit["nobs"].values > 0)
    assert 10 < short.sum() < 55
    # What counts, and pixels that need no tie, are as they were
    for name in ("nobs", "rank", "status"):
        np.testing.assert_array_equal(fit[name], plain[name])
    for name in ("coef", *STATS):
        np.testing.assert_array_equal(fit[name][..., ~short], plain[name][..., ~short])
    loose = 1e-6 if dtype == "float64" else 1e-4
    for x in short.nonzero()[0]:
        want = constrained(stack.values[:, x], rows, root[:, x])
        size = np.abs(want).max()
        np.testing.assert_allclose(fit["coef"].values[:, x], want, rtol=loose, atol=loose * size)
    # The rows are weak: what pairs say stays
    np.testing.assert_allclose(
        fit["rss"].values[short], plain["rss"].values[short], rtol=1e-4, atol=1e-5
    )
    assert fit["residual"].shape == stack.shape
    assert fit.lstsq.validate(stack, weights=weights).passed


def test_the_scale_of_weights_does_not_count() -> None:
    stack = make_stack()
    ones = xr.DataArray(np.ones(stack.shape), stack.coords, stack.dims)
    term = network(min_redundancy=0, constraint="linear")
    fits = [stack.lstsq.solve(term, "pair", weights=w * ones) for w in (1.0, 2.0**20)]
    np.testing.assert_allclose(fits[0]["coef"], fits[1]["coef"], rtol=1e-7, atol=1e-6)
