"""The sample axis in steps of time: real archives, laws of steps, and what is no time."""

from __future__ import annotations

import datetime
import time
from itertools import pairwise
from typing import Any

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import assume, given
from hypothesis import strategies as st

from xr_lstsq.design.steps import Steps, read_steps
from xr_lstsq.errors import LabelError

WHAT = "cov_type='HAC'"


def coordinate(labels: Any, name: str = "time", **attrs: str) -> xr.DataArray:
    """Return labels as the coordinate of a cube."""
    return xr.DataArray(np.zeros(len(labels)), {name: (name, labels, attrs)}, [name])[name]


def steps_of(labels: Any, name: str = "time", **attrs: str) -> Steps:
    return read_steps(coordinate(labels, name, **attrs), WHAT)


def error_of(coord: xr.DataArray | None) -> str:
    with pytest.raises(LabelError) as caught:
        read_steps(coord, WHAT)
    return str(caught.value)


def days(*numbers: float) -> pd.DatetimeIndex:
    return pd.Timestamp("2001-03-05") + pd.to_timedelta(numbers, "D")


RANGES = {
    "daily": (pd.date_range("1999-12-30", periods=900, freq="D"), "1 day"),
    "hourly": (pd.date_range("2000-02-28", periods=900, freq="h"), "1 hour"),
    "three-hourly": (pd.date_range("2000-02-28", periods=900, freq="3h"), "3 hours"),
    "every minute": (pd.date_range("2000-02-28", periods=90, freq="min"), "1 minute"),
    "every 10 ms": (pd.date_range("2000-02-28", periods=90, freq="10ms"), "0.01 seconds"),
    "weekly": (pd.date_range("2000-02-28", periods=900, freq="7D"), "7 days"),
    "start of months": (pd.date_range("1850-01", periods=1200, freq="MS"), "1 month"),
    "end of months": (pd.date_range("1950-01", periods=600, freq="ME"), "1 month"),
    "day 15": (pd.date_range("1950-01", periods=600, freq="MS") + pd.Timedelta("14D"), "1 month"),
    "day 28": (pd.date_range("1950-01", periods=600, freq="MS") + pd.Timedelta("27D"), "1 month"),
    "every 30 days": (pd.date_range("2000-01", periods=90, freq="30D"), "30 days"),
    "quarters": (pd.date_range("1950-01", periods=200, freq="QS"), "3 months"),
    "yearly": (pd.date_range("1850", periods=170, freq="YS"), "1 year"),
    "decades": (pd.date_range("1850", periods=17, freq="10YS"), "10 years"),
    "years before 1678": (np.arange("1000", "1400", dtype="datetime64[Y]"), "1 year"),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_range_counts_up(name: str) -> None:
    labels, step = RANGES[name]
    unit = "s" if name == "years before 1678" else "ns"
    got = steps_of(np.asarray(labels).astype(f"datetime64[{unit}]"))
    assert (got.regular, got.step) == (True, step)
    assert got.position.dtype == np.float64
    np.testing.assert_array_equal(got.position, np.arange(len(labels)))


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "all_leap", "standard", "julian"])
@pytest.mark.parametrize(("freq", "step"), [("D", "1 day"), ("6h", "6 hours"), ("MS", "1 month")])
def test_a_range_of_any_calendar_counts_up(calendar: str, freq: str, step: str) -> None:
    labels = xr.date_range("1999-11-01", periods=500, freq=freq, calendar=calendar, use_cftime=True)
    got = steps_of(labels)
    assert (got.regular, got.step) == (True, step)
    np.testing.assert_array_equal(got.position, np.arange(500))


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "standard"])
def test_months_may_be_dated_by_their_middle(calendar: str) -> None:
    starts = xr.date_range("1901-01", periods=601, freq="MS", calendar=calendar, use_cftime=True)
    labels = np.array([a + (b - a) / 2 for a, b in pairwise(starts)])
    keep = np.r_[0:30, 31:95, 200:203, 340:600]
    got = steps_of(labels[keep])
    assert (got.regular, got.step) == (True, "1 month")
    np.testing.assert_array_equal(got.position, keep)


