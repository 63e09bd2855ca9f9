"""Constants, rates that change, and splines, against plain recursion on exact fractions."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import assume, given
from hypothesis import strategies as st

from xr_lstsq.design import Term, from_json, parse, polynomial
from xr_lstsq.design.pieces import constant, piecewise
from xr_lstsq.design.splines import spline
from xr_lstsq.errors import LabelError

DAYS_OF_YEAR = {"360_day": Fraction(360), "noleap": Fraction(365)}
KINDS = ("D", "s", "ms", "us", "ns", *DAYS_OF_YEAR, "int", "float")
NUMERIC = ("int", "float")


def label(kind: str, k: int) -> object:
    """Return the date k days after 2001-02-27, or a number."""
    if kind in NUMERIC:
        return k / 8 if kind == "float" else k
    delta = datetime.timedelta(days=k)
    if kind in DAYS_OF_YEAR:
        return cftime.datetime(2001, 2, 27, calendar=kind) + delta
    return datetime.datetime(2001, 2, 27) + delta


def coordinate(kind: str, ks: Sequence[int | None]) -> xr.DataArray:
    """Return labels by their days after 2001-02-27, or eighths; None is missing."""
    labels = [None if k is None else label(kind, k) for k in ks]
    if kind in NUMERIC:
        dtype = float if kind == "float" or None in ks else int
        values = np.array([math.nan if x is None else x for x in labels], dtype=dtype)
    elif kind in DAYS_OF_YEAR:
        values = np.array(labels, dtype=object)
    else:
        texts = ["NaT" if x is None else x.isoformat() for x in labels]  # type: ignore[attr-defined]
        values = np.array(texts, dtype=f"datetime64[{kind}]")
    return xr.DataArray(np.zeros(len(ks)), {"time": values}, ("time",))["time"]


def matrix(term: Term, coord: xr.DataArray) -> np.ndarray:
    found = term.evaluate(coord).matrix
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    return found


def b_splines(at: Fraction, knots: list[Fraction], degree: int) -> list[Fraction]:
    """Return all B-splines at a point by their recursion; the last piece holds its end."""
    last = knots[-1]
    basis = [Fraction(a <= at < b or (at == last and a < b == last)) for a, b in pairwise(knots)]
    for k in range(1, degree + 1):
        # A function on no interval counts 0.
        basis = [
            (left * (at - knots[i]) / (knots[i + k] - knots[i]) if left else Fraction(0))
            + (
                right * (knots[i + k + 1] - at) / (knots[i + k + 1] - knots[i + 1])
                if right
                else Fraction(0)
            )
            for i, (left, right) in enumerate(pairwise(basis))
        ]
    return basis


def all_but_first(
    ks: Sequence[int | None], inner: Sequence[Fraction], degree: int, ends: tuple[int, int]
) -> np.ndarray:
    """Return the columns of a spline, NaN where a label is missing or outside of the ends."""
    low, high = map(Fraction, ends)
    knots = [low] * (degree + 1) + list(inner) + [high] * (degree + 1)
    rows = [
        [math.nan] * (len(inner) + degree)
        if k is None or not low <= k <= high
        else [float(value) for value in b_splines(Fraction(k), knots, degree)[1:]]
        for k in ks
    ]
    return np.array(rows).reshape(len(ks), -1)


kinds = st.sampled_from(KINDS)
steps = st.integers(-9_999, 9_999)
some_steps = st.lists(st.none() | steps, min_size=1, max_size=9).filter(
    lambda ks: any(k is not None for k in ks)
)
# Labels that differ, with duplicates and missing ones, in any order.
spread_steps = some_steps.filter(lambda ks: len({*ks} - {None}) > 1)


# --- constant -----------------------------------------------------------------------------------


@given(kinds, some_steps)
def test_a_constant_is_one_for_each_label_that_is_there(kind: str, ks: list[int | None]) -> None:
    found = matrix(constant(), coordinate(kind, ks))
    np.testing.assert_array_equal(found, [[math.nan if k is None else 1.0] for k in ks])
    # As the polynomial that says the same
    np.testing.assert_array_equal(found, matrix(polynomial(0), coordinate(kind, ks)))


def test_an_infinite_number_is_missing() -> None:
    coord = xr.DataArray([0, 0, 0], {"x": [1.0, math.inf, math.nan]}, ("x",))["x"]
    np.testing.assert_array_equal(matrix(constant(), coord), [[1.0], [math.nan], [math.nan]])


@pytest.mark.parametrize(
    "labels", [["a", "b"], [True, False], pd.MultiIndex.from_tuples([(1, "a"), (2, "b")])]
)
def test_a_constant_needs_no_labels_that_terms_can_read(labels: object) -> None:
    if isinstance(labels, pd.MultiIndex):
        coords = xr.Coordinates.from_pandas_multiindex(labels, "acq")
    else:
        coords = xr.Coordinates({"acq": labels})
    cube = xr.DataArray(np.zeros(2), coords, dims=("acq",))
    np.testing.assert_array_equal(matrix(constant(), cube["acq"]), [[1.0], [1.0]])


def test_a_constant_needs_no_coordinate() -> None:
    cube = xr.DataArray(np.arange(6.0).reshape(3, 2) ** 2, dims=("acq", "x"))
    np.testing.assert_array_equal(matrix(constant(), cube["acq"]), np.ones((3, 1)))
    fit = cube.lstsq.solve(constant(), dim="acq", device="cpu")
    np.testing.assert_allclose(fit["coef"][0], cube.mean("acq"), rtol=1e-14)


def test_a_constant_is_a_level_without_units_and_origin() -> None:
    columns = constant().evaluate(coordinate("ns", [0]))
    assert (columns.names, columns.units) == (("intercept",), ("",))
    assert (columns.long_names, columns.levels, columns.origins) == (("value",), (True,), ("",))
    assert constant("mean").evaluate(coordinate("ns", [0])).names == ("mean_intercept",)
    assert constant().bind(coordinate("ns", [0])) == constant()


@pytest.mark.parametrize("name", ["", "a b", 3, "é"])
def test_the_name_of_a_constant_is_checked(name: object) -> None:
    with pytest.raises(ValueError, match=r"name=.* must be letters, digits and underscores"):
        constant(name)  # type: ignore[arg-type]


# --- piecewise ----------------------------------------------------------------------------------


@given(
    kinds,
    some_steps,
    st.lists(steps, min_size=1, max_size=4, unique=True),
    st.sampled_from(["year", "day", "hour"]),
)
def test_a_piece_is_the_exact_time_since_its_knot(
    kind: str, ks: list[int | None], knots: list[int], unit: str
) -> None:
    unit = "year" if kind in NUMERIC else unit
    days = {"year": DAYS_OF_YEAR.get(kind, Fraction(1461, 4)), "day": 1, "hour": Fraction(1, 24)}
    length = {"int": Fraction(1), "float": Fraction(8)}.get(kind, Fraction(days[unit]))
    term = piecewise([label(kind, k) for k in knots], unit)  # type: ignore[misc]
    want = [
        [math.nan if k is None else float(max(k - knot, 0) / length) for knot in sorted(knots)]
        for k in ks
    ]
    np.testing.assert_array_equal(matrix(term, coordinate(kind, ks)), want)


def test_dates_in_several_calendars_are_counted_in_each() -> None:
    knot = "2000-02-28"
    for kind, days in {"360_day": 3, "noleap": 1, "ns": 2}.items():
        coord = coordinate("ns", [0])
        if kind != "ns":
            coord = coord.copy(data=np.array([cftime.datetime(2000, 3, 1, calendar=kind)]))
        else:
            coord = coord.copy(data=np.array(["2000-03-01"], "M8[ns]"))
        coord = coord.assign_coords(time=coord)
        assert matrix(piecewise(knot, unit="day"), coord).tolist() == [[days]]


def test_pieces_name_their_knots_and_units() -> None:
    columns = piecewise(["2015-06-01T06:00", "2011"], unit="day", name="v").evaluate(
        coordinate("ns", [0])
    )
    assert columns.names == ("v_rate_change_2011-01-01", "v_rate_change_2015-06-01T060000")
    assert columns.units == ("day-1", "day-1")
    assert columns.long_names[1] == "change of rate at 2015-06-01T06:00:00"
    assert (columns.levels, columns.origins) == ((False, False), ("", ""))
    along = piecewise([2.5, -1]).evaluate(coordinate("float", [0]).assign_attrs(units="m s-1"))
    assert along.names == ("rate_change_-1", "rate_change_2.5")
    assert along.units == ("m-1 s",) * 2
    assert along.long_names[0] == "change of rate at -1 m s-1"


@pytest.mark.parametrize(
    "knots",
    [
        ["2011-01-01", "2015-06-01"],
        ("2015-06", "2011"),
        "2011-01-01,2015-06-01",
        np.array(["2015-06-01", "2011-01-01"], "datetime64[ns]"),
        pd.DatetimeIndex(["2011-01-01", "2015-06-01"]),
        xr.DataArray(pd.DatetimeIndex(["2011-01-01", "2015-06-01"]), dims="k"),
        [datetime.date(2011, 1, 1), cftime.datetime(2015, 6, 1, calendar="360_day")],
    ],
    ids=lambda knots: type(knots).__name__,
)
def test_knots_come_in_many_forms(knots: object) -> None:
    text = 'knots="2011-01-01, 2015-06-01"'
    assert str(piecewise(knots)) == f"piecewise({text})"  # type: ignore[arg-type]
    assert str(spline(knots, degree=2)) == f"spline({text}, degree=2)"  # type: ignore[arg-type]


def test_one_knot_stands_as_it_is() -> None:
    assert str(piecewise(["2011"])) == str(piecewise("2011")) == "piecewise(knots=2011-01-01)"
    assert str(piecewise(np.float32(2.5))) == "piecewise(2.5)"
    assert piecewise("2011") != piecewise(2011)


@pytest.mark.parametrize(
    ("knots", "message"),
    [
        ([], r"knots=\[\] is empty"),
        ([1, 1.0], "has a value twice"),
        (["2011", "2011-01"], "has a value twice"),
        ([1, "2011"], "'(piecewise|spline)' has dates and numbers"),
        ("first", "knots='first' must be a date"),
        ("2011-01-01, middle", "knots='middle' must be a date"),
        ("2011-01-01,", "knots: '' is no date"),
        ("1, 1e999", "knots=inf must be a date"),
        ([math.nan], "knots=nan must be a date"),
        ([[1, 2]], "must be a date"),
        ({}, "must be a date"),
        (True, "must be a date"),
    ],
)
def test_knots_that_are_none_are_refused(knots: object, message: str) -> None:
    for make in (piecewise, spline):
        with pytest.raises(ValueError, match=message):
            make(knots)  # type: ignore[operator]


@pytest.mark.parametrize("kind", KINDS)
def test_knots_suit_the_kind_of_labels(kind: str) -> None:
    wrong = ["2010-01-01"] if kind in NUMERIC else [2010, 2011]
    needed = "a number" if kind in NUMERIC else "a date: knots=2015-06-01"
    for term in (piecewise(wrong), spline(wrong)):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"knots=.* does not suit 'time'.*Pass {needed}"):
            term.bind(coordinate(kind, [0, 9_999]))


def test_knots_must_exist_in_the_calendar() -> None:
    for term in (piecewise(["2002-02-01", "2002-02-30"]), spline(["2002-02-01", "2002-02-30"])):
        assert matrix(term, coordinate("360_day", [0, 500])).shape[0] == 2
        with pytest.raises(ValueError, match="'2002-02-30' is no date of the calendar 'noleap'"):
            term.bind(coordinate("noleap", [0, 500]))


def test_numbers_have_no_unit_of_time() -> None:
    with pytest.raises(ValueError, match=r"unit='day' of piecewise.* which holds numbers"):
        piecewise(1, unit="day").bind(coordinate("int", [0]))
    with pytest.raises(ValueError, match="unknown unit 'month'"):
        piecewise(1, unit="month")


# --- spline -------------------------------------------------------------------------------------


@given(kinds, spread_steps, st.integers(1, 4), st.sets(steps, max_size=4))
def test_a_spline_is_its_recursion(
    kind: str, ks: list[int | None], degree: int, knots: set[int]
) -> None:
    there = [k for k in ks if k is not None]
    low, high = min(there), max(there)
    inner = sorted(k for k in knots if low < k < high)
    term = (
        spline([label(kind, k) for k in inner], degree=degree)  # type: ignore[misc]
        if inner
        else spline(df=degree, degree=degree)
    )
    want = all_but_first(ks, list(map(Fraction, inner)), degree, (low, high))
    coord = coordinate(kind, ks)
    np.testing.assert_allclose(matrix(term, coord), want, rtol=1e-11, atol=1e-14)
    # Bound to these labels, it is NaN beyond them and the same between them.
    others = [low - 1, low, (low + high) // 2, high, high + 1, None]
    want = all_but_first(others, list(map(Fraction, inner)), degree, (low, high))
    got = matrix(term.bind(coord), coordinate(kind, others))
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-14)


@given(
    st.sampled_from(["D", "ns", "360_day", "int", "float"]),
    spread_steps,
    st.integers(1, 4),
    st.integers(0, 4),
)
def test_df_sets_knots_at_quantiles(
    kind: str, ks: list[int | None], degree: int, count: int
) -> None:
    there = [k for k in ks if k is not None]
    inner = np.quantile(there, np.arange(1, count + 1) / (count + 1))
    every = [min(there), *inner, max(there)]
    # Knots a nanosecond apart by rounding, or equal, are no matter of this test.
    assume(not count or np.diff(every).min() > 1e-6)
    want = all_but_first(ks, [Fraction(float(x)) for x in inner], degree, (min(there), max(there)))
    got = matrix(spline(df=degree + count, degree=degree), coordinate(kind, ks))
    assert got.shape == (len(ks), degree + count)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_spline_keeps_its_boundaries_and_knots(kind: str) -> None:
    coord = coordinate(kind, [8, None, 0, 160, 80, 40, 40])
    term = spline(df=5)
    bound = term.bind(coord)
    data = bound.to_json()
    assert "df" not in data
    assert "unit" in data or kind not in NUMERIC
    want = {"int": (0, 160), "float": (0, 20)}.get(kind, ("2001-02-27", None))
    assert data["first"] == want[0]
    assert want[1] in (None, data["last"])
    assert parse(str(bound)) == from_json(json.loads(json.dumps(data))) == bound
    assert bound.bind(coordinate(kind, [3])) == bound
    np.testing.assert_array_equal(matrix(bound, coord), matrix(term, coord))
    np.testing.assert_array_equal(matrix(bound, coord[4:5]), matrix(term, coord)[4:5])


def test_dates_keep_their_digits_far_from_any_origin() -> None:
    start = np.datetime64("2200-01-01T00:00:00", "ns")
    coord = coordinate("ns", [0] * 101)
    time = start + np.arange(101)
    coord = xr.DataArray(np.zeros(101), {"time": time}, ("time",))["time"]
    want = all_but_first(range(101), [Fraction(25), Fraction(50)], 3, (0, 100))
    knots = [str(start + 25), str(start + 50)]
    np.testing.assert_allclose(matrix(spline(knots), coord), want, rtol=1e-12, atol=1e-15)


def test_the_functions_of_a_spline_and_a_constant_make_all_splines() -> None:
    coord = coordinate("D", list(range(0, 900, 13)))
    columns = (constant() + spline(df=7, degree=3)).evaluate(coord)
    found = columns.matrix
    assert isinstance(found, np.ndarray)
    assert np.linalg.matrix_rank(found) == 8
    # So a cubic is one of them, whatever the knots.
    t = np.arange(0, 900, 13) / 900
    cubic = 1 - 4 * t + 3 * t**2 + 5 * t**3
    coef, *_ = np.linalg.lstsq(found, cubic, rcond=None)
    np.testing.assert_allclose(found @ coef, cubic, atol=1e-12)
    assert columns.names == ("intercept", *(f"spline_{k}" for k in range(1, 8)))
    assert columns.units == ("",) * 8
    assert columns.levels == (True,) + (False,) * 7
    assert columns.long_names[1] == "coefficient of B-spline 1 of degree 3"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "'spline' needs one of knots and df, and has knots=None and df=None"),
        ({"knots": 1, "df": 4}, "'spline' needs one of knots and df, and has knots=1 and df=4"),
        ({"df": 2}, "df=2 must be a whole number, 3 or more"),
        ({"df": 3.0}, "df=3.0 must be a whole number, 3 or more"),
        ({"df": 4, "degree": 0}, "degree=0 must be a whole number, 1 or more"),
        ({"df": 4, "degree": "2"}, "degree='2' must be a whole number, 1 or more"),
        ({"df": 4, "name": "a-b"}, "must be letters, digits and underscores"),
    ],
)
def test_a_spline_needs_arguments_that_go_together(
    arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        spline(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        from_json({"term": "spline"} | arguments)


@pytest.mark.parametrize("knots", [0, 100, -5, 200, [50, 100], [-1, 50, 101]])
def test_knots_of_a_spline_lie_between_its_labels(knots: object) -> None:
    with pytest.raises(ValueError, match=r"between the first and the last label, 0 and 100"):
        spline(knots).bind(coordinate("int", [0, 30, 100]))  # type: ignore[arg-type]


@pytest.mark.parametrize(("ks", "count"), [([5], 1), ([5, 5, None], 1), ([None, None], 0), ([], 0)])
def test_a_spline_needs_two_labels(ks: list[int | None], count: int) -> None:
    for term in (spline(df=3), spline(5)):
        with pytest.raises(ValueError, match=f"needs two labels that differ, .* has {count}"):
            term.bind(coordinate("float", ks))


def test_a_spline_with_more_knots_than_labels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"df=6 of 'spline' needs 3 knots .*'time' has too few"):
        spline(df=6).bind(coordinate("D", [0, 0, 0, 0, 0, 9]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": None}, "needs first beside kind.*it has none"),
        ({"last": None}, "needs last beside kind.*it has none"),
        ({"kind": None}, "needs first beside kind.*it has 0"),
        ({"df": 4}, "df=4 has no use for a bound 'spline'"),
        ({"last": 0}, "last=0 of 'spline' must lie beyond 2"),
        ({"knots": [30, 2]}, "last=20 of 'spline' must lie beyond 30"),
        ({"first": "2010"}, "'spline' has dates and numbers"),
        ({"origin": 3}, "unknown argument 'origin'"),
    ],
)
def test_json_that_is_no_bound_spline_is_refused(change: dict[str, object], message: str) -> None:
    data = spline(2).bind(coordinate("int", [0, 20])).to_json()
    assert from_json(data) == spline(2).bind(coordinate("int", [0, 20]))
    with pytest.raises(ValueError, match=message):
        from_json(data | change)


def test_terms_with_knots_need_labels() -> None:
    cube = xr.DataArray(np.zeros((3, 2)), dims=("time", "x"))
    for term in (piecewise(1), spline(1)):
        with pytest.raises(LabelError, match="'time' has no coordinate"):
            term.bind(cube["time"])


# --- text and JSON ------------------------------------------------------------------------------

names = st.none() | st.from_regex(r"[A-Za-z0-9_]+", fullmatch=True)
units = st.sampled_from(["year", "day", "hour", "minute", "second"])
iso_dates = st.datetimes(datetime.datetime(1, 1, 1)).map(datetime.datetime.isoformat)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
some_knots = st.lists(iso_dates, min_size=1, max_size=4, unique=True) | st.lists(
    numbers, min_size=1, max_size=4, unique=True
)
terms = (
    st.builds(constant, names)
    | st.builds(piecewise, some_knots, units, names)
    | st.builds(spline, some_knots, st.none(), st.integers(1, 5), names)
    | st.builds(spline, st.none(), st.integers(5, 20), st.integers(1, 5), names)
)
bound_terms = st.builds(
    lambda term, kind, ks, units: term.bind(coordinate(kind, ks).assign_attrs(units=units)),
    st.builds(spline, st.none(), st.integers(3, 4), st.integers(2, 3), names),
    kinds,
    st.lists(steps, min_size=4, max_size=9, unique=True),
    st.sampled_from(["", "m", "year", 'm "s"', "days since 2000-01-01"]),
)


@given(terms | bound_terms)
def test_every_term_is_read_back_equal_from_text_and_json(term: Term) -> None:
    for again in (
        parse(str(term)),
        parse(str(polynomial(1) + term)).terms[1],
        from_json(json.loads(json.dumps(term.to_json(), allow_nan=False))),
    ):
        assert again == term
        assert hash(again) == hash(term)
        assert repr(again) == str(term)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("constant()", constant()),
        ("constant(name=x)", constant("x")),
        ("piecewise(2015-06-01)", piecewise("2015-06-01")),
        ("piecewise('2015-06-01, 2011-01', unit=day)", piecewise(["2011", "2015-06"], "day")),
        ("piecewise(2.5)", piecewise(2.5)),
        ("piecewise('3, 2.5')", piecewise([2.5, 3])),
        ("spline(df=6)", spline(df=6)),
        ("spline('1, 2', degree=2)", spline([1, 2], degree=2)),
        ("spline(2015-06-01, name=s)", spline("2015-06-01", name="s")),
    ],
)
def test_terms_are_read_from_text(text: str, term: Term) -> None:
    assert parse(text) == term


def test_digits_alone_are_a_number_in_a_text() -> None:
    with pytest.raises(ValueError, match="has dates and numbers"):
        parse("piecewise('2015-06-01, 2011')")


# --- fits ---------------------------------------------------------------------------------------


def noisy_cube(seed: int) -> tuple[xr.DataArray, np.ndarray]:
    """Return three pixels of noise on a bend, with gaps, and the days of their samples."""
    rng = np.random.default_rng(seed)
    days = np.sort(rng.choice(4_000, 150, replace=False)).astype(float)
    time = np.datetime64("2010-01-01", "ns") + days.astype("timedelta64[D]")
    values = 4 + np.maximum(days - 1_826, 0)[:, None] / 365.25 + rng.normal(size=(150, 3))
    values[rng.random(values.shape) < 0.3] = np.nan
    return xr.DataArray(values, {"time": time}, ("time", "x"), attrs={"units": "mm"}), days


def test_a_fit_of_pieces_is_that_of_rows_dropped_one_by_one() -> None:
    cube, days = noisy_cube(5)
    since_2000 = (days + 3_653) / 365.25
    plain = np.column_stack(
        [
            np.ones(150),
            since_2000,
            *(np.maximum(days - knot, 0) / 365.25 for knot in (1_826, 2_557)),
        ]
    )
    fit = cube.lstsq.solve(
        polynomial(1) + piecewise(["2015-01-01", "2017-01-01"]), dim="time", device="cpu"
    )
    assert fit["param_units"].values.tolist() == ["mm", "mm year-1", "mm year-1", "mm year-1"]
    for x in range(3):
        there = np.isfinite(cube.values[:, x])
        want = np.linalg.lstsq(plain[there], cube.values[there, x], rcond=None)[0]
        np.testing.assert_allclose(fit["coef"].values[:, x], want, rtol=1e-8, atol=1e-8)


def test_a_fit_of_a_spline_is_that_of_rows_dropped_one_by_one() -> None:
    cube, days = noisy_cube(6)
    inner = [Fraction(1_461), Fraction(2_557)]
    ends = (int(days[0]), int(days[-1]))
    columns = all_but_first([int(day) for day in days], inner, 3, ends)
    plain = np.column_stack([np.ones(150), columns])
    design = constant() + spline(["2014-01-01", "2017-01-01"])
    fit = cube.lstsq.solve(design, dim="time", device="cpu")
    coef = fit["coef"].values
    for x in range(3):
        there = np.isfinite(cube.values[:, x])
        want = np.linalg.lstsq(plain[there], cube.values[there, x], rcond=None)[0]
        np.testing.assert_allclose(coef[:, x], want, rtol=1e-9, atol=1e-9)
    # A prediction is that of the stored boundaries, and none beyond them.
    at = np.array(["2012-03-04", "2040-01-01"], dtype="datetime64[ns]")
    there = (at[0] - np.datetime64("2010-01-01")) // np.timedelta64(1, "D")
    row = np.append(1.0, all_but_first([int(there)], inner, 3, ends)[0])
    predicted = fit.lstsq.predict(at).transpose("time", ...).values
    np.testing.assert_allclose(predicted[0], row @ coef, rtol=1e-9)
    assert np.isnan(predicted[1]).all()
