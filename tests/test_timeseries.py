"""Values at the dates of a network and their velocities, against a plain loop over pixels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cftime
import dask
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xr_lstsq import solve
from xr_lstsq.design import Term, polynomial
from xr_lstsq.design.dem_error import dem_error
from xr_lstsq.design.network import network
from xr_lstsq.errors import LabelError
from xr_lstsq.inference.timeseries import timeseries
from xr_lstsq.recipes.velocity import velocity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DAYS = np.array([0, 12, 24, 48, 60, 96, 132])
START = np.datetime64("2018-01-06", "ns")
DATES = START + DAYS * np.timedelta64(1, "D")
YEARS = DAYS / 365.25
PAIRS = [(0, 1), (1, 2), (0, 2), (2, 3), (4, 3), (1, 3), (4, 5), (5, 6), (6, 4)]
"""Places of the first and second date; some run back in time."""
UNKNOWNS = ("velocity", "increment", "displacement")
BLANK = (0, 0)


def label(values: Any, pairs: list[tuple[int, int]] = PAIRS, dates: Any = DATES) -> xr.DataArray:
    """Return a stack of pairs (pair, y, x) with the labels of a real one."""
    ends = np.array(pairs)
    stack = xr.DataArray(
        values,
        {
            "reference": ("pair", dates[ends[:, 0]]),
            "secondary": ("pair", dates[ends[:, 1]]),
            "y": ("y", np.linspace(19.4, 19.3, values.shape[1]), {"units": "degrees_north"}),
            "x": np.linspace(-99.1, -99.0, values.shape[2]),
            "spatial_ref": ((), 0, {"crs_wkt": "made up"}),
        },
        ("pair", "y", "x"),
        name="unw",
        attrs={"units": "mm", "long_name": "range change"},
    )
    stack.encoding["grid_mapping"] = "spatial_ref"
    return stack


def make_stack(
    shape: tuple[int, int] = (4, 6), gaps: float = 0.35, seed: int = 0, **labels: Any
) -> xr.DataArray:
    """Return a stack of pairs with noise and gaps, a pixel without any value among them."""
    rng = np.random.default_rng(seed)
    pairs, dates = labels.get("pairs", PAIRS), labels.get("dates", DATES)
    ground = rng.normal(size=(len(dates), *shape)).cumsum(axis=0)
    values = np.stack([ground[b] - ground[a] for a, b in pairs])
    values += 0.1 * rng.normal(size=values.shape)
    values[rng.random(values.shape) < gaps] = np.nan
    values[:, *BLANK] = np.nan
    return label(values, **labels)


def rows(pairs: Iterable[tuple[int, int]], unknown: str, zero: int, years: Floats) -> Floats:
    """Return what turns params into values of pairs, one row a pair."""
    eye = np.eye(len(years))
    steps = np.tril(np.ones((len(years), len(years))), -1)[:, :-1]
    at = {
        "displacement": np.delete(eye, zero, axis=1),
        "increment": steps,
        "velocity": steps * np.diff(years),
    }[unknown]
    return np.stack([at[b] - at[a] for a, b in pairs])


def series(
    y: Floats,
    pairs: list[tuple[int, int]] = PAIRS,
    unknown: str = "velocity",
    zero: int = 0,
    years: Floats = YEARS,
    weights: Floats | None = None,
) -> Floats:
    """Return the minimum-norm time series of one pixel; NaN without a value."""
    w = np.ones(len(y)) if weights is None else weights
    there = np.isfinite(y) & (w > 0)
    if not there.any():
        return np.full(len(years), np.nan)
    root = np.sqrt(w[there])
    design = rows(pairs, unknown, zero, years)[there]
    x = np.linalg.lstsq(design * root[:, None], y[there] * root, rcond=None)[0]
    return rows([(zero, k) for k in range(len(years))], unknown, zero, years) @ x


def reached(there: NDArray[np.bool_], pairs: list[tuple[int, int]], zero: int) -> set[int]:
    """Return the dates that a walk along the pairs of a pixel comes to from the reference date."""
    found, waiting = {zero}, [zero]
    while waiting:
        date = waiting.pop()
        for number, pair in enumerate(pairs):
            if there[number] and date in pair:
                waiting += [end for end in pair if end not in found]
                found |= set(pair)
    return found


def oracle(stack: xr.DataArray, *args: Any, determined: bool = True, **kwargs: Any) -> Floats:
    """Return the time series of every pixel, (date, y, x), NaN where it is not determined."""
    pairs = kwargs.get("pairs", PAIRS)
    out = np.stack(
        [
            np.stack([series(y, *args, **kwargs) for y in line], axis=-1)
            for line in stack.transpose("y", "x", "pair").values
        ],
        axis=1,
    )
    if determined:
        for place in np.ndindex(*out.shape[1:]):
            known = reached(np.isfinite(stack.values[:, *place]), pairs, kwargs.get("zero", 0))
            out[[k for k in range(len(out)) if k not in known], *place] = np.nan
    return out


def fit_of(stack: xr.DataArray | xr.Dataset, term: Term | None = None, **options: Any) -> Any:
    term = network(min_redundancy=0) if term is None else term
    return solve(stack, term, "pair", **{"stats": "residual"} | options)


@pytest.mark.parametrize("unknown", UNKNOWNS)
@pytest.mark.parametrize("zero", [0, 4])
def test_dates_that_the_pairs_of_a_pixel_connect_have_their_values_and_others_none(
    unknown: Any, zero: int
) -> None:
    stack = make_stack()
    term = network(unknown=unknown, reference_date=DATES[zero], min_redundancy=0)
    found = timeseries(fit_of(stack, term))
    assert isinstance(found, xr.DataArray)
    expected = oracle(stack, unknown=unknown, zero=zero)
    some = np.isnan(expected).any(axis=0) & (np.isfinite(expected).sum(axis=0) > 1)
    assert some.any()
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-12)
    assert found.dims == ("date", "y", "x")
    np.testing.assert_array_equal(found["date"], DATES)


@pytest.mark.parametrize("unknown", UNKNOWNS)
def test_minimum_norm_values_stand_at_every_date_where_they_are_wanted(unknown: Any) -> None:
    stack = make_stack(seed=1)
    fit = fit_of(stack, network(unknown=unknown, min_redundancy=0))
    found = timeseries(fit, undetermined="min_norm")
    expected = oracle(stack, unknown=unknown, determined=False)
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-12)


@given(data=st.data())
def test_a_date_is_determined_exactly_where_pairs_lead_to_it(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 6), "dates")
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = data.draw(
        st.lists(ends.filter(lambda p: p[0] != p[1]), min_size=1, max_size=9), "pairs"
    )
    used = sorted({date for pair in pairs for date in pair})
    zero = data.draw(st.sampled_from(used), "zero")
    rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    values = rng.normal(size=(len(pairs), 2, 4))
    values[rng.random(values.shape) < data.draw(st.sampled_from([0.0, 0.3, 0.6]), "gaps")] = np.nan
    stack = label(values, pairs)
    term = network(
        unknown=data.draw(st.sampled_from(UNKNOWNS), "unknown"),
        reference_date=DATES[zero],
        min_redundancy=0,
    )
    with warnings.catch_warnings():
        # Of a network in two parts, which says that no pixel can join them
        warnings.filterwarnings("ignore", "the .* samples", UserWarning)
        found = timeseries(fit_of(stack, term))
    for place in np.ndindex(2, 4):
        there = np.isfinite(values[:, *place])
        expected = reached(there, pairs, zero) if there.any() else set()
        known = np.isfinite(found.values[:, *place])
        assert {used[k] for k in np.flatnonzero(known)} == expected


def test_the_reference_date_is_0_where_a_pixel_is_solved_and_nan_where_it_is_not() -> None:
    stack = make_stack()
    found = timeseries(fit_of(stack, network(reference_date=DATES[3])))
    assert found.attrs["reference_date"] == "2018-02-23"
    solved = np.isin(fit_of(stack, network())["status"], (0, 3))
    at = found.sel(date=DATES[3]).values
    assert solved.any()
    assert (at[solved] == 0).all()
    assert np.isnan(at[~solved]).all()


def test_a_pixel_without_enough_pairs_at_a_date_has_no_values() -> None:
    stack = make_stack(gaps=0.2)
    for least in (1, 2):
        found = timeseries(fit_of(stack, network(min_redundancy=least)))
        ends = np.array(PAIRS)
        for place in np.ndindex(4, 6):
            there = np.isfinite(stack.values[:, *place])
            counts = [int((there & (ends == k).any(axis=1)).sum()) for k in range(len(DATES))]
            assert np.isnan(found.values[0, *place]) == (min(counts) < least)


def test_without_residuals_a_pixel_of_short_rank_shows_the_reference_date_alone() -> None:
    stack = make_stack()
    fit = fit_of(stack)
    plain, told = timeseries(fit.drop_vars("residual")), timeseries(fit)
    full = fit["rank"] == len(DATES) - 1
    assert bool(full.any())
    xr.testing.assert_equal(plain.where(full), told.where(full))
    others = plain.where(~full)
    assert others.isel(date=slice(1, None)).isnull().all()
    np.testing.assert_array_equal(
        others.isel(date=0).values == 0, ((fit["rank"] > 0) & ~full).values
    )
    assert "residual" in plain.attrs["comment"]
    assert "comment" not in told.attrs


def test_weights_and_flags_make_gaps_too() -> None:
    stack = make_stack(gaps=0.1)
    rng = np.random.default_rng(3)
    weights = xr.DataArray(rng.choice([0.0, 0.5, 2.0], stack.shape), dims=stack.dims)
    valid = xr.DataArray(rng.random(stack.shape) > 0.2, dims=stack.dims)
    found = timeseries(fit_of(stack, weights=weights, valid=valid))
    kept = stack.where(valid.values & (weights.values > 0))
    for place in np.ndindex(4, 6):
        y = kept.values[:, *place]
        expected = series(y, weights=weights.values[:, *place])
        known = sorted(reached(np.isfinite(y), PAIRS, 0))
        np.testing.assert_allclose(found[known, *place], expected[known], rtol=1e-9, atol=1e-12)
        assert found[:, *place].notnull().sum() == (len(known) if np.isfinite(y).any() else 0)


def test_a_constraint_determines_every_date() -> None:
    stack = make_stack()
    found = timeseries(fit_of(stack, network(min_redundancy=0, constraint="linear")))
    exact = oracle(stack)
    blank = np.isnan(exact).all(axis=0)
    assert found.where(~xr.DataArray(blank, dims=("y", "x"))).notnull().sum() == (~blank).sum() * 7
    complete = np.isfinite(exact).all(axis=0)
    np.testing.assert_allclose(found.values[:, complete], exact[:, complete], rtol=1e-9, atol=1e-12)


def test_beside_another_term_a_date_counts_where_that_term_is_determined_too() -> None:
    stack = make_stack(gaps=0.25, seed=2)
    rng = np.random.default_rng(5)
    bperp = rng.normal(scale=100.0, size=len(PAIRS))
    stack = stack.assign_coords(bperp=("pair", bperp))
    term = network(min_redundancy=0) + dem_error("bperp", slant_range=850e3, incidence=39.7)
    found = timeseries(fit_of(stack, term))
    column = fit_of(stack, term, stats=())  # only ranks are read of it
    for place in np.ndindex(4, 6):
        y = stack.values[:, *place]
        there = np.isfinite(y)
        # In numpy, the factor of bperp does not matter to the values at the dates
        design = np.c_[rows(PAIRS, "increment", 0, YEARS), bperp / 100][there]
        if not there.any():
            assert found[:, *place].isnull().all()
            continue
        x = np.linalg.lstsq(design, y[there], rcond=None)[0]
        free = np.linalg.svd(design, full_matrices=True)[2][np.linalg.matrix_rank(design) :]
        at = rows([(0, k) for k in range(7)], "increment", 0, YEARS)
        known = np.abs(at @ free.T[:-1]).max(axis=1, initial=0) < 1e-9
        np.testing.assert_array_equal(np.isfinite(found[:, *place]), known)
        np.testing.assert_allclose(
            found.values[known, *place], (at @ x[:-1])[known], rtol=1e-8, atol=1e-9
        )
        assert column["rank"][place] == len(design[0]) - len(free)


def test_labels_units_and_attributes_are_those_of_the_cube() -> None:
    stack = make_stack().assign_coords(lat=(("y", "x"), np.ones((4, 6))))
    found = timeseries(fit_of(stack))
    assert found.name == "unw"
    assert found.attrs["units"] == "mm"
    assert "range change" in found.attrs["long_name"]
    assert found.encoding == {"grid_mapping": "spatial_ref"}
    assert set(found.coords) == {"date", "y", "x", "lat", "spatial_ref"}
    xr.testing.assert_identical(
        found["y"].drop_vars("spatial_ref"), stack["y"].drop_vars("spatial_ref")
    )
    assert timeseries(fit_of(stack.rename(None))).name == "displacement"
    kelvin = timeseries(fit_of(stack.assign_attrs(units="degC")))
    assert kelvin.attrs["units"] == "K"


def test_the_fit_of_a_dataset_gives_a_series_a_variable() -> None:
    one, two = make_stack(), make_stack(seed=7).rename("other")
    found = timeseries(fit_of(xr.Dataset({"unw": one, "other": two})))
    assert isinstance(found, xr.Dataset)
    assert set(found.data_vars) == {"unw", "other"}
    for stack in (one, two):
        np.testing.assert_allclose(
            found[str(stack.name)].values, oracle(stack), rtol=1e-9, atol=1e-12
        )
    speed = velocity(fit_of(xr.Dataset({"unw": one, "other": two})))
    assert set(speed.data_vars) == {"unw_velocity", "unw_stderr", "other_velocity", "other_stderr"}


def test_the_dtype_is_that_of_the_coefficients() -> None:
    fit = fit_of(make_stack(), dtype="float32")
    assert timeseries(fit).dtype == np.float32
    assert velocity(fit)["velocity"].dtype == np.float32


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "standard"])
def test_dates_of_any_calendar_stay_what_they_are(calendar: str) -> None:
    first = cftime.datetime(2018, 1, 6, calendar=calendar)
    days = cftime.num2date(DAYS, f"days since {first.isoformat()}", calendar)
    stack = make_stack(dates=np.array(days))
    found = timeseries(fit_of(stack))
    assert found["date"].values.tolist() == list(days)
    np.testing.assert_allclose(found.values, oracle(stack), rtol=1e-8, atol=1e-10)


def test_dates_may_be_given_beside_the_stack() -> None:
    stack = make_stack()
    bare = stack.drop_vars(["reference", "secondary"])
    term = network(stack["reference"].values, stack["secondary"].values, min_redundancy=0)
    np.testing.assert_allclose(
        timeseries(fit_of(bare, term)).values, oracle(stack), rtol=1e-9, atol=1e-12
    )


def test_a_pair_without_a_date_is_a_missing_one() -> None:
    stack = make_stack(gaps=0.2)
    lost = stack["reference"].values.copy()
    lost[3] = np.datetime64("NaT")
    found = timeseries(fit_of(stack.assign_coords(reference=("pair", lost))))
    stack.values[3] = np.nan
    np.testing.assert_allclose(found.values, oracle(stack), rtol=1e-9, atol=1e-12)


def in_chunks(stack: xr.DataArray, **chunks: int) -> xr.DataArray:
    """Return a stack in chunks, but for its few labels, which are read at once."""
    return stack.copy(data=stack.chunk(chunks).data)


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("something was computed")


@pytest.mark.parametrize("error", ["fit", "propagated"])
def test_a_lazy_fit_gives_lazy_maps_in_its_chunks(error: Any) -> None:
    stack = make_stack()
    eager = fit_of(stack, stats=("residual", "cov"))
    with dask.config.set(scheduler=refuse):
        lazy = fit_of(in_chunks(stack, y=2, x=3), stats=("residual", "cov"))
        found, speed = timeseries(lazy), velocity(lazy, error)
    assert found.chunks == ((7,), (2, 2), (3, 3))
    assert speed["stderr"].chunks == ((2, 2), (3, 3))
    xr.testing.assert_allclose(found.compute(), timeseries(eager), rtol=1e-12)
    xr.testing.assert_allclose(speed.compute(), velocity(eager, error), rtol=1e-10)
    split = timeseries(eager.chunk(pair=4, x=2).assign_coords(param_origin=eager["param_origin"]))
    xr.testing.assert_allclose(split.compute(), timeseries(eager))


def test_a_fit_from_a_file_gives_the_same(tmp_path: Path) -> None:
    fit = fit_of(make_stack(), stats=("residual", "cov"))
    fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with xr.open_dataset(tmp_path / "fit.nc") as read:
        xr.testing.assert_allclose(timeseries(read), timeseries(fit))
        xr.testing.assert_allclose(velocity(read, "propagated"), velocity(fit, "propagated"))


def line(years: Floats, values: Floats) -> tuple[float, float]:
    """Return slope and standard error of a straight line through the dates that have a value."""
    there = np.isfinite(values)
    t, y = years[there], values[there]
    if len(t) < 2:
        return np.nan, np.nan
    design = np.c_[np.ones(len(t)), t]
    x, rss = np.linalg.lstsq(design, y, rcond=None)[:2]
    if len(t) == 2:
        return x[1], np.nan
    return x[1], np.sqrt(rss[0] / (len(t) - 2) * np.linalg.inv(design.T @ design)[1, 1])


def test_velocity_is_the_slope_of_a_line_through_the_dates_that_are_determined() -> None:
    stack = make_stack()
    fit = fit_of(stack)
    found, expected = velocity(fit), oracle(stack)
    kinds = set()
    for place in np.ndindex(4, 6):
        slope, stderr = line(YEARS, expected[:, *place])
        kinds.add(int(np.isfinite(expected[:, *place]).sum()))
        np.testing.assert_allclose(found["velocity"][place], slope, rtol=1e-8)
        np.testing.assert_allclose(found["stderr"][place], stderr, rtol=1e-7)
    assert {0, len(DATES)} < kinds
    assert found["velocity"].attrs["units"] == "mm year-1"
    assert found["stderr"].attrs["units"] == "mm year-1"
    assert set(found.coords) == {"y", "x", "spatial_ref"}


def test_minimum_norm_dates_count_for_velocity_where_they_are_wanted() -> None:
    stack = make_stack()
    found = velocity(fit_of(stack), undetermined="min_norm")["velocity"]
    expected = oracle(stack, determined=False)
    for place in np.ndindex(4, 6):
        np.testing.assert_allclose(found[place], line(YEARS, expected[:, *place])[0], rtol=1e-8)


@pytest.mark.parametrize("unknown", UNKNOWNS)
@pytest.mark.parametrize("absolute", [False, True])
def test_propagated_errors_are_those_of_the_pairs(unknown: str, absolute: bool) -> None:
    stack = make_stack(gaps=0.1)
    term = network(unknown=unknown, reference_date=DATES[2], min_redundancy=0)
    fit = fit_of(stack, term, stats=("residual", "cov"), absolute_sigma=absolute)
    found = velocity(fit, "propagated")
    xr.testing.assert_allclose(found["velocity"], velocity(fit)["velocity"])
    at = rows([(2, k) for k in range(len(DATES))], unknown, 2, YEARS)
    c = np.linalg.pinv(np.c_[np.ones(len(DATES)), YEARS])[1] @ at
    for place in np.ndindex(4, 6):
        y = stack.values[:, *place]
        there = np.isfinite(y)
        design = rows(PAIRS, unknown, 2, YEARS)[there]
        if there.sum() == 0 or np.linalg.matrix_rank(design) < len(DATES) - 1:
            assert np.isnan(found["stderr"][place])
            continue
        inverse = np.linalg.inv(design.T @ design)
        residual = y[there] - design @ inverse @ design.T @ y[there]
        free = there.sum() - design.shape[1]
        scale = 1.0 if absolute else residual @ residual / free if free else np.nan
        np.testing.assert_allclose(
            found["stderr"][place], np.sqrt(scale * (c @ inverse @ c)), rtol=1e-7
        )


def test_a_series_can_be_fitted_like_any_cube() -> None:
    stack = make_stack(gaps=0.1)
    found = timeseries(fit_of(stack))
    again = solve(found, polynomial(1), deficient="nan")
    slope = velocity(fit_of(stack))["velocity"]
    np.testing.assert_allclose(again["coef"].sel(param="slope"), slope)
    assert again["coef"].sel(param="slope")["param_units"] == slope.attrs["units"]


def test_what_has_no_dates_is_refused() -> None:
    time = xr.DataArray(np.arange(4.0), {"time": DATES[:4]}, "time")
    with pytest.raises(ValueError, match="no network of pairs"):
        timeseries(solve(time, polynomial(1)))
    fit = fit_of(make_stack())
    with pytest.raises(ValueError, match="lacks the params"):
        timeseries(fit.isel(param=slice(2, None)))
    with pytest.raises(ValueError, match="is no fit"):
        timeseries(xr.Dataset({"unw": time}))
    with pytest.raises(ValueError, match="'nan', 'min_norm'"):
        timeseries(fit, "zero")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'fit', 'propagated'"):
        velocity(fit, "bootstrap")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='stats=\\("cov",\\)'):
        velocity(fit, "propagated")
    with pytest.raises(LabelError, match="rename"):
        timeseries(fit.rename(y="date"))