@pytest.mark.filterwarnings("ignore:this date/calendar/year zero:cftime.CFWarning")
def test_a_calendar_without_year_0_goes_from_minus_1_to_1() -> None:
    labels = [cftime.datetime(y, 1, 1, calendar="standard") for y in (-3, -2, -1, 1, 2, 7)]
    got = steps_of(np.array(labels))
    assert (got.regular, got.step) == (True, "1 year")
    assert got.position.tolist() == [0, 1, 2, 3, 4, 9]


@pytest.mark.parametrize("day", [1, 15, 28])
def test_few_short_months_do_not_mistake_the_gaps_between_them(day: int) -> None:
    # 337 days are 12.04 times the 28 of February.
    labels = [f"{month}-{day:02d}" for month in ("2001-02", "2001-03", "2002-02", "2022-03")]
    got = steps_of(pd.to_datetime(labels))
    assert (got.regular, got.step) == (True, "1 month")
    assert got.position.tolist() == [0, 1, 12, 253]


def test_repeat_passes_of_6_and_12_days_keep_their_gaps() -> None:
    at = np.array([0, 12, 24, 30, 36, 42, 54, 300, 306, 996])
    got = steps_of(days(*at))
    assert (got.regular, got.step) == (True, "6 days")
    np.testing.assert_array_equal(got.position, at / 6)


@given(st.integers(0, 2**32), st.sampled_from([1, 5, 12]), st.sampled_from([1.0, 60.0, 900.0]))
def test_passes_that_are_not_on_time_to_the_minute_are_regular(
    seed: int, step: int, jitter: float
) -> None:
    rng = np.random.default_rng(seed)
    at = np.flatnonzero(rng.random(300) < 0.6)
    assume((np.diff(at) == 1).any())
    got = steps_of(days(*(at * step + rng.uniform(-jitter, jitter, at.size) / 86_400)))
    assert got.regular
    assert got.step in (f"{step} day", f"{step} days")
    np.testing.assert_array_equal(got.position, at - at[0])


def test_jitter_does_not_add_up() -> None:
    # After the first 20 steps the time elapsed is only 19.3 mean steps.
    at = np.cumsum(np.r_[0.0, np.full(20, 1.0), np.full(500, 1.04)])
    np.testing.assert_array_equal(steps_of(days(*at)).position, np.arange(521))


@given(st.lists(st.floats(0.5, 40), min_size=2, max_size=60))
def test_irregular_time_is_elapsed_time_over_the_median_spacing(spacings: list[float]) -> None:
    at = np.cumsum([0.0, *spacings])
    got = steps_of(at, "depth", units="days")
    assume(not got.regular)
    assert got.step == f"{np.median(np.diff(at)):.3g} day" + "s" * (got.step[:2] != "1 ")
    np.testing.assert_allclose(got.position, at / np.median(np.diff(at)), rtol=1e-12)


def test_scattered_dates_are_irregular_though_they_are_whole_days_apart() -> None:
    at = np.sort(np.random.default_rng(3).choice(3000, 100, replace=False))
    assert np.diff(at).min() == 1
    got = steps_of(days(*at))
    assert not got.regular
    median = np.median(np.diff(at))
    assert got.step == f"{median:g} days"
    np.testing.assert_allclose(got.position, (at - at[0]) / median, rtol=1e-14)


@given(st.integers(0, 2**32))
def test_random_times_are_irregular(seed: int) -> None:
    at = np.sort(np.random.default_rng(seed).uniform(0, 3000, 80))
    got = steps_of(days(*at))
    assert not got.regular
    assert np.median(np.diff(np.sort(got.position))) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("labels", "name", "attrs", "step"),
    [
        (np.arange(1990, 2021), "year", {}, "1 year"),
        (np.arange(50), "time", {}, "1"),
        (np.arange(50) * 3, "day", {}, "3 days"),
        (np.arange(50) * 0.1, "x", {"units": "s"}, "0.1 seconds"),
        (np.arange(50) / 3, "x", {"units": "hours since 2000-01-01 00:00"}, "0.333 hours"),
        (np.arange(50) * 2, "x", {"units": "Months since 2000-01-01"}, "2 months"),
        (np.arange(50) * 16, "x", {"units": "days"}, "16 days"),
        (np.arange(50) / 4, "x", {"units": "decimal years"}, "0.25 years"),
        (np.arange(50), "x", {"standard_name": "time"}, "1"),
        (np.arange(50), "x", {"axis": "T", "units": "sidereal"}, "1"),
        ((2000 + np.arange(240) / 12).astype(np.float32), "year", {}, "0.0833 years"),
        (np.round(2000 + np.arange(240) / 12, 4), "time", {"units": "years"}, "0.0833 years"),
    ],
)
def test_numbers_that_say_that_they_are_time_are_time(
    labels: Any, name: str, attrs: dict[str, str], step: str
) -> None:
    got = steps_of(labels, name, **attrs)
    assert (got.regular, got.step) == (True, step)
    np.testing.assert_array_equal(got.position, np.arange(len(labels)))


