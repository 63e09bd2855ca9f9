"""Covariates and indicators: columns, labels, pixels, text, JSON with kept data, refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xr_lstsq.design import (
    Columns,
    Term,
    constant,
    covariate,
    from_json,
    indicator,
    parse,
    polynomial,
)
from xr_lstsq.design.columns import COLUMN
from xr_lstsq.errors import DtypeError, LabelError

START = np.datetime64("2016-03-05", "ns")


def stamps(n: int) -> np.ndarray:
    return START + 17 * np.arange(n) * np.timedelta64(1, "D")


def series(values: Any, name: str | None = "bperp", **attrs: str) -> xr.DataArray:
    values = np.asarray(values)
    return xr.DataArray(values, {"time": stamps(len(values))}, ("time",), name=name, attrs=attrs)


def samples(n: int, **beside: Any) -> xr.DataArray:
    """Return the sample coordinate of a cube, as a solve hands it to terms."""
    cube = series(np.zeros(n)).assign_coords({k: ("time", v) for k, v in beside.items()})
    return cube["time"]


def kept(term: Term) -> dict[str, xr.DataArray]:
    """Return the data of a term as a fit keeps them, and as one finds them there."""
    fit = xr.Dataset({"coef": ("param", [1.0])}, {"spatial_ref": 0})
    for name, data in term.variables.items():
        fit[name] = data.rename({k: f"design_{k}" for k in {*data.dims, *data.coords}})
    return {str(name): variable for name, variable in fit.data_vars.items()}


def read_back(term: Term) -> Term:
    return from_json(json.loads(json.dumps(term.to_json())), kept(term))


def values_of(columns: Columns) -> np.ndarray:
    return np.asarray(columns.matrix)


def cube_of(n: int = 24, seed: int = 0) -> xr.DataArray:
    """Return noise (time, y, x) with a quarter of it missing."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, 2, 3))
    y[rng.random(y.shape) < 0.25] = np.nan
    coords = {"time": stamps(n), "y": [20.0, 10.0], "x": [1.0, 2.0, 3.0]}
    return xr.DataArray(y, coords, ("time", "y", "x"), name="level", attrs={"units": "mm"})


def field_of(n: int = 24, seed: int = 1) -> xr.DataArray:
    """Return a covariate that differs from pixel to pixel, with gaps of its own."""
    cube = cube_of(n, seed)
    return cube.rename("soil").assign_attrs(units="K").transpose("x", "time", "y")


def loop(cube: xr.DataArray, rows: np.ndarray) -> np.ndarray:
    """Solve pixel by pixel, rows that do not count dropped; rows are (n, p, y, x)."""
    y = cube.transpose("time", "y", "x").values
    coef = np.empty((rows.shape[1], *y.shape[1:]))
    for at in np.ndindex(*y.shape[1:]):
        own = rows[(..., *at)]
        there = np.isfinite(y[(..., *at)]) & np.isfinite(own).all(axis=1)
        coef[(..., *at)] = np.linalg.lstsq(own[there], y[(..., *at)][there], rcond=None)[0]
    return coef


# --- covariates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "bool"])
def test_the_column_is_the_data_in_float64(dtype: str) -> None:
    values = np.array([3, 0, 1, 7, 1]).astype(dtype)
    columns = covariate(series(values)).evaluate(samples(5))
    assert columns.names == ("bperp",)
    assert columns.levels == (False,)
    assert values_of(columns).dtype == np.float64
    np.testing.assert_array_equal(values_of(columns), values.astype(np.float64)[:, None])


def test_what_is_missing_or_infinite_is_a_row_of_nan() -> None:
    matrix = values_of(covariate(series([1.0, np.nan, np.inf, 4.0])).evaluate(samples(4)))
    np.testing.assert_array_equal(matrix[:, 0], [1.0, np.nan, np.nan, 4.0])


