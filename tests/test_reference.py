"""The plain reference of one pixel, against statsmodels, 60 digits and brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import statsmodels.api as sm
from numpy.typing import NDArray

from tests import oracle
from xr_lstsq.inference.reference import Refit, Rules, refit
from xr_lstsq.outputs import STATS, STATUS

Floats = NDArray[np.float64]

N = 60
TIGHT = 1e-9
STATSMODELS = {
    "coef": "params",
    "stderr": "bse",
    "tvalue": "tvalues",
    "pvalue": "pvalues",
    "rsquared": "rsquared",
    "rsquared_adj": "rsquared_adj",
    "rss": "ssr",
    "dof": "df_resid",
    "fvalue": "fvalue",
    "f_pvalue": "f_pvalue",
    "loglik": "llf",
    "aic": "aic",
    "bic": "bic",
}


def samples(kind: str = "trend") -> tuple[Floats, Floats, Floats]:
    """Return y (n,), design (n, p) and weights (n,), with gaps and noise."""
    rng = np.random.default_rng(5)
    t = np.arange(N) / 12
    columns = [t, np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)]
    if kind == "trend":
        columns = [np.ones(N), *columns]
    elif kind == "short":
        columns = [np.ones(N), *columns, 3 * t - 1]
    elif kind == "constant":
        columns = [np.ones(N)]
    elif kind == "season":
        columns = columns[1:]
    elif kind == "two levels":  # the constant is their sum
        columns = [t < 2, t >= 2, t]
    design = np.stack(columns, axis=1).astype(np.float64)
    noise = rng.normal(size=N)
    for i in range(1, N):
        noise[i] += 0.6 * noise[i - 1]
    y = 3 + 0.5 * t + np.sin(2 * np.pi * t) + noise
    y[rng.random(N) < 0.2] = np.nan
    return y, design, 10 ** rng.uniform(-1, 1, N)


def close(got: Any, want: Any, name: str, tolerance: float = TIGHT) -> None:
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 1e-3, err_msg=name)


def compare(fit: Refit, results: Any, *leave_out: str) -> None:
    """Compare everything with a result of statsmodels for the rows that count."""
    for name, attribute in STATSMODELS.items():
        if name not in leave_out:
            close(fit.values[name], getattr(results, attribute), name)
    close(fit.values["resid_std"], np.sqrt(results.scale), "resid_std")
    close(fit.values["conf_int"], results.conf_int(), "conf_int")
    close(fit.values["cov"], results.cov_params(), "cov")


@pytest.mark.filterwarnings("ignore:The design matrix is rank-deficient")  # it is meant to be
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["trend", "short", "constant", "season", "two levels"])
def test_weighted_least_squares_is_that_of_statsmodels(kind: str, weighted: bool) -> None:
    y, design, weights = samples(kind)
    keep = np.isfinite(y)
    fit = refit(y, design, weights if weighted else None)
    model = (
        sm.WLS(y[keep], design[keep], weights[keep]) if weighted else sm.OLS(y[keep], design[keep])
    )
    results = model.fit()
    leave_out = ("fvalue", "f_pvalue") if kind == "constant" else ()
    compare(fit, results, *leave_out)
    if kind == "constant":
        assert np.isnan([fit.values["fvalue"], fit.values["f_pvalue"]]).all()
    assert fit.values["rank"] == results.df_resid * -1 + keep.sum()
    assert fit.centred == bool(results.k_constant)
    close(fit.values["fitted"][keep], results.fittedvalues, "fitted")
    close(fit.values["residual"][keep], results.resid, "residual")
    rows = design[keep] * (np.sqrt(weights[keep, None]) if weighted else 1.0)
    close(fit.values["leverage"][keep], np.diag(rows @ np.linalg.pinv(rows)), "leverage")


@pytest.mark.parametrize("cov_type", ["HC0", "HC1", "HC2", "HC3"])
@pytest.mark.parametrize("weighted", [False, True])
def test_robust_covariances_are_those_of_statsmodels(cov_type: str, weighted: bool) -> None:
    y, design, weights = samples()
    keep = np.isfinite(y)
    fit = refit(y, design, weights if weighted else None, rules=Rules(cov_type=cov_type))
    model = sm.WLS(y[keep], design[keep], weights[keep] if weighted else 1.0)
    results = model.fit().get_robustcov_results(cov_type, use_t=True)
    compare(fit, results, "fvalue", "f_pvalue")


@pytest.mark.parametrize("maxlags", [0, 3, None])
@pytest.mark.parametrize("weighted", [False, True])
def test_hac_on_regular_time_is_that_of_statsmodels(maxlags: int | None, weighted: bool) -> None:
    _, design, weights = samples()
    y = np.random.default_rng(2).normal(size=N).cumsum()
    rules = Rules(cov_type="HAC", maxlags=maxlags)
    fit = refit(y, design, weights if weighted else None, rules=rules, steps=np.arange(N) * 1.0)
    model = sm.WLS(y, design, weights if weighted else 1.0).fit()
    lags = 3 if maxlags is None else maxlags  # 4 (60 / 100)^(2/9) = 3.57
    results = model.get_robustcov_results("HAC", maxlags=lags, use_correction=False, use_t=True)
    compare(fit, results, "fvalue", "f_pvalue")


def test_hac_counts_lags_in_time_whatever_the_order_and_the_gaps() -> None:
    y, design, weights = samples()
    keep = np.flatnonzero(np.isfinite(y))
    rules = Rules(cov_type="HAC", maxlags=4)
    steps = np.random.default_rng(0).uniform(0, 40, N)
    fit = refit(y, design, weights, rules=rules, steps=steps, regular=False)
    rows = design[keep] * (weights[keep] * fit.values["residual"][keep])[:, None]
    middle = np.zeros((4, 4))
    for i, a in zip(keep, rows, strict=True):
        for j, b in zip(keep, rows, strict=True):
            middle += max(0.0, 1 - abs(steps[i] - steps[j]) / 5) * np.outer(a, b)
    bread = np.linalg.inv(design[keep].T @ (design[keep] * weights[keep, None]))
    close(fit.values["cov"], bread @ middle @ bread, "cov")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("kind", ["trend", "season"])
def test_autocorrelated_noise_is_generalised_least_squares(
    kind: str, regular: bool, weighted: bool
) -> None:
    y, design, weights = samples(kind)
    keep = np.isfinite(y)
    order = np.random.default_rng(1).permutation(N)
    steps = np.arange(N) * 1.0 if regular else np.arange(N) + np.sin(np.arange(N)) / 3
    weights = weights if weighted else np.ones(N)
    fit = refit(y[order], design[order], weights[order], rules=Rules(noise="ar1"),
                steps=steps[order], regular=regular)  # fmt: skip
    rho = float(fit.values["rho"])
    assert 0.1 < rho < 0.99
    root = np.sqrt(weights[keep])
    sigma = rho ** abs(steps[keep, None] - steps[keep]) / np.outer(root, root)
    results = sm.GLS(y[keep], design[keep], sigma=sigma).fit()
    compare(fit, results)
    close(fit.values["residual"][order.argsort()][keep], results.resid, "residual")
    close(fit.values["n_eff"], keep.sum() * (1 - rho) / (1 + rho), "n_eff")
    white = np.linalg.solve(np.linalg.cholesky(sigma), design[keep])
    hat = np.diag(white @ np.linalg.pinv(white))
    close(fit.values["leverage"][order.argsort()][keep], hat, "leverage")
    close(fit.values["cond"], np.linalg.cond(white / np.linalg.norm(white, axis=0)), "cond")


def weighted_residual() -> tuple[Floats, Floats, Floats, Floats]:
    y, design, weights = samples()
    return y, design, weights, refit(y, design, weights).values["residual"] * np.sqrt(weights)


def test_correlation_on_regular_time_is_over_pairs_one_step_apart() -> None:
    y, design, weights, f = weighted_residual()
    rules = Rules(cov_type="ar1")
    fit = refit(y, design, weights, rules=rules, steps=np.arange(N) * 1.0)
    pairs = [(f[i], f[i + 1]) for i in range(N - 1) if np.isfinite(f[i] + f[i + 1])]
    a, b = np.array(pairs).T
    rho = (a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum())
    close(fit.values["rho"], rho, "rho")
    values = fit.values
    close(values["dof"], values["nobs"] * (1 - rho) / (1 + rho) - 4, "dof")
    plain = refit(y, design, weights).values
    close(values["coef"], plain["coef"], "coef")
    scale = plain["rss"] / values["dof"]
    close(values["resid_std"], np.sqrt(scale), "resid_std")
    close(values["cov"], plain["cov"] * plain["dof"] / values["dof"], "cov")
    results = scipy.stats.t(values["dof"])
    close(values["pvalue"], 2 * results.sf(abs(values["tvalue"])), "pvalue")
    half = results.ppf(0.975) * values["stderr"]
    close(values["conf_int"][:, 1] - values["coef"], half, "conf_int")


def test_correlation_on_irregular_time_minimises_what_it_leaves() -> None:
    y, design, weights, f = weighted_residual()
    steps = np.cumsum(np.random.default_rng(3).uniform(0.2, 3, N))
    rules = Rules(cov_type="ar1")
    fit = refit(y, design, weights, rules=rules, steps=steps, regular=False)
    at, f = steps[np.isfinite(f)], f[np.isfinite(f)]

    def left(rho: float) -> float:
        return float(((f[1:] - rho ** np.diff(at) * f[:-1]) ** 2).sum())

    found = scipy.optimize.minimize_scalar(left, bounds=(0, 1), options={"xatol": 1e-10})
    close(fit.values["rho"], found.x, "rho", 1e-6)
    assert left(float(fit.values["rho"])) <= found.fun * (1 + 1e-14)


@pytest.mark.parametrize("regular", [False, True])
def test_noise_without_memory_or_with_a_negative_one_has_none(regular: bool) -> None:
    y = np.where(np.arange(N) % 2, 1.0, -1.0) + 0.1 * samples()[0]
    steps = np.arange(N) * 1.0
    fit = refit(y, np.ones((N, 1)), rules=Rules(cov_type="ar1"), steps=steps, regular=regular)
    assert abs(float(fit.values["rho"])) < 1e-15
    close(fit.values["n_eff"], fit.values["nobs"], "n_eff")


def test_too_few_pairs_tell_no_correlation() -> None:
    y, design, _ = samples()
    y[11:] = np.nan
    steps = np.arange(N) * 1.0
    fit = refit(y, design, rules=Rules(cov_type="ar1"), steps=steps)
    assert np.isnan([fit.values["rho"], fit.values["dof"], fit.values["resid_std"]]).all()
    assert np.isfinite(fit.values["coef"]).all()
    fit = refit(y, design, rules=Rules(noise="ar1"), steps=steps)
    assert fit.values["status"] == STATUS["too_few_obs"]
    assert np.isnan(fit.values["coef"]).all()


def test_known_variances_are_those_of_the_normal_distribution() -> None:
    y, design, weights = samples()
    keep = np.isfinite(y)
    fit = refit(y, design, weights, rules=Rules(absolute_sigma=True, level=0.9)).values
    model = sm.WLS(y[keep], design[keep], weights[keep])
    results = model.fit(cov_type="fixed scale", cov_kwds={"scale": 1.0}, use_t=False)
    for name in ("stderr", "tvalue", "pvalue"):
        close(fit[name], getattr(results, STATSMODELS[name]), name)
    close(fit["conf_int"], results.conf_int(0.1), "conf_int")
    close(fit["cov"], results.cov_params(), "cov")


@pytest.mark.parametrize("seed", range(20))
def test_coefficients_are_those_of_60_digits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 20)), int(rng.integers(1, 6))
    design = rng.integers(-9, 10, (n, p)) * 2.0 ** rng.integers(-30, 30, p)
    if seed % 2 and p > 2:
        design[:, 2] = design[:, 0]
    y, weights = rng.normal(size=n) + 1e4, 10.0 ** rng.uniform(-6, 6, n)
    fit = refit(y, design, weights)
    coef, rank, rss = oracle.exact(y, design, weights)
    limits = oracle.fit(y, design, weights)
    assert fit.values["rank"] == rank
    assert (abs(fit.values["coef"] - coef) <= limits.coef_tol).all()
    assert abs(fit.values["rss"] - rss) <= limits.rss_tol


def test_a_pixel_says_why_it_has_no_answer() -> None:
    y, design, weights = samples()
    few = np.where(np.arange(N) < 3, 1.0, np.nan)
    cases = {
        "solved": refit(y, design),
        "rank_deficient": refit(few, design),
        "no_data": refit(y * np.nan, design),
        "too_few_obs": refit(few, design, rules=Rules(min_obs=4)),
        "failed": refit(y, design, np.where(np.isnan(y), -1.0, weights)),
    }
    for status, fit in cases.items():
        assert fit.values["status"] == STATUS[status], status
        assert np.isfinite(fit.values["coef"]).all() == fit.answer, status
        assert fit.answer == (status in ("solved", "rank_deficient"))
    blank = refit(few, design, rules=Rules(deficient="nan"))
    assert blank.values["status"] == STATUS["rank_deficient"]
    for fit in (blank, *(case for case in cases.values() if not case.answer)):
        assert all(np.isnan(fit.values[name]).all() for name in STATS if name != "dof")
    assert refit(y, design, None, np.full(N, 2)).values["status"] == STATUS["failed"]
    assert refit(y, design, None, np.arange(N) < 9).values["nobs"] == np.isfinite(y[:9]).sum()


def test_nothing_is_known_without_degrees_of_freedom() -> None:
    y, design, _ = samples()
    y[np.flatnonzero(np.isfinite(y))[4:]] = np.nan
    for cov_type in ("nonrobust", "HC0", "HC1", "HC2", "HC3"):
        values = refit(y, design, rules=Rules(cov_type=cov_type)).values
        assert values["dof"] == 0
        for name in ("resid_std", "rsquared_adj", "stderr", "tvalue", "pvalue", "conf_int", "cov"):
            assert np.isnan(values[name]).all(), (cov_type, name)
    assert np.isfinite(refit(y, design, rules=Rules(absolute_sigma=True)).values["stderr"]).all()


def test_rounding_is_told_from_numbers() -> None:
    t = np.arange(N) / 7
    design = np.stack([np.ones(N), t], axis=1)
    values = refit(np.full(N, 1e4 / 3), design).values
    assert np.isnan(values["rsquared"])
    assert np.isnan(values["pvalue"][1])
    assert values["pvalue"][0] < 1e-300
    values = refit(1e4 / 3 + t, design).values
    assert values["rsquared"] == 1
    assert (values["pvalue"] < 1e-100).all()


def test_a_sample_that_only_its_own_param_explains_has_no_robust_error() -> None:
    y, design, _ = samples()
    y[7] = 1.0
    alone = np.column_stack([design, np.arange(N) == 7])
    for cov_type in ("HC2", "HC3"):
        assert np.isnan(refit(y, alone, rules=Rules(cov_type=cov_type)).values["cov"]).all()
    assert np.isfinite(refit(y, alone, rules=Rules(cov_type="HC1")).values["cov"]).all()


def test_temporal_coherence_is_that_of_the_residual_phases() -> None:
    y, design, weights = samples()
    values = refit(y, design, weights).values
    e = values["residual"][np.isfinite(y)]
    close(values["temporal_coherence"], np.hypot(np.cos(e).mean(), np.sin(e).mean()), "coherence")