ARCHIVES = ("D", "5h", "MS", "QS", "YS", "12D")


@given(
    st.sampled_from(ARCHIVES),
    st.integers(3, 80),
    st.integers(0, 2**32),
    st.floats(0.4, 1),
    st.sampled_from([None, "noleap", "360_day"]),
)
def test_dropping_labels_of_a_regular_axis_leaves_the_positions_of_the_others(
    freq: str, size: int, seed: int, share: float, calendar: str | None
) -> None:
    cf = {} if calendar is None else {"calendar": calendar, "use_cftime": True}
    labels = np.asarray(xr.date_range("1998-01-01", periods=size, freq=freq, **cf))
    kept = np.flatnonzero(np.random.default_rng(seed).random(size) < share)
    # As long as some neighbours are left by which to know the step.
    assume(kept.size > 1 and (np.diff(kept) == 1).mean() >= 0.1)
    whole, part = steps_of(labels), steps_of(labels[kept])
    assert part.regular
    assert part.step == whole.step
    np.testing.assert_array_equal(part.position, whole.position[kept] - kept[0])


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40, unique=True),
    st.integers(-(10**6), 10**6),
    st.randoms(use_true_random=False),
)
def test_a_shift_changes_nothing_and_another_order_orders_the_positions(
    seconds: list[int], shift: int, random: Any
) -> None:
    order = list(range(len(seconds)))
    random.shuffle(order)
    start = np.datetime64("2000-01-01", "s")
    labels = start + np.array(seconds).astype("timedelta64[s]")
    got, other = steps_of(labels), steps_of(labels[order] + np.timedelta64(shift, "s"))
    assert (got.regular, got.step) == (other.regular, other.step)
    np.testing.assert_array_equal(other.position, got.position[order])
    numbers = steps_of(np.array(seconds) + shift, "t", units="s")
    np.testing.assert_array_equal(numbers.position, got.position)
    assert got.position.min() == 0
    np.testing.assert_array_equal(np.argsort(got.position), np.argsort(seconds))


def test_nanoseconds_of_the_present_are_told_apart() -> None:
    at = np.datetime64("2024-01-01T00:00:00", "ns") + np.arange(5).astype("timedelta64[ns]")
    got = steps_of(at[::-1])
    assert (got.regular, got.step) == (True, "1e-09 seconds")
    assert got.position.tolist() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("labels", [days(), days(3.0)])
def test_fewer_than_two_labels_have_no_step(labels: Any) -> None:
    got = steps_of(labels)
    assert (got.regular, got.step) == (True, "")
    assert got.position.tolist() == [0.0] * len(labels)


@pytest.mark.parametrize("kind", ["datetime64", "cftime", "numbers"])
def test_a_long_axis_is_quick(kind: str) -> None:
    labels: Any = {
        "datetime64": pd.date_range("1970", periods=20_000, freq="D"),
        "cftime": xr.date_range("1970", periods=20_000, calendar="noleap", use_cftime=True),
        "numbers": np.arange(20_000) / 365.25,
    }[kind]
    coord = coordinate(labels, "time", **({"units": "years"} if kind == "numbers" else {}))
    start = time.perf_counter()
    got = read_steps(coord, WHAT)
    assert time.perf_counter() - start < 1.0
    np.testing.assert_array_equal(got.position, np.arange(20_000))


def test_without_a_coordinate_dates_are_asked_for() -> None:
    want = "cube.assign_coords(time=dates)"
    assert want in error_of(None)
    assert want in error_of(xr.DataArray(np.zeros(3), dims="time")["time"])