@given(order=st.permutations(range(7)), count=st.integers(1, 7))
def test_values_go_to_their_labels_whatever_the_order_and_the_part(
    order: list[int], count: int
) -> None:
    values = np.arange(7.0) ** 2
    some = samples(7)[order[:count]]
    for term in (covariate(series(values)), covariate(series(values)).bind(samples(7))):
        np.testing.assert_array_equal(values_of(term.evaluate(some))[:, 0], values[order[:count]])
    levels = np.array(["a", "b", "c", "a", "b", "c", "b"])
    bound = indicator(series(levels, "s")).bind(samples(7))
    expected = [[level == "b", level == "c"] for level in levels[order[:count]]]
    np.testing.assert_array_equal(values_of(bound.evaluate(some)), expected)


def test_labels_that_the_data_lack_are_named() -> None:
    with pytest.raises(LabelError, match=r"no value for 2 of the 6 labels along 'time'"):
        covariate(series(np.arange(4.0))).evaluate(samples(6))


def test_labels_of_numbers_are_the_same_up_to_rounding() -> None:
    x = np.array([0.1, 0.2, 0.7])
    data = xr.DataArray([1.0, 2.0, 3.0], {"x": x.astype(np.float32)}, ("x",), name="c")
    coord = xr.DataArray(np.zeros(3), {"x": x}, ("x",))["x"]
    np.testing.assert_array_equal(values_of(covariate(data).evaluate(coord))[:, 0], data)
    with pytest.raises(LabelError, match="no value for 3 of the 3 labels"):
        covariate(data).evaluate(coord.assign_coords(x=x + 0.05)["x"])


def test_without_labels_the_sizes_count() -> None:
    bare = xr.DataArray([1.0, 2.0, 3.0], dims="time", name="c")
    np.testing.assert_array_equal(values_of(covariate(bare).evaluate(samples(3)))[:, 0], bare)
    with pytest.raises(LabelError, match="there are 4 samples along 'time'"):
        covariate(bare).evaluate(samples(4))


@pytest.mark.parametrize(
    ("units", "factor"),
    [
        ("", ""),
        ("1", ""),
        ("m", "m-1"),
        ("m s-1", "m-1 s"),
        ("mm/day", "mm-1 day"),
        ("W m-2", "W-1 m2"),
        # One over a difference of degC is one over K.
        ("degC", "K-1"),
        ("%", "%-1"),
        ("log10(m)", "(log10(m))-1"),
    ],
)
def test_the_coefficient_has_one_over_the_units(units: str, factor: str) -> None:
    data = series(np.arange(5.0), **({"units": units} if units else {}))
    assert covariate(data).evaluate(samples(5)).units == (factor,)
    columns = covariate(data, standardize=True).evaluate(samples(5))
    assert columns.units == ("",)
    assert "per standard deviation" in columns.long_names[0]


def test_units_of_the_fit_are_those_of_the_quotient() -> None:
    cube = cube_of()
    rain = series(np.random.default_rng(3).gamma(1.0, size=24), "rain", units="mm/day")
    fit = cube.lstsq.solve(constant() + covariate(rain), "time")
    assert fit.param_units.sel(param="rain").item() == "day"


def test_standardized_columns_have_mean_0_and_deviation_1_and_keep_both() -> None:
    values = np.random.default_rng(0).normal(3, 20, 30)
    values[[3, 9]] = np.nan, np.inf
    there = np.isfinite(values)
    bound = covariate(series(values), standardize=True).bind(samples(30))
    column = values_of(bound.evaluate(samples(30)))[:, 0]
    np.testing.assert_allclose(column[there].mean(), 0, atol=1e-14)
    np.testing.assert_allclose(column[there].std(ddof=1), 1)
    assert np.isnan(column[~there]).all()
    some = samples(30)[[20, 4, 11]]
    again = values_of(read_back(bound).evaluate(some))[:, 0]
    np.testing.assert_array_equal(again, column[[20, 4, 11]])


