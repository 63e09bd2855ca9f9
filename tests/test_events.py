"""Terms of events: steps, ramps and decays against plain arithmetic of dates."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from fractions import Fraction

import cftime
import mpmath
import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xr_lstsq.design import Term, from_json, harmonics, parse, polynomial
from xr_lstsq.design.events import decay, ramp, step
from xr_lstsq.errors import LabelError

# What one step of a label is in each kind of coordinate: seconds, or a number.
STEPS = {
    "D": Fraction(86_400),
    **dict.fromkeys(("s", "ms", "us", "ns", "360_day", "noleap", "julian"), Fraction(3_601)),
    "int": Fraction(1),
    "float": Fraction(1, 8),
}
CALENDARS = {"360_day": 360, "noleap": 365, "julian": Fraction(1461, 4)}
NUMERIC = ("int", "float")
START = (2001, 2, 27)


def mark(kind: str, k: int) -> object:
    """Return the label k steps after the start."""
    if kind in NUMERIC:
        return float(k * STEPS[kind])
    delta = datetime.timedelta(seconds=int(k * STEPS[kind]))
    if kind in CALENDARS:
        return cftime.datetime(*START, calendar=kind) + delta
    return datetime.datetime(*START) + delta


def coordinate(kind: str, ks: Sequence[int | None]) -> xr.DataArray:
    """Return labels by their steps after the start; None is missing."""
    labels = [None if k is None else mark(kind, k) for k in ks]
    if kind in NUMERIC:
        dtype = float if kind == "float" or None in ks else int
        values = np.array([math.nan if x is None else x for x in labels], dtype=dtype)
    elif kind in CALENDARS:
        values = np.array(labels, dtype=object)
    else:
        texts = ["NaT" if x is None else x.isoformat() for x in labels]  # type: ignore[attr-defined]
        values = np.array(texts, dtype=f"datetime64[{kind}]")
    return xr.DataArray(np.zeros(len(ks)), {"time": values}, ("time",))["time"]


def per_unit(kind: str, unit: str = "year") -> Fraction:
    """Return steps of a unit of time; of numbers in the number 1."""
    if kind in NUMERIC:
        return 1 / STEPS[kind]
    days = {"day": 1, "year": CALENDARS.get(kind, Fraction(1461, 4))}[unit]
    return days * 86_400 / STEPS[kind]


def only(term: Term, coord: xr.DataArray) -> list[float]:
    """Return the one column of a term."""
    matrix = term.evaluate(coord).matrix
    assert isinstance(matrix, np.ndarray)
    assert matrix.dtype == np.float64
    assert matrix.shape == (coord.size, 1)
    return list(matrix[:, 0])


def same(got: Sequence[float], want: Sequence[float]) -> None:
    np.testing.assert_array_equal(np.array(got), np.array(want))


kinds = st.sampled_from(list(STEPS))
# Unsorted, with duplicates and missing labels, of one sample too; datetimes stay within 1 AD.
some_steps = st.lists(st.none() | st.integers(-9_999, 9_999), min_size=1, max_size=9).filter(
    lambda ks: any(k is not None for k in ks)
)
places = st.integers(-9_999, 9_999)


# --- columns ------------------------------------------------------------------------------------


@given(kinds, some_steps, places)
def test_a_step_is_1_from_its_date_on(kind: str, ks: list[int | None], at: int) -> None:
    for moved in (at, next(k for k in ks if k is not None)):
        got = only(step(mark(kind, moved)), coordinate(kind, ks))  # type: ignore[arg-type]
        same(got, [math.nan if k is None else float(k >= moved) for k in ks])


@given(kinds, some_steps, places, st.integers(1, 5_000))
def test_a_ramp_is_the_part_of_its_time_that_is_over(
    kind: str, ks: list[int | None], start: int, length: int
) -> None:
    term = ramp(mark(kind, start), mark(kind, start + length))  # type: ignore[arg-type]
    want = [
        math.nan if k is None else float(min(max(Fraction(k - start, length), 0), 1)) for k in ks
    ]
    same(only(term, coordinate(kind, ks)), want)


@given(
    kinds,
    some_steps,
    places,
    st.floats(1e-3, 1e4) | st.integers(1, 10_000),
    st.sampled_from(["exp", "log"]),
    st.sampled_from(["year", "day"]),
)
def test_a_decay_is_its_formula_to_the_last_digits(
    kind: str, ks: list[int | None], at: int, tau: float, curve: str, unit: str
) -> None:
    unit = "year" if kind in NUMERIC else unit
    term = decay(mark(kind, at), tau, curve, unit)  # type: ignore[arg-type]
    got = only(term, coordinate(kind, ks))
    for value, k in zip(got, ks, strict=True):
        if k is None:
            assert math.isnan(value)
            continue
        x = max(k - at, 0) / (Fraction(repr(tau)) * per_unit(kind, unit))
        with mpmath.workdps(60):
            exact = mpmath.mpf(x.numerator) / x.denominator
            want = float(1 - mpmath.exp(-exact) if curve == "exp" else mpmath.log(1 + exact))
        assert abs(value - want) <= 4e-16 * want


@pytest.mark.parametrize("kind", STEPS)
def test_several_tau_are_several_columns_in_their_order(kind: str) -> None:
    coord = coordinate(kind, [3, 0, 50, 2_000])
    both = decay(mark(kind, 1), [300, 0.5]).evaluate(coord)  # type: ignore[arg-type]
    for index, tau in enumerate([0.5, 300]):
        one = only(decay(mark(kind, 1), tau), coord)  # type: ignore[arg-type]
        same(both.matrix[:, index], one)  # type: ignore[arg-type]


def test_nothing_of_a_step_is_lost_at_a_nanosecond() -> None:
    labels = np.array(["2023-02-06T01:17:34.999999999", "2023-02-06T01:17:35"], "M8[ns]")
    coord = xr.DataArray([0, 0], {"time": labels}, ("time",))["time"]
    assert only(step("2023-02-06T01:17:35"), coord) == [0.0, 1.0]
    assert only(step(labels[0]), coord) == [1.0, 1.0]
    assert only(ramp(labels[0], labels[1]), coord) == [0.0, 1.0]


def test_large_numbers_keep_their_differences() -> None:
    values = np.array([2**62 - 1, 2**62, 2**62 + 1, 2**62 + 4])
    coord = xr.DataArray(values, {"x": values}, ("x",))["x"]
    assert only(step(2**62), coord) == [0, 1, 1, 1]
    assert only(ramp(2**62, 2**62 + 4), coord) == [0, 0, 0.25, 1]


def test_numbers_that_overflow_are_missing_or_at_the_end() -> None:
    values = np.array([-1e308, 1.0, 1e308])
    coord = xr.DataArray(values, {"x": values}, ("x",))["x"]
    assert only(ramp(0, 5e-324), coord) == [0, 1, 1]
    same(only(decay(0, 1e-300), coord), [0, 1, math.nan])


@pytest.mark.parametrize("kind", STEPS)
def test_rows_depend_on_their_own_label_only(kind: str) -> None:
    ks = list(range(-40, 60, 7))
    term = (
        step(mark(kind, 3))  # type: ignore[arg-type]
        + ramp(mark(kind, -5), mark(kind, 17))  # type: ignore[arg-type]
        + decay(mark(kind, 0), (2, 7.5), "log")  # type: ignore[arg-type]
    )
    whole = term.evaluate(coordinate(kind, ks)).matrix
    bound = term.bind(coordinate(kind, ks[:1]))
    same(bound.evaluate(coordinate(kind, ks[5:])).matrix, whole[5:])  # type: ignore[arg-type]
    same(bound.evaluate(coordinate(kind, ks[::-1])).matrix, whole[::-1])  # type: ignore[arg-type]
    assert bound.bind(coordinate(kind, ks)) == bound
    if kind not in CALENDARS:
        assert term.evaluate(coordinate(kind, [])).matrix.shape == (0, 4)


# --- names and units ----------------------------------------------------------------------------


def test_events_name_their_dates() -> None:
    coord = coordinate("ns", [0])
    columns = (
        step("2023-02-06")
        + ramp("2023-02-06T12:30", "2024")
        + decay("2023-02-06", np.timedelta64(30, "D"))
        + decay("2023-02-06", (0.5, 1e-7), "log", name="slow")
    ).evaluate(coord)
    assert columns.names == (
        "step_2023-02-06",
        "ramp_2023-02-06T123000",
        "exp_2023-02-06_30day",
        "slow_log_2023-02-06_1e-07year",
        "slow_log_2023-02-06_0.5year",
    )
    assert columns.long_names == (
        "offset at 2023-02-06",
        "change from 2023-02-06T12:30:00 to 2024-01-01",
        "exponential decay from 2023-02-06, tau 30 day",
        "logarithmic decay from 2023-02-06, tau 1e-07 year",
        "logarithmic decay from 2023-02-06, tau 0.5 year",
    )
    assert columns.units == columns.origins == ("",) * 5
    assert columns.levels == (False,) * 5


def test_events_along_numbers_are_named_without_units_that_a_name_cannot_hold() -> None:
    coord = coordinate("float", [0, 4]).assign_attrs(units='m "s"/+')
    columns = (step(12.5) + ramp(-1, 1e20) + decay(0, 3)).evaluate(coord)
    assert columns.names == ("step_12.5", "ramp_-1", "exp_0_3")
    assert columns.long_names == (
        'offset at 12.5 m "s"/+',
        'change from -1 to 1e+20 m "s"/+',
        'exponential decay from 0 m "s"/+, tau 3 m "s"/+',
    )
    assert step(1e20).evaluate(coord).names == ("step_1e20",)


@pytest.mark.parametrize(
    ("tau", "text"),
    [
        (np.timedelta64(30, "D"), "tau=30, unit=day"),
        (datetime.timedelta(hours=36), "tau=36, unit=hour"),
        (pd.Timedelta("1h 1ns"), "tau=3600.000000001, unit=second"),
        ([np.timedelta64(2, "W"), pd.Timedelta("300D")], 'tau="14, 300", unit=day'),
        ((datetime.timedelta(days=1), np.timedelta64(90, "m")), 'tau="90, 1440", unit=minute'),
        (pd.to_timedelta([1, 30], unit="D"), 'tau="1, 30", unit=day'),
        (np.array([30.0, 2.5]), 'tau="2.5, 30"'),
        ([7], "tau=7"),
        ("0.5,.25", 'tau="0.25, 0.5"'),
    ],
    ids=str,
)
def test_a_tau_comes_in_many_forms(tau: object, text: str) -> None:
    assert str(decay("2023-02-06", tau)) == f"decay(at=2023-02-06, {text})"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "date",
    [
        "2023-02-06",
        np.datetime64("2023-02-06T00", "ns"),
        pd.Timestamp("2023-02-06"),
        datetime.date(2023, 2, 6),
        cftime.datetime(2023, 2, 6, calendar="360_day"),
        xr.DataArray(np.datetime64("2023-02-06", "ns")),
    ],
    ids=lambda date: type(date).__name__,
)
def test_a_date_is_the_same_event_in_every_form(date: object) -> None:
    assert step(date) == step("2023-02-06")  # type: ignore[arg-type]
    assert ramp(date, "2024") == ramp("2023-02-06", "2024-01-01")  # type: ignore[arg-type]
    assert decay(date, 1) == decay("2023-02-06", 1)  # type: ignore[arg-type]


# --- text and JSON ------------------------------------------------------------------------------

names = st.none() | st.from_regex(r"[A-Za-z0-9_]+", fullmatch=True)
units = st.sampled_from(["year", "day", "hour", "minute", "second"])
iso_dates = st.datetimes(datetime.datetime(1, 1, 1)).map(datetime.datetime.isoformat)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
curves = st.sampled_from(["exp", "log"])
positive = st.integers(1) | st.floats(0, exclude_min=True, allow_infinity=False)
taus = st.lists(positive, min_size=1, max_size=3, unique=True)
pairs = st.lists(iso_dates, min_size=2, max_size=2, unique=True) | st.lists(
    numbers, min_size=2, max_size=2, unique=True
)
terms = (
    st.builds(step, iso_dates | numbers, names)
    | st.builds(lambda pair, name: ramp(*sorted(pair), name), pairs, names)
    | st.builds(decay, iso_dates | numbers, taus, curves, units, names)
)
UNITS_OF_NUMBERS = ["", "m", "year", 'm "s"', "days since 2000-01-01"]
bound_terms = st.builds(
    lambda term, kind, units: term.bind(coordinate(kind, [0]).assign_attrs(units=units)),
    st.builds(step, iso_dates, names) | st.builds(decay, iso_dates, taus, curves, units, names),
    st.sampled_from(["s", "ns", "julian"]),
    st.just("ignored"),
) | st.builds(
    lambda term, units: term.bind(coordinate("float", [0]).assign_attrs(units=units)),
    st.builds(step, numbers, names)
    | st.builds(decay, numbers, taus, curves, st.just("year"), names),
    st.sampled_from(UNITS_OF_NUMBERS),
)


@given(terms | bound_terms)
def test_every_event_is_read_back_equal_from_text_and_json(term: Term) -> None:
    for again in (
        parse(str(term)),
        parse(str(term + polynomial(1))).terms[0],
        from_json(json.loads(json.dumps(term.to_json(), allow_nan=False))),
    ):
        assert again == term
        assert hash(again) == hash(term)
        assert repr(again) == str(term)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("step(2023-02-06)", step("2023-02-06")),
        ("step(12.5, name=x)", step(12.5, name="x")),
        ("ramp(2023-02-06, 2024-01-01)", ramp("2023-02-06", "2024-01-01")),
        ("ramp(start=1, end=2)", ramp(1, 2)),
        ("decay(2023-02-06, 30, unit=day)", decay("2023-02-06", 30, unit="day")),
        ("decay(2023-02-06, '30, 300', log, day)", decay("2023-02-06", [300, 30], "log", "day")),
        ("decay(2023-02-06, 1, kind=log)", decay("2023-02-06", 1, kind="log")),
        ("decay(2023-02-06, 1, curve=log)", decay("2023-02-06", 1, kind="log")),
    ],
)
def test_events_are_read_from_text(text: str, term: Term) -> None:
    assert parse(text) == term


def test_the_json_of_an_event_has_a_unit_only_where_it_has_one() -> None:
    dated = step("2023-02-06").bind(coordinate("ns", [0])).to_json()
    assert dated == {
        "term": "step",
        "at": "2023-02-06",
        "kind": "datetime64",
        "calendar": "proleptic_gregorian",
    }
    counted = step(2).bind(coordinate("int", [0]).assign_attrs(units="m"))
    assert counted.to_json() == {"term": "step", "at": 2, "unit": "m", "kind": "numeric"}
    with pytest.raises(ValueError, match="bound to numbers in 'm', and 'time' is in 'km'"):
        counted.evaluate(coordinate("int", [0]).assign_attrs(units="km"))


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STEPS)
def test_dates_suit_dates_and_numbers_suit_numbers(kind: str) -> None:
    coord = coordinate(kind, [0, 1])
    wrong = "2010-01-01" if kind in NUMERIC else 2010
    needed = "Pass a number" if kind in NUMERIC else "Pass a date: at=2015-06-01"
    for term in (step(wrong), decay(wrong, 1)):
        with pytest.raises(ValueError, match=f"at=.*2010.* does not suit 'time'.*{needed}"):
            term.bind(coord)
    with pytest.raises(ValueError, match=r"start=.* of 'ramp' does not suit 'time', which holds"):
        ramp(wrong, "2011" if kind in NUMERIC else 2011).evaluate(coord)


def test_a_date_must_exist_in_the_calendar() -> None:
    for term in (step("2000-02-30"), ramp("2000-02-01", "2000-02-30"), decay("2000-02-30", 1)):
        assert term.evaluate(coordinate("360_day", [0])).matrix.shape == (1, 1)
        with pytest.raises(ValueError, match="'2000-02-30' is no date of the calendar 'noleap'"):
            term.bind(coordinate("noleap", [0]))


@pytest.mark.parametrize("at", ["first", "middle", None, math.nan, True, [1], {}, 10**400, ""])
def test_an_event_needs_a_date_or_a_number(at: object) -> None:
    for make in (step, lambda x: ramp(x, 2), lambda x: ramp(-1, x), lambda x: decay(x, 1)):
        with pytest.raises(ValueError, match=r"(at|start|end)(=|: )"):
            make(at)  # type: ignore[arg-type]


def test_what_is_wrong_with_a_date_is_said() -> None:
    with pytest.raises(ValueError, match=r"at: '2015-06-01Z' is no date. Write it as 2015-06-01"):
        step("2015-06-01Z")


@pytest.mark.parametrize(
    ("start", "end"), [(2, 2), (2, 1.5), ("2011", "2010"), ("2010", "2010-01-01T00:00")]
)
def test_a_ramp_ends_after_its_start(start: str, end: str) -> None:
    with pytest.raises(ValueError, match=r"end=.* must come after start="):
        ramp(start, end)


def test_dates_are_compared_as_dates_and_not_as_texts() -> None:
    assert ramp("-0044-03-15", "10000-01-01") == ramp("-0044-03-15", "10000-01")
    assert ramp("9999-12-31T12:00:00", "9999-12-31T12:00:00.5").end.endswith(".5")  # type: ignore[union-attr]


def test_a_ramp_has_dates_or_numbers() -> None:
    with pytest.raises(ValueError, match="'ramp' has dates and numbers"):
        ramp(1, "2010")


@pytest.mark.parametrize(
    "tau", [0, -1, math.nan, math.inf, "a", "1, b", "2010-01-01", None, True, [1, 0], [[1]], {}]
)
def test_a_tau_that_is_no_length_is_refused(tau: object) -> None:
    with pytest.raises(ValueError, match=r"tau=.* must be numbers above 0, counted in unit"):
        decay(0, tau)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tau", "unit", "message"),
    [
        ([], "year", "tau=.* is empty"),
        ([1, 1.0], "year", "tau=.* has a value twice"),
        (np.timedelta64(1, "Y"), "year", "tau=.* has no fixed length"),
        ([np.timedelta64("NaT")], "year", "tau=.* has no fixed length"),
        (np.timedelta64(1, "D"), "day", "Pass timedeltas alone"),
        ([np.timedelta64(1, "D"), 2], "year", "Pass timedeltas alone"),
        (1, "month", "unknown unit 'month'"),
    ],
)
def test_a_tau_that_does_not_act_is_refused(tau: object, unit: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decay(0, tau, unit=unit)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["lin", "", None, ["exp"]])
def test_a_decay_has_one_of_two_curves(kind: object) -> None:
    with pytest.raises(ValueError, match="of 'decay' must be 'exp' or 'log'"):
        decay(0, 1, kind)  # type: ignore[arg-type]


def test_numbers_have_no_unit_of_time() -> None:
    with pytest.raises(ValueError, match=r"unit='day' of decay.* which holds numbers"):
        decay(0, np.timedelta64(3, "D")).bind(coordinate("int", [0]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"term": "step"}, "'step' needs its argument 'at'"),
        ({"term": "step", "at": 1, "origin": 0}, "unknown argument 'origin'"),
        ({"term": "step", "at": 1, "unit": "day"}, "unit='day' has no use for 'step'"),
        ({"term": "step", "at": 1, "name": "a b"}, "must be letters, digits and underscores"),
        ({"term": "step", "at": 1, "kind": "lunar"}, "does not suit kind='lunar'"),
        ({"term": "step", "at": "2010", "kind": "lunar"}, "unknown kind 'lunar'"),
        (
            {"term": "step", "at": "2010", "kind": "numeric"},
            "at='2010-01-01' of 'step' does not suit kind='numeric'",
        ),
        (
            {"term": "step", "at": "2001-02-29", "kind": "cftime", "calendar": "noleap"},
            "'2001-02-29' is no date of the calendar 'noleap'",
        ),
        (
            {
                "term": "ramp",
                "start": "2001-01-01",
                "end": "2001-02-29",
                "kind": "cftime",
                "calendar": "noleap",
            },
            "'2001-02-29' is no date of the calendar 'noleap'",
        ),
        ({"term": "decay", "at": 1, "tau": {}}, "tau={} must be numbers above 0"),
        ({"term": "decay", "at": 1, "tau": 1, "kind": "lin"}, "does not suit kind='lin'"),
    ],
)
def test_json_that_is_no_event_is_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(data)


def test_events_need_labels() -> None:
    cube = xr.DataArray(np.zeros((3, 2)), dims=("time", "x"))
    with pytest.raises(LabelError, match="'time' has no coordinate"):
        step(1).bind(cube["time"])


def test_two_equal_events_need_names() -> None:
    twice = step("2010") + step("2010")
    with pytest.raises(LabelError, match=r"'step_2010-01-01'.*Pass name="):
        twice.evaluate(coordinate("ns", [0]))
    named = step("2010") + step("2010", name="b")
    assert named.evaluate(coordinate("ns", [0])).names == ("step_2010-01-01", "b_step_2010-01-01")


# --- fits ---------------------------------------------------------------------------------------


def noisy_cube(years: np.ndarray, time: np.ndarray, seed: int) -> xr.DataArray:
    """Return noise and gaps on a trend with a step, for three pixels."""
    rng = np.random.default_rng(seed)
    values = 3.0 + 0.7 * years[:, None] + 5.0 * (years[:, None] >= 3.0) + rng.normal(size=(3,))
    values += rng.normal(scale=0.3, size=values.shape)
    values[rng.random(values.shape) < 0.25] = np.nan
    return xr.DataArray(values, {"time": time}, ("time", "x"), attrs={"units": "mm"})


@pytest.mark.parametrize("calendar", ["360_day", "noleap", "datetime64"])
def test_a_fit_of_events_is_that_of_rows_dropped_one_by_one(calendar: str) -> None:
    if calendar == "datetime64":
        time = np.arange("2000-01-01", "2008-01-01", 12, dtype="datetime64[D]").astype("M8[ns]")
        start = np.datetime64("2000-01-01", "ns")
        days = np.array([(t - start) / np.timedelta64(1, "D") for t in time])
        year = 365.25
    else:
        time = np.array(
            [
                cftime.datetime(2000, 1, 1, calendar=calendar) + datetime.timedelta(days=12 * i)
                for i in range(240)
            ]
        )
        days, year = 12.0 * np.arange(240), float(CALENDARS[calendar])
    dates = {"a": (2003, 1, 1), "b": (2004, 7, 1)}
    if calendar == "datetime64":
        origin = datetime.date(2000, 1, 1)
        at = {key: (datetime.date(*date) - origin).days for key, date in dates.items()}
    else:
        zero = cftime.datetime(2000, 1, 1, calendar=calendar)
        at = {
            key: (cftime.datetime(*date, calendar=calendar) - zero).days
            for key, date in dates.items()
        }
    cube = noisy_cube(days / year, time, 3)
    since = np.maximum(days - at["a"], 0.0)
    plain = np.column_stack(
        [
            np.ones(days.size),
            days / year,
            days >= at["a"],
            np.clip((days - at["a"]) / (at["b"] - at["a"]), 0, 1),
            np.log(1 + since / 200),
        ]
    )
    design = (
        polynomial(1)
        + step("2003-01-01")
        + ramp("2003-01-01", "2004-07-01")
        + decay("2003-01-01", 200, kind="log", unit="day")
    )
    fit = cube.lstsq.solve(design, dim="time", device="cpu")
    assert fit["param"].values.tolist() == [
        *("intercept", "slope", "step_2003-01-01"),
        *("ramp_2003-01-01", "log_2003-01-01_200day"),
    ]
    assert fit["param_units"].values.tolist() == ["mm", "mm year-1", "mm", "mm", "mm"]
    for x in range(3):
        there = np.isfinite(cube.values[:, x])
        want = np.linalg.lstsq(plain[there], cube.values[there, x], rcond=None)[0]
        np.testing.assert_allclose(fit["coef"].values[:, x], want, rtol=1e-9, atol=1e-9)


def test_a_decay_agrees_with_a_nonlinear_fit_at_the_tau_that_it_finds() -> None:
    days = np.arange(0.0, 1_200.0, 6.0)
    time = np.datetime64("2022-01-01", "ns") + days.astype("timedelta64[D]")
    since = np.maximum(days - 401.0, 0.0)
    rng = np.random.default_rng(8)
    values = 20.0 + 8.0 * (1 - np.exp(-since / 45.0)) + rng.normal(scale=0.2, size=days.size)

    def residual(x: np.ndarray) -> np.ndarray:
        return x[0] + x[1] * (1 - np.exp(-since / x[2])) - values

    found = scipy.optimize.least_squares(residual, [15.0, 5.0, 30.0], xtol=1e-14, ftol=1e-14)
    cube = xr.DataArray(values, {"time": time}, ("time",))
    tau = float(found.x[2])
    assert 35.0 < tau < 55.0
    fit = cube.lstsq.solve(
        polynomial(0) + decay("2023-02-06", tau, unit="day"), dim="time", device="cpu"
    )
    np.testing.assert_allclose(fit["coef"], found.x[:2], rtol=1e-6)
    away = cube.lstsq.solve(
        polynomial(0) + decay("2023-02-06", 2 * tau, unit="day"), dim="time", device="cpu"
    )
    assert abs(away["coef"][1] - found.x[1]) > 0.1


def test_a_step_is_predicted_from_the_stored_fit() -> None:
    time = np.arange("2015-01-01", "2019-01-01", 10, dtype="datetime64[D]").astype("M8[ns]")
    rng = np.random.default_rng(1)
    values = np.where(time >= np.datetime64("2017-03-05"), 7.0, 2.0) + rng.normal(
        scale=0.1, size=time.size
    )
    cube = xr.DataArray(values, {"time": time}, ("time",))
    fit = cube.lstsq.solve(
        polynomial(0) + harmonics(1) + step("2017-03-05"), dim="time", device="cpu"
    )
    jump = fit.lstsq.predict(["2017-03-04T23:59:59", "2017-03-05"])
    np.testing.assert_allclose(jump.diff("time"), fit["coef"][-1:], atol=1e-5)
