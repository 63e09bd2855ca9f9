"""Terms of a design: columns, calendars, text, JSON and every refusal."""

from __future__ import annotations

import datetime
import json
import math
from fractions import Fraction

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xr_lstsq import design
from xr_lstsq.design import Term, from_json, harmonics, parse, polynomial
from xr_lstsq.design.terms import Sum
from xr_lstsq.errors import LabelError

DAY_SECONDS = 86_400
YEAR_DAYS = {
    "standard": Fraction(1461, 4),
    "proleptic_gregorian": Fraction(1461, 4),
    "julian": Fraction(1461, 4),
    "noleap": Fraction(365),
    "all_leap": Fraction(366),
    "360_day": Fraction(360),
}


def coordinate(labels: object, name: str = "time", **attrs: str) -> xr.DataArray:
    """Return the labels as the coordinate of a cube, as a user takes it."""
    values = np.asarray(labels)
    cube = xr.DataArray(np.zeros(values.shape[0]), dims=name, coords={name: values})
    return cube[name].assign_attrs(attrs)


def dates(*labels: str, unit: str = "ns") -> xr.DataArray:
    return coordinate(np.array(labels, dtype=f"datetime64[{unit}]"))


def cf_dates(calendar: str, *labels: tuple[int, ...]) -> xr.DataArray:
    objects = [cftime.datetime(*label, calendar=calendar) for label in labels]
    return coordinate(np.array(objects, dtype=object))


def one_column(term: Term, coord: xr.DataArray, name: str) -> np.ndarray:
    columns = term.evaluate(coord)
    return columns.matrix[:, columns.names.index(name)]


# --- columns, names and units -------------------------------------------------------------------


def test_a_design_of_two_terms_names_its_columns_and_units() -> None:
    columns = (polynomial(2) + harmonics(1, 2)).evaluate(dates("2000-01-01", "2003-05-06"))
    assert columns.names == (
        *("intercept", "slope", "degree_2"),
        *("cos_1", "sin_1", "cos_2", "sin_2"),
    )
    assert columns.units == ("", "year-1", "year-2", "", "", "", "")
    assert columns.long_names[:4] == (
        "value at 2000-01-01",
        "rate of change at 2000-01-01",
        "coefficient of degree 2 about 2000-01-01",
        "cosine amplitude, period 1 year, from 2000-01-01",
    )
    assert columns.long_names[6] == "sine amplitude, period 1/2 year, from 2000-01-01"
    assert columns.matrix.dtype == np.float64
    assert columns.matrix.shape == (2, 7)


def test_a_straight_line_has_a_rate_without_an_origin() -> None:
    columns = polynomial(1).evaluate(dates("2001-01-01"))
    assert columns.long_names == ("value at 2000-01-01", "rate of change")


def test_degree_zero_is_the_intercept_alone() -> None:
    columns = polynomial(0).evaluate(dates("2001-01-01", "2002-01-01"))
    assert columns.names == ("intercept",)
    np.testing.assert_array_equal(columns.matrix, [[1.0], [1.0]])


def test_a_name_goes_before_every_param_name() -> None:
    term = polynomial(2, name="p") + harmonics(1, name="year_1")
    names = term.evaluate(dates("2001-01-01")).names
    assert names == ("p_intercept", "p_slope", "p_degree_2", "year_1_cos_1", "year_1_sin_1")


def test_no_samples_give_no_rows() -> None:
    columns = (polynomial(1) + harmonics(1)).evaluate(dates())
    assert columns.matrix.shape == (0, 4)


def test_a_missing_date_gives_a_row_of_nan_and_leaves_the_others_alone() -> None:
    term = polynomial(1) + harmonics(1)
    whole = term.evaluate(dates("2001-02-03", "2004-05-06")).matrix
    matrix = term.evaluate(dates("2001-02-03", "NaT", "2004-05-06")).matrix
    assert np.isnan(matrix[1]).all()
    np.testing.assert_array_equal(matrix[[0, 2]], whole)


@pytest.mark.parametrize("missing", [None, math.nan, pd.NaT])
def test_a_missing_cftime_date_gives_a_row_of_nan(missing: object) -> None:
    labels = np.array([cftime.DatetimeNoLeap(2001, 1, 1), missing], dtype=object)
    matrix = polynomial(1).evaluate(coordinate(labels)).matrix
    np.testing.assert_array_equal(matrix, [[1.0, 1.0], [math.nan, math.nan]])


def test_missing_numbers_give_rows_of_nan() -> None:
    matrix = polynomial(1).evaluate(coordinate([1.5, math.nan, math.inf], "x")).matrix
    np.testing.assert_array_equal(matrix, [[1.0, 1.5], [math.nan] * 2, [math.nan] * 2])


def test_a_power_that_overflows_is_missing() -> None:
    matrix = polynomial(2).evaluate(coordinate([1e200, 2.0], "x")).matrix
    assert np.isnan(matrix[0, 2])
    assert matrix[1, 2] == 4.0


# --- time, units and calendars ------------------------------------------------------------------