@given(value=st.floats(-1e9, 1e9), count=st.integers(1, 12))
def test_a_constant_cannot_be_standardized(value: float, count: int) -> None:
    with pytest.raises(ValueError, match="constant and has no standard deviation"):
        covariate(series(np.full(count, value)), standardize=True).bind(samples(count))


def test_a_coordinate_is_read_by_its_name() -> None:
    coord = samples(4, warmth=np.array([1.0, 5.0, 2.0, 2.0]), sensor=np.array(list("abab")))
    term = covariate("warmth") + indicator("sensor")
    assert term.evaluate(coord).names == ("warmth", "sensor_b")
    np.testing.assert_array_equal(values_of(term.evaluate(coord)), [[1, 0], [5, 1], [2, 0], [2, 1]])
    assert sorted(term.bind(coord).variables) == ["design_sensor", "design_warmth"]
    with pytest.raises(LabelError, match=r"names 'rain', and the coordinates along 'time' are"):
        covariate("rain").evaluate(coord)


def test_making_a_term_leaves_the_data_as_they_were() -> None:
    data = series(np.arange(6.0), units="m", long_name="baseline").assign_coords(run=3)
    before = data.copy(deep=True)
    covariate(data, name="b", standardize=True).evaluate(samples(6))
    xr.testing.assert_identical(data, before)


# --- covariates of pixels -----------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [None, {"y": 1, "x": 2}, {"time": 5}])
@pytest.mark.parametrize("standardize", [False, True])
def test_pixels_have_columns_of_their_own(chunks: dict[str, int] | None, standardize: bool) -> None:
    field = field_of()
    expected = field.transpose("time", "y", "x").values
    if standardize:
        expected = (expected - np.nanmean(expected, 0)) / np.nanstd(expected, 0, ddof=1)
    given_field = field if chunks is None else field.chunk(chunks)
    design = covariate(given_field, standardize=standardize) + polynomial(1)
    matrix = design.evaluate(samples(24)).matrix
    assert isinstance(matrix, xr.DataArray)
    assert matrix.dims[:2] == ("time", COLUMN)
    assert (matrix.chunks is None) == (chunks is None)
    rows = matrix.transpose("time", COLUMN, "y", "x").values
    np.testing.assert_allclose(rows[:, 0], expected, rtol=1e-12)
    shared = values_of(polynomial(1).evaluate(samples(24)))
    np.testing.assert_array_equal(
        rows[:, 1:], np.broadcast_to(shared[..., None, None], (24, 2, 2, 3))
    )


def test_a_pixel_where_the_data_are_constant_has_a_column_of_0() -> None:
    field = field_of().copy()
    field.loc[{"x": 2.0}] = 0.1
    matrix = covariate(field, standardize=True).evaluate(samples(24)).matrix
    assert isinstance(matrix, xr.DataArray)
    assert (matrix.sel(x=2.0) == 0).all()
    assert (abs(matrix.sel(x=1.0)) > 0).any()


@pytest.mark.parametrize("lazy", [False, True])
def test_a_solve_with_a_field_is_a_loop_over_pixels(lazy: bool) -> None:
    cube, field = cube_of(40), field_of(40)
    shared = values_of(polynomial(1).evaluate(cube.time))
    rows = np.empty((40, 3, 2, 3))
    rows[:, 0] = field.transpose("time", "y", "x")
    rows[:, 1:] = shared[..., None, None]
    # Labels are matched, so that neither the order of samples nor that of pixels matters.
    mixed = field.isel(time=slice(None, None, -1), x=[2, 0, 1])
    asked = mixed.chunk(x=1) if lazy else mixed
    given_cube = cube.chunk(y=1) if lazy else cube
    fit = given_cube.lstsq.solve(covariate(asked) + polynomial(1), "time")
    assert (fit.coef.chunks is not None) == lazy
    np.testing.assert_allclose(fit.coef.values, loop(cube, rows), rtol=1e-9, atol=1e-12)
    assert fit.param.values.tolist() == ["soil", "intercept", "slope"]
    assert not [name for name in fit.data_vars if str(name).startswith("design_")]
    with pytest.raises(ValueError, match="a fit does not keep it"):
        fit.lstsq.predict(cube.time)


