"""Intervals hold the truth as often as they say, and p-values of nothing are uniform.

Seeded, so that nothing is left to chance: thousands of pixels are fitted at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
import xarray as xr

import xr_lstsq  # noqa: F401 - registers .lstsq

N, B = 60, 6000
TIME = np.datetime64("2015-01-01", "ns") + np.arange(N) * np.timedelta64(10, "D")
YEARS = np.arange(N) / 36.525
ROWS = np.c_[np.ones(N), YEARS, np.cos(2 * np.pi * YEARS)]
TRUTH = np.array([3.0, 0.0, 1.0])
PARAMS = np.array(["intercept", "slope", "cos"])


def fit_series(errors: np.ndarray, weights: np.ndarray | None = None, **options: Any) -> xr.Dataset:
    """Fit the true model with some noise, at gaps that leave a third to all of the samples."""
    rng = np.random.default_rng(11)
    y = (ROWS @ TRUTH)[:, None] + errors
    y[rng.random(y.shape) < rng.uniform(0, 0.6, y.shape[1])] = np.nan
    cube = xr.DataArray(y, {"time": TIME}, ("time", "x"))
    design = xr.DataArray(ROWS, {"param": PARAMS}, ("time", "param"))
    given = None if weights is None else xr.DataArray(weights, dims=("time", "x"))
    return cube.lstsq.solve(design, "time", weights=given, stats=("conf_int", "pvalue"), **options)


def coverage(fit: xr.Dataset) -> np.ndarray:
    """Return for each param in which share of the pixels its interval holds the truth."""
    bounds = fit["conf_int"].values
    known = np.isfinite(bounds[0, 0])
    held = (bounds[:, 0] <= TRUTH[:, None]) & (TRUTH[:, None] <= bounds[:, 1])
    return held[:, known].mean(axis=1)


def autocorrelated(rho: float) -> np.ndarray:
    shocks = np.random.default_rng(3).normal(size=(N, B))
    noise = np.empty((N, B))
    noise[0] = shocks[0]
    for i in range(1, N):
        noise[i] = rho * noise[i - 1] + np.sqrt(1 - rho**2) * shocks[i]
    return noise


def near(share: float, level: float) -> bool:
    """Return whether a share of B pixels is a level but for four standard errors of chance."""
    return abs(share - level) <= 4 * np.sqrt(level * (1 - level) / B)


@pytest.mark.parametrize("level", [0.68, 0.95])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal noise", "known weights"])
def test_intervals_of_independent_noise_hold_the_truth_as_often_as_they_say(
    level: float, weighted: bool
) -> None:
    rng = np.random.default_rng(0)
    sigma = np.exp(rng.normal(size=(N, B))) if weighted else np.ones((N, B))
    noise = sigma * rng.normal(size=(N, B))
    weights = 1 / sigma**2 if weighted else None
    for options in ({}, {"absolute_sigma": True}):
        fit = fit_series(noise, weights, level=level, **options)
        for share in coverage(fit):
            assert near(share, level), share
        flat = scipy.stats.kstest(fit["pvalue"].sel(param="slope").values, "uniform")
        assert flat.pvalue > 1e-3


def test_hc3_holds_where_noise_grows_along_the_axis() -> None:
    noise = np.random.default_rng(1).normal(size=(N, B)) * np.linspace(0.1, 3, N)[:, None] ** 2
    plain, robust = (
        coverage(fit_series(noise, cov_type=cov_type)) for cov_type in ("nonrobust", "HC3")
    )
    assert abs(plain[1] - 0.95) > 0.02
    assert np.abs(robust - 0.95).max() < np.abs(plain - 0.95).max() / 2


def test_correlated_noise_takes_errors_that_know_of_it() -> None:
    noise = autocorrelated(0.5)
    shares = {
        name: coverage(fit_series(noise, **options))[1]
        for name, options in {
            "nonrobust": {},
            "HAC": {"cov_type": "HAC", "maxlags": 5},
            "ar1": {"cov_type": "ar1"},
            "noise": {"noise": "ar1"},
        }.items()
    }
    assert shares["nonrobust"] < 0.87
    assert shares["HAC"] > shares["nonrobust"] + 0.01
    assert shares["ar1"] > 0.93
    assert shares["noise"] > 0.88
    # What is not there costs little
    independent = np.random.default_rng(2).normal(size=(N, B))
    for options in ({"cov_type": "ar1"}, {"noise": "ar1"}):
        assert 0.93 < coverage(fit_series(independent, **options))[1] < 0.99


def test_intervals_of_a_handful_of_samples_hold_the_truth_as_often_as_they_say() -> None:
    # 1 to 6 degrees of freedom: the normal distribution would be far off
    rng = np.random.default_rng(4)
    y = (ROWS @ TRUTH)[:, None] + rng.normal(size=(N, B))
    y[rng.random(y.shape).argsort(axis=0) >= rng.integers(4, 10, B)] = np.nan
    cube = xr.DataArray(y, {"time": TIME}, ("time", "x"))
    asked = ("conf_int", "pvalue", "f_pvalue", "dof")
    for level in (0.68, 0.95):
        fit = cube.lstsq.solve(ROWS, "time", stats=asked, level=level)
        assert set(np.unique(fit["dof"])) == set(range(1, 7))
        for share in coverage(fit):
            assert near(share, level), share
    known = cube.lstsq.solve(ROWS, "time", stats="conf_int", absolute_sigma=True)
    for share in coverage(known):
        assert near(share, 0.95), share
    assert scipy.stats.kstest(fit["pvalue"][1], "uniform").pvalue > 1e-3
    # Of a model that explains nothing but the level
    nothing = (cube - (ROWS @ TRUTH)[:, None]).lstsq.solve(ROWS, "time", stats=("f_pvalue",))
    assert scipy.stats.kstest(nothing["f_pvalue"], "uniform").pvalue > 1e-3


def test_known_errors_need_no_sample_to_spare() -> None:
    rng = np.random.default_rng(5)
    y = (ROWS @ TRUTH)[:, None] + rng.normal(size=(N, B))
    y[rng.random(y.shape).argsort(axis=0) >= 3] = np.nan
    cube = xr.DataArray(y, {"time": TIME}, ("time", "x"))
    fit = cube.lstsq.solve(ROWS, "time", stats=("conf_int", "dof"), absolute_sigma=True)
    assert (fit["dof"] == 0).all()
    for share in coverage(fit):
        assert near(share, 0.95), share


@pytest.mark.parametrize("axis", ["regular", "irregular"])
def test_long_series_of_correlated_noise_have_the_intervals_they_say(axis: str) -> None:
    rng = np.random.default_rng(6)
    n, b, rho = 400, 1500, 0.6
    steps = np.ones(n) if axis == "regular" else 0.3 + rng.exponential(1.0, n)
    days = np.cumsum(steps)
    noise = rng.normal(size=(n, b))
    for i in range(1, n):
        memory = rho ** (days[i] - days[i - 1])
        noise[i] = memory * noise[i - 1] + np.sqrt(1 - memory**2) * noise[i]
    time = TIME[0] + (days * 86_400e9).astype(np.int64) * np.timedelta64(1, "ns")
    rows = np.c_[np.ones(n), days / n]
    y = rows @ [1.0, 2.0] + noise.T
    y[rng.random(y.shape) < 0.1] = np.nan
    cube = xr.DataArray(y, {"time": time}, ("x", "time"))

    def shares(**options: Any) -> np.ndarray:
        bounds = cube.lstsq.solve(rows, "time", stats="conf_int", **options)["conf_int"].values
        truth = np.array([1.0, 2.0])[:, None]
        return ((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])).mean(axis=1)

    assert (shares() < 0.8).all()
    for options in ({"noise": "ar1"}, {"cov_type": "ar1"}):
        assert (np.abs(shares(**options) - 0.95) < 0.03).all(), options
    assert (np.abs(shares(cov_type="HAC", maxlags=20) - 0.95) < 0.06).all()
    inner = shares(noise="ar1", level=0.68)
    assert (np.abs(inner - 0.68) < 0.05).all()