def test_days_across_a_leap_century_are_counted_from_seconds_in_1600() -> None:
    coord = dates("1600-01-01", "1600-03-01", "1601-01-01", "1604-02-29", "1605-01-01", unit="s")
    slope = one_column(polynomial(1, unit="day", origin="first"), coord, "slope")
    np.testing.assert_array_equal(slope, [0, 60, 366, 1520, 1827])
    assert one_column(polynomial(1), coord, "slope")[0] == -146_097 / 365.25


def test_a_noleap_calendar_has_no_29_february() -> None:
    coord = cf_dates("noleap", (2004, 1, 1), (2004, 3, 1), (2005, 1, 1), (2006, 3, 1))
    slope = one_column(polynomial(1, origin="2004-01-01"), coord, "slope")
    np.testing.assert_array_equal(slope, [0, 59 / 365, 1, 2 + 59 / 365])


def test_leap_days_are_days_of_the_calendars_that_have_them() -> None:
    days = polynomial(1, unit="day", origin="2000-02-28")
    assert one_column(days, dates("2000-03-01"), "slope")[0] == 2
    assert one_column(days, cf_dates("standard", (2000, 3, 1)), "slope")[0] == 2
    assert one_column(days, cf_dates("all_leap", (2001, 3, 1)), "slope")[0] == 366 + 2
    assert one_column(days, cf_dates("360_day", (2000, 3, 1)), "slope")[0] == 3
    in_1900 = polynomial(1, unit="day", origin="1900-02-28")
    assert one_column(in_1900, cf_dates("julian", (1900, 3, 1)), "slope")[0] == 2
    assert one_column(in_1900, dates("1900-03-01"), "slope")[0] == 1


@pytest.mark.parametrize("calendar", YEAR_DAYS)
def test_a_year_has_the_length_of_its_calendar(calendar: str) -> None:
    coord = cf_dates(calendar, (2010, 7, 1, 12), (1950, 1, 1))
    years = one_column(polynomial(1), coord, "slope")
    days = one_column(polynomial(1, unit="day"), coord, "slope")
    for year, day in zip(years, days, strict=True):
        assert year == float(Fraction(day) / YEAR_DAYS[calendar])