def test_a_field_is_not_kept_and_says_so() -> None:
    bound = covariate(field_of()).bind(samples(24))
    assert bound.variables == {}
    assert sorted(bound.to_json()["pixel_dims"]) == ["x", "y"]
    again = read_back(bound)
    assert again.to_json() == bound.to_json()
    assert parse("covariate(soil)") != again
    with pytest.raises(ValueError, match=r"covariate 'soil' differs along .*does not keep it"):
        again.evaluate(samples(24))


# --- indicators ---------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=4)
LEVELS = st.one_of(
    st.lists(TEXTS.filter(lambda text: text != "nan"), min_size=2, max_size=5, unique=True),
    st.lists(st.integers(-9, 9), min_size=2, max_size=5, unique=True),
    st.just([False, True]),
)


@given(data=st.data(), levels=LEVELS)
def test_each_level_but_the_reference_has_a_column(data: st.DataObject, levels: list[Any]) -> None:
    # Every level is there, and beyond that any number of any, missing ones among them.
    more = data.draw(st.lists(st.sampled_from([*levels, None]), max_size=8))
    order = data.draw(st.permutations([*levels, *more]))
    values = np.empty(len(order), dtype=object)
    values[:] = order
    reference = data.draw(st.none() | st.sampled_from(levels))
    bound = indicator(series(values, "s"), reference=reference).bind(samples(len(order)))
    columns = bound.evaluate(samples(len(order)))
    own = sorted(levels)
    own.remove(own[0] if reference is None else reference)
    expected = [[np.nan if v is None else float(v == level) for level in own] for v in order]
    np.testing.assert_array_equal(values_of(columns), expected)
    assert len(set(columns.names)) == len(own)
    assert all(name.startswith("s_") and " " not in name for name in columns.names)
    assert (columns.units, columns.levels) == (("",) * len(own), (False,) * len(own))


@given(data=st.data(), levels=LEVELS)
def test_an_indicator_reads_back_equal_and_knows_levels_that_are_not_there(
    data: st.DataObject, levels: list[Any]
) -> None:
    n = len(levels)
    bound = indicator(series(np.array(levels), "s")).bind(samples(n))
    again = read_back(bound)
    assert again == bound
    assert hash(again) == hash(bound)
    whole = values_of(bound.evaluate(samples(n)))
    at = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
    part = again.map_data(lambda whole_data, _: whole_data[at])
    columns = part.evaluate(samples(n)[at])
    assert columns.names == bound.evaluate(samples(n)).names
    np.testing.assert_array_equal(values_of(columns), whole[at])


def test_names_of_levels_are_told_apart_whatever_stands_in_them() -> None:
    values = np.array(["0", "a b", "a*b", "a_b_2", "S1-A", "é"])
    names = indicator(series(values, "s")).evaluate(samples(6)).names
    assert len(set(names)) == 5
    assert "s_S1-A" in names
    assert "s_a_b_2" in names


def test_whole_numbers_with_gaps_keep_their_names() -> None:
    term = indicator(series([2.0, np.nan, 10.0, 2.0, -1.0], "track"))
    columns = term.evaluate(samples(5))
    assert columns.names == ("track_2", "track_10")
    np.testing.assert_array_equal(
        values_of(columns), [[1, 0], [np.nan, np.nan], [0, 1], [1, 0], [0, 0]]
    )


