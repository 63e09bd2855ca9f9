"""Amplitudes, phases and peaks of harmonics, against nonlinear fits and searches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import cftime
import dask
import numpy as np
import pytest
import scipy.optimize
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import xr_lstsq  # noqa: F401 - registers .lstsq
from tests.fitted import EMPTY, SHORT, in_chunks, make_cube, years
from xr_lstsq.errors import LabelError
from xr_lstsq.inference import waves
from xr_lstsq.inference.cycles import amplitude, phase

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DESIGN = "polynomial(1) + harmonics(1, 2)"
EVERY = ("amplitude", "amplitude_stderr", "phase", "phase_stderr", "peak_day", "peak_day_stderr")


def solve(cube: Any, design: Any = DESIGN, **arguments: Any) -> xr.Dataset:
    fit: xr.Dataset = cube.lstsq.solve(design, **{"stats": "cov", "deficient": "nan"} | arguments)
    return fit


def both(fit: xr.Dataset, **arguments: Any) -> xr.Dataset:
    return xr.merge([amplitude(fit, **arguments), phase(fit, **arguments)], compat="equals")


def pixels(cube: xr.DataArray) -> list[tuple[int, ...]]:
    return [place for place in np.ndindex(*cube.shape[1:]) if place not in (EMPTY, SHORT)]


def value(coef: Floats, angle: Any) -> Any:
    """Return a sum of harmonics, term by term."""
    angle = np.asarray(angle)
    total = np.zeros(angle.shape)
    for k in range(1, len(coef) // 2 + 1):
        total += coef[2 * k - 2] * np.cos(k * angle) + coef[2 * k - 1] * np.sin(k * angle)
    return total


def nonlinear(t: Floats, y: Floats, start: Floats) -> tuple[Floats, Floats]:
    """Fit offset, slope, and A_k cos(2 pi k t - phi_k) by Levenberg and Marquardt."""

    def model(t: Floats, *p: float) -> Any:
        waves = (a * np.cos(2 * np.pi * k * t - f) for k, a, f in zip((1, 2), p[2::2], p[3::2]))  # noqa: B905
        return p[0] + p[1] * t + sum(waves)

    def slopes(t: Floats, *p: float) -> Floats:
        rows = [np.ones_like(t), t]
        for k, a, f in zip((1, 2), p[2::2], p[3::2]):  # noqa: B905
            rows += [np.cos(2 * np.pi * k * t - f), a * np.sin(2 * np.pi * k * t - f)]
        return np.stack(rows, axis=1)

    found, cov = scipy.optimize.curve_fit(
        model, t, y, start, jac=slopes, ftol=1e-15, xtol=1e-15, gtol=1e-15
    )
    return found, np.sqrt(np.diag(cov))


@pytest.mark.parametrize("n", [1, 2])
def test_values_and_errors_are_those_of_a_nonlinear_fit(n: int) -> None:
    cube = make_cube()
    found = both(solve(cube, f"polynomial(1) + harmonics(1, {n})"))
    assert found["harmonic"].values.tolist() == [1, 2][:n]
    t = years(cube["time"])
    for place in pixels(cube):
        y = cube.values[:, *place]
        keep = np.isfinite(y)
        here = found.isel(y=place[0], x=place[1])
        # From near the answer, so that of all (A, phi) that say the same the same is found.
        pairs = np.stack([here["amplitude"], here["phase"]], axis=1).ravel()
        start = np.array([y[keep].mean(), 0.0, *pairs * 1.01])
        values, errors = nonlinear(t[keep], y[keep], start)
        np.testing.assert_allclose(here["amplitude"], values[2::2], rtol=1e-7)
        np.testing.assert_allclose(here["phase"], values[3::2], rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(here["amplitude_stderr"], errors[2::2], rtol=1e-6)
        capped = np.minimum(errors[3::2], np.pi / np.sqrt(3))
        np.testing.assert_allclose(here["phase_stderr"], capped, rtol=1e-6)
        if n == 1:
            day = 1 + values[3] / (2 * np.pi) * 365.25 % 365.25
            np.testing.assert_allclose(here["peak_day"], day, rtol=1e-6)
            error = capped[0] / (2 * np.pi) * 365.25
            np.testing.assert_allclose(here["peak_day_stderr"], error, rtol=1e-6)


def test_pixels_that_tell_nothing_are_nan() -> None:
    found = both(solve(make_cube()))
    for place in (EMPTY, SHORT):
        for name in EVERY:
            assert np.isnan(found[name][..., *place]).all(), name
    whole = both(solve(make_cube(), deficient="min_norm"))
    assert np.isfinite(whole["amplitude"][..., *SHORT]).all()
    assert np.isnan(whole["amplitude_stderr"][..., *SHORT]).all()


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_the_peak_is_the_largest_value_of_all(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=(3, 2 * n)) * 10.0 ** rng.uniform(-6, 6, (3, 1))
    angles = waves.peaks(coef)
    assert ((angles >= 0) & (angles < 2 * np.pi)).all()
    for one, angle in zip(coef, angles, strict=True):
        grid = np.linspace(0, 2 * np.pi, 20_001)
        near = grid[value(one, grid).argmax()]
        best = scipy.optimize.minimize_scalar(
            lambda a, one=one: -value(one, a),
            bounds=(near - 1e-3, near + 1e-3),
            options={"xatol": 1e-12},
        ).x
        size = np.abs(one).sum()
        assert value(one, angle) >= value(one, best) - 1e-12 * size
        k = np.arange(1, n + 1)
        slope = (k * (one[1::2] * np.cos(k * angle) - one[::2] * np.sin(k * angle))).sum()
        assert abs(slope) < 1e-9 * n * size


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_errors_are_those_of_a_small_change_of_the_coefficients(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=2 * n)
    # One maximum well above any other, so that no small change moves the peak to another.
    coef[0] += 3 * n**2
    root = rng.normal(size=(2 * n, 2 * n)) * 1e-3
    cov = root @ root.T
    h = 1e-6
    steps = np.concatenate([coef + h * np.eye(2 * n), coef - h * np.eye(2 * n)])
    for function in (waves.amplitudes, waves.phases, waves.peaks):
        found, error = function(coef, cov)
        moved = np.stack(np.split(function(steps), 2))
        change = (moved[0] - moved[1] + np.pi) % (2 * np.pi) - np.pi
        jacobian = change.reshape(2 * n, -1).T / (2 * h)
        expected = np.sqrt(np.diag(jacobian @ cov @ jacobian.T))
        np.testing.assert_allclose(np.atleast_1d(error), expected, rtol=1e-5, atol=1e-9)
        np.testing.assert_array_equal(function(coef), found)


def test_of_noise_that_is_small_beside_the_cycle_the_errors_are_the_scatter() -> None:
    rng = np.random.default_rng(0)
    time = np.datetime64("2010-01-01", "ns") + np.sort(
        rng.choice(3000, 80, False)
    ) * np.timedelta64(1, "D")
    angle = 2 * np.pi * years(time)
    truth = np.array([3.0, 1.0, 0.8, -1.2])
    y = value(truth, angle)[:, None] + rng.normal(size=(80, 4000)) * 0.5
    found = both(solve(xr.DataArray(y, {"time": time}, ("time", "x"))))
    for name in ("amplitude", "phase", "peak_day"):
        error = found[f"{name}_stderr"]
        scatter = found[name].std("x")
        np.testing.assert_allclose(np.sqrt((error**2).mean("x")), scatter, rtol=0.06)
    best = scipy.optimize.minimize_scalar(lambda a: -value(truth, a), bounds=(-2, 2)).x
    day = 1 + best / (2 * np.pi) * 365.25 % 365.25
    assert abs(found["peak_day"].mean() - day) < 0.3


def test_phases_end_at_half_a_turn_and_times_before_a_whole_one() -> None:
    coef = np.array([[-1.0, 0.0], [-1.0, -0.0], [-1.0, -1e-300], [1.0, -1e-300], [0.0, 0.0]])
    found = waves.phases(coef)
    np.testing.assert_array_equal(found[:3], np.pi)
    assert (found[3], waves.peaks(coef)[3]) == (-1e-300, 0.0)
    assert np.isnan(found[4])
    assert np.isnan(waves.peaks(coef)[4])
    assert waves.amplitudes(coef)[4] == 0
    for function in (waves.amplitudes, waves.phases, waves.peaks):
        assert np.isnan(function(coef, np.zeros((5, 2, 2)) + np.eye(2))[1][4]).all()


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_any_size_of_numbers(scale: float) -> None:
    coef = np.array([3.0, 4.0, -1.0, 0.5])
    found = [function(coef) for function in (waves.amplitudes, waves.phases, waves.peaks)]
    scaled = [function(coef * scale) for function in (waves.amplitudes, waves.phases, waves.peaks)]
    np.testing.assert_allclose(scaled[0], found[0] * scale, rtol=1e-14)
    for one, other in zip(found[1:], scaled[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_one_bad_pixel_among_good_ones() -> None:
    rng = np.random.default_rng(1)
    coef = rng.normal(size=(6, 4))
    cov = np.broadcast_to(np.eye(4) * 0.01, (6, 4, 4)).copy()
    good = [f(coef, cov) for f in (waves.amplitudes, waves.phases, waves.peaks)]
    coef[2, 1], coef[4], cov[3, 0, 0] = np.nan, np.inf, np.nan
    bad = [f(coef, cov) for f in (waves.amplitudes, waves.phases, waves.peaks)]
    others = [0, 1, 5]
    for one, other in zip(good, bad, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a[others], b[others], rtol=1e-13)
    assert np.isnan(bad[2][0][[2, 4]]).all()
    assert np.isfinite(bad[2][0][3])
    assert np.isnan(bad[2][1][3])
    # The second harmonic of a pixel does not need the first.
    assert np.isnan(bad[0][0][2, 0])
    assert np.isfinite(bad[0][0][2, 1])


def test_errors_end_at_those_of_a_time_of_which_nothing_is_known() -> None:
    coef, cov = np.array([0.01, 0.0]), np.eye(2)
    uniform = np.std(np.linspace(-np.pi, np.pi, 100_001))
    for function in (waves.phases, waves.peaks):
        np.testing.assert_allclose(function(coef, cov)[1], uniform, rtol=1e-4)
    # A top as flat as x**4 has no curvature to tell an error from, and its place is found.
    angle, error = waves.peaks(np.array([4.0, 0.0, -1.0, 0.0]), np.eye(4))
    assert min(angle, 2 * np.pi - angle) < 1e-3
    assert np.isnan(error)


def test_of_equal_maxima_the_first_after_the_origin_counts() -> None:
    for shift in np.linspace(0, np.pi, 7)[:-1]:
        coef = np.array([0.0, 0.0, np.cos(2 * shift), np.sin(2 * shift)])
        np.testing.assert_allclose(waves.peaks(coef), shift, atol=1e-12)


def test_batches_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    coef = np.random.default_rng(2).normal(size=(50, 4))
    whole = waves.peaks(coef, np.ones((50, 4, 4)))
    monkeypatch.setattr(waves, "BLOCK", 1000)
    parts = waves.peaks(coef, np.ones((50, 4, 4)))
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-12)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-9)


def cycle_of(time: Any, peak: float, days: float) -> Floats:
    """Return a cycle that is largest `peak` days after 2001-01-01 of its calendar."""
    if isinstance(time[0], cftime.datetime):
        begin = cftime.datetime(2001, 1, 1, calendar=time[0].calendar)
        since = np.array([(one - begin) / np.timedelta64(1, "D").item() for one in time])
    else:
        since = (time - np.datetime64("2001-01-01")) / np.timedelta64(1, "D")
    angle = 2 * np.pi * (since - peak) / days
    result: Floats = np.cos(angle) + 0.2 * np.cos(2 * angle) + 0.1 * np.cos(3 * angle)
    return result


@pytest.mark.parametrize(
    ("calendar", "days"),
    [("standard", 365.25), ("noleap", 365.0), ("all_leap", 366.0), ("360_day", 360.0)],
)
@pytest.mark.parametrize("origin", ["2000-01-01", "2001-01-01", "2003-12-30T12:00:00", "first"])
def test_day_of_year_counts_from_new_year_whatever_the_origin(
    calendar: str, days: float, origin: str
) -> None:
    begin = cftime.datetime(2001, 1, 3, calendar=calendar)
    time = xr.date_range(
        begin.isoformat(), periods=60, freq="20D", calendar=calendar, use_cftime=True
    )
    for peak in (0.25, 45.0, days - 1.5):
        cube = xr.DataArray(cycle_of(time.values, peak, days), {"time": time}, "time")
        found = phase(solve(cube, f"polynomial(0) + harmonics(1, 3, origin={origin})"))
        # Calendars with leap years count 0.25 days more or less in a single year.
        near = 1.01 if calendar == "standard" else 1e-6
        gap = (found["peak_day"] - (1 + peak) + days / 2) % days - days / 2
        assert abs(gap) < near
        assert 1 <= found["peak_day"] < days + 1
        assert found["peak_day"].attrs["units"] == "day of year"


def test_the_peak_is_where_the_prediction_is_largest() -> None:
    cube = make_cube().isel(y=1, x=3)
    fit = solve(cube, "polynomial(0) + harmonics(1, 2, origin=2013-07-04)")
    hours = np.datetime64("2001-01-01", "h") + np.arange(24 * 365)
    curve = fit.lstsq.predict(hours.astype("datetime64[ns]"))
    day = 1 + int(curve.values.argmax()) / 24
    assert abs(phase(fit)["peak_day"] - day) < 0.6


def test_a_cycle_that_is_no_year_has_a_time_from_the_origin() -> None:
    rng = np.random.default_rng(3)
    hours = np.sort(rng.uniform(0, 500, 90))
    time = np.datetime64("2020-03-01T06", "ns") + (hours * 3.6e12).astype("timedelta64[ns]")
    y = np.cos(2 * np.pi * (hours - 20) / 24) + rng.normal(size=90) * 1e-3
    cube = xr.DataArray(y, {"time": time}, "time")
    found = phase(
        solve(cube, "polynomial(1) + harmonics(24, unit=hour, origin=2020-03-01T06:00:00)")
    )
    assert set(found.data_vars) == {"phase", "phase_stderr", "peak_time", "peak_time_stderr"}
    assert abs(found["peak_time"] - 20) < 0.01
    assert found["peak_time"].attrs["units"] == "hour"
    assert 0 < found["peak_time_stderr"] < 0.01
    # The same of numbers, in their own units.
    numbers = cube.assign_coords(time=("time", hours, {"units": "hours since 2020-03-01T06:00"}))
    again = phase(solve(numbers, "polynomial(1) + harmonics(24)", dim="time"))
    np.testing.assert_allclose(again["peak_time"], found["peak_time"], rtol=1e-9)
    assert again["peak_time"].attrs["units"] == "hour"
    bare = phase(solve(cube.assign_coords(time=hours), "polynomial(1) + harmonics(24)", dim="time"))
    assert bare["peak_time"].attrs["units"] == "1"


@pytest.mark.parametrize("design", ["harmonics(365.25, unit=day)", "harmonics(8766, unit=hour)"])
def test_a_year_in_any_unit_is_a_year(design: str) -> None:
    cube = make_cube()
    year = phase(solve(cube, "polynomial(1) + harmonics(1)"))
    xr.testing.assert_allclose(
        phase(solve(cube, f"polynomial(1) + {design}"))["peak_day"], year["peak_day"]
    )


def test_names_units_and_coordinates() -> None:
    cube = make_cube()
    found = both(solve(cube))
    assert set(found.data_vars) == set(EVERY)
    for name in EVERY:
        own = () if name.startswith("peak") else ("harmonic",)
        assert found[name].dims == (*own, "y", "x")
        assert found[name].encoding["grid_mapping"] == "spatial_ref"
        assert found[name].attrs["long_name"]
        assert "lat" in found[name].coords
        assert found[name].dtype == np.float64
        expected = f"{name}_stderr" if f"{name}_stderr" in EVERY else None
        assert found[name].attrs.get("ancillary_variables") == expected
    units = {name: found[name].attrs["units"] for name in EVERY}
    assert units == {
        "amplitude": "K",
        "amplitude_stderr": "K",
        "phase": "radian",
        "phase_stderr": "radian",
        "peak_day": "day of year",
        "peak_day_stderr": "day",
    }
    assert both(solve(cube, dtype="float32"))["phase"].dtype == np.float32
    del cube.attrs["units"]
    assert "units" not in amplitude(solve(cube))["amplitude"].attrs


def test_without_the_covariance_there_are_no_errors() -> None:
    cube = make_cube()
    whole, part = both(solve(cube)), both(solve(cube, stats="stderr"))
    assert set(part.data_vars) == {"amplitude", "phase", "peak_day"}
    for name in part:
        xr.testing.assert_equal(part[name], whole[name])
        assert "ancillary_variables" not in part[name].attrs


def test_a_dataset_has_the_prefix_of_its_variables() -> None:
    cube = make_cube(name="lst")
    cubes = xr.Dataset({"lst": cube, "ndvi": (cube * 2).assign_attrs(units="1")}, attrs={"a": "b"})
    found = both(solve(cubes))
    assert found.attrs == {"a": "b"}
    assert set(found.data_vars) == {f"{one}_{name}" for one in ("lst", "ndvi") for name in EVERY}
    alone = both(solve(cube))
    for name in EVERY:
        xr.testing.assert_allclose(found[f"lst_{name}"], alone[name])
    assert found["lst_amplitude"].attrs["ancillary_variables"] == "lst_amplitude_stderr"
    assert found["ndvi_amplitude"].attrs["units"] == "1"
    assert found["lst_amplitude"].attrs["units"] == "K"


def test_several_harmonics_are_told_by_their_names() -> None:
    cube = make_cube(n=60)
    terms = "polynomial(0) + harmonics(1, 2) + harmonics(30, unit=day, name=moon)"
    fit = solve(cube, terms)
    with pytest.raises(ValueError, match=re.escape("term='' for harmonics(1, 2")) as error:
        amplitude(fit)
    assert "term='moon' for harmonics(30" in str(error.value)
    with pytest.raises(ValueError, match="term='sun' names none of the harmonics of lst"):
        phase(fit, term="sun")
    assert amplitude(fit, term="")["amplitude"].sizes["harmonic"] == 2
    moon = both(fit, term="moon")
    assert moon["amplitude"].sizes["harmonic"] == 1
    cos, sin = (fit["coef"].sel(param=f"moon_{name}_1") for name in ("cos", "sin"))
    np.testing.assert_allclose(moon["amplitude"][0], np.hypot(cos, sin), rtol=1e-14)
    assert "peak_time" in moon


def test_what_holds_no_harmonics_is_refused() -> None:
    cube = make_cube()
    with pytest.raises(ValueError, match=r"is polynomial\(1.*\), without harmonics. Solve with"):
        amplitude(solve(cube, "polynomial(1)"))
    with pytest.raises(ValueError, match="is a matrix"):
        phase(cube.lstsq.solve(np.ones((40, 1)), "time"))
    with pytest.raises(ValueError, match="is no fit"):
        phase(cube.to_dataset())
    fit = solve(cube)
    with pytest.raises(LabelError, match=r"needs \['sin_2'\] too"):
        amplitude(fit.sel(param=["cos_1", "sin_1", "cos_2"]))
    with pytest.raises(LabelError, match="'cov' has the params"):
        amplitude(fit.sel(param_2=["cos_1", "sin_1", "cos_2"]))
    with pytest.raises(LabelError, match=r"called \['harmonic'\]"):
        amplitude(fit.rename(x="harmonic"))
    with pytest.raises(LabelError, match=r"called \['peak_day'\]"):
        phase(fit.assign_coords(peak_day=1))


def test_params_in_another_order_and_dims_in_any() -> None:
    fit = solve(make_cube())
    names = fit["param"].values[::-1]
    moved = fit.sel(param=names).transpose("y", "param_2", "x", "param")
    moved = moved.assign_coords(param_origin=fit["param_origin"].sel(param=names))
    xr.testing.assert_allclose(both(moved).transpose("harmonic", "y", "x"), both(fit), rtol=1e-12)


def test_fits_of_two_origins_have_no_phase() -> None:
    cube = make_cube()
    parts = [
        solve(cube.isel(x=slice(*cut)), f"polynomial(1) + harmonics(1, origin={origin})")
        for cut, origin in (((0, 2), "2000-01-01"), ((2, 4), "2010-07-01"))
    ]
    joined = xr.concat(
        parts, "x", coords="different", compat="equals", join="outer", combine_attrs="override"
    )
    with pytest.raises(ValueError, match="joined"):
        phase(joined)


def test_tiles_are_the_whole() -> None:
    cube = make_cube()
    whole = both(solve(cube))
    parts = [both(solve(cube.isel(x=slice(start, start + 2)))) for start in (0, 2)]
    tiles = xr.concat(parts, "x", coords="minimal", compat="override", join="outer")
    xr.testing.assert_allclose(tiles, whole, rtol=1e-9)


def test_a_lazy_fit_stays_lazy_and_gives_the_same() -> None:
    cube = make_cube()

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("computed too early")

    fit = solve(cube)
    for lazy in (in_chunks(fit, x=2, y=1), in_chunks(fit, x=3, param=2, param_2=5)):
        with dask.config.set(scheduler=fail):
            found = both(lazy)
        for name in EVERY:
            assert found[name].chunks is not None, name
        xr.testing.assert_allclose(found.compute(), both(fit), rtol=1e-12)
    with dask.config.set(scheduler=fail):
        found = both(solve(cube.chunk(x=2)))
    assert found["peak_day"].chunks == ((2,), (2, 2))
    xr.testing.assert_allclose(found.compute(), both(fit), rtol=1e-9)


def test_a_fit_read_from_a_file_gives_the_same(tmp_path: Path) -> None:
    fit = solve(make_cube())
    fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with xr.open_dataset(tmp_path / "fit.nc") as again:
        found = both(again)
        xr.testing.assert_allclose(found, both(fit), rtol=1e-12)
        found.drop_encoding().to_netcdf(tmp_path / "maps.nc")
    with xr.open_dataset(tmp_path / "maps.nc") as maps:
        # No reader makes dates or timedeltas of days of the year and of their errors.
        assert all(one.dtype == np.float64 for one in maps.data_vars.values())