@pytest.mark.parametrize(
    ("unit", "seconds"), [("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)]
)
def test_each_unit_counts_and_names_itself(unit: str, seconds: int) -> None:
    columns = polynomial(2, unit=unit).evaluate(dates("2000-01-03T04:05:06"))
    elapsed = Fraction(2 * 86_400 + 4 * 3600 + 5 * 60 + 6, seconds)
    assert columns.matrix[0, 1] == float(elapsed)
    assert columns.matrix[0, 2] == float(elapsed**2)
    assert columns.units == ("", f"{unit}-1", f"{unit}-2")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_resolution_of_datetime64_does_not_matter(unit: str) -> None:
    term = polynomial(3) + harmonics(1, 3)
    labels = ("1700-02-28T01:02:03", "1999-12-31T23:59:59", "2024-02-29")
    np.testing.assert_array_equal(
        term.evaluate(dates(*labels, unit=unit)).matrix,
        term.evaluate(dates(*labels, unit="us")).matrix,
    )


@given(st.lists(st.integers(-(10**18), 10**18), min_size=1, max_size=8), st.integers(1, 5))
def test_powers_of_nanoseconds_are_the_exact_ones_rounded_once(ns: list[int], degree: int) -> None:
    coord = coordinate(np.array(ns, dtype="datetime64[ns]"))
    matrix = polynomial(degree).evaluate(coord).matrix
    start = int((datetime.date(2000, 1, 1) - datetime.date(1970, 1, 1)).days) * DAY_SECONDS
    for row, label in zip(matrix, ns, strict=True):
        years = Fraction(label - start * 10**9, 10**9) / (Fraction(1461, 4) * DAY_SECONDS)
        assert row.tolist() == [float(years**k) for k in range(degree + 1)]


@given(
    st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2400, 1, 1)),
    st.integers(1, 6),
)
def test_harmonics_are_those_of_the_exact_phase(date: datetime.datetime, k: int) -> None:
    coord = dates(date.isoformat(), unit="us")
    elapsed = date - datetime.datetime(2000, 1, 1)
    turns = k * Fraction(elapsed // datetime.timedelta(microseconds=1)) / 31_557_600_000_000 % 1
    columns = harmonics(1, 6).evaluate(coord)
    cos, sin = columns.matrix[0, 2 * k - 2 : 2 * k]
    assert cos == pytest.approx(math.cos(math.tau * turns), abs=2e-15)
    assert sin == pytest.approx(math.sin(math.tau * turns), abs=2e-15)
    assert columns.names[2 * k - 2 : 2 * k] == (f"cos_{k}", f"sin_{k}")


def test_a_sine_that_vanishes_on_every_sample_is_exactly_zero() -> None:
    months = [(2000 + i // 12, i % 12 + 1, 1) for i in range(240)]
    matrix = harmonics(1, 6).evaluate(cf_dates("360_day", *months)).matrix
    np.testing.assert_array_equal(matrix[:, -1], 0.0)
    np.testing.assert_array_equal(matrix[:, -2], [1.0, -1.0] * 120)
    # Ten labels a cycle: the tenth is meant, not the binary number next to it.
    tenths = harmonics(0.1, unit="day").evaluate(dates("2000-01-08T12:00", "1999-12-30T07:12"))
    np.testing.assert_array_equal(tenths.matrix, [[1.0, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize("calendar", ["360_day", "noleap"])
def test_forty_years_of_cycle_and_trend_come_back_from_a_model_calendar(calendar: str) -> None:
    months = [(1981 + i // 12, i % 12 + 1, 15, 6) for i in range(480)]
    starts = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
    if calendar == "360_day":
        starts = list(range(0, 360, 30))
    years = [
        y - 2000 + (Fraction(starts[m - 1] + d - 1) + Fraction(h, 24)) / YEAR_DAYS[calendar]
        for y, m, d, h in months
    ]
    expected = [3.0, 0.25, 1.5, -0.75]
    y = [
        expected[0] + expected[1] * float(t)
        + expected[2] * math.cos(math.tau * float(t % 1))
        + expected[3] * math.sin(math.tau * float(t % 1))
        for t in years
    ]  # fmt: skip
    matrix = (polynomial(1) + harmonics(1)).evaluate(cf_dates(calendar, *months)).matrix
    coef = np.linalg.lstsq(matrix, np.array(y), rcond=None)[0]
    np.testing.assert_allclose(coef, expected, rtol=1e-9)


def test_the_same_dates_agree_as_datetime64_and_in_both_gregorian_calendars() -> None:
    term = polynomial(2) + harmonics(1, 2)
    labels = [(1700 + 9 * i, i % 12 + 1, i % 28 + 1, i % 24, i % 60, i) for i in range(50)]
    as_datetime64 = dates(*[datetime.datetime(*x).isoformat() for x in labels], unit="s")
    expected = term.evaluate(as_datetime64).matrix
    for calendar in ("standard", "proleptic_gregorian"):
        matrix = term.evaluate(cf_dates(calendar, *labels)).matrix
        np.testing.assert_array_equal(matrix, expected)


def test_xarray_calendar_subclasses_are_read_too() -> None:
    coord = xr.date_range("2000-01-01", periods=3, freq="YS", calendar="noleap", use_cftime=True)
    np.testing.assert_array_equal(one_column(polynomial(1), coordinate(coord), "slope"), [0, 1, 2])


@pytest.mark.parametrize(
    "term",
    [polynomial(3), harmonics(1, 4), polynomial(2, unit="day") + harmonics(29.53, 3, unit="day")],
    ids=str,
)
def test_overlapping_coordinates_have_equal_rows(term: Term) -> None:
    labels = np.datetime64("1990-01-01", "s") + np.arange(101) * np.timedelta64(1_000_003, "s")
    whole = term.evaluate(coordinate(labels)).matrix
    for start, stop in [(0, 40), (37, 101), (50, 51)]:
        part = term.evaluate(coordinate(labels[start:stop])).matrix
        np.testing.assert_array_equal(part, whole[start:stop])


def test_the_order_of_samples_does_not_matter() -> None:
    labels = ("2003-01-01", "1999-07-08", "2010-01-01", "1999-07-08")
    term = polynomial(2, origin="middle") + harmonics(1, origin="first")
    forward = term.evaluate(dates(*labels)).matrix
    backward = term.evaluate(dates(*labels[::-1])).matrix
    np.testing.assert_array_equal(forward, backward[::-1])


# --- numbers ------------------------------------------------------------------------------------


def test_numbers_are_used_as_they_are_and_lend_their_units() -> None:
    columns = (polynomial(2) + harmonics(4)).evaluate(coordinate([-1.5, 0.0, 3.0], "x", units="m"))
    np.testing.assert_array_equal(columns.matrix[:, :3], [[1, -1.5, 2.25], [1, 0, 0], [1, 3, 9]])
    np.testing.assert_array_equal(columns.matrix[1:, 3:], [[1, 0], [0, -1]])
    assert columns.units == ("", "m-1", "m-2", "", "")
    assert columns.long_names[0] == "value at 0 m"
    assert columns.long_names[3] == "cosine amplitude, period 4 m, from 0 m"


@pytest.mark.parametrize(
    ("units", "slope"),
    [
        ("days since 2000-01-01", "days-1"),
        ("m s-1", "m-1 s"),
        ("degrees_north", "degrees_north-1"),
        ("1", ""),
    ],
)
def test_units_of_numbers_become_a_factor_that_udunits_reads(units: str, slope: str) -> None:
    assert polynomial(1).evaluate(coordinate([1, 2], "x", units=units)).units == ("", slope)


def test_numbers_without_units_have_no_factor() -> None:
    columns = polynomial(1).evaluate(coordinate([1, 2], "x"))
    assert columns.units == ("", "")
    assert columns.long_names[0] == "value at 0"


def test_integers_beyond_float64_keep_their_differences() -> None:
    coord = coordinate(np.array([2**62, 2**62 + 1, 2**62 + 3]), "tick")
    for origin in ("first", 2**62):
        slope = one_column(polynomial(1, origin=origin), coord, "slope")
        np.testing.assert_array_equal(slope, [0, 1, 3])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", ">f8", ">i4"])
def test_every_real_dtype_is_read(dtype: str) -> None:
    slope = one_column(
        polynomial(1, origin=1), coordinate(np.array([1, 2, 100], dtype), "x"), "slope"
    )
    np.testing.assert_array_equal(slope, [0, 1, 99])


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(-1e9, 1e9))
def test_differences_of_numbers_are_rounded_once(labels: list[float], origin: float) -> None:
    slope = one_column(polynomial(1, origin=origin), coordinate(labels, "x"), "slope")
    assert slope.tolist() == [float(Fraction(x) - Fraction(origin)) for x in labels]


def test_a_coordinate_beside_the_index_is_read() -> None:
    cube = xr.DataArray(np.zeros(3), dims="acq", coords={"bperp": ("acq", [-120.0, 35.0, 80.0])})
    np.testing.assert_array_equal(one_column(polynomial(1), cube.bperp, "slope"), [-120, 35, 80])


def test_an_unnamed_coordinate_is_read() -> None:
    coord = xr.DataArray([1.0, 2.0], dims="x")
    np.testing.assert_array_equal(one_column(polynomial(1), coord, "slope"), [1, 2])


# --- origins and binding ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        "2015-06-01",
        "2015-06",
        "2015-06-01T00:00",
        "2015-06-01 00:00:00.000",
        np.datetime64("2015-06-01"),
        np.datetime64("2015-06-01T00", "ns"),
        pd.Timestamp("2015-06-01"),
        datetime.date(2015, 6, 1),
        datetime.datetime(2015, 6, 1),
        cftime.DatetimeNoLeap(2015, 6, 1),
        cftime.datetime(2015, 6, 1, calendar="julian"),
        dates("2015-06-01")[0],
        np.array("2015-06-01", dtype="datetime64[s]"),
    ],
    ids=lambda origin: f"{type(origin).__name__} {origin!s:.30}",
)
def test_a_date_is_the_same_origin_in_every_form(origin: object) -> None:
    assert polynomial(1, origin=origin) == polynomial(1, origin="2015-06-01")  # type: ignore[arg-type]


def test_the_time_of_day_of_an_origin_is_kept_to_the_nanosecond() -> None:
    origin = pd.Timestamp("2015-06-01T01:02:03.000000004")
    term = polynomial(1, unit="second", origin=origin)
    assert str(term) == "polynomial(1, unit=second, origin=2015-06-01T01:02:03.000000004)"
    slope = one_column(term, dates("2015-06-01T01:02:03.000000005"), "slope")
    assert slope[0] == 1e-9


def test_the_origin_moves_the_columns_and_the_long_name() -> None:
    coord = dates("2015-06-02")
    columns = polynomial(1, unit="day", origin="2015-06-01").evaluate(coord)
    assert columns.matrix[0, 1] == 1
    assert columns.long_names[0] == "value at 2015-06-01"
    moved = harmonics(1, origin="2015-06-01").evaluate(coord).matrix
    assert abs(moved - harmonics(1).evaluate(coord).matrix).max() > 0.1


def test_first_and_middle_come_from_the_labels() -> None:
    coord = dates("2001-01-03", "NaT", "2001-01-01", "2001-01-02")
    first = polynomial(1, unit="day", origin="first")
    middle = polynomial(1, unit="day", origin="middle")
    np.testing.assert_array_equal(one_column(first, coord, "slope"), [2, math.nan, 0, 1])
    np.testing.assert_array_equal(one_column(middle, coord, "slope"), [1, math.nan, -1, 0])


def test_the_middle_keeps_its_microseconds() -> None:
    labels = [(1850, 2, 30), (2099, 12, 30, 23, 59, 59, 999_998)]
    term = polynomial(1, unit="second", origin="middle").bind(cf_dates("360_day", *labels))
    assert term.origin == "1975-01-30T11:59:59.999999"
    slope = one_column(term, cf_dates("360_day", *labels), "slope")
    assert slope[0] == -slope[1]


@pytest.mark.parametrize(
    ("origin", "resolved"), [(None, 0), ("first", 0.1), ("middle", 2.05), (2.0, 2), (-0.5, -0.5)]
)
def test_origins_of_numbers_are_numbers(origin: object, resolved: float) -> None:
    term = polynomial(1, origin=origin).bind(coordinate([4.0, 0.1], "x"))  # type: ignore[arg-type]
    assert term.origin == resolved


BOUND = {
    "datetime64": (dates("2001-02-03"), "proleptic_gregorian"),
    "cftime": (cf_dates("360_day", (2001, 2, 30)), "360_day"),
    "numeric": (coordinate([1.5, 2.5], "x", units='m "s"'), None),
}


@pytest.mark.parametrize("kind", BOUND)
def test_a_bound_term_says_to_what_it_is_bound(kind: str) -> None:
    coord, calendar = BOUND[kind]
    data = polynomial(1).bind(coord).to_json()
    assert data["kind"] == kind
    assert data.get("calendar") == calendar
    assert data["origin"] == (0 if kind == "numeric" else "2000-01-01")
    assert data["unit"] == ('m "s"' if kind == "numeric" else "year")


@pytest.mark.parametrize("kind", BOUND)
@pytest.mark.parametrize("origin", [None, "first", "middle"])
def test_a_bound_term_gives_the_columns_of_the_unbound_one(kind: str, origin: str | None) -> None:
    coord, _ = BOUND[kind]
    term = polynomial(2, origin=origin) + harmonics(0.7, 2, origin=origin)
    bound = term.bind(coord)
    assert bound.bind(coord) == bound
    assert bound.bind(coord[:1]) == bound
    np.testing.assert_array_equal(bound.evaluate(coord).matrix, term.evaluate(coord).matrix)


def test_a_bound_origin_is_used_on_other_labels() -> None:
    bound = polynomial(1, unit="day", origin="first").bind(dates("2001-01-01", "2002-01-01"))
    np.testing.assert_array_equal(one_column(bound, dates("2001-01-05"), "slope"), [4])


@pytest.mark.parametrize(
    ("coord", "found"),
    [
        (cf_dates("noleap", (2001, 1, 1)), "cftime dates of the calendar 'noleap'"),
        (dates("2001-01-01"), "datetime64 dates of the calendar 'proleptic_gregorian'"),
        (coordinate([1.0]), "'time' holds numbers"),
    ],
)
def test_a_bound_term_refuses_another_calendar(coord: xr.DataArray, found: str) -> None:
    bound = polynomial(1).bind(cf_dates("360_day", (2001, 1, 1)))
    with pytest.raises(
        ValueError, match="bound to cftime dates of the calendar '360_day'"
    ) as error:
        bound.evaluate(coord)
    assert found in str(error.value)


def test_a_bound_term_refuses_numbers_in_other_units() -> None:
    bound = polynomial(1).bind(coordinate([1.0], "x", units="m"))
    assert bound.evaluate(coordinate([1.0], "x")).units == ("", "m-1")
    with pytest.raises(ValueError, match="bound to numbers in 'm', and 'x' is in 'km'"):
        bound.evaluate(coordinate([1.0], "x", units="km"))


# --- timedelta periods --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period", "number", "unit"),
    [
        (np.timedelta64(2, "W"), 14, "day"),
        (np.timedelta64(36, "h"), 36, "hour"),
        (np.timedelta64(90_000, "ms"), 90, "second"),
        (pd.Timedelta(10, "D"), 10, "day"),
        (pd.Timedelta("1h 1ns"), 3600.000000001, "second"),
        (datetime.timedelta(days=-1, minutes=1441), 1, "minute"),
        (datetime.timedelta(microseconds=1500), 0.0015, "second"),
    ],
    ids=str,
)
def test_a_timedelta_is_a_number_of_its_longest_unit(
    period: datetime.timedelta, number: float, unit: str
) -> None:
    assert harmonics(period) == harmonics(number, unit=unit)


@pytest.mark.parametrize(
    "period", [np.timedelta64(1, "Y"), np.timedelta64(5), np.timedelta64("NaT")]
)
def test_a_timedelta_without_length_is_refused(period: np.timedelta64) -> None:
    with pytest.raises(ValueError, match="no fixed length"):
        harmonics(period)


def test_a_unit_beside_a_timedelta_is_refused() -> None:
    with pytest.raises(ValueError, match="unit='day' has no use beside the timedelta"):
        harmonics(np.timedelta64(3, "h"), unit="day")


# --- text and JSON ------------------------------------------------------------------------------

names = st.none() | st.from_regex(r"[A-Za-z0-9_]+", fullmatch=True)
units = st.sampled_from(["year", "day", "hour", "minute", "second"])
iso_dates = st.datetimes(datetime.datetime(1, 1, 1)).map(datetime.datetime.isoformat)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
origins = st.none() | st.sampled_from(["first", "middle"]) | iso_dates | numbers
periods = st.integers(1) | st.floats(0, 1e300, exclude_min=True)
marks = iso_dates | numbers
words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)
label_terms = st.builds(polynomial, st.integers(0, 9), units, origins, names) | st.builds(
    harmonics, periods, st.integers(1, 9), units, origins, names
)
single_terms = st.one_of(
    label_terms,
    st.builds(design.constant, names),
    st.builds(design.step, marks, names),
    st.builds(design.decay, marks, periods, st.sampled_from(["exp", "log"]), units, names),
    st.builds(design.piecewise, marks, units, names),
    st.builds(design.spline, df=st.integers(3, 9), name=names),
    st.builds(design.covariate, words, names, st.booleans()),
    st.builds(design.indicator, words, names, st.none() | st.text("ab1 ", min_size=1)),
    st.builds(
        design.network,
        words,
        words,
        st.sampled_from(["velocity", "displacement", "increment"]),
        st.none() | iso_dates,
        st.integers(0, 9),
        st.sampled_from([None, "linear", "quadratic"]),
        units,
        names,
    ),
    st.builds(design.dem_error, words, st.integers(1, 10**6), st.integers(1, 89), names),
)
bound_terms = st.tuples(
    st.builds(polynomial, st.integers(0, 3), st.just("year"), st.none(), names)
    | st.builds(harmonics, periods, st.integers(1, 3), st.just("year"), st.none(), names),
    st.sampled_from(list(BOUND)) | st.text().map(lambda u: u.strip()),
).map(lambda pair: pair[0].bind(BOUND[pair[1]][0] if pair[1] in BOUND else with_units(pair[1])))


def with_units(units: str) -> xr.DataArray:
    return coordinate([1.5, 2.5], "x", units=units)


all_terms = single_terms | bound_terms
designs = st.lists(all_terms, min_size=1, max_size=4).map(
    lambda terms: terms[0] if len(terms) == 1 else Sum(tuple(terms))
)


@given(designs)
def test_every_design_is_read_back_equal_from_its_text(term: Term) -> None:
    again = parse(str(term))
    assert again == term
    assert hash(again) == hash(term)
    assert repr(again) == str(term)


@given(designs)
def test_every_design_is_read_back_equal_from_its_json(term: Term) -> None:
    assert from_json(term.to_json()) == term
    assert from_json(json.loads(json.dumps(term.to_json(), allow_nan=False))) == term


@given(all_terms, all_terms, all_terms)
def test_joining_is_flat_and_keeps_the_order(a: Term, b: Term, c: Term) -> None:
    assert (a + b) + c == a + (b + c)
    assert ((a + b) + c).terms == (a, b, c)
    assert a + b != a


@given(st.permutations(["a", "b", "c"]), st.integers(0, 3), st.integers(1, 3))
def test_names_and_columns_of_a_sum_are_those_of_its_parts(
    order: list[str], degree: int, n: int
) -> None:
    coord = dates("2000-01-01", "2003-05-06", "2004-02-29")
    terms = [
        design.polynomial(degree, name=order[0]),
        design.harmonics(1, n, name=order[1]),
        design.step("2003-01-01", name=order[2]),
    ]
    a, b, c = terms
    parts = [term.evaluate(coord) for term in terms]
    for joined in ((a + b) + c, a + (b + c)):
        columns = joined.evaluate(coord)
        assert columns.names == tuple(name for part in parts for name in part.names)
        assert columns.units == tuple(unit for part in parts for unit in part.units)
        np.testing.assert_array_equal(columns.matrix, np.hstack([p.matrix for p in parts]))


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("polynomial(1)+harmonics(1,2)", polynomial(1) + harmonics(1, 2)),
        (" polynomial ( 1 ) \n", polynomial(1)),
        ("polynomial(1, unit=day, origin=2015-06-01)", polynomial(1, "day", "2015-06-01")),
        (
            "polynomial(degree=1, origin='2015-06-01 12:00')",
            polynomial(1, origin="2015-06-01T12:00"),
        ),
        ('polynomial(1, "day", first)', polynomial(1, "day", "first")),
        ("polynomial(1, origin=-2.5e1)", polynomial(1, origin=-25)),
        ("harmonics(n=2, period=.5)", harmonics(0.5, 2)),
        ("harmonics(1e+20)", harmonics(1e20)),
        ('harmonics(1, name="2")', harmonics(1, name="2")),
    ],
)
def test_the_grammar_reads_numbers_words_dates_and_quotes(text: str, term: Term) -> None:
    assert parse(text) == term


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (polynomial(1) + harmonics(1.0, 2), "polynomial(1) + harmonics(1, 2)"),
        (harmonics(1), "harmonics(1)"),
        (harmonics(0.5, unit="day", name="x"), "harmonics(0.5, unit=day, name=x)"),
        (harmonics(1, name="12"), 'harmonics(1, name="12")'),
        (polynomial(1, origin=2.0), "polynomial(1, origin=2)"),
    ],
)
def test_a_term_prints_in_the_grammar(term: Term, text: str) -> None:
    assert str(term) == text
    assert repr(term) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  ", "the design is an empty text"),
        ("cubic(1)", r"unknown term 'cubic'; known terms are constant, .*, step \(character 1 "),
        ("polynomial(1)+cubic(3)", r"unknown term 'cubic'.*\(character 15 of the design 'poly"),
        ("polynomial(deg=1)", "unknown argument 'deg'; 'polynomial' takes degree, unit, origin"),
        ("polynomial()", "'polynomial' needs its argument 'degree'"),
        ("harmonics(n=2)", "'harmonics' needs its argument 'period'"),
        ("polynomial(1, 2, 3, 4, 5, 6, 7)", r"takes at most 6 arguments.*\(character 30 "),
        ("polynomial(1, degree=2)", r"'degree' of 'polynomial' is given twice \(character 15 "),
        ("polynomial(degree=1, day)", r"without a name stands after one with.*\(character 22 "),
        ("polynomial(1", r"found the end where '\)' is needed.*\(character 13 "),
        ("polynomial(1))", r"found '\)' after a term, where '\+' or the end.*\(character 14 "),
        ("polynomial 1", r"found '1' where '\(' is needed after the term name 'polynomial'"),
        ("polynomial(1) harmonics(1)", "found 'harmonics' after a term"),
        ("polynomial(1)+", "found the end where a term such as"),
        ("1 + polynomial(1)", "found '1' where a term such as"),
        ("polynomial(unit=)", r"found '\)' where a value is needed"),
        ("polynomial(1,,2)", "found ',' where a value is needed"),
        ("polynomial('1)", r"the quote ' is never closed \(character 12 "),
        ("polynomial(1) ~ x", r"the character '~' has no meaning here \(character 15 "),
        (r'polynomial("\q")', "cannot read"),
        ("polynomial(-1)", r"degree=-1 must be a whole number, 0 or more \(character 1 "),
        ("harmonics(1e999)", "period=inf must be a number above 0"),
        ("polynomial(2**3)", r"degree='2\*\*3' must be a whole number"),
        ("__import__(os)", "unknown term '__import__'"),
        ("polynomial(1).bind(x)", "found '.bind' after a term"),
    ],
)
def test_a_text_outside_the_grammar_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