def test_coefficients_are_differences_of_the_means_of_levels() -> None:
    cube = cube_of(60)
    sensor = np.random.default_rng(5).choice(["A", "B", "C"], 60)
    term = constant() + indicator(series(sensor, "sensor"), reference="B")
    fit = cube.lstsq.solve(term, "time")
    mean = {k: np.nanmean(cube.values[sensor == k], axis=0) for k in "ABC"}
    np.testing.assert_allclose(fit.coef.sel(param="intercept"), mean["B"])
    for level in "AC":
        found = fit.coef.sel(param=f"sensor_{level}")
        np.testing.assert_allclose(found, mean[level] - mean["B"], atol=1e-13)
    assert set(fit.param_units.values) == {"mm"}


def test_a_level_that_was_not_fitted_is_named() -> None:
    bound = indicator(series(np.array(list("abab")), "s")).bind(samples(4))
    other = bound.map_data(lambda data, _: data.copy(data=np.array(list("abcz"))))
    with pytest.raises(LabelError, match=r"indicator 's' has no column for \['c', 'z'\]"):
        other.evaluate(samples(4))


# --- text, JSON and the data that a fit keeps ---------------------------------------------------

NAMES = st.from_regex(r"[A-Za-z0-9_]{1,6}", fullmatch=True)
SOURCES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=1)


@given(source=SOURCES, name=st.none() | NAMES, standardize=st.booleans(), reference=TEXTS)
def test_terms_by_name_read_back_from_text_and_json(
    source: str, name: str | None, standardize: bool, reference: str
) -> None:
    for term in (
        covariate(source, name=name, standardize=standardize),
        indicator(source, name=name, reference=reference),
        covariate(source) + indicator(source, name="other"),
    ):
        assert parse(str(term)) == term
        assert from_json(json.loads(json.dumps(term.to_json()))) == term


def test_terms_with_data_show_them_and_are_no_text() -> None:
    term = covariate(series(np.zeros(3)), standardize=True)
    assert str(term) == "covariate(<bperp (time: 3)>, standardize=True)"
    with pytest.raises(ValueError, match="design"):
        parse(str(term))


@given(
    values=st.lists(st.floats(width=32) | st.just(np.nan), min_size=2, max_size=6),
    name=st.none() | NAMES.filter(lambda text: text != "time"),
    labelled=st.booleans(),
)
def test_a_bound_covariate_reads_back_equal_with_its_data(
    values: list[float], name: str | None, labelled: bool
) -> None:
    data = series(values, units="m s-1")
    data = data if labelled else data.drop_vars("time")
    bound = covariate(data, name=name).bind(samples(len(values)))
    again = read_back(bound)
    assert again == bound
    assert hash(again) == hash(bound)
    assert again.bind(samples(len(values))) == bound
    mine, theirs = bound.evaluate(samples(len(values))), again.evaluate(samples(len(values)))
    np.testing.assert_array_equal(values_of(mine), values_of(theirs))
    assert (mine.names, mine.units) == (theirs.names, theirs.units)


def test_terms_are_equal_when_their_data_are() -> None:
    values = np.arange(4.0)
    assert covariate(series(values)) == covariate(series(values.copy()))
    assert covariate(series(values)) != covariate(series(values + 1))
    assert covariate(series(values)) != covariate(series(values), standardize=True)
    assert covariate(series(values)) != covariate("bperp")
    assert covariate("bperp") != indicator("bperp")
    assert len({covariate(series(values)), covariate(series(values.copy()))}) == 1


