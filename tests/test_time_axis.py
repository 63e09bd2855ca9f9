"""Time as the axis of a fit: calendars, units and origins give the coefficients they should."""

from __future__ import annotations

import json

import cftime
import numpy as np
import pytest
import xarray as xr

import xr_lstsq
from xr_lstsq.design import harmonics, polynomial

TRUTH = {"intercept": 284.5, "slope": -0.0321, "cos_1": 7.25, "sin_1": -3.5}
YEAR = {"360_day": 360.0, "noleap": 365.0, "all_leap": 366.0, "standard": 365.25, "julian": 365.25}


def years_of(time: xr.DataArray, calendar: str) -> np.ndarray:
    """Return years since 2000-01-01 from exact differences of dates."""
    origin = cftime.datetime(2000, 1, 1, calendar=calendar)
    seconds = [(date - origin).total_seconds() for date in time.values]
    return np.array(seconds) / 86400.0 / YEAR[calendar]


def model(years: np.ndarray) -> np.ndarray:
    angle = 2 * np.pi * years
    return (
        TRUTH["intercept"]
        + TRUTH["slope"] * years
        + TRUTH["cos_1"] * np.cos(angle)
        + TRUTH["sin_1"] * np.sin(angle)
    )


def monthly(start: str, months: int, calendar: str) -> xr.DataArray:
    return xr.date_range(start, periods=months, freq="MS", calendar=calendar, use_cftime=True)


def gapped(values: np.ndarray, time: xr.DataArray, pixels: int = 3) -> xr.DataArray:
    """Return a cube of equal pixels with different gaps."""
    cube = np.repeat(values[:, None], pixels, axis=1)
    cube[np.random.default_rng(2).random(cube.shape) < 0.3] = np.nan
    return xr.DataArray(cube, {"time": time}, ("time", "x"), name="tas", attrs={"units": "K"})


@pytest.mark.parametrize("calendar", YEAR)
@pytest.mark.parametrize("first", ["1970-02-01", "2001-07-01"])
def test_an_exact_cycle_and_trend_over_40_years_come_back(calendar: str, first: str) -> None:
    time = monthly(first, 480, calendar)
    years = years_of(xr.DataArray(time, dims="time"), calendar)
    fit = gapped(model(years), time).lstsq.solve(polynomial(1) + harmonics(1), device="cpu")
    assert fit["param"].values.tolist() == list(TRUTH)
    want = np.array(list(TRUTH.values()))[:, None]
    assert (abs(fit["coef"].values - want) <= 1e-9 * abs(want)).all()
    assert fit["param_units"].values.tolist() == ["K", "K year-1", "K", "K"]


def test_standard_cftime_dates_agree_with_datetime64() -> None:
    rng = np.random.default_rng(4)
    months = xr.date_range(
        "1981-01-01", periods=480, freq="MS", calendar="standard", use_cftime=True
    )
    stamps = np.array([np.datetime64(date.isoformat()[:19], "ns") for date in months])
    noisy = model(np.arange(480) / 12.0) + rng.normal(size=480)
    design = polynomial(2) + harmonics(1, 2)
    fits = [gapped(noisy, time).lstsq.solve(design, device="cpu") for time in (months, stamps)]
    a, b = (fit["coef"].values for fit in fits)
    assert (abs(a - b) <= 1e-12 * abs(b).max(axis=0)).all()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_resolution_of_datetime64_does_not_matter(unit: str) -> None:
    stamps = np.arange("1990-01", "2020-01", dtype="datetime64[M]").astype("datetime64[ns]")
    noisy = np.random.default_rng(4).normal(size=stamps.size)
    want = gapped(noisy, stamps).lstsq.solve("polynomial(1)", device="cpu")
    cube = gapped(noisy, stamps.astype(f"datetime64[{unit}]"))
    got = cube.lstsq.solve("polynomial(1)", device="cpu")
    np.testing.assert_array_equal(got["coef"], want["coef"])


@pytest.mark.parametrize("calendar", ["360_day", "noleap", "standard", "datetime64"])
def test_overlapping_cubes_with_other_first_dates_have_equal_coefficients(calendar: str) -> None:
    if calendar == "datetime64":
        time = np.arange("1985-01", "2025-01", dtype="datetime64[M]").astype("datetime64[ns]")
        years = (time - np.datetime64("2000-01-01")) / np.timedelta64(1, "D") / 365.25
    else:
        time = monthly("1985-01-01", 480, calendar)
        years = years_of(xr.DataArray(time, dims="time"), calendar)
    cube = gapped(model(years), time)
    design = polynomial(1) + harmonics(1)
    whole = cube.lstsq.solve(design, device="cpu")
    for part in (slice(0, 240), slice(100, 400), slice(333, 480)):
        fit = cube.isel(time=part).lstsq.solve(design, device="cpu")
        np.testing.assert_allclose(fit["coef"], whole["coef"], rtol=1e-9)
        assert origins(fit) == origins(whole)


def test_dates_added_to_an_archive_without_data_leave_the_coefficients_as_they_were() -> None:
    time = np.arange("1985-01", "2025-01", dtype="datetime64[M]").astype("datetime64[ns]")
    noisy = np.random.default_rng(9).normal(size=(480, 5))
    cube = xr.DataArray(noisy, {"time": time}, ("time", "x"))
    cube[:100] = np.nan
    design = polynomial(1) + harmonics(1)
    grown = cube.lstsq.solve(design, device="cpu")
    early = cube.isel(time=slice(100, None)).lstsq.solve(design, device="cpu")
    np.testing.assert_allclose(grown["coef"], early["coef"], rtol=1e-11, atol=1e-13)


def origins(fit: xr.Dataset) -> set[str]:
    """Return every origin in the specification that a fit carries."""
    found: set[str] = set()

    def walk(node: object) -> None:
        if isinstance(node, dict):
            found.update(str(v) for k, v in node.items() if k == "origin")
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(json.loads(fit["coef"].attrs["lstsq"])["terms"])
    return found


def test_the_origin_is_the_year_2000_unless_another_one_is_asked_for() -> None:
    time = np.arange("2010-01", "2020-01", dtype="datetime64[M]").astype("datetime64[ns]")
    years = (time - np.datetime64("2000-01-01")) / np.timedelta64(1, "D") / 365.25
    cube = gapped(model(years), time)
    default = cube.lstsq.solve(polynomial(1) + harmonics(1), device="cpu")
    first = cube.lstsq.solve(polynomial(1, origin="first") + harmonics(1), device="cpu")
    np.testing.assert_allclose(default["coef"].sel(param="intercept"), TRUTH["intercept"])
    np.testing.assert_allclose(
        first["coef"].sel(param="intercept"), TRUTH["intercept"] + TRUTH["slope"] * years[0]
    )
    assert {text[:10] for text in origins(default)} == {"2000-01-01"}
    assert "2010-01-01" in {text[:10] for text in origins(first)}
    params = default.lstsq.params()
    assert params["intercept"].attrs["long_name"].endswith("value at 2000-01-01")
    assert params["slope"].attrs["units"] == "K year-1"


def test_a_numeric_coordinate_is_used_as_it_is() -> None:
    depth = np.array([0.0, 5.0, 7.5, 30.0, 100.0])
    cube = xr.DataArray(3.0 - 0.5 * depth, {"depth": depth}, ("depth",), attrs={"units": "K"})
    fit = xr_lstsq.solve(cube, polynomial(1), "depth", device="cpu")
    np.testing.assert_allclose(fit["coef"], [3.0, -0.5], rtol=1e-12)