@given(st.text(max_size=40) | st.text("polynmiahrcs(1,2)+='\" ", max_size=30))
def test_any_other_text_is_a_value_error(text: str) -> None:
    try:
        term = parse(text)
    except ValueError:
        return
    assert parse(str(term)) == term


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"term": "cubic"}, "unknown term 'cubic'; known terms are constant"),
        ({"degree": 1}, "an object with the name of the term under 'term'"),
        ({"term": ["polynomial"]}, "an object with the name of the term under 'term'"),
        ([1], "an object with the name of the term under 'term'"),
        ({"term": "polynomial"}, "'polynomial' needs its argument 'degree'"),
        ({"term": "polynomial", "degree": 1, "deg": 2}, "unknown argument 'deg'"),
        ({"term": "polynomial", "degree": [1]}, r"degree=\[1\] must be a whole number"),
        ({"term": "polynomial", "degree": 1, "unit": ["day"]}, "unknown unit"),
        ({"term": "polynomial", "degree": 1, "origin": {}}, "origin={} must be a date"),
        ({"term": "polynomial", "degree": 1, "name": 3}, "name=3 must be letters"),
        ({"term": "polynomial", "degree": 1, "kind": "lunar"}, "unknown kind 'lunar'"),
        ({"term": "polynomial", "degree": 1, "kind": []}, "unknown kind"),
        ({"term": "polynomial", "degree": 1, "calendar": "noleap"}, "unknown kind None"),
        ({"term": "polynomial", "degree": 1, "kind": "cftime"}, "calendar=None does not go with"),
        (
            {"term": "polynomial", "degree": 1, "kind": "cftime", "calendar": "lunar"},
            "calendar='lunar' does not go with kind='cftime', which has standard",
        ),
        ({"term": "polynomial", "degree": 1, "kind": "numeric"}, "origin=None does not go with"),
        (
            {"term": "polynomial", "degree": 1, "kind": "numeric", "origin": "2000-01-01"},
            "origin='2000-01-01' does not go with kind='numeric', which needs a number",
        ),
        (
            {
                "term": "polynomial",
                "degree": 1,
                "kind": "cftime",
                "calendar": "noleap",
                "origin": "first",
            },
            "origin='first' does not go with kind='cftime', which needs a date",
        ),
        (
            {
                "term": "polynomial",
                "degree": 1,
                "kind": "cftime",
                "calendar": "noleap",
                "origin": "2000-02-29",
            },
            "'2000-02-29' is no date of the calendar 'noleap'",
        ),
        ({"term": "sum"}, "a sum is written"),
        ({"term": "sum", "terms": [], "more": 1}, "a sum is written"),
        ({"term": "sum", "terms": []}, "a sum needs two terms or more, and has 0"),
        ({"term": "sum", "terms": [1, 2]}, "an object with the name of the term under 'term'"),
        ({"term": "sum", "terms": [{"term": "sum", "terms": []}] * 2}, "unknown term 'sum'"),
    ],
)
def test_json_that_is_no_design_is_refused(data: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(data)  # type: ignore[arg-type]


def test_terms_join_only_with_terms() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        polynomial(1) + 1  # type: ignore[operator]


def test_the_public_names_are_these() -> None:
    wanted = {"Columns", "Term", "from_json", "harmonics", "parse", "polynomial"}
    assert wanted <= set(design.__all__)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [-1, 1.5, 2.0, "1", None, True, np.timedelta64(1)])
