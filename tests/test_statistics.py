"""Statistics of fits: against statsmodels pixel by pixel, their definitions, and bad input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import statsmodels.api as sm
import torch
import xarray as xr

from tests import oracle
from xr_lstsq import outputs
from xr_lstsq.device import plan
from xr_lstsq.errors import LabelError
from xr_lstsq.formats import netcdf
from xr_lstsq.method import Method
from xr_lstsq.statistics import STATISTICS, wanted
from xr_lstsq.statistics.table import Statistic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from xr_lstsq.statistics import Solved

    Floats = NDArray[np.float64]

RTOL = 1e-9
N = 60
TIME = np.datetime64("2015-01-01", "ns") + np.arange(N) * np.timedelta64(30, "D")
YEARS = np.arange(N) / 12.0 - 2.0

OF_PARAMS = ("stderr", "tvalue", "pvalue", "conf_int", "cov")
"""What a robust covariance changes."""
OF_MODEL = (
    "dof",
    "rss",
    "rmse",
    "resid_std",
    "rsquared",
    "rsquared_adj",
    *OF_PARAMS,
    "fvalue",
    "f_pvalue",
    "aic",
    "bic",
    "loglik",
)
"""What statsmodels has as well."""
BLANK_WITHOUT_DOF = (
    "resid_std",
    "rsquared_adj",
    "stderr",
    "tvalue",
    "pvalue",
    "conf_int",
    "cov",
    "fvalue",
    "f_pvalue",
)
EVERY = tuple(name for name in outputs.STATS if name != "temporal_coherence")
EVERY_BUT_F = tuple(name for name in EVERY if name not in ("fvalue", "f_pvalue"))


# --------------------------------------------------------------------------------------------
# Pixels


def trend() -> Floats:
    """Return a design with a constant, a slope and an annual cycle."""
    turn = 2 * np.pi * YEARS
    return np.c_[np.ones(N), YEARS, np.cos(turn), np.sin(turn)]


def no_constant() -> Floats:
    return trend()[:, 1:] + [2.0, 0.0, 0.0]


def seasons() -> Floats:
    """Return a level for each quarter, which together make a constant, and a slope."""
    quarter = np.arange(N) // 3 % 4
    return np.c_[quarter[:, None] == np.arange(4), YEARS]


def onset() -> Floats:
    """Return a level that begins after 15 samples: a constant of pixels with none before."""
    return np.c_[np.arange(N) >= 15, YEARS + 3.0, np.sin(9 * YEARS)]


DESIGNS: dict[str, Callable[[], Floats]] = {
    "a constant": trend,
    "no constant": no_constant,
    "dummies": seasons,
    "a constant of some pixels": onset,
}


def samples(design: Floats, b: int = 12, seed: int = 0, noise: float = 0.5) -> Floats:
    """Return (n, b) noisy samples about a level of 3, with no gaps to two thirds of gaps."""
    rng = np.random.default_rng(seed)
    y = 3.0 + design @ rng.normal(size=(design.shape[1], b)) + noise * rng.normal(size=(N, b))
    y[rng.random((N, b)) < np.linspace(0.0, 0.65, b)] = np.nan
    y[:15, ::3] = np.nan
    return y


def weights_of(kind: str, y: Floats) -> Floats | None:
    """Return weights for each sample of each pixel, of the kind."""
    rng = np.random.default_rng(1)
    shape = {"none": None, "shared": (N, 1), "per pixel": y.shape}[kind]
    if shape is None:
        return None
    weights = np.exp(rng.normal(size=shape))
    weights[7] = 0.0  # leaves the sample out
    return np.broadcast_to(weights, y.shape)


def cube_of(y: Floats, time: Any = TIME) -> xr.DataArray:
    return xr.DataArray(y, {"time": time}, ("time", "x"), name="height", attrs={"units": "m"})


def solve(y: Floats, design: Any, weights: Floats | None = None, **arguments: Any) -> xr.Dataset:
    """Solve (n, b) samples on the axis of time."""
    given = None
    if weights is not None:
        one = (weights == weights[:, :1]).all()
        given = xr.DataArray(weights[:, 0], dims="time") if one else weights
    arguments = {"device": "cpu", **arguments}
    time = arguments.pop("time", TIME)
    return cube_of(y, time).lstsq.solve(design, "time", weights=given, **arguments)


# --------------------------------------------------------------------------------------------
# statsmodels


def by_statsmodels(
    y: Floats, design: Floats, weights: Floats | None, robust: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the statistics of one pixel, its missing rows dropped."""
    keep = oracle.valid_rows(y, design, weights)
    w = 1.0 if weights is None else weights[keep]
    return statistics_of(sm.WLS(y[keep], design[keep], weights=w).fit(), robust)


