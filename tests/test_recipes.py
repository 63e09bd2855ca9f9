"""Trends, cycles and detrended cubes in one call."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
import pytest
import scipy.stats
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import xr_lstsq  # noqa: F401 - registers .lstsq
from tests import oracle
from tests.fitted import EMPTY, SHORT, columns, make_cube, make_weights, years
from xr_lstsq.errors import LabelError
from xr_lstsq.inference.cycles import amplitude, phase
from xr_lstsq.recipes.detrend import detrend
from xr_lstsq.recipes.seasonal import seasonal
from xr_lstsq.recipes.trend import trend

DAY = 1 / 365.25


def pixels(cube: xr.DataArray) -> list[tuple[int, ...]]:
    return [place for place in np.ndindex(*cube.shape[1:]) if place not in (EMPTY, SHORT)]


def fail(*_: Any, **__: Any) -> None:
    raise AssertionError("computed too early")


# ------------------------------------------------------------------------------------- trend


@pytest.mark.parametrize(("unit", "length"), [("year", 1.0), ("day", DAY), ("hour", DAY / 24)])
def test_trends_are_those_of_linregress(unit: str, length: float) -> None:
    cube = make_cube()
    found, t = trend(cube, unit=unit), years(cube["time"]) / length
    for place in pixels(cube):
        y = cube.values[:, *place]
        keep = np.isfinite(y)
        known = scipy.stats.linregress(t[keep], y[keep])
        for name, value in {
            "slope": known.slope,
            "intercept": known.intercept,
            "stderr": known.stderr,
            "pvalue": known.pvalue,
            "rsquared": known.rvalue**2,
        }.items():
            np.testing.assert_allclose(found[name][place], value, rtol=1e-9, err_msg=name)
        half = scipy.stats.t.ppf(0.975, keep.sum() - 2) * known.stderr
        ends = [known.slope - half, known.slope + half]
        np.testing.assert_allclose(found["conf_int"][:, *place], ends, rtol=1e-8)
        assert found["nobs"][place] == keep.sum()


def test_a_trend_has_labels_units_and_names() -> None:
    cube = make_cube()
    found = trend(cube, level=0.9)
    assert set(found.data_vars) == {
        *("slope", "stderr", "pvalue", "conf_int", "intercept", "rsquared", "nobs", "status"),
    }
    units = {name: one.attrs.get("units") for name, one in found.data_vars.items()}
    assert units == {
        "slope": "K year-1",
        "stderr": "K year-1",
        "pvalue": "1",
        "conf_int": "K year-1",
        "intercept": "degC",
        "rsquared": "1",
        "nobs": "1",
        "status": None,
    }
    for name, one in found.data_vars.items():
        assert one.dims == (("bound", "y", "x") if name == "conf_int" else ("y", "x"))
        assert one.encoding["grid_mapping"] == "spatial_ref"
        assert {"lat", "spatial_ref"} <= set(one.coords)
        assert one.attrs["long_name"]
        assert "lstsq" not in one.attrs
    assert "90 %" in found["conf_int"].attrs["long_name"]
    assert found["slope"].attrs["ancillary_variables"] == "stderr"
    assert found["conf_int"]["bound"].values.tolist() == ["lower", "upper"]
    assert set(found.coords) == {"y", "x", "lat", "spatial_ref", "bound"}


def test_pixels_with_too_few_samples_have_no_trend_unless_told() -> None:
    cube = make_cube().isel(y=0, x=[0, 2])
    cube[4:, 0], cube[:4, 0] = np.nan, [1.0, 2, 4, 3]
    cube[3:, 1], cube[:3, 1] = np.nan, [1.0, 2, 4]
    found = trend(cube)
    assert np.isfinite(found["slope"]).values.tolist() == [True, False]
    assert found["status"].values.tolist() == [0, 2]
    assert found["nobs"].values.tolist() == [4, 3]
    assert np.isfinite(trend(cube, min_obs=3)["slope"]).all()
    assert np.isnan(trend(cube, min_obs=5)["slope"]).all()
    # Two samples at one time determine no trend, and no minimum-norm one is made up.
    same = cube.assign_coords(time=np.full(40, cube["time"].values[0]))
    with pytest.warns(UserWarning, match="cannot tell intercept, slope apart"):
        found = trend(same)
    assert np.isnan(found["slope"]).all()
    assert found["status"].values.tolist() == [3, 2]
    with pytest.warns(UserWarning, match="cannot tell intercept, slope apart"):
        assert np.isfinite(trend(same, deficient="min_norm")["slope"][0])


@pytest.mark.parametrize(("degree", "seasons"), [(1, 1), (1, 3), (2, 0), (3, 1)])
def test_seasons_and_higher_degrees_are_fitted_beside_the_slope(degree: int, seasons: int) -> None:
    cube = make_cube(n=60)
    found = trend(cube, degree=degree, seasons=seasons)
    a = columns(cube["time"], degree, seasons)
    names = ["intercept", "slope", *(f"degree_{power}" for power in range(2, degree + 1))]
    for place in pixels(cube):
        one = oracle.fit(cube.values[:, *place], a)
        for index, name in enumerate(names):
            np.testing.assert_allclose(found[name][place], one.coef[index], rtol=1e-7, atol=1e-9)
    assert found["slope"].attrs["long_name"].startswith("rate of change")
    if degree > 1:
        assert found["degree_2"].attrs["units"] == "K year-2"


def test_every_option_of_solve_acts() -> None:
    cube = make_cube()
    weights = make_weights(cube)
    design = "polynomial(1)"
    for options in (
        {"weights": weights},
        {"valid": cube > 0},
        {"cov_type": "HAC", "maxlags": 2},
        {"noise": "ar1"},
        {"weights": weights, "absolute_sigma": True},
        {"dtype": "float32"},
    ):
        given = {"min_obs": 4, "deficient": "nan", "stats": ("stderr", "rsquared")} | options
        fit, found = cube.lstsq.solve(design, **given), trend(cube, **options)
        xr.testing.assert_identical(
            found["slope"].drop_attrs(),
            fit["coef"]
            .sel(param="slope")
            .drop_vars(["param", "param_units", "param_origin"])
            .drop_attrs()
            .rename("slope"),
        )
        np.testing.assert_array_equal(found["stderr"], fit["stderr"].sel(param="slope"))
        assert ("rho" in found) == ("rho" in fit)
        assert found["slope"].dtype == fit["coef"].dtype


def test_wrong_arguments_of_a_trend() -> None:
    cube = make_cube()
    with pytest.raises(TypeError, match="unexpected keyword argument 'wieghts'"):
        trend(cube, wieghts=1)
    with pytest.raises(TypeError, match="weights=w"):
        trend(cube, w=1)
    with pytest.raises(TypeError, match="'stats'"):
        trend(cube, stats="rss")
    for degree in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="degree="):
            trend(cube, degree=degree)  # type: ignore[arg-type]
    for seasons in (-1, 1.5, True):
        with pytest.raises(ValueError, match="seasons="):
            trend(cube, seasons=seasons)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown unit 'month'"):
        trend(cube, unit="month")
    with pytest.raises(LabelError, match="'tme' is not a dim"):
        trend(cube, dim="tme")
    with pytest.raises(LabelError, match="slope"):
        trend(cube.assign_coords(slope=("x", np.arange(4))))


def test_numbers_keep_their_own_units() -> None:
    cube = make_cube()
    t = years(cube["time"], "1970-01-01")
    numbers = cube.assign_coords(time=("time", t, {"units": "years"}))
    found = trend(numbers, dim="time", seasons=1)
    known = trend(cube.assign_coords(time=cube["time"]), seasons=1)
    np.testing.assert_allclose(found["slope"], known["slope"], rtol=1e-6)
    assert found["slope"].attrs["units"] == "K year-1"
    with pytest.raises(ValueError, match="unit='day'"):
        trend(numbers, dim="time", unit="day")


# ---------------------------------------------------------------------------------- seasonal


def test_a_cycle_is_that_of_a_fit_and_its_derived_maps() -> None:
    cube = make_cube()
    found = seasonal(cube, n=2)
    fit = cube.lstsq.solve(
        "polynomial(1, origin=middle) + harmonics(1, 2)",
        stats=("cov", "stderr", "rsquared", "resid_std"),
        min_obs=8,
        deficient="nan",
    )
    for part in (amplitude(fit), phase(fit), fit[["rsquared", "resid_std", "nobs", "status"]]):
        for name, one in part.data_vars.items():
            xr.testing.assert_equal(
                found[name].drop_vars("harmonic", errors="ignore"),
                one.drop_vars("harmonic", errors="ignore"),
            )
    for new, name in (("mean", "intercept"), ("slope", "slope")):
        np.testing.assert_array_equal(found[new], fit["coef"].sel(param=name))
        np.testing.assert_array_equal(found[f"{new}_stderr"], fit["stderr"].sel(param=name))
    assert found["mean"].attrs["units"] == "degC"
    assert found["mean_stderr"].attrs["units"] == "K"
    assert found["slope"].attrs["units"] == "K year-1"
    assert found["peak_day"].attrs["units"] == "day of year"


def test_a_cycle_is_found_again() -> None:
    rng = np.random.default_rng(5)
    time = np.arange("2012-01-01", "2018-01-01", 10, dtype="datetime64[D]").astype("datetime64[ns]")
    days = (time - np.datetime64("2012-01-01")) / np.timedelta64(1, "D")
    truth = 10 + 0.002 * (days - days.mean()) + 4 * np.cos(2 * np.pi * (days - 199) / 365.25)
    cube = xr.DataArray(truth + rng.normal(size=days.size) * 0.3, {"time": time}, "time")
    cube[rng.random(days.size) < 0.3] = np.nan
    found = seasonal(cube, n=1)
    for name, value in {"amplitude": 4, "peak_day": 200, "mean": 10, "slope": 0.002 / DAY}.items():
        error = float(found[f"{name}_stderr"].squeeze())
        assert abs(float(found[name].squeeze()) - value) < 3 * error + 0.6 * (name == "peak_day")
        assert 0 < error < 1


@pytest.mark.parametrize("trend_too", [True, False])
def test_a_cycle_without_a_trend_has_a_mean_alone(trend_too: bool) -> None:
    found = seasonal(make_cube(), trend=trend_too, n=1)
    assert ("slope" in found, "slope_stderr" in found) == (trend_too, trend_too)
    assert {"mean", "mean_stderr", "amplitude", "peak_day_stderr"} <= set(found.data_vars)


def test_a_cycle_of_another_length() -> None:
    cube = make_cube(n=80)
    by_number = seasonal(cube, period=30, unit="day", n=1)
    by_delta = seasonal(cube, period=np.timedelta64(30, "D"), n=1)
    xr.testing.assert_identical(by_number, by_delta)
    assert "peak_time" in by_number
    assert by_number["peak_time"].attrs["units"] == "day"
    assert by_number["slope"].attrs["units"] == "K year-1"


def test_wrong_arguments_of_a_cycle() -> None:
    cube = make_cube()
    with pytest.raises(TypeError, match="trend=1 is neither"):
        seasonal(cube, trend=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n=0"):
        seasonal(cube, n=0)
    with pytest.raises(TypeError, match="level would change nothing that seasonal returns"):
        seasonal(cube, level=0.9)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nobs'"):
        seasonal(cube, nobs=3)


# ----------------------------------------------------------------------------------- detrend


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("degree", "seasons"), [(0, 0), (1, 0), (1, 2), (2, 1)])
@pytest.mark.parametrize("keep_mean", [True, False])
def test_what_is_left_is_the_residual(
    degree: int, seasons: int, keep_mean: bool, weighted: bool
) -> None:
    cube = make_cube()
    weights = make_weights(cube) if weighted else None
    found = detrend(cube, degree=degree, seasons=seasons, keep_mean=keep_mean, weights=weights)
    a = columns(cube["time"], degree, seasons)
    for place in pixels(cube):
        y = cube.values[:, *place]
        w = None if weights is None else weights.values[:, *place]
        fitted = a @ oracle.fit(y, a, w).coef
        level = fitted[oracle.valid_rows(y, a, w)].mean() if keep_mean else 0.0
        np.testing.assert_allclose(found[:, *place], y - fitted + level, rtol=1e-8, atol=1e-8)
    assert np.isnan(found[:, *EMPTY]).all()


@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(0, 2))
@settings(deadline=None, max_examples=15)
def test_laws_of_a_detrended_cube(seed: int, weighted: bool, degree: int) -> None:
    cube = make_cube(seed=seed % 1000, n=25)
    weights = make_weights(cube) if weighted else None
    known = {"weights": weights, "degree": degree}
    found = detrend(cube, **known)
    solved = trend(cube, degree=max(degree, 1), min_obs=degree + 3, weights=weights)["status"] == 0
    # Missing where the cube is, or where its pixel is not solved.
    xr.testing.assert_equal(
        np.isfinite(found).where(solved, False), np.isfinite(cube).where(solved, False)
    )
    # The mean stays, and what was taken off stays off.
    xr.testing.assert_allclose(found.mean("time"), cube.where(np.isfinite(found)).mean("time"))
    xr.testing.assert_allclose(detrend(found, **known), found, atol=1e-9)
    # A trend that is added is taken off again, up to its mean.
    time = xr.DataArray(years(cube["time"]), {"time": cube["time"]})
    more = cube + 5 * (time - 15) ** degree
    plain = {"keep_mean": False} | known
    xr.testing.assert_allclose(detrend(more, **plain), detrend(cube, **plain), atol=1e-7)


def test_a_detrended_cube_looks_like_the_cube() -> None:
    cube = make_cube().transpose("y", "time", "x")
    cube.attrs |= {"standard_name": "surface_temperature", "_FillValue": -9999.0, "a": [1, 2]}
    found = detrend(cube)
    kept = {key: value for key, value in cube.attrs.items() if key != "_FillValue"}
    assert found.attrs == kept
    assert (found.name, found.dims) == (cube.name, cube.dims)
    assert found.encoding["grid_mapping"] == "spatial_ref"
    xr.testing.assert_identical(found.coords.to_dataset(), cube.coords.to_dataset())
    plain = detrend(cube, keep_mean=False)
    # A difference of two temperatures in degC is one in K.
    assert plain.attrs["units"] == "K"
    assert "standard_name" not in plain.attrs
    assert plain.name == cube.name
    assert detrend(cube.rename(None)).name is None


def test_samples_that_do_not_count_are_missing() -> None:
    cube = make_cube(n=30).fillna(-9999).round().astype("int16")
    valid = cube["time"].dt.month != 3
    found = detrend(cube, nodata=-9999, valid=valid)
    counts = (cube != -9999) & valid
    expected = detrend(cube.where(counts))
    xr.testing.assert_allclose(found, expected)
    xr.testing.assert_equal(np.isfinite(found), np.isfinite(expected))
    assert found.dtype == np.float64
    assert detrend(cube, nodata=-9999, dtype="float32").dtype == np.float32


def test_wrong_arguments_of_detrend() -> None:
    cube = make_cube()
    for name, value in {"cov_type": "HC1", "level": 0.9, "absolute_sigma": True}.items():
        with pytest.raises(TypeError, match=f"{name} would change nothing that detrend returns"):
            detrend(cube, **{name: value})
    with pytest.raises(TypeError, match="keep_mean=1 is neither"):
        detrend(cube, keep_mean=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="degree=-1"):
        detrend(cube, degree=-1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'wieghts'"):
        detrend(cube, wieghts=1)


# ------------------------------------------------------------------------------ all of them


def make_cubes() -> xr.Dataset:
    cube = make_cube(name="lst")
    other = (cube * 2).assign_attrs(units="1", long_name="greenness")
    weights = make_weights(cube)
    return xr.Dataset({"lst": cube, "ndvi": other, "w": weights}, attrs={"title": "a pair"})


def test_datasets_are_answered_variable_by_variable() -> None:
    cubes = make_cubes()
    for recipe in (trend, seasonal):
        found = recipe(cubes, weights="w")
        assert found.attrs == cubes.attrs
        for name in ("lst", "ndvi"):
            alone = recipe(cubes[name], weights=cubes["w"])
            assert {f"{name}_{key}" for key in alone} == {
                str(key) for key in found if str(key).startswith(f"{name}_")
            }
            for key, one in alone.data_vars.items():
                xr.testing.assert_equal(found[f"{name}_{key}"], one)
                assert found[f"{name}_{key}"].attrs.get("units") == one.attrs.get("units")
    one = trend(cubes, weights="w", data="lst")
    assert all(str(name).startswith("lst_") for name in one)
    left = detrend(cubes, weights="w")
    assert list(left.data_vars) == ["lst", "ndvi"]
    assert left.attrs == cubes.attrs
    for name in left:
        xr.testing.assert_identical(left[name], detrend(cubes[name], weights=cubes["w"]))


def test_a_variable_that_ends_like_another_is_its_own() -> None:
    cubes = make_cubes()[["lst"]].assign(lst_=lambda found: found["lst"] * 3)
    left = detrend(cubes)
    xr.testing.assert_allclose(left["lst_"], 3 * left["lst"])


@pytest.mark.parametrize("recipe", [trend, seasonal, detrend])
def test_lazy_cubes_stay_lazy(recipe: Any) -> None:
    cube = make_cube()
    with dask.config.set(scheduler=fail):
        found = recipe(cube.chunk(x=2, y=1))
    arrays = [found] if isinstance(found, xr.DataArray) else list(found.data_vars.values())
    for one in arrays:
        assert one.chunksizes["x"] == (2, 2)
        assert one.chunksizes["y"] == (1, 1)
    if recipe is detrend:
        assert found.chunks == cube.chunk(x=2, y=1).chunks
    whole = recipe(cube)
    xr.testing.assert_allclose(found.compute(), whole, rtol=1e-9)
    cut = recipe(cube.chunk(time=10), rechunk=True)
    xr.testing.assert_allclose(cut.compute(), whole, rtol=1e-9)


def test_a_detrended_cube_reads_its_chunks_once() -> None:
    cube = make_cube()
    read = []

    def load(block: Any) -> Any:
        if block.size > 1:
            read.append(block.shape)
        return block

    lazy = cube.chunk(x=2)
    lazy.data = lazy.data.map_blocks(load, dtype=cube.dtype, meta=np.empty((0, 0, 0)))
    with dask.config.set(scheduler="single-threaded"):
        detrend(lazy).compute()
    assert read == [(40, 2, 2)] * 2


def test_a_series_alone_is_enough() -> None:
    series = make_cube().isel(y=0, x=0, drop=True)
    assert trend(series)["slope"].dims == ()
    assert seasonal(series)["amplitude"].dims == ("harmonic",)
    assert detrend(series).dims == ("time",)


def test_the_dim_of_params_may_have_another_name() -> None:
    cube = make_cube().rename(x="param")
    expected = trend(make_cube())
    xr.testing.assert_equal(
        trend(cube, param_dim="p")["slope"], expected["slope"].rename(x="param")
    )
    seasonal(cube, param_dim="p")
    detrend(cube, param_dim="p")