def test_a_degree_that_is_no_count_is_refused(degree: object) -> None:
    with pytest.raises(ValueError, match=r"degree=.* must be a whole number, 0 or more"):
        polynomial(degree)  # type: ignore[arg-type]


@pytest.mark.parametrize("period", [0, -1, math.nan, math.inf, "1", None, True, 10**400])
def test_a_period_that_is_no_length_is_refused(period: object) -> None:
    with pytest.raises(ValueError, match=r"period=.* must be a number above 0"):
        harmonics(period)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [0, -1, 1.0, "2", False])
def test_a_number_of_harmonics_that_is_no_count_is_refused(n: object) -> None:
    with pytest.raises(ValueError, match=r"n=.* must be a whole number, 1 or more"):
        harmonics(1, n)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["month", "days", "", None, 1])
def test_an_unknown_unit_is_refused_with_the_known_ones(unit: object) -> None:
    message = "unknown unit .*; known units are year, day, hour, minute, second"
    with pytest.raises(ValueError, match=message):
        polynomial(1, unit=unit)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "a/b", 3, "é"])
def test_a_name_that_makes_no_variable_name_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match=r"name=.* must be letters, digits and underscores"):
        polynomial(1, name=name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ("last", "'last' is no date. Write it as 2015-06-01"),
        ("2015-06-01Z", "is no date"),
        ("2015-13-01", "a month, day or time of day is out of range"),
        ("2015-06-01T25:00", "a month, day or time of day is out of range"),
        ("2015-06-01T00:00:00.0000000001", "to the nanosecond at most"),
        (pd.Timestamp("2015-06-01", tz="UTC"), "without a time zone"),
        (np.datetime64("NaT"), "'NaT' is no date"),
        (pd.NaT, "'NaT' is no date"),
        (math.nan, "origin=nan must be a date, a finite number"),
        (True, "origin=True must be a date"),
        (np.timedelta64(1, "D"), "must be a date"),
        ([2000], "must be a date"),
        (cftime.datetime(2000, 1, 1, calendar=""), "must be a date"),
        (10**400, "must be a date, a finite number"),
    ],
    ids=lambda value: f"{value!s:.30}",
)
def test_an_origin_that_is_none_is_refused(origin: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        polynomial(1, origin=origin)  # type: ignore[arg-type]


def test_an_origin_must_exist_in_the_calendar() -> None:
    leap = polynomial(1, origin="2000-02-30")
    assert leap.evaluate(cf_dates("360_day", (2001, 1, 1))).matrix.shape == (1, 2)
    with pytest.raises(ValueError, match="'2000-02-30' is no date of the calendar 'proleptic_greg"):
        leap.evaluate(dates("2001-01-01"))


def test_a_number_is_no_origin_of_dates() -> None:
    with pytest.raises(ValueError, match=r"origin=2015 of .*'time', which holds datetime64 dates"):
        polynomial(1, origin=2015).evaluate(dates("2001-01-01"))


def test_a_date_is_no_origin_of_numbers() -> None:
    with pytest.raises(ValueError, match=r"origin='2015-06-01' of .* 'x', which holds numbers"):
        polynomial(1, origin="2015-06-01").evaluate(coordinate([1.0], "x"))


@pytest.mark.parametrize("term", [polynomial(1, unit="day"), harmonics(np.timedelta64(1, "D"))])
def test_a_unit_of_time_does_not_suit_numbers(term: Term) -> None:
    with pytest.raises(ValueError, match=r"unit='day' .* 'x', which holds numbers"):
        term.evaluate(coordinate([1.0], "x"))


@pytest.mark.parametrize("coord", [dates("NaT"), coordinate([math.nan], "x"), dates()])
@pytest.mark.parametrize("origin", ["first", "middle"])
def test_first_and_middle_need_a_valid_label(coord: xr.DataArray, origin: str) -> None:
    with pytest.raises(ValueError, match=f"origin='{origin}' needs a label"):
        polynomial(1, origin=origin).bind(coord)


def test_a_dim_without_coordinate_is_refused() -> None:
    cube = xr.DataArray(np.zeros((3, 2)), dims=("time", "x"))
    with pytest.raises(LabelError, match=r"'time' has no coordinate.*assign_coords\(time="):
        polynomial(1).evaluate(cube["time"])


def test_a_coordinate_of_two_dims_is_refused() -> None:
    coord = xr.DataArray(np.zeros((3, 2)), dims=("time", "x"), name="age")
    with pytest.raises(LabelError, match=r"'age' has the dims \('time', 'x'\)"):
        polynomial(1).evaluate(coord)


def test_only_a_dataarray_is_a_coordinate() -> None:
    with pytest.raises(TypeError, match="must be a DataArray, not ndarray"):
        polynomial(1).evaluate(np.arange(3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["2001-01-01", "2002-01-01"], r"holds <U10, .*pandas.to_datetime"),
        ([True, False], "holds bool"),
        ([1j, 2j], "holds complex128"),
        (np.array([1, 2], dtype="timedelta64[s]"), r"holds timedelta64\[s\].*numpy.timedelta64"),
        (np.array(["2001-01-01", 1], dtype=object), "holds objects of type str"),
        (np.array([1, 2], dtype=object), "holds objects of type int"),
        (np.array([None, math.nan], dtype=object), "holds no valid date"),
        (
            np.array([cftime.datetime(2001, 1, 1, calendar="")], dtype=object),
            r"calendars \[''\].*one of the calendars standard, ",
        ),
        (
            np.array([cftime.DatetimeNoLeap(2001, 1, 1), cftime.Datetime360Day(2001, 1, 1)]),
            r"calendars \['360_day', 'noleap'\]",
        ),
    ],
)
def test_labels_that_are_no_dates_or_numbers_are_refused(labels: object, found: str) -> None:
    coord = xr.DataArray(np.asarray(labels), dims="time", name="labels")
    with pytest.raises(LabelError, match=found):
        polynomial(1).evaluate(coord)


def test_equal_param_names_are_refused() -> None:
    twice = polynomial(1) + polynomial(2, unit="day")
    with pytest.raises(LabelError, match=r"'intercept', 'slope'.*Pass name= .*'second_intercept'"):
        twice.evaluate(dates("2001-01-01"))
    named = polynomial(1) + polynomial(2, unit="day", name="second")
    assert len(set(named.evaluate(dates("2001-01-01")).names)) == 5