def statistics_of(model: Any, robust: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the statistics of a fitted model of statsmodels, by their names here."""
    errors = model if robust is None else model.get_robustcov_results(**robust)
    found = {
        "dof": model.df_resid,
        "rss": model.ssr,
        "rmse": np.sqrt(model.ssr / model.nobs),
        "resid_std": np.sqrt(model.scale),
        "stderr": errors.bse,
        "tvalue": errors.tvalues,
        "pvalue": errors.pvalues,
        "conf_int": errors.conf_int(),
        "cov": errors.cov_params(),
    }
    if robust is None:
        found |= {
            "rsquared": model.rsquared,
            "rsquared_adj": model.rsquared_adj,
            "fvalue": model.fvalue,
            "f_pvalue": model.f_pvalue,
            "aic": model.aic,
            "bic": model.bic,
            "loglik": model.llf,
        }
    return found


def assert_near(got: dict[str, Any], want: dict[str, Any], rtol: float = RTOL) -> None:
    """Compare the statistics of one pixel, each with what its value is made of."""
    spread = np.sqrt(np.diag(want["cov"]))
    sizes = {
        "cov": np.outer(spread, spread),
        "conf_int": np.abs(want["conf_int"]) + spread[:, None],
        # they may be any small part of 1, and of their parts
        "rsquared": 1.0,
        "rsquared_adj": 1.0,
    }
    for name, value in want.items():
        assert np.shape(got[name]) == np.shape(value), name
        size = sizes.get(name, np.abs(value))
        assert (np.abs(got[name] - value) <= rtol * size).all(), name


def pixel(fit: xr.Dataset, k: int) -> dict[str, Floats]:
    """Return the values of pixel k."""
    each = {name: values for name, values in fit.data_vars.items() if "x" in values.dims}
    return {str(name): values.isel(x=k).values for name, values in each.items()}


@pytest.mark.parametrize("weights", ["none", "shared", "per pixel"])
@pytest.mark.parametrize("design", DESIGNS)
def test_every_statistic_is_that_of_statsmodels(design: str, weights: str) -> None:
    rows = DESIGNS[design]()
    y = samples(rows)
    w = weights_of(weights, y)
    fit = solve(y, rows, w, stats=OF_MODEL)
    for k in range(y.shape[1]):
        want = by_statsmodels(y[:, k], rows, None if w is None else w[:, k])
        assert_near(pixel(fit, k), want)


def test_whether_a_constant_lies_in_the_span_is_a_matter_of_each_pixel() -> None:
    rows = onset()
    y = samples(rows) + 50.0
    fit = solve(y, rows, stats=("rsquared",))
    about_mean = 1.0 - solve(y, rows, stats=("rss",))["rss"] / np.nansum(
        (y - np.nanmean(y, axis=0)) ** 2, axis=0
    )
    is_centred = np.isclose(fit["rsquared"], about_mean, rtol=1e-9)
    np.testing.assert_array_equal(is_centred, np.isnan(y[:15]).all(axis=0))
    # A design that all pixels share has no constant, and a rule for all would say about 0.99
    assert (abs(fit["rsquared"] - about_mean)[~is_centred] > 0.1).all()


@pytest.mark.parametrize("weights", ["none", "shared", "per pixel"])
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "no constant"])
def test_statistics_of_a_design_for_each_pixel_are_those_of_statsmodels(
    weights: str, constant: bool
) -> None:
    rng = np.random.default_rng(2)
    rows = trend()
    y = samples(rows)
    own = rows[:, :, None] * (1.0 + 0.1 * rng.normal(size=(N, 1, y.shape[1])))
    if constant:  # of every other pixel
        own[:, 0, ::2] = 2.0
    w = weights_of(weights, y)
    design = xr.DataArray(own, dims=("time", "param", "x"))
    fit = solve(y, design, w, stats=OF_MODEL)
    for k in range(y.shape[1]):
        want = by_statsmodels(y[:, k], own[..., k], None if w is None else w[:, k])
        assert_near(pixel(fit, k), want)


@pytest.mark.parametrize("weights", ["none", "shared", "per pixel"])
@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
def test_robust_errors_are_those_of_statsmodels(kind: str, weights: str) -> None:
    rows = trend()
    own = xr.DataArray(rows, dims=("time", "param")).expand_dims(x=12)
    y = samples(rows)
    w = weights_of(weights, y)
    fits = [solve(y, design, w, stats=OF_PARAMS, cov_type=kind) for design in (rows, own)]
    for k in range(y.shape[1]):
        want = by_statsmodels(
            y[:, k], rows, None if w is None else w[:, k], {"cov_type": kind, "use_t": True}
        )
        want = {name: want[name] for name in OF_PARAMS}
        for fit in fits:
            assert_near(pixel(fit, k), want)


def test_a_robust_covariance_changes_errors_and_nothing_else() -> None:
    rows = trend()
    y = samples(rows)
    plain, robust = (solve(y, rows, stats=EVERY_BUT_F, cov_type=c) for c in ("nonrobust", "HC3"))
    for name in plain.data_vars:
        same = bool(np.array_equal(plain[name], robust[name], equal_nan=True))
        assert same == (name not in OF_PARAMS), name


@pytest.mark.parametrize("weights", ["none", "shared", "per pixel"])
def test_leverage_and_condition_are_those_of_the_rows_that_count(weights: str) -> None:
    rows = trend()
    y = samples(rows)
    w = weights_of(weights, y)
    fit = solve(y, rows, w, stats=("leverage", "cond", "rss"))
    for k in range(y.shape[1]):
        each = None if w is None else w[:, k]
        keep = oracle.valid_rows(y[:, k], rows, each)
        weighted = rows[keep] * (1.0 if each is None else np.sqrt(each[keep])[:, None])
        hat = weighted @ np.linalg.pinv(weighted)
        got = fit["leverage"].values[:, k]
        np.testing.assert_allclose(got[keep], np.diag(hat), atol=1e-12)
        assert np.isnan(got[~keep]).all()
        unit = weighted / np.linalg.norm(weighted, axis=0)
        np.testing.assert_allclose(fit["cond"][k], np.linalg.cond(unit), rtol=1e-11)


def test_absolute_sigma_takes_weights_for_inverse_variances() -> None:
    rows = trend()
    y = samples(rows)
    w = weights_of("per pixel", y)
    assert w is not None
    fit = solve(y, rows, w, stats=OF_PARAMS, absolute_sigma=True, level=0.8)
    other = solve(y * 9.0 + 1.0, rows, w, stats=OF_PARAMS, absolute_sigma=True, level=0.8)
    np.testing.assert_allclose(fit["stderr"], other["stderr"], rtol=1e-14)
    for k in range(y.shape[1]):
        keep = oracle.valid_rows(y[:, k], rows, w[:, k])
        model = sm.WLS(y[keep, k], rows[keep], weights=w[keep, k]).fit(
            cov_type="fixed scale", use_t=False
        )
        want = {
            "stderr": model.bse,
            "tvalue": model.tvalues,
            "pvalue": model.pvalues,
            "conf_int": model.conf_int(0.2),
            "cov": model.cov_params(),
        }
        assert_near(pixel(fit, k), want)


def test_temporal_coherence_is_that_of_residual_phases() -> None:
    rows = trend()
    y = samples(rows, noise=0.8)
    cube = cube_of(y).assign_attrs(units="radians")
    w = np.exp(np.random.default_rng(3).normal(size=y.shape))
    for units in ("radians", "rad", "radian"):
        fit = cube.assign_attrs(units=units).lstsq.solve(
            rows, "time", stats=("temporal_coherence", "residual"), weights=w
        )
        # every sample counts as much, whatever its weight
        want = np.abs(np.nanmean(np.exp(1j * fit["residual"].values), axis=0))
        np.testing.assert_allclose(fit["temporal_coherence"], want, rtol=1e-12)
        assert ((want > 0.3) & (want < 0.98)).all()


# --------------------------------------------------------------------------------------------
# Level, unknown names, and arguments that go against each other


@pytest.mark.parametrize("level", [0.5, 0.68, 0.95, 0.999])
def test_intervals_are_those_of_the_level(level: float) -> None:
    rows = trend()
    y = samples(rows)
    fit = solve(y, rows, stats=("conf_int",), level=level)
    for k in range(0, 12, 4):
        keep = np.isfinite(y[:, k])
        want = sm.OLS(y[keep, k], rows[keep]).fit().conf_int(1.0 - level)
        np.testing.assert_allclose(fit["conf_int"][..., k], want, rtol=1e-9)
    assert fit["bound"].values.tolist() == ["lower", "upper"]
    assert (fit["conf_int"].sel(bound="lower") < fit["coef"]).all()


def test_default_stands_for_what_a_map_needs() -> None:
    rows = trend()
    fit = solve(samples(rows), rows, stats="default")
    assert set(fit.data_vars) - set(outputs.ALWAYS) - {"design_matrix"} == {
        "dof",
        "resid_std",
        "stderr",
        "rsquared",
    }
    more = solve(samples(rows), rows, stats=("default", "rss", "dof"))
    assert set(more.data_vars) - set(fit.data_vars) == {"rss"}


# --------------------------------------------------------------------------------------------
# Pixels of which little can be known


@pytest.fixture
def rows() -> Floats:
    return trend()


def assert_blank(fit: xr.Dataset, names: tuple[str, ...], k: int = 0) -> None:
    for name in names:
        assert np.isnan(fit[name].isel(x=k)).all(), name


def assert_finite(fit: xr.Dataset, names: tuple[str, ...], k: int = 0) -> None:
    for name in names:
        assert np.isfinite(fit[name].isel(x=k)).all(), name


ROUTES: dict[str, dict[str, Any]] = {
    "shared": {},
    "weighted": {"weighted": True},
    "own design": {"own": True},
    "float32": {"dtype": "float32"},
}
"""Ways through different lanes of the solver."""


def by(route: str, y: Floats, rows: Floats, **arguments: Any) -> xr.Dataset:
    """Solve by one of the `ROUTES`."""
    options = dict(ROUTES[route])
    w = (
        np.exp(np.random.default_rng(4).normal(size=y.shape))
        if options.pop("weighted", 0)
        else None
    )
    design = rows
    if options.pop("own", 0):
        design = xr.DataArray(rows, dims=("time", "param")).expand_dims(x=y.shape[1])
    return solve(y, design, w, **options, **arguments)


@pytest.mark.parametrize("route", ROUTES)
def test_without_degrees_of_freedom_errors_are_unknown(route: str, rows: Floats) -> None:
    y = samples(rows)
    y[:, 0] = np.nan
    y[[3, 20, 33, 57], 0] = [1.0, 5.0, 2.0, -4.0]
    fit = by(route, y, rows, stats=EVERY)
    assert int(fit["dof"][0]) == 0
    assert int(fit["status"][0]) == 0
    assert_blank(fit, BLANK_WITHOUT_DOF)
    assert_finite(fit, ("coef", "rss", "rmse", "rsquared", "cond", "fitted"))
    np.testing.assert_allclose(fit["leverage"][[3, 20, 33, 57], 0], 1.0, rtol=1e-5)
    assert_finite(fit, tuple(set(EVERY) - {"leverage", "residual"}), 1)
    for cov_type in ("HC0", "HC1", "HC2", "HC3", "HAC", "ar1"):
        fit = by(route, y, rows, stats=("resid_std", *OF_PARAMS), cov_type=cov_type)
        assert_blank(fit, OF_PARAMS)
        assert np.isnan(fit["resid_std"][0])
        assert_finite(fit, OF_PARAMS, 1)


@pytest.mark.parametrize("route", ["shared", "weighted", "own design"])
def test_known_variances_need_no_degrees_of_freedom(route: str, rows: Floats) -> None:
    y = samples(rows)
    y[:, 0] = np.nan
    y[[3, 20, 33, 57], 0] = [1.0, 5.0, 2.0, -4.0]
    fit = by(route, y, rows, stats=(*OF_PARAMS, "resid_std"), absolute_sigma=True)
    w = 1.0
    if route == "weighted":
        w = np.exp(np.random.default_rng(4).normal(size=y.shape))[[3, 20, 33, 57], :1]
    want = np.linalg.inv(rows[[3, 20, 33, 57]].T @ (w * rows[[3, 20, 33, 57]]))
    np.testing.assert_allclose(fit["cov"][..., 0], want, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fit["stderr"][:, 0], np.sqrt(np.diag(want)), rtol=1e-9)
    assert_finite(fit, OF_PARAMS)
    assert np.isnan(fit["resid_std"][0])


@pytest.mark.parametrize("n", [60, 3000])
@pytest.mark.parametrize("route", ROUTES)
def test_a_constant_series_has_no_trend_that_could_be_told_from_rounding(
    route: str, n: int
) -> None:
    t = np.arange(n) / 12.0
    rows = np.c_[np.ones(n), t, np.cos(2 * np.pi * t)]
    values = np.array([0.1, -273.15, 1e6, 1 / 3, 1e-9, 7.0, 0.0])
    y = np.repeat(values[None], n, axis=0)
    rng = np.random.default_rng(0)
    y[rng.random(y.shape) < np.linspace(0.0, 0.6, 7)] = np.nan
    asked = ("rsquared", "rsquared_adj", "tvalue", "pvalue", "fvalue", "f_pvalue", "stderr", "rss")
    fit = by(route, y, rows, stats=asked, time=days(n))
    for k in range(7):
        assert_blank(fit, ("rsquared", "rsquared_adj", "fvalue", "f_pvalue"), k)
    assert np.isnan(fit["tvalue"][1:]).all()
    assert np.isnan(fit["pvalue"][1:]).all()
    assert (abs(fit["tvalue"][0, :6]) > 1e3).all()  # the level is certain
    assert (fit["pvalue"][0, :6] < 1e-30).all()
    assert np.isnan(fit["tvalue"][0, 6])
    assert (
        fit["stderr"] <= 1e-5 * np.abs(values)
        if "32" in route
        else fit["stderr"] <= 1e-13 * np.abs(values)
    ).all()


def days(n: int) -> Any:
    return np.datetime64("2000-01-01", "ns") + np.arange(n) * np.timedelta64(1, "D")


@pytest.mark.parametrize("route", ROUTES)
def test_an_exact_fit_is_certain_of_what_is_there_and_knows_nothing_of_what_is_not(
    route: str, rows: Floats
) -> None:
    y = np.repeat((rows @ [5.0, -2.0, 0.0, 0.0])[:, None], 6, axis=1)
    y[np.random.default_rng(0).random(y.shape) < np.linspace(0.0, 0.6, 6)] = np.nan
    fit = by(route, y, rows, stats=EVERY)
    assert (fit["rsquared"] > 1 - (1e-6 if route == "float32" else 1e-9)).all()
    assert (abs(fit["tvalue"][:2]) > 1e4).all()
    assert (fit["pvalue"][:2] < 1e-10).all()
    assert np.isnan(fit["tvalue"][2:]).all()
    assert np.isnan(fit["pvalue"][2:]).all()
    # The model as a whole explains what there is
    assert (fit["fvalue"] > 1e8).all()
    assert (fit["f_pvalue"] < 1e-30).all()


def test_a_pixel_of_zeros_is_known_to_be_zero_and_no_more(rows: Floats) -> None:
    y = samples(rows)
    y[:, 0] = 0.0
    fit = solve(y, rows, stats=EVERY)
    assert (fit["coef"][:, 0] == 0).all()
    assert (fit["stderr"][:, 0] == 0).all()
    assert_blank(fit, ("rsquared", "rsquared_adj", "tvalue", "pvalue", "fvalue", "f_pvalue"))
    other = solve(y[:, 1:], rows, stats=EVERY)
    for name in EVERY:
        np.testing.assert_allclose(fit[name][..., 1:], other[name], rtol=1e-12, err_msg=name)


FLOATS = tuple(name for name in EVERY if outputs.OUTPUTS[name].kind == "float")


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC3", "HAC", "ar1"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_pixel_without_data_is_blank_and_leaves_its_neighbours_alone(
    route: str, cov_type: str, rows: Floats
) -> None:
    names = tuple(name for name in FLOATS if cov_type == "nonrobust" or not name.startswith("f"))
    asked = ("dof", *names)
    y = samples(rows)
    y[:, 5] = np.nan
    fit = by(route, y, rows, stats=asked, cov_type=cov_type)
    assert int(fit["status"][5]) == 1
    assert_blank(fit, ("coef", *names), 5)
    y[:, 5] = samples(rows, seed=9)[:, 1]
    other = by(route, y, rows, stats=asked, cov_type=cov_type)
    rtol = 1e-4 if route == "float32" else 1e-10
    for name in ("coef", *asked):
        for k in (4, 6):
            one, two = fit[name].isel(x=k), other[name].isel(x=k)
            np.testing.assert_allclose(one, two, rtol=rtol, atol=rtol, err_msg=name)


def test_weights_of_zero_are_no_data(rows: Floats) -> None:
    y = samples(rows)
    w = np.ones(y.shape)
    w[:, 2] = 0.0
    fit = solve(y, rows, w, stats=EVERY)
    assert int(fit["status"][2]) == 1
    assert int(fit["nobs"][2]) == int(fit["dof"][2]) == 0
    assert_blank(fit, FLOATS, 2)
    shared = solve(y, rows, np.zeros(y.shape), stats=EVERY)
    assert (shared["status"] == 1).all()
    for k in range(y.shape[1]):
        assert_blank(shared, FLOATS, k)


def test_one_valid_sample_is_fitted_and_tells_no_error(rows: Floats) -> None:
    y = samples(rows)
    y[:, 0] = np.nan
    y[30, 0] = 2.0
    for design in (rows, rows[:, :1]):
        fit = solve(y, design, stats=EVERY)
        assert int(fit["rank"][0]) == 1
        assert int(fit["dof"][0]) == 0
        assert int(fit["status"][0]) == (3 if design.shape[1] > 1 else 0)
        assert_blank(fit, BLANK_WITHOUT_DOF)
        assert float(fit["fitted"][30, 0]) == pytest.approx(2.0)
        assert float(fit["leverage"][30, 0]) == pytest.approx(1.0)
        assert float(fit["rmse"][0]) == pytest.approx(0.0, abs=1e-14)
    known = solve(y, rows, stats="stderr", absolute_sigma=True)
    want = np.sqrt(np.diag(np.linalg.pinv(rows[30:31].T @ rows[30:31])))
    np.testing.assert_allclose(known["stderr"][:, 0], want, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:The design matrix is rank-deficient")
@pytest.mark.parametrize("weights", ["none", "per pixel"])
def test_errors_of_a_pixel_short_of_rank_are_those_of_the_pseudo_inverse(
    weights: str, rows: Floats
) -> None:
    # A step that is over before the first sample that counts, and the sum of two columns
    step = np.c_[rows, np.arange(N) >= 15, rows[:, 2] + rows[:, 3]]
    y = samples(rows)
    w = weights_of(weights, y)
    fit = solve(y, step, w, stats=EVERY)
    assert (fit["status"] == 3).all()
    assert set(fit["rank"].values.tolist()) == {4, 5}
    assert np.isinf(fit["cond"]).all()
    for k in range(y.shape[1]):
        keep = oracle.valid_rows(y[:, k], step, None if w is None else w[:, k])
        each = np.ones(keep.sum()) if w is None else w[keep, k]
        model = sm.WLS(y[keep, k], step[keep], weights=each).fit()
        assert model.df_resid == int(fit["dof"][k])
        want = statistics_of(model)
        # Those of directions that nothing determines are 0, here and there up to rounding
        found = pixel(fit, k)
        spread = np.sqrt(np.outer(np.diag(want["cov"]), np.diag(want["cov"])))
        assert (np.abs(found["cov"] - want["cov"]) <= RTOL * spread).all()
        for name in ("rss", "loglik", "aic"):
            np.testing.assert_allclose(found[name], want[name], rtol=RTOL, err_msg=name)
        np.testing.assert_allclose(fit["stderr"][:, k], want["stderr"], rtol=1e-9)
    blank = solve(y, step, w, stats=EVERY, deficient="nan")
    for k in range(y.shape[1]):
        assert_blank(blank, ("coef", *FLOATS), k)
    np.testing.assert_array_equal(blank["dof"], fit["dof"])


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC2", "HAC", "ar1"])
def test_a_failed_pixel_is_blank(cov_type: str, rows: Floats) -> None:
    names = tuple(name for name in FLOATS if cov_type == "nonrobust" or not name.startswith("f"))
    y = samples(rows)
    w = np.ones(y.shape)
    w[4, 1] = -1.0
    lazy = xr.DataArray(w, dims=("time", "x")).chunk()
    fit = cube_of(y).lstsq.solve(rows, "time", weights=lazy, stats=names, cov_type=cov_type)
    fit = fit.compute()
    assert fit["status"].values.tolist() == [0, 5, *[0] * 10]
    assert_blank(fit, ("coef", *names), 1)
    assert_finite(fit, OF_PARAMS, 2)


@pytest.mark.parametrize("cov_type", ["HC2", "HC3"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_sample_of_leverage_1_leaves_the_robust_errors_of_its_pixel_unknown(
    route: str, cov_type: str, rows: Floats
) -> None:
    design = np.c_[rows, np.arange(N) >= N - 2]
    y = samples(rows)
    y[-2:] = 1.0
    want = by(route, y, design, stats=OF_PARAMS, cov_type=cov_type)
    y[-1, 3] = np.nan  # the last but one alone tells the step
    fit = by(route, y, design, stats=(*OF_PARAMS, "leverage"), cov_type=cov_type)
    assert float(fit["leverage"][-2, 3]) == pytest.approx(1.0, abs=1e-5)
    assert_blank(fit, OF_PARAMS, 3)
    for name in OF_PARAMS:
        assert_finite(want, OF_PARAMS, 3)
        rtol = 1e-3 if route == "float32" else 1e-9
        one, two = fit[name].isel(x=[2, 4]), want[name].isel(x=[2, 4])
        np.testing.assert_allclose(one, two, rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("noise", [None, "ar1"])
@pytest.mark.parametrize("lazy", [False, True], ids=["in memory", "lazy"])
def test_a_cube_without_pixels_has_a_fit_with_all_statistics(
    lazy: bool, noise: str | None, rows: Floats
) -> None:
    cube = cube_of(samples(rows))[:, :0]
    fit = (cube.chunk() if lazy else cube).lstsq.solve(rows, "time", stats=EVERY, noise=noise)
    fit = fit.compute()
    assert fit["cov"].shape == (4, 4, 0)
    assert fit["conf_int"].shape == (4, 2, 0)
    assert fit["leverage"].shape == (N, 0)
    assert fit["dof"].shape == (0,)


@pytest.mark.parametrize("lazy", [False, True], ids=["in memory", "lazy"])
@pytest.mark.parametrize("options", [{}, {"cov_type": "HAC"}, {"noise": "ar1"}], ids=str)
def test_a_single_series_has_the_statistics_of_a_cube_of_one_pixel(
    options: dict[str, Any], lazy: bool, rows: Floats
) -> None:
    y = samples(rows)[:, 4:5]
    names = EVERY if options.get("cov_type") is None else EVERY_BUT_F
    want = solve(y, rows, stats=names, **options)
    series = cube_of(y)[:, 0]
    fit = (series.chunk() if lazy else series).lstsq.solve(rows, "time", stats=names, **options)
    assert fit["cov"].dims == ("param", "param_2")
    assert fit["conf_int"].dims == ("param", "bound")
    for name in fit.compute().data_vars:
        other = want[name].isel(x=0) if "x" in want[name].dims else want[name]
        np.testing.assert_allclose(fit[name], other, rtol=1e-12, err_msg=str(name))


def test_a_cube_without_samples_has_blank_statistics() -> None:
    cube = xr.DataArray(np.empty((0, 3)), {"time": TIME[:0]}, ("time", "x"))
    fit = cube.lstsq.solve(np.empty((0, 2)), "time", stats=EVERY)
    for k in range(3):
        assert_blank(fit, tuple(set(FLOATS) - {"leverage", "residual", "fitted"}), k)
    assert (fit["dof"] == 0).all()


@pytest.mark.parametrize("noise", [None, "ar1"])
def test_a_pixel_of_too_few_samples_has_counts_and_nothing_else(
    noise: str | None, rows: Floats
) -> None:
    y = samples(rows)
    nobs = np.isfinite(y).sum(axis=0)
    least = int(np.median(nobs))
    fit = solve(y, rows, stats=EVERY, min_obs=least, noise=noise)
    few = nobs < least
    assert 0 < few.sum() < few.size
    np.testing.assert_array_equal(fit["status"] == 2, few)
    np.testing.assert_array_equal(fit["dof"], nobs - 4)
    for k in range(few.size):
        if few[k]:
            assert_blank(fit, FLOATS, k)
        else:
            assert_finite(fit, ("coef", *OF_MODEL), k)


def test_weights_times_a_constant_change_nothing_but_what_has_their_units(rows: Floats) -> None:
    y = samples(rows)
    w = weights_of("per pixel", y)
    assert w is not None
    one, two = (solve(y, rows, c * w, stats=EVERY) for c in (1.0, 2.0**-40))
    powers = {"rss": -40.0, "rmse": -20.0, "resid_std": -20.0}
    for name in EVERY:
        want = one[name] * 2.0 ** powers.get(name, 0.0)
        np.testing.assert_allclose(two[name], want, rtol=1e-11, atol=1e-13, err_msg=name)
    known = [solve(y, rows, c * w, stats="stderr", absolute_sigma=True) for c in (1.0, 2.0**-40)]
    np.testing.assert_allclose(known[1]["stderr"], known[0]["stderr"] * 2.0**20, rtol=1e-12)


def test_a_sample_twice_is_a_weight_of_two(rows: Floats) -> None:
    y = samples(rows)
    w = np.where(np.arange(N) % 5 == 0, 2.0, 1.0)[:, None] * np.ones(y.shape)
    twice = np.repeat(np.arange(N), w[:, 0].astype(int))
    weighted = solve(y, rows, w, stats=("stderr", "rss"), absolute_sigma=True)
    repeated = xr.DataArray(y[twice], dims=("time", "x")).lstsq.solve(
        rows[twice], "time", stats=("stderr", "rss"), absolute_sigma=True
    )
    for name in ("coef", "stderr", "rss"):
        np.testing.assert_allclose(weighted[name], repeated[name], rtol=1e-10, err_msg=name)


# --------------------------------------------------------------------------------------------
# Lazy, float32, and only what is asked for


WAYS: dict[str, dict[str, Any]] = {
    "nonrobust": {"stats": EVERY},
    "HC2": {"stats": EVERY_BUT_F, "cov_type": "HC2"},
    "HAC": {"stats": EVERY_BUT_F, "cov_type": "HAC"},
    "ar1": {"stats": EVERY_BUT_F, "cov_type": "ar1"},
    "noise": {"stats": EVERY, "noise": "ar1"},
    "absolute sigma": {"stats": EVERY_BUT_F, "absolute_sigma": True},
}


def pair_of_dims(rows: Floats) -> xr.DataArray:
    """Return a cube whose samples stand between its pixels."""
    y = samples(rows, b=24)
    y[:, 5] = np.nan
    return xr.DataArray(
        y.reshape(N, 4, 6), {"time": TIME, "y": [40.0, 30.0, 20.0, 10.0]}, ("time", "y", "x")
    ).transpose("y", "time", "x")


@pytest.mark.parametrize("way", WAYS)
def test_a_lazy_fit_is_the_eager_one(way: str, rows: Floats) -> None:
    cube = pair_of_dims(rows)
    eager = cube.lstsq.solve(rows, "time", **WAYS[way])
    lazy = cube.chunk(y=(1, 0, 3), x=4).lstsq.solve(rows, "time", **WAYS[way])
    assert list(lazy.data_vars) == list(eager.data_vars)
    for name, want in eager.data_vars.items():
        got = lazy[name]
        assert (got.dims, got.shape, got.dtype) == (want.dims, want.shape, want.dtype), name
        assert got.attrs.keys() == want.attrs.keys(), name
        if "y" in got.dims:
            assert got.chunks is not None
            assert got.chunksizes["y"] == (1, 0, 3)
    assert eager["leverage"].dims == ("y", "time", "x")
    assert eager["cov"].dims == ("param", "param_2", "y", "x")
    assert eager["conf_int"].dims == ("param", "bound", "y", "x")
    done = lazy.compute()
    for name, want in eager.data_vars.items():
        np.testing.assert_allclose(done[name], want, rtol=1e-9, atol=1e-12, err_msg=str(name))


@pytest.mark.parametrize("way", WAYS)
def test_statistics_do_not_depend_on_the_size_of_a_batch_or_the_speed_of_float64(
    way: str, rows: Floats
) -> None:
    cube = pair_of_dims(rows)
    want = cube.lstsq.solve(rows, "time", **WAYS[way])
    little = cube.lstsq.solve(rows, "time", max_memory="60 kB", **WAYS[way])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "slow_in_float64", lambda _: True)
        slow = cube.lstsq.solve(rows, "time", device="cpu", **WAYS[way])
    for name in want.data_vars:
        for got in (little, slow):
            np.testing.assert_allclose(
                got[name], want[name], rtol=1e-9, atol=1e-11, err_msg=str(name)
            )


@pytest.mark.slow
def test_processes_give_what_threads_give(rows: Floats) -> None:
    lazy = pair_of_dims(rows).chunk(y=2).lstsq.solve(rows, "time", **WAYS["HAC"])
    threads = lazy.compute(scheduler="threads")
    processes = lazy.compute(scheduler="processes", num_workers=1)
    xr.testing.assert_allclose(processes, threads, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("asked", [("dof",), ("cov", "rss"), ("conf_int",), ("leverage", "aic")])
def test_only_what_is_asked_for_is_made(
    asked: tuple[str, ...], rows: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def noted(name: str, row: Statistic) -> Statistic:
        def function(solved: Solved) -> Any:
            made.append(name)
            return row.function(solved)

        return Statistic(function, row.needs)

    for name, row in STATISTICS.items():
        monkeypatch.setitem(STATISTICS, name, noted(name, row))
    for lazy in (False, True):
        made.clear()
        cube = cube_of(samples(rows))
        fit = (cube.chunk() if lazy else cube).lstsq.solve(rows, "time", stats=asked)
        assert set(fit.data_vars) == {*outputs.ALWAYS, *asked, "design_matrix"}
        assert set(made) == (set() if lazy else set(asked))
        if lazy:  # one pass makes what is asked of the fit, for any variable of it
            fit["coef"].compute(scheduler="sync")
            assert set(made) == set(asked)


NEEDS: list[tuple[tuple[str, ...], dict[str, Any], set[str]]] = [
    (("dof",), {}, set()),
    (("rss", "rmse", "aic"), {}, {"residual"}),
    (("stderr",), {}, {"residual", "variance"}),
    (("stderr",), {"absolute_sigma": True}, {"variance"}),
    (("cov",), {}, {"residual", "covariance"}),
    (("cov",), {"cov_type": "HC3"}, {"residual", "sandwich"}),
    (("stderr",), {"cov_type": "HC3"}, {"residual", "variance", "sandwich"}),
    (("rsquared",), {}, {"residual", "constant"}),
    (("fitted",), {}, {"fitted"}),
    (("fitted",), {"noise": "ar1"}, {"residual"}),
    (("cond", "leverage"), {}, {"cond", "leverage"}),
    ((), {"cov_type": "HC3"}, set()),
]


@pytest.mark.parametrize(("names", "options", "facts"), NEEDS, ids=str)
def test_a_solver_is_asked_for_no_more_than_statistics_need(
    names: tuple[str, ...], options: dict[str, Any], facts: set[str]
) -> None:
    cpu = torch.device("cpu")
    asked = wanted(names, Method(**options), cpu)
    assert asked.facts == facts
    assert (asked.sandwich is not None) == ("sandwich" in facts)
    # A constant in the span of the design that all pixels share lies in that of each
    known = wanted(names, Method(**options), cpu, has_constant=True)
    assert known.facts == facts - {"constant"}


@pytest.mark.parametrize("way", WAYS)
def test_statistics_in_float32_are_near_those_in_float64(way: str, rows: Floats) -> None:
    y = samples(rows, b=24)
    y[:, 3] = np.nan
    y[:, 4] = np.where(np.arange(N) < 4, y[:, 4], np.nan)
    y[:4, 4] = 1.0, 3.0, 2.0, 5.0
    w = weights_of("per pixel", y)
    double, single = (solve(y, rows, w, dtype=d, **WAYS[way]) for d in ("float64", "float32"))
    for name, want in double.data_vars.items():
        if name == "design_matrix":
            continue
        got = single[name]
        if want.dtype.kind == "i":
            np.testing.assert_array_equal(got, want, err_msg=str(name))
            continue
        assert got.dtype == np.float32, name
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=str(name))
        # a covariance beside the variances, bounds beside the errors, criteria beside their terms
        size = np.abs(want)
        if name == "cov":
            spread = np.sqrt(np.diagonal(want).T)
            size = xr.zeros_like(want) + spread[:, None] * spread[None]
        elif name in ("conf_int", "coef", "fitted", "residual", "aic", "bic", "loglik"):
            size = size + 1.0
        elif name == "pvalue":  # its logarithm changes with t^2
            size = size * (1.0 + double["tvalue"] ** 2) + 1e-6
        elif name == "f_pvalue":
            size = size * (1.0 + double["fvalue"]) + 1e-6
        off = np.abs(got.astype(np.float64) - want)
        at_dof_0 = name in ("rss", "rmse", "aic", "bic", "loglik", "rsquared")
        pixels = [k for k in range(24) if not (at_dof_0 and k == 4)]
        assert (
            (off <= 3e-4 * size + 1e-6)
            .isel(x=pixels)
            .where(~np.isnan(want).isel(x=pixels), True)
            .all()
        ), name


# --------------------------------------------------------------------------------------------
# Labels and files


@pytest.mark.parametrize("way", WAYS)
def test_a_fit_with_all_statistics_goes_through_a_file(
    way: str, rows: Floats, tmp_path: Path
) -> None:
    cube = pair_of_dims(rows).assign_attrs(units="m").rename("height").chunk(y=2)
    fit = cube.lstsq.solve(rows, "time", **WAYS[way])
    fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with netcdf.open(tmp_path / "fit.nc") as stored:
        back = stored.load()
    for name, want in fit.compute().data_vars.items():
        xr.testing.assert_equal(back[name], want)
        assert back[name].attrs.keys() == want.attrs.keys(), name
    assert back["bound"].values.tolist() == ["lower", "upper"]


def test_params_of_other_names_name_both_axes_of_their_covariance(rows: Floats) -> None:
    design = xr.DataArray(rows, {"term": ["a", "b", "c", "d"]}, ("time", "term"))
    cube = cube_of(samples(rows))
    fit = cube.lstsq.solve(design, "time", param_dim="term", stats=("cov", "conf_int", "stderr"))
    assert fit["cov"].dims == ("term", "term_2", "x")
    assert fit["term_2"].values.tolist() == fit["term"].values.tolist() == ["a", "b", "c", "d"]
    assert fit["conf_int"].dims == ("term", "bound", "x")
    one = fit["cov"].sel(term="b", term_2="c")
    np.testing.assert_array_equal(one, fit["cov"].sel(term="c", term_2="b"))
    np.testing.assert_allclose(
        fit["cov"].sel(term="d", term_2="d"), fit["stderr"].sel(term="d") ** 2, rtol=1e-12
    )
    # Axes that no variable uses have no coordinate
    less = cube.lstsq.solve(design, "time", param_dim="term", stats="stderr")
    assert not {"term_2", "bound"} & set(less.coords)


@pytest.mark.parametrize(
    ("name", "stats"),
    [("param_2", "cov"), ("bound", "conf_int"), ("stderr", "stderr"), ("leverage", "leverage")],
)
def test_a_coordinate_called_like_a_part_of_the_fit_is_refused_where_it_is_one(
    name: str, stats: str, rows: Floats
) -> None:
    cube = cube_of(samples(rows)).assign_coords({name: ("x", np.arange(12))})
    with pytest.raises(LabelError, match=rf"\['{name}'\].*drop_vars"):
        cube.lstsq.solve(rows, "time", stats=stats)
    assert name in cube.lstsq.solve(rows, "time", stats="rss").coords


def test_statistics_of_a_dataset_have_the_prefix_of_their_variable(rows: Floats) -> None:
    first, second = samples(rows), samples(rows, seed=5)
    cubes = xr.Dataset({"h": cube_of(first), "v": cube_of(second).assign_attrs(units="degC")})
    asked = ("cov", "conf_int", "stderr", "dof", "leverage")
    fit = cubes.lstsq.solve("polynomial(1)", stats=asked, cov_type="ar1")
    for name, y, units in (("h", first, "m"), ("v", second, "degC")):
        cube = cube_of(y).assign_attrs(units=units)
        alone = cube.lstsq.solve("polynomial(1)", stats=asked, cov_type="ar1")
        for key in (*asked, "rho", "n_eff"):
            np.testing.assert_array_equal(fit[f"{name}_{key}"], alone[key], err_msg=key)
            assert fit[f"{name}_{key}"].dims == alone[key].dims
        assert fit[f"{name}_coef"].attrs["ancillary_variables"] == (
            f"{name}_stderr {name}_status {name}_nobs"
        )
    assert fit["v_param_units"].values.tolist() == ["degC", "K year-1"]


def test_statistics_say_what_they_are(rows: Floats) -> None:
    cube = cube_of(samples(rows)).assign_attrs(units="degC", standard_name="air_temperature")
    asked = (*EVERY, "rss")
    fit = cube.lstsq.solve("polynomial(0)", stats=asked)
    units = {str(name): array.attrs.get("units") for name, array in fit.data_vars.items()}
    # A mean of degC has errors in K, and bounds in degC
    assert units["coef"] == units["conf_int"] == units["fitted"] == "degC"
    for name in ("stderr", "resid_std", "rmse", "residual"):
        assert units[name] == "K", name
    assert units["rss"] == "K2"
    for name in ("tvalue", "pvalue", "rsquared", "rsquared_adj", "cond", "leverage", "dof"):
        assert units[name] == "1", name
    assert units["cov"] is None
    assert fit["stderr"].attrs["standard_name"] == "standard_error"
    assert fit["nobs"].attrs["standard_name"] == "number_of_observations"
    assert fit["coef"].attrs["ancillary_variables"] == "stderr status nobs"
    for name in ("coef", "residual", "fitted", "leverage"):
        assert "standard_name" not in fit[name].attrs
    line = cube.lstsq.solve("polynomial(1)", stats=("stderr", "rss", "resid_std"))
    assert "units" not in line["stderr"].attrs  # those of each param stand beside it
    assert line["stderr"]["param_units"].values.tolist() == ["degC", "K year-1"]
    assert cube.lstsq.solve("polynomial(1)")["coef"].attrs["ancillary_variables"] == "status nobs"
    # Weights have units of their own, which are in sums of weighted squares
    weighted = cube.lstsq.solve(
        "polynomial(0)", stats=("stderr", "rss", "resid_std"), weights=np.ones(N)
    )
    assert weighted["stderr"].attrs["units"] == "K"
    assert not {"units"} & {*weighted["rss"].attrs, *weighted["resid_std"].attrs}


def test_a_fit_remembers_how_its_statistics_were_made(rows: Floats) -> None:
    cube = cube_of(samples(rows))
    for given in (
        {"cov_type": "HAC", "maxlags": 5, "level": 0.9},
        {"noise": "ar1", "absolute_sigma": True},
    ):
        spec = json.loads(cube.lstsq.solve(rows, "time", **given)["coef"].attrs["lstsq"])
        plain = Method().to_json()
        assert {key: spec["arguments"][key] for key in plain} == plain | given
    # The number of lags that was taken, where none was given
    spec = json.loads(cube.lstsq.solve(rows, "time", cov_type="HAC")["coef"].attrs["lstsq"])
    assert spec["arguments"]["maxlags"] == int(4 * (N / 100) ** (2 / 9))