@pytest.mark.parametrize("name", [None, "W"])
def test_new_samples_bring_their_own_coordinates(name: str | None) -> None:
    rng = np.random.default_rng(4)
    beside = {"warmth": rng.normal(size=24), "sensor": rng.choice(["a", "b"], 24)}
    cube = cube_of().assign_coords({k: ("time", v) for k, v in beside.items()})
    term = constant() + covariate("warmth", name=name) + indicator("sensor")
    fit = cube.lstsq.solve(term, "time")
    later = samples(4, warmth=np.array([0.0, 2.0, 2.0, 0.0]), sensor=np.array(list("aaba")))
    later = (later + np.timedelta64(9999, "D")).rename("time")
    rows = np.array([[1, 0, 0], [1, 2, 0], [1, 2, 1], [1, 0, 0]])
    expected = np.einsum("np,pyx->nyx", rows, fit.coef.values)
    np.testing.assert_allclose(fit.lstsq.predict(later).values, expected, rtol=1e-12, atol=1e-14)
    with pytest.raises(LabelError, match="is kept with the fit at 24 labels"):
        fit.lstsq.predict(later.drop_vars("warmth"))


def test_a_function_changes_the_data_and_hears_what_they_are() -> None:
    heard: list[str] = []

    def twice(data: xr.DataArray, what: str) -> xr.DataArray:
        heard.append(what)
        return 2 * data

    design = covariate(series(np.arange(3.0)), name="b") + polynomial(1) + covariate("warmth")
    changed = design.map_data(twice)
    assert heard == ["covariate 'b'"]
    column = values_of(changed.evaluate(samples(3, warmth=np.zeros(3))))[:, 0]
    np.testing.assert_array_equal(column, [0, 2, 4])


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: covariate(np.zeros(4)), TypeError, "Pass a DataArray along the sample dim"),
        (lambda: covariate(series(list("abcd"))), DtypeError, "needs real numbers"),
        (lambda: covariate(series(stamps(4))), DtypeError, "needs real numbers"),
        (lambda: covariate(series([1j] * 4)), DtypeError, "needs real numbers"),
        (lambda: indicator(series(stamps(4))), DtypeError, "indicator 'bperp' holds"),
        (lambda: covariate(series(np.zeros(4), None)), ValueError, "Pass name="),
        (lambda: covariate(series(np.zeros(4), "b/c")), ValueError, "Pass name="),
        (lambda: covariate(series(np.zeros(4), "time")), ValueError, "Pass name="),
        (lambda: covariate("time"), ValueError, "Pass name=|real numbers"),
        (lambda: covariate("x", name="a b"), ValueError, "letters, digits and underscores"),
        (
            lambda: covariate(series(np.zeros(4)).rename(time="date")),
            LabelError,
            "there are 4 samples along 'time'",
        ),
        (lambda: indicator(series(list("aaaa"))), LabelError, "needs two or more"),
        (lambda: indicator(series([None] * 4)), LabelError, "needs two or more"),
        (
            lambda: indicator(series(list("abab")), reference="c"),
            LabelError,
            r"reference='c' is no level .*\['a', 'b'\]",
        ),
        (
            lambda: indicator(series(np.zeros(4)).expand_dims(y=2)),
            LabelError,
            "lies along 'time' alone",
        ),
        (
            lambda: covariate(series(np.zeros(4))) + covariate(series(np.ones(4))),
            LabelError,
            "Pass name=",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make().evaluate(samples(4))


@pytest.mark.parametrize(
    "text",
    [
        "covariate(3)",
        "covariate()",
        "covariate(x, mean=a)",
        "covariate(x, mean=1, std=2)",
        "covariate(x, standardize=maybe)",
        "covariate(x, standardize=True, std=-1, mean=0)",
        "covariate(x, standardize=True, mean=1)",
        "indicator()",
        "indicator(2)",
    ],
)
def test_texts_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="of the design"):
        parse(text)


@pytest.mark.parametrize(
    "data",
    [
        {"term": "covariate"},
        {"term": "covariate", "source": 3},
        {"term": "covariate", "name": "x", "variable": "design_x"},
        {"term": "covariate", "source": "x", "standardize": 1},
        {"term": "covariate", "source": "x", "color": "red"},
        {"term": "indicator", "name": "x", "variable": "design_x", "levels": ["a", "b"]},
    ],
)
def test_json_that_says_nothing_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{data['term']}|standardize=1"):
        from_json(data)
