"""Values at new samples and their intervals, against statsmodels pixel by pixel."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cftime
import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.fitted import EMPTY, SHORT, TERMS, columns, in_chunks, make_cube, make_fit, make_weights
from xr_lstsq import design
from xr_lstsq.errors import DtypeError, LabelError

DATES = ["2009-12-31", "2013-07-01T06:30:00", "2016-02-29", "2030-01-01"]
NEW = np.array(DATES, "datetime64[ns]")
PLACES = [place for place in np.ndindex(2, 4) if place not in (EMPTY, SHORT)]
ENDS = ("prediction", "lower", "upper")


def refuse(*_: Any, **__: Any) -> None:
    """Stand for a scheduler where nothing may be computed."""
    raise AssertionError("computed")


# --- values and intervals -----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("level", [0.95, 0.5])
def test_values_and_intervals_are_those_of_statsmodels(weighted: bool, level: float) -> None:
    cube = make_cube()
    weights = make_weights(cube) if weighted else None
    fit = make_fit(cube, weights=weights)
    found = {kind: fit.lstsq.predict(NEW, kind, level) for kind in ("confidence", "prediction")}
    for place in PLACES:
        y, a = cube.values[:, *place], columns(cube["time"])
        w = None if weights is None else weights.values[:, *place]
        keep = oracle.valid_rows(y, a, w)
        model = sm.WLS(y[keep], a[keep], 1.0 if w is None else w[keep]).fit()
        expected = model.get_prediction(columns(NEW))
        for kind, ends in (
            ("confidence", expected.conf_int(alpha=1 - level)),
            ("prediction", expected.conf_int(obs=True, alpha=1 - level)),
        ):
            one = found[kind].isel(y=place[0], x=place[1])
            np.testing.assert_allclose(one["prediction"], expected.predicted_mean, rtol=1e-9)
            np.testing.assert_allclose(one["lower"], ends[:, 0], rtol=1e-9)
            np.testing.assert_allclose(one["upper"], ends[:, 1], rtol=1e-9)


def test_without_an_interval_only_values_are_needed() -> None:
    fit = make_fit(make_cube())
    found = fit[["coef"]].lstsq.predict(NEW)
    xr.testing.assert_identical(found, fit.lstsq.predict(NEW))
    np.testing.assert_array_equal(found, fit.lstsq.predict(NEW, "confidence")["prediction"])


def test_at_its_own_samples_a_fit_predicts_what_it_has_fitted() -> None:
    cube = make_cube()
    found = make_fit(cube).lstsq.predict(cube["time"])
    for place in np.ndindex(2, 4):
        one = oracle.fit(cube.values[:, *place], columns(cube["time"]))
        np.testing.assert_allclose(found[:, *place], one.fitted, rtol=1e-9, atol=1e-9)
    assert np.isnan(found[:, *EMPTY]).all()


def test_a_pixel_without_noise_to_measure_has_a_value_and_no_interval() -> None:
    found = make_fit(make_cube()).lstsq.predict(NEW, "prediction").isel(y=SHORT[0], x=SHORT[1])
    assert np.isfinite(found["prediction"]).all()
    assert np.isnan(found["lower"]).all()
    assert np.isnan(found["upper"]).all()


def test_known_variances_give_normal_intervals_and_a_sample_of_variance_1() -> None:
    cube = make_cube()
    weights = make_weights(cube)
    fit = make_fit(cube, weights=weights, absolute_sigma=True).drop_vars("resid_std")
    rows = columns(NEW)
    for kind, own in (("confidence", 0.0), ("prediction", 1.0)):
        found = fit.lstsq.predict(NEW, kind)
        for place in [*PLACES, SHORT]:
            y, a, w = cube.values[:, *place], columns(cube["time"]), weights.values[:, *place]
            keep = oracle.valid_rows(y, a, w)
            root = rows @ np.linalg.pinv(a[keep] * np.sqrt(w[keep])[:, None])
            half = scipy.stats.norm.ppf(0.975) * np.sqrt((root**2).sum(axis=1) + own)
            values = root @ (y[keep] * np.sqrt(w[keep]))
            np.testing.assert_allclose(found["prediction"][:, *place], values, rtol=1e-8)
            np.testing.assert_allclose(found["upper"][:, *place], values + half, rtol=1e-8)


def test_autocorrelated_noise_counts_the_samples_that_are_independent() -> None:
    fit = make_fit(make_cube(), cov_type="ar1")
    fit["n_eff"] = fit["nobs"] * 0.41
    found = fit.lstsq.predict(NEW, "confidence")
    plain = make_fit(make_cube()).lstsq.predict(NEW, "confidence")
    dof = {"ar1": fit["n_eff"] - 4, "plain": fit["nobs"] - 4}
    ratio = (found["upper"] - found["lower"]) / (plain["upper"] - plain["lower"])
    t = {key: scipy.stats.t.ppf(0.975, value.where(value > 0)) for key, value in dof.items()}
    expected = np.broadcast_to(t["ar1"] / t["plain"], ratio.shape)
    np.testing.assert_allclose(ratio.transpose("time", "y", "x"), expected, rtol=1e-9)


def test_a_robust_covariance_is_the_one_that_counts() -> None:
    cube = make_cube()
    fit = make_fit(cube)
    for place in PLACES:
        y, a = cube.values[:, *place], columns(cube["time"])
        keep = oracle.valid_rows(y, a)
        model = sm.OLS(y[keep], a[keep]).fit(cov_type="HC3", use_t=True)
        fit["cov"][:, :, *place] = model.cov_params()
        found = fit.lstsq.predict(NEW, "confidence").isel(y=place[0], x=place[1])
        ends = model.get_prediction(columns(NEW)).conf_int()
        np.testing.assert_allclose(found["upper"], ends[:, 1], rtol=1e-9)


def test_a_variance_below_zero_by_rounding_is_zero() -> None:
    fit = make_fit(make_cube(), design.harmonics(1))
    fit["cov"][:, :, 0, 0] = [[1, -1 - 1e-15], [-1 - 1e-15, 1]]
    matrix = np.array([[1.0, 1.0]])
    found = fit.lstsq.predict(matrix, "confidence").isel(y=0, x=0)
    assert found["upper"] == found["prediction"] == found["lower"]


@settings(max_examples=12)
@given(
    low=st.floats(0.05, 0.95),
    more=st.floats(0.01, 0.9),
    days=st.lists(st.integers(-20000, 20000), min_size=1, max_size=6),
    chunks=st.sampled_from([None, 1, 3]),
)
def test_an_interval_holds_the_value_and_grows_with_its_level(
    low: float, more: float, days: list[int], chunks: int | None
) -> None:
    fit = make_fit(make_cube(n=15))
    at = np.datetime64("2015-01-01", "ns") + np.array(days) * np.timedelta64(1, "D")
    given_fit = fit if chunks is None else fit.chunk(x=chunks)
    high = low + (1 - low) * more
    inner, outer = (given_fit.lstsq.predict(at, "confidence", x).compute() for x in (low, high))
    new = fit.lstsq.predict(at, "prediction", low)
    there = np.isfinite(inner["lower"])
    assert there.any()
    for one in (inner, outer, new):
        ordered = (one["lower"] <= one["prediction"]) & (one["prediction"] <= one["upper"])
        assert ordered.values[there.values].all()
        middle = (one["lower"] + one["upper"]) / 2
        np.testing.assert_allclose(
            middle.values[there], one["prediction"].values[there], rtol=1e-6, atol=1e-6
        )
    assert (outer["upper"] > inner["upper"]).values[there.values].all()
    assert (new["upper"] > inner["upper"]).values[there.values].all()
    for k, day in enumerate(at):
        alone = fit.lstsq.predict([day])
        np.testing.assert_allclose(inner["prediction"][k], alone[0], rtol=1e-12, atol=1e-12)


# --- what to predict at -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "at",
    [
        DATES,
        tuple(DATES),
        np.array(DATES),
        pd.Index(DATES),
        NEW.astype("datetime64[s]"),
        list(NEW),
        pd.DatetimeIndex(DATES),
        pd.Series(pd.DatetimeIndex(DATES)),
        [pd.Timestamp(text) for text in DATES],
        [datetime.datetime.fromisoformat(text) for text in DATES],
        [DATES[0], *[datetime.datetime.fromisoformat(text) for text in DATES[1:]]],
        xr.DataArray(NEW, dims="time"),
        xr.DataArray(NEW, dims="when", name="when"),
        xr.DataArray(NEW, {"time": NEW}, "time", name="time"),
        # Of an array the values count: this is what cube.time + step is.
        xr.DataArray(NEW, {"time": NEW - np.timedelta64(9, "D")}, "time", name="time"),
        xr.DataArray(DATES, dims="time"),
    ],
    ids=lambda at: type(at).__name__,
)
def test_dates_may_come_in_any_form(at: Any) -> None:
    fit = make_fit(make_cube())
    found = fit.lstsq.predict(at)
    expected = np.einsum("np,pyx->nyx", columns(NEW), fit["coef"])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found.dims == ("time", "y", "x")
    np.testing.assert_array_equal(found["time"], NEW)


@pytest.mark.parametrize(
    "at",
    [
        "2016-02-29",
        np.datetime64("2016-02-29"),
        pd.Timestamp("2016-02-29"),
        datetime.date(2016, 2, 29),
        xr.DataArray(np.datetime64("2016-02-29", "ns")),
    ],
    ids=lambda at: type(at).__name__,
)
def test_one_date_is_a_list_of_one(at: Any) -> None:
    fit = make_fit(make_cube())
    xr.testing.assert_equal(fit.lstsq.predict(at), fit.lstsq.predict(["2016-02-29"]))


def test_dates_beyond_nanoseconds_are_predicted() -> None:
    fit = make_fit(make_cube(), design.polynomial(1))
    found = fit.lstsq.predict(["1500-01-01", "2000-01-01"])
    days = np.datetime64("1500-01-01", "D") - np.datetime64("2000-01-01", "D")
    expected = fit["coef"][0] + fit["coef"][1] * (days.astype(int) / 365.25)
    np.testing.assert_allclose(found[0], expected, rtol=1e-9)


def test_a_label_that_is_missing_predicts_nothing() -> None:
    fit = make_fit(make_cube())
    for at in ([None, "2016-02-29"], np.array(["NaT", "2016-02-29"], "datetime64[ns]")):
        found = fit.lstsq.predict(at, "confidence")
        assert np.isnan(found.isel(time=0).to_dataarray()).all()
        alone = fit.lstsq.predict("2016-02-29", "confidence")
        np.testing.assert_allclose(found["upper"][1], alone["upper"][0], rtol=1e-12)
    assert fit.lstsq.predict(NEW[:0]).shape == (0, 2, 4)


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "standard"])
def test_dates_of_other_calendars_are_theirs(calendar: str) -> None:
    days = {"noleap": 365, "360_day": 360, "standard": 365.25}[calendar]
    cube = make_cube()
    times = xr.date_range("2001-01-01", periods=40, freq="97D", calendar=calendar, use_cftime=True)
    cube = cube.assign_coords(time=times)
    fit = make_fit(cube, design.polynomial(1))
    date = cftime.datetime(2004, 2, 28, 6, 30, 15, 250000, calendar=calendar)
    since = (date - cftime.datetime(2000, 1, 1, calendar=calendar)) / datetime.timedelta(days)
    expected = fit["coef"][0] + fit["coef"][1] * since
    for at in (date, [date], "2004-02-28T06:30:15.25", xr.CFTimeIndex([date])):
        found = fit.lstsq.predict(at)
        np.testing.assert_allclose(found[0], expected, rtol=1e-9)
        assert found["time"].values[0] == date
    with pytest.raises(ValueError, match=f"is bound to cftime dates of the calendar '{calendar}'"):
        fit.lstsq.predict(NEW)
    with pytest.raises(ValueError, match="is bound to cftime dates"):
        fit.lstsq.predict([cftime.datetime(2004, 2, 28, calendar="julian")])


def test_numbers_are_used_as_they_are() -> None:
    cube = make_cube()
    cube = cube.assign_coords(time=("time", np.linspace(3, 8, 40), {"units": "km"}))
    fit = make_fit(cube, design.polynomial(2))
    x = np.array([-2.0, 0.5, 7.0])
    expected = np.einsum("np,pyx->nyx", np.vander(x, 3, increasing=True), fit["coef"])
    for at in (x, list(x), pd.Index(x), xr.DataArray(x, dims="time", attrs={"units": "km"})):
        np.testing.assert_allclose(fit.lstsq.predict(at), expected, rtol=1e-9)
    np.testing.assert_allclose(fit.lstsq.predict(7), expected[2:], rtol=1e-9)
    with pytest.raises(ValueError, match=r"is bound to numbers in 'km', and 'time' is in 'm'"):
        fit.lstsq.predict(xr.DataArray(x, dims="time", attrs={"units": "m"}))


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ([1.0, 2.0], "is bound to datetime64 dates .* and 'time' holds numbers"),
        ([cftime.datetime(2004, 2, 28, calendar="noleap")], "is bound to datetime64 dates"),
        (["2004-13-01"], "is no date"),
        (["next year"], "is no date. Write it as 2015-06-01"),
        (pd.DatetimeIndex(["2004-01-01"], tz="UTC"), "without a time zone"),
        (pd.PeriodIndex(["2004-01"], freq="M"), "objects of type Period"),
        ([True], "holds bool"),
        (np.zeros((2, 2, 2)), r"at has the dims \(2, 2, 2\)"),
        (xr.DataArray(np.zeros((2, 2)), dims=("time", "x")), r"at has the dims \('time', 'x'\)"),
        (xr.Dataset({"time": NEW}), "at is a Dataset. Pass one DataArray"),
    ],
    ids=str,
)
def test_labels_that_the_terms_cannot_read_are_refused(at: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_fit(make_cube()).lstsq.predict(at)


# --- design matrices ----------------------------------------------------------------------------


def labelled(names: Any = ("intercept", "slope", "cos_1", "sin_1")) -> xr.DataArray:
    """Return the rows of the design at new samples, with their labels."""
    return xr.DataArray(columns(NEW), {"time": NEW, "param": list(names)}, ("time", "param"))


@pytest.mark.parametrize("interval", [None, "prediction"])
def test_a_matrix_of_the_same_rows_predicts_the_same(interval: Any) -> None:
    fit = make_fit(make_cube())
    expected = fit.lstsq.predict(NEW, interval)
    for at in (
        labelled(),
        labelled().isel(param=[2, 0, 3, 1]),
        labelled().transpose(),
        labelled().chunk(time=2),
        labelled().drop_vars("param"),
    ):
        xr.testing.assert_allclose(fit.lstsq.predict(at, interval).compute(), expected, rtol=1e-9)
    for at in (columns(NEW), columns(NEW).tolist(), pd.DataFrame(columns(NEW))):
        plain = fit.lstsq.predict(at, interval)
        assert "time" not in plain.coords
        xr.testing.assert_allclose(plain, expected.drop_vars("time"), rtol=1e-9)


@pytest.mark.parametrize("interval", [None, "prediction"])
@pytest.mark.parametrize("lazy", ["no", "fit", "at", "both"])
def test_a_matrix_may_differ_from_pixel_to_pixel(interval: Any, lazy: str) -> None:
    cube = make_cube()
    rng = np.random.default_rng(5)
    fit = make_fit(cube)
    text = fit["coef"].attrs["lstsq"]
    spec = json.loads(text) | {"terms": {"term": "matrix", "pixel_dims": ["x"]}}
    fit["coef"].attrs["lstsq"] = json.dumps(spec)
    at = labelled() * xr.DataArray(rng.normal(size=4), {"x": cube["x"]}, "x")
    given_at = at.isel(x=[3, 1, 0, 2]).transpose("x", "param", "time")
    given_at = given_at.chunk(x=2) if lazy in ("at", "both") else given_at
    given_fit = fit.chunk(x=2) if lazy in ("fit", "both") else fit
    found = given_fit.lstsq.predict(given_at, interval)
    assert found.dims == ("time", "y", "x") if interval is None else set(found.dims) == {*cube.dims}
    for k in range(4):
        one = fit.isel(x=[k]).lstsq.predict(at.isel(x=k, drop=True), interval)
        xr.testing.assert_allclose(found.isel(x=[k]).compute(), one, rtol=1e-9)


def test_a_fit_by_a_matrix_needs_a_matrix() -> None:
    cube = make_cube()
    fit = make_fit(cube, columns(cube["time"]))
    found = fit.lstsq.predict(columns(NEW), "confidence")
    expected = make_fit(cube).lstsq.predict(NEW, "confidence")
    for end in ENDS:
        np.testing.assert_allclose(found[end], expected[end], rtol=1e-9)
    rows = labelled(range(4)).isel(param=[3, 2, 0, 1])
    xr.testing.assert_allclose(
        fit.isel(param=[1, 3, 2, 0]).lstsq.predict(rows, "confidence"), expected, rtol=1e-9
    )
    for at in (NEW, "2016-02-29", labelled()["time"]):
        with pytest.raises(ValueError, match=r"made with a design matrix, .* dims \('time', 'par"):
            fit.lstsq.predict(at)
    spec = json.loads(fit["coef"].attrs["lstsq"])
    spec["terms"] = {"term": "matrix", "pixel_dims": ["x"]}
    fit["coef"].attrs["lstsq"] = json.dumps(spec)
    with pytest.raises(ValueError, match=r"with the pixel dims \['x'\] where it differs"):
        fit.lstsq.predict(NEW)


@pytest.mark.parametrize(
    ("at", "kind", "message"),
    [
        (columns(NEW)[:, :3], LabelError, r"at has 3 columns, and the fit has the params \['inter"),
        (labelled()[:, :3], LabelError, r"at has the columns .* 'sin_1' must stand once in each"),
        (labelled(("intercept", "slope", "a", "b")), LabelError, "'cos_1', 'sin_1', 'a', 'b' must"),
        (labelled(("slope", "slope", "cos_1", "sin_1")), LabelError, "'intercept' must stand once"),
        (labelled().rename(time="date"), LabelError, r"at has the dims \('date', 'param'\), and a"),
        (labelled().expand_dims(z=2), LabelError, r"and may have \('y', 'x'\). Rename its dims"),
        (labelled().expand_dims(x=[7.0, 8, 9, 10]), LabelError, "at has other labels along 'x'"),
        (columns(NEW).astype(complex), DtypeError, "at has the dtype complex128"),
        (columns(NEW).astype(object), DtypeError, "at has the dtype object"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(at: Any, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        make_fit(make_cube()).lstsq.predict(at)


# --- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [("time", "y", "x"), ("y", "time", "x"), ("x", "y", "time")])
def test_a_prediction_looks_like_the_cube(dims: tuple[str, ...]) -> None:
    cube = make_cube().transpose(*dims)
    fit = make_fit(cube)
    at = xr.DataArray(NEW, dims="time", attrs={"axis": "T"})
    at.encoding = {"units": "hours since 1999-01-01", "chunksizes": (512,), "dtype": "int32"}
    found = fit.lstsq.predict(at)
    assert (found.name, found.dims) == ("lst", dims)
    assert found.attrs == {"long_name": "surface temperature", "units": "degC"}
    assert found.encoding == {"grid_mapping": "spatial_ref"}
    assert set(found.coords) == {"time", "y", "x", "lat", "spatial_ref"}
    for name in ("y", "x", "lat", "spatial_ref"):
        xr.testing.assert_identical(found[name], fit["nobs"][name])
    assert found["time"].attrs == {"axis": "T"}
    assert found["time"].encoding == {"units": "hours since 1999-01-01"}
    whole = fit.lstsq.predict(at, "confidence")
    assert list(whole) == list(ENDS)
    assert whole.attrs == {"title": "made by hand"}
    for end in ENDS:
        assert whole[end].dims == dims
        assert whole[end].attrs["units"] == "degC"
        assert whole[end].encoding == {"grid_mapping": "spatial_ref"}
    assert whole["lower"].attrs["long_name"] == (
        "lower end of the 95 % confidence interval of surface temperature"
    )


def test_a_cube_without_a_name_has_a_prediction_without_one() -> None:
    assert make_fit(make_cube(name=None)).lstsq.predict(NEW).name is None


def test_a_fit_of_a_dataset_predicts_a_dataset() -> None:
    cubes = {name: make_cube(seed=seed, name=name) for seed, name in enumerate(("lst", "ndvi"))}
    parts = [make_fit(cube, prefix=f"{name}_") for name, cube in cubes.items()]
    fit = xr.merge(parts, compat="override", join="exact", combine_attrs="override")
    found = fit.lstsq.predict(NEW)
    assert isinstance(found, xr.Dataset)
    assert list(found) == ["lst", "ndvi"]
    assert found.attrs == {"title": "made by hand"}
    whole = fit.lstsq.predict(NEW, "prediction")
    assert list(whole) == [f"{name}_{end}" for name in cubes for end in ENDS]
    for name, cube in cubes.items():
        np.testing.assert_array_equal(found[name], make_fit(cube).lstsq.predict(NEW))
        np.testing.assert_array_equal(whole[f"{name}_prediction"], found[name])
    alone = parts[0].lstsq.predict(NEW)
    assert list(alone) == ["lst"]


def test_the_answer_has_the_dtype_of_the_fit() -> None:
    fit = make_fit(make_cube())
    low = fit.assign({name: fit[name].astype("f4") for name in ("coef", "cov", "resid_std")})
    for found in (low, low.chunk(x=2)):
        whole = found.lstsq.predict(NEW, "prediction")
        assert {array.dtype for array in whole.data_vars.values()} == {np.dtype("f4")}
        np.testing.assert_allclose(
            whole["upper"], fit.lstsq.predict(NEW, "prediction")["upper"], rtol=1e-3
        )


@pytest.mark.parametrize("interval", [None, "confidence", "prediction"])
def test_a_lazy_fit_gives_a_lazy_prediction_in_its_chunks(interval: Any) -> None:
    import dask

    fit = make_fit(make_cube())
    # A file may be cut along the params too.
    for lazy in (in_chunks(fit, x=2, y=1), in_chunks(fit, x=2, y=1, param=1, param_2=3)):
        with dask.config.set(scheduler=refuse):
            found = lazy.lstsq.predict(NEW, interval)
        arrays = [found] if interval is None else list(found.data_vars.values())
        for array in arrays:
            assert array.chunks == ((4,), (1, 1), (2, 2))
        xr.testing.assert_allclose(found.compute(), fit.lstsq.predict(NEW, interval), rtol=1e-12)


# --- parts, tiles and files ---------------------------------------------------------------------


@pytest.mark.parametrize("interval", [None, "prediction"])
def test_a_cube_of_one_pixel_has_no_pixel_dims(interval: Any) -> None:
    cube = make_cube()
    whole = make_fit(cube).lstsq.predict(NEW, interval)
    found = make_fit(cube.isel(y=0, x=3)).lstsq.predict(NEW, interval)
    assert set(found.dims) == {"time"}
    xr.testing.assert_allclose(found, whole.isel(y=0, x=3), rtol=1e-12)


def test_parts_of_a_fit_predict_parts() -> None:
    fit = make_fit(make_cube())
    whole = fit.lstsq.predict(NEW, "prediction")
    for part, same in (
        (fit.isel(y=0), whole.isel(y=0)),
        (fit.isel(y=1, x=2), whole.isel(y=1, x=2)),
        (fit.sel(x=slice(1, 2)), whole.sel(x=slice(1, 2))),
        (fit.where(fit["x"] > 1), whole.where(fit["x"] > 1)),
        (fit.where(fit["x"] > 1, drop=True), whole.where(fit["x"] > 1, drop=True)),
        (fit.isel(param=[3, 1, 0, 2]), whole),
        (fit.isel(param_2=[3, 1, 0, 2]), whole),
        (fit.transpose(..., "param"), whole),
    ):
        xr.testing.assert_allclose(part.lstsq.predict(NEW, "prediction"), same, rtol=1e-9)
    stacked = fit.stack(pixel=("y", "x")).lstsq.predict(NEW)
    assert stacked.dims == ("time", "pixel")
    xr.testing.assert_equal(
        stacked.unstack("pixel").transpose("time", "y", "x").drop_vars("lat"),
        whole["prediction"].drop_vars("lat"),
    )
    renamed = fit.rename(x="lon").lstsq.predict(NEW)
    assert renamed.dims == ("time", "y", "lon")


def test_a_fit_that_lost_the_attributes_of_its_variables_predicts() -> None:
    fit = make_fit(make_cube())
    with xr.set_options(keep_attrs=False):
        half = fit / 2
    assert "lstsq" not in half["coef"].attrs
    xr.testing.assert_allclose(half.lstsq.predict(NEW), fit.lstsq.predict(NEW) / 2, rtol=1e-12)


def test_some_of_the_params_cannot_predict() -> None:
    fit = make_fit(make_cube())
    for part in (fit.sel(param=["slope", "cos_1"]), fit.sel(param="slope"), fit.isel(param=[])):
        for at in (NEW, labelled()):
            with pytest.raises(ValueError, match=r"without \['intercept', .*'sin_1'\] nothing can"):
                part.lstsq.predict(at)
    twice = xr.concat([fit, fit], "param", data_vars="minimal", coords="minimal", compat="override")
    with pytest.raises(ValueError, match="with some more than once nothing can be predicted"):
        twice.lstsq.predict(NEW)
    with pytest.raises(
        ValueError, match=r"without \['cos_1', 'sin_1'\]. Predict with the fit before"
    ):
        fit.isel(param_2=[0, 1]).lstsq.predict(NEW, "confidence")


def tiles(origins: tuple[Any, Any], term: Any = design.polynomial) -> list[xr.Dataset]:
    """Return the fits of the two halves of a cube, each from its own origin."""
    cube = make_cube()
    halves = (cube.isel(x=slice(2)), cube.isel(x=slice(2, 4)))
    return [
        make_fit(half, term(2, origin=origin)) for half, origin in zip(halves, origins, strict=True)
    ]


JOINS = {
    "concat": lambda parts: xr.concat(
        parts, "x", data_vars="all", coords="different", compat="equals", join="outer"
    ),
    "combine": lambda parts: xr.combine_by_coords(
        parts, data_vars="all", coords="different", compat="no_conflicts", join="outer",
        combine_attrs="override",
    ),
    "merge": lambda parts: xr.merge(parts, compat="no_conflicts", join="outer"),
}  # fmt: skip


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("origin", [None, "2015-01-01"])
def test_tiles_of_the_same_terms_are_one_fit(join: str, origin: Any) -> None:
    fit = JOINS[join](tiles((origin, origin)))
    expected = make_fit(make_cube(), design.polynomial(2)).lstsq.predict(NEW, "prediction")
    xr.testing.assert_allclose(fit.lstsq.predict(NEW, "prediction"), expected, rtol=1e-6)
    single = JOINS[join]([part.chunk() for part in tiles((origin, origin))])
    xr.testing.assert_allclose(
        single.lstsq.predict(NEW, "prediction").compute(), expected, rtol=1e-6
    )


@pytest.mark.parametrize(
    "origins", [("2015-01-01", "2016-01-01"), (None, "2016-01-01"), ("2016-01-01", None)]
)
def test_tiles_of_other_origins_are_refused(origins: tuple[Any, Any]) -> None:
    fit = JOINS["concat"](tiles(origins))
    for call in (lambda: fit.lstsq.predict(NEW), lambda: fit.lstsq.contrast("mean_rate")):
        with pytest.raises(ValueError, match="fits by different terms have been joined"):
            call()


def test_tiles_in_other_units_of_time_are_refused() -> None:
    cube = make_cube()
    halves = (cube.isel(x=slice(2)), cube.isel(x=slice(2, 4)))
    parts = [
        make_fit(half, design.polynomial(1, unit=unit))
        for half, unit in zip(halves, ("year", "day"), strict=True)
    ]
    with pytest.raises(ValueError, match=r"'param_units' of the fit has the dims .* joined"):
        JOINS["concat"](parts).lstsq.predict(NEW)
    # What can be told without them still can.
    assert "units" not in JOINS["concat"](parts).lstsq.contrast({"slope": 1})["estimate"].attrs


def test_origins_that_differ_or_are_gone_are_refused() -> None:
    fit = make_fit(make_cube(), design.polynomial(1, origin="2015-01-01"))
    fit.lstsq.predict(NEW)
    other = fit.assign_coords(param_origin=("param", ["2015-01-01", "2014-01-01"]))
    with pytest.raises(
        ValueError, match="'slope' counts from 2015-01-01 by the terms of the fit, a"
    ):
        other.lstsq.predict(NEW)
    with pytest.raises(ValueError, match="the fit has lost its coordinate 'param_origin'"):
        fit.drop_vars("param_origin").lstsq.predict(NEW)


PREDICT = """
import sys
import numpy as np, xarray as xr, xr_lstsq
path, engine, decode = sys.argv[1:]
more = {} if decode == "default" else {"decode_coords": decode}
fit = xr.open_dataset(path, engine=engine, **more)
found = fit.lstsq.predict(["2013-07-01T06:30:00", "2030-01-01"], "prediction")
assert "torch" not in sys.modules
assert found["prediction"].encoding == {"grid_mapping": "spatial_ref"}, found.encoding
assert found["spatial_ref"].attrs == {"crs_wkt": "made up"}
np.save(path + ".npy", found.to_dataarray().values)
"""


@pytest.mark.parametrize("engine", ["netcdf4", "zarr"])
@pytest.mark.parametrize("origin", [None, "middle"])
@pytest.mark.parametrize("decode", ["default", "all"])
def test_a_fit_read_from_a_file_in_a_new_process_predicts_the_same(
    tmp_path: Path, engine: str, origin: Any, decode: str
) -> None:
    term = design.polynomial(2, origin=origin) + design.harmonics(1)
    fit = make_fit(make_cube(), term)
    path = tmp_path / "fit"
    if engine == "zarr":
        pytest.importorskip("zarr")
        fit.to_zarr(path, zarr_format=2)
    else:
        fit.to_netcdf(path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PREDICT, str(path), engine, decode],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = fit.lstsq.predict(["2013-07-01T06:30:00", "2030-01-01"], "prediction")
    np.testing.assert_array_equal(np.load(f"{path}.npy"), expected.to_dataarray())


# --- errors -------------------------------------------------------------------------------------


def test_an_interval_says_what_it_is_made_of() -> None:
    fit = make_fit(make_cube(), prefix="lst_")
    bare = fit.drop_vars(["lst_cov", "lst_resid_std"])
    with pytest.raises(ValueError, match=r"='confidence' needs 'lst_cov', .*stats=\(\"cov\",\)"):
        bare.lstsq.predict(NEW, "confidence")
    with pytest.raises(ValueError, match=r"'lst_cov', 'lst_r.*stats=\(\"cov\", \"resid_std\"\)"):
        bare.lstsq.predict(NEW, "prediction")
    with pytest.raises(ValueError, match=r"needs 'lst_resid_std', .*stats=\(\"resid_std\",\)"):
        fit.drop_vars("lst_resid_std").lstsq.predict(NEW, "prediction")
    with pytest.raises(ValueError, match=r"needs 'lst_nobs', which .* Keep it with the fit"):
        fit.drop_vars("lst_nobs").lstsq.predict(NEW, "confidence")


def test_intervals_and_levels_that_are_none_are_refused() -> None:
    fit = make_fit(make_cube())
    with pytest.raises(ValueError, match=r"'conf' is not known\. Choose from 'confidence', 'pr"):
        fit.lstsq.predict(NEW, "conf")
    with pytest.raises(ValueError, match="level=95 is not between 0 and 1"):
        fit.lstsq.predict(NEW, "confidence", 95)


def test_a_coordinate_called_like_the_answer_is_refused() -> None:
    fit = make_fit(make_cube())
    with pytest.raises(LabelError, match=r"called \['time'\], which the answer needs"):
        fit.assign_coords(time=1).lstsq.predict(NEW)
    with pytest.raises(LabelError, match=r"called \['lower'\]"):
        fit.assign_coords(lower=1).lstsq.predict(NEW, "confidence")
    fit.assign_coords(lower=1).lstsq.predict(NEW)


@pytest.mark.parametrize("obj", [xr.Dataset({"a": ("x", [1.0])}), xr.DataArray([1.0], name="a")])
def test_what_is_no_fit_says_so(obj: Any) -> None:
    with pytest.raises(ValueError, match=r"is no fit|predict is for a fit"):
        obj.lstsq.predict(NEW)


# --- the whole way ------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_fit_that_was_solved_is_the_one_made_by_hand(weighted: bool, lazy: bool) -> None:
    cube = make_cube()
    weights = make_weights(cube) if weighted else None
    by_hand = make_fit(cube, weights=weights)
    given_cube = cube.chunk(x=2) if lazy else cube
    fit = given_cube.lstsq.solve(
        TERMS, weights=weights, stats=("cov", "stderr", "resid_std", "rss")
    )
    spec, same = (json.loads(one["coef"].attrs["lstsq"]) for one in (fit, by_hand))
    same["arguments"]["weights"] = spec["arguments"]["weights"]
    for key in same:
        if key not in ("xr_lstsq", "long_names"):
            assert spec[key] == same[key], key
    xr.testing.assert_allclose(
        fit.lstsq.predict(NEW, "prediction").compute(),
        by_hand.lstsq.predict(NEW, "prediction"),
        rtol=1e-8,
    )
    xr.testing.assert_allclose(
        fit.lstsq.contrast("mean_rate").compute(), by_hand.lstsq.contrast("mean_rate"), rtol=1e-8
    )
    small = given_cube.lstsq.solve(design.polynomial(1), weights=weights, stats="rss")
    hand = make_fit(cube, design.polynomial(1), weights)
    # The pixel that is met exactly has an rss of rounding alone.
    found, expected = fit.lstsq.compare(small).compute(), by_hand.lstsq.compare(hand)
    xr.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("cov_type", ["HC3", "HAC", "ar1"])
def test_a_fit_that_was_solved_has_the_intervals_of_its_covariance(cov_type: str) -> None:
    cube = make_cube().dropna("time", how="all")
    cube = cube.assign_coords(time=cube["time"].values[0] + np.arange(40) * np.timedelta64(30, "D"))
    fit = cube.lstsq.solve(TERMS, cov_type=cov_type, stats=("cov", "stderr", "pvalue", "resid_std"))
    for name in ("slope", "cos_1"):
        found = fit.lstsq.contrast({name: 1})
        np.testing.assert_allclose(found["pvalue"], fit["pvalue"].sel(param=name), rtol=1e-8)
    # The value at the origin is the intercept and the cosine.
    found = fit.lstsq.predict("2000-01-01", "confidence").isel(time=0)
    same = fit.lstsq.contrast({"intercept": 1, "cos_1": 1})
    np.testing.assert_allclose(found["upper"], same["conf_int"].sel(bound="upper"), rtol=1e-6)
    assert np.isfinite(found["upper"]).sum() >= 5


@pytest.mark.parametrize("origin", [None, "middle"])
def test_a_dataset_that_was_solved_predicts_after_arithmetic_and_a_file(
    tmp_path: Path, origin: Any
) -> None:
    term = design.polynomial(2, origin=origin)
    cube, rng = make_cube(), np.random.default_rng(8)
    other = cube.where(rng.random(cube.shape) < 0.8) + rng.normal(size=cube.shape)
    cubes = xr.Dataset({"a": cube, "b": other.assign_attrs(units="mm")})
    fit = cubes.lstsq.solve(term, stats="cov")
    expected = fit.lstsq.predict(NEW, "confidence")
    with xr.set_options(keep_attrs=False):
        plain = fit * 1
    np.testing.assert_array_equal(
        plain.lstsq.predict(NEW, "confidence").to_dataarray(), expected.to_dataarray()
    )
    fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with xr.open_dataset(tmp_path / "fit.nc") as stored:
        xr.testing.assert_equal(stored.lstsq.predict(NEW, "confidence"), expected)