PAIRS = pd.MultiIndex.from_product([[1, 2], [3, 4]], names=["first", "second"])
MIXED = [cftime.datetime(2000, 1, 1, calendar=name) for name in ("noleap", "360_day")]
NO_TIME = {
    "text": (["2001-01-01", "2001-01-02"], "str", "time=pandas.to_datetime(cube['time'])"),
    "date objects": ([datetime.date(2001, 1, 1)], "date", "time=pandas.to_datetime(cube['time'])"),
    "intervals": (pd.interval_range(0, 3), "Interval", "time=cube.indexes['time'].mid"),
    "durations": (
        np.array([1, 2], "timedelta64[D]").astype("timedelta64[ns]"),
        "durations",
        "time=numpy.datetime64(\"2000-01-01\") + cube['time']",
    ),
    "flags": ([True, False], "bool", "time=dates"),
    "calendars": (np.array(MIXED), "dates of several calendars", "time=dates of one calendar"),
    "spelled": (
        [20200131, 20200201],
        "dates spelled as numbers (20200131, 20200201)",
        "time=pandas.to_datetime(cube['time'].astype(int).astype(str))",
    ),
}


@pytest.mark.parametrize("kind", NO_TIME)
def test_labels_of_other_kinds_are_refused_with_what_to_type(kind: str) -> None:
    labels, found, remedy = NO_TIME[kind]
    message = error_of(coordinate(labels))
    assert message.startswith(f"{WHAT} needs samples along one axis of time, and 'time' holds ")
    assert found in message
    assert f"cube.assign_coords({remedy})" in message


def test_a_multiindex_is_refused() -> None:
    coords = xr.Coordinates.from_pandas_multiindex(PAIRS, "pair")
    message = error_of(xr.DataArray(np.zeros(4), coords, ["pair"])["pair"])
    assert "a MultiIndex of ['first', 'second']" in message
    assert "cube = cube.drop_vars(['pair', 'first', 'second'])" in message


@pytest.mark.parametrize(
    ("labels", "name", "attrs"),
    [
        ([0, 1, 2, 3], "pair", {}),
        ([0.45, 0.55, 0.66], "wavelength", {"units": "um"}),
        ([1.0, 2.0], "t", {"units": "K"}),
        ([1.0, 2.0], "band", {"units": "1"}),
        ([1.0, 2.0], "x", {"units": "S"}),
        ([1.0, 2.0], "T", {}),
    ],
)
def test_numbers_that_are_no_time_are_refused(
    labels: list[float], name: str, attrs: dict[str, str]
) -> None:
    message = error_of(coordinate(labels, name, **attrs))
    assert f"{name!r} holds numbers that do not say that they are time ({labels[0]}, " in message
    assert f"cube.assign_coords({name}=dates)" in message
    assert f"""cube[{name!r}].attrs["units"] = "years\"""" in message


def test_the_number_of_missing_labels_is_told() -> None:
    dated = pd.to_datetime(["2001-01-01", None, "2001-01-03", None])
    assert "2 of 4 labels of 'time' are missing" in error_of(coordinate(dated))
    for coord in (
        coordinate(dated),
        coordinate(np.array([MIXED[0], None], dtype=object)),
        coordinate([1.0, np.nan, np.inf], "year"),
    ):
        line = error_of(coord).split("Drop those with ")[1].rstrip(".")
        cube = xr.DataArray(np.zeros(coord.size), {coord.name: coord}, [coord.name])
        left = eval(line, {"cube": cube, "numpy": np, "pandas": pd})
        assert read_steps(left[coord.name], WHAT).regular


def test_labels_that_stand_twice_are_named_and_both_remedies_work() -> None:
    twice = days(*[0, 1, 1, 2, 5, 5, 5, 7, 7, 9, 9])
    message = error_of(coordinate(twice))
    assert "more than one at 2001-03-06, 2001-03-10, 2001-03-12 and 1 more" in message
    assert "2 more" not in message
    cube = xr.DataArray(np.zeros(len(twice)), {"time": twice}, ["time"])
    for text in ("cube.groupby('time').mean()", "cube.drop_duplicates('time')"):
        assert text in message
        read_steps(eval(text, {"cube": cube})["time"], WHAT)
    assert " at 1.5. " in error_of(coordinate([1.5, 2, 1.5], "year"))
    labels = np.array([MIXED[1], MIXED[1]])
    assert " at 2000-01-01. " in error_of(coordinate(labels))
