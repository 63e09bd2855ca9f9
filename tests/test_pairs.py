"""Terms of time over pairs of dates, and errors of the height model: rows, keeping, refusals."""

from __future__ import annotations

import json
import math
from typing import Any

import cftime
import dask.array
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xr_lstsq.design import Columns, Term, from_json, harmonics, parse, polynomial
from xr_lstsq.design.columns import COLUMN
from xr_lstsq.design.dem_error import dem_error
from xr_lstsq.design.network import displacements, network
from xr_lstsq.design.pairs import pairs
from xr_lstsq.errors import DtypeError, LabelError

FIRST = ("2018-03-09", "2018-03-21", "2018-04-26", "2019-01-03")
SECOND = ("2018-04-02", "2018-04-26", "2018-03-09", "2020-02-29")


def samples(reference: Any = FIRST, secondary: Any = SECOND, **coords: Any) -> xr.DataArray:
    """Return the sample coordinate of a cube of pairs, as a solve hands it to terms."""
    if isinstance(reference, tuple):
        reference = np.array(reference, "datetime64[ns]")
        secondary = np.array(secondary, "datetime64[ns]")
    labels = 10 * np.arange(len(reference)) + 3
    cube = xr.DataArray(np.zeros(len(reference)), {"pair": labels}, ["pair"])
    given = {"reference": reference, "secondary": secondary} | coords
    return cube.assign_coords({name: ("pair", values) for name, values in given.items()})["pair"]


def dates(*labels: str) -> xr.DataArray:
    values = np.array(labels, "datetime64[ns]")
    return xr.DataArray(values, {"time": values}, ["time"])


def years(text: str) -> float:
    return (np.datetime64(text) - np.datetime64("2000-01-01")) / np.timedelta64(36525, "D") * 100


# --- terms of time ------------------------------------------------------------------------------


def test_rows_are_the_differences_of_each_term_at_the_two_dates() -> None:
    columns = pairs(polynomial(2) + harmonics(1)).evaluate(samples())
    assert columns.names == ("slope", "degree_2", "cos_1", "sin_1")
    assert columns.units == ("year-1", "year-2", "", "")
    assert columns.origins == ("2000-01-01",) * 4
    assert columns.levels == (False,) * 4
    want = []
    for first, second in zip(FIRST, SECOND, strict=True):
        a, b = years(first), years(second)
        turns = [math.tau * a, math.tau * b]
        cos, sin = [math.cos(t) for t in turns], [math.sin(t) for t in turns]
        want.append([b - a, b**2 - a**2, cos[1] - cos[0], sin[1] - sin[0]])
    np.testing.assert_allclose(columns.matrix, want, atol=1e-12)
    assert columns.required is None
    assert columns.constraint is None


@given(
    st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 900), st.booleans()), min_size=1),
    st.sampled_from(["first", "middle", "2014-05-06", None]),
)
def test_rows_are_those_of_the_terms_themselves(
    found: list[tuple[int, int, bool]], origin: str | None
) -> None:
    start = np.datetime64("1999-12-25", "ns")
    day = np.timedelta64(1, "D")
    ends = [(a, a + d) if forward else (a + d, a) for a, d, forward in found]
    first, second = (np.array([start + pair[k] * day for pair in ends]) for k in (0, 1))
    terms = polynomial(1, origin=origin) + harmonics(1, 2, origin=origin)
    got = pairs(terms).evaluate(samples(first, second))
    both = np.concatenate([first, second])
    columns = terms.evaluate(xr.DataArray(both, {"time": both}, ["time"]))
    half = len(first)
    want = columns.matrix[half:] - columns.matrix[:half]
    assert got.names == columns.names[1:]
    np.testing.assert_array_equal(got.matrix, want[:, 1:])
    # A rate is what a network of equal velocities moves
    bound = network().bind(samples(first, second))
    straight = bound.evaluate(samples(first, second)).matrix.sum(axis=1)
    np.testing.assert_allclose(got.matrix[:, 0], straight, atol=1e-13)


def test_origins_are_those_of_all_dates_together() -> None:
    bound = pairs(polynomial(1, origin="first") + harmonics(1, origin="middle")).bind(samples())
    assert bound.evaluate(samples()).origins[0] == "2018-03-09"
    assert bound.evaluate(samples()).origins[1].startswith("2019-03-0")
    # Bound, it keeps them whatever it is asked for
    later = samples(FIRST[3:], SECOND[3:])
    assert bound.bind(later) == bound
    np.testing.assert_array_equal(
        bound.evaluate(later).matrix, bound.evaluate(samples()).matrix[3:]
    )


@pytest.mark.parametrize("calendar", ["360_day", "noleap", "standard", "proleptic_gregorian"])
def test_cftime_pairs_have_the_years_of_their_calendar(calendar: str) -> None:
    first = [cftime.datetime(2018, 2, 27, 6, calendar=calendar)]
    second = [cftime.datetime(2020, 4, 30, 18, 0, 0, 25, calendar=calendar)]
    columns = pairs(polynomial(1, unit="second")).evaluate(
        samples(np.array(first, dtype=object), np.array(second, dtype=object))
    )
    np.testing.assert_allclose(
        columns.matrix, [[(second[0] - first[0]).total_seconds()]], rtol=1e-14
    )


def test_a_missing_date_makes_a_row_of_nan() -> None:
    gap = samples(("2018-03-09", "NaT", "2018-04-26", "2019-01-03"), SECOND)
    whole = pairs(polynomial(1)).evaluate(samples()).matrix
    got = pairs(polynomial(1)).evaluate(gap).matrix
    assert np.isnan(got[1]).all()
    np.testing.assert_array_equal(got[[0, 2, 3]], whole[[0, 2, 3]])
    objects = np.array([cftime.DatetimeNoLeap(2018, 3, 9), None], dtype=object)
    later = np.array([cftime.DatetimeNoLeap(2018, 4, 2)] * 2, dtype=object)
    matrix = pairs(polynomial(1)).evaluate(samples(objects, later)).matrix
    assert np.isnan(matrix).tolist() == [[False], [True]]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_resolution_of_dates_does_not_matter(unit: str) -> None:
    first, second = (np.array(side, f"datetime64[{unit}]") for side in (FIRST, SECOND))
    got = pairs(polynomial(2)).evaluate(samples(first, np.array(SECOND, "datetime64[ns]")))
    np.testing.assert_array_equal(got.matrix, pairs(polynomial(2)).evaluate(samples()).matrix)
    ancient = samples(np.array(["1600-01-01"], "datetime64[s]"), second[:1])
    days = pairs(polynomial(1, unit="day")).evaluate(ancient).matrix
    assert days.tolist() == [[(np.datetime64(SECOND[0]) - np.datetime64("1600-01-01")).astype(int)]]


def test_a_high_degree_keeps_its_digits_in_a_basis_of_its_own() -> None:
    terms = polynomial(6, origin="0001-01-01")
    columns = pairs(terms).evaluate(many())
    assert columns.stable is not None
    assert columns.stable.matrix.shape == columns.matrix.shape
    powers = columns.stable.matrix @ np.linalg.inv(columns.stable.to_coef)
    largest = np.abs(columns.matrix).max(axis=0)
    # The same model: the basis turned back gives the columns, as far as the powers have digits
    np.testing.assert_allclose(powers / largest, columns.matrix / largest, atol=1e-5)
    assert np.linalg.cond(columns.stable.matrix) < 1e3
    assert pairs(polynomial(1)).evaluate(many()).stable is None


def many() -> xr.DataArray:
    rng = np.random.default_rng(8)
    days = np.sort(rng.choice(3000, size=(60, 2)), axis=1)
    days[:, 1] += 1
    start = np.datetime64("2015-01-01", "ns")
    ends = start + days * np.timedelta64(1, "D")
    return samples(ends[:, 0], ends[:, 1])


def test_pairs_hold_dates_of_their_own_as_networks_do() -> None:
    coord = samples()
    plain = coord.drop_vars(["reference", "secondary"])
    want = pairs(polynomial(1)).evaluate(coord).matrix
    term = pairs(polynomial(1), list(FIRST), list(SECOND))
    np.testing.assert_array_equal(term.evaluate(plain).matrix, want)
    assert term.bind(coord) == pairs(polynomial(1)).bind(coord)
    bound = term.bind(plain)
    np.testing.assert_array_equal(bound.evaluate(plain[[2, 0]]).matrix, want[[2, 0]])
    other = coord.rename(reference="master")
    np.testing.assert_array_equal(pairs(polynomial(1), "master").evaluate(other).matrix, want)


@pytest.mark.parametrize(
    "term",
    [
        pairs(polynomial(1)),
        pairs(polynomial(2, origin="first") + harmonics(1, name="a"), "master"),
        pairs(polynomial(1), list(FIRST), list(SECOND)),
    ],
    ids=repr,
)
def test_json_reads_back(term: Term) -> None:
    coord = samples().assign_coords(master=samples()["reference"])
    for one in (term, term.bind(coord), term + network(), (term + network()).bind(coord)):
        data = json.loads(json.dumps(one.to_json()))
        again = from_json(data)
        assert again == one
        assert hash(again) == hash(one)
        np.testing.assert_array_equal(again.evaluate(coord).matrix, one.evaluate(coord).matrix)
    assert term.to_json()["term"] == "pairs"


def test_text_is_what_python_reads_and_the_grammar_refuses() -> None:
    text = repr(pairs(polynomial(1) + harmonics(1), "master"))
    assert text == "pairs(polynomial(1) + harmonics(1), reference=master)"
    with pytest.raises(ValueError, match=r"'pairs' holds what a text cannot"):
        parse("pairs(reference=master)")


@pytest.mark.parametrize("terms", [network(), pairs(polynomial(1)), "polynomial(1)", None])
def test_terms_of_pairs_take_terms_of_time_only(terms: Any) -> None:
    with pytest.raises(ValueError, match="pairs takes terms of time, such as"):
        pairs(terms)


def test_what_is_constant_is_nothing_to_pairs() -> None:
    with pytest.raises(ValueError, match="pairs do not know what is constant"):
        pairs(polynomial(0)).evaluate(samples())


def test_pairs_of_wrong_dates_are_refused() -> None:
    with pytest.raises(LabelError, match="is a pair of 2018-03-09 with itself"):
        pairs(polynomial(1)).bind(samples(FIRST, FIRST))
    with pytest.raises(LabelError, match="reference='first' is no coordinate along 'pair'"):
        pairs(polynomial(1), "first").bind(samples())
    bound = pairs(polynomial(1)).bind(samples())
    noleap = [np.array([cftime.DatetimeNoLeap(2018, 3, k)], dtype=object) for k in (1, 2)]
    with pytest.raises(ValueError, match="'pairs' is bound to datetime64 dates"):
        bound.evaluate(samples(*noleap))


@pytest.mark.parametrize("change", [{"terms": None}, {"place": 1}, {"terms": {"term": "x"}}])
def test_json_that_is_no_pairs_is_refused(change: dict[str, Any]) -> None:
    data = pairs(polynomial(1)).to_json() | change
    with pytest.raises(ValueError, match=r"needs 'terms' and takes|unknown term 'x'"):
        from_json({key: value for key, value in data.items() if value is not None})


# --- the error of the height model --------------------------------------------------------------

BASELINES = np.array([12.5, -80.0, 143.25, 0.5])


def column(columns: Columns) -> np.ndarray:
    assert columns.names == ("dem_error",)
    assert columns.units == ("",)
    assert columns.levels == (False,)
    return np.asarray(columns.matrix)


def test_one_column_for_a_scene() -> None:
    want = [[b / (850e3 * math.sin(math.radians(34)))] for b in BASELINES]
    coord = samples(bperp=BASELINES)
    data = coord["bperp"].drop_vars("bperp")
    for term in (
        dem_error("bperp", 850e3, 34),
        dem_error(data, 850e3, 34),
        dem_error(data.astype(np.float32), np.float32(850e3), xr.DataArray(34)),
        dem_error(xr.DataArray(BASELINES, dims="pair"), 850_000, 34.0),
    ):
        np.testing.assert_allclose(column(term.evaluate(coord)), want, rtol=1e-15)
        assert term.bind(coord) == term


def test_the_name_goes_before_the_param() -> None:
    term = dem_error("bperp", 850e3, 34, name="asc")
    assert term.evaluate(samples(bperp=BASELINES)).names == ("asc_dem_error",)


def geometry(lazy: bool = False) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    rng = np.random.default_rng(5)
    y, x = np.arange(3) * 0.1, np.arange(4) * 0.1
    bperp = xr.DataArray(BASELINES, {"pair": samples().values}, ["pair"])
    slant = xr.DataArray(rng.uniform(8e5, 9e5, 4).astype(np.float32), {"x": x}, ["x"])
    angle = xr.DataArray(rng.uniform(30, 45, (3, 4)), {"y": y, "x": x}, ["y", "x"])
    return (bperp, slant.chunk(), angle.chunk(y=2)) if lazy else (bperp, slant, angle)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_column_for_each_pixel(lazy: bool) -> None:
    bperp, slant, angle = geometry(lazy)
    term = dem_error(bperp, slant, angle).bind(samples())
    columns = term.evaluate(samples())
    matrix = columns.matrix
    assert isinstance(matrix, xr.DataArray)
    assert matrix.dims[:2] == ("pair", COLUMN)
    assert set(matrix.dims[2:]) == {"x", "y"}
    assert isinstance(matrix.data, dask.array.Array) == lazy
    assert matrix.dtype == np.float64
    got = matrix.transpose("pair", COLUMN, "y", "x").values
    for k, b in enumerate(BASELINES):
        for i in range(3):
            for j in range(4):
                across = float(slant[j]) * math.sin(math.radians(float(angle[i, j])))
                assert math.isclose(got[k, 0, i, j], b / across, rel_tol=1e-15)
    joined = (network() + term).evaluate(samples())
    assert isinstance(joined.matrix, xr.DataArray)
    assert joined.matrix.sizes[COLUMN] == len(joined.names)


def test_baselines_may_differ_from_pixel_to_pixel() -> None:
    bperp, slant, angle = geometry()
    own = bperp * xr.DataArray([1.0, 1.1, 1.2, 1.3], {"x": slant["x"]}, ["x"])
    matrix = dem_error(own.transpose(), 85e4, angle).evaluate(samples()).matrix
    want = own / (85e4 * np.sin(np.deg2rad(angle)))
    assert isinstance(matrix, xr.DataArray)
    got = matrix.isel({COLUMN: 0}).transpose(*want.dims)
    np.testing.assert_allclose(got.values, want.values, rtol=1e-15)


def test_pixels_without_geometry_are_missing() -> None:
    bperp, slant, angle = geometry()
    slant[0], angle[1, 1], angle[2, 2] = 0.0, np.nan, -3.0
    matrix = dem_error(bperp, slant, angle).evaluate(samples()).matrix
    assert isinstance(matrix, xr.DataArray)
    bad = np.isnan(matrix.isel({COLUMN: 0})).transpose("pair", "y", "x").values
    want = np.zeros((3, 4), dtype=bool)
    want[:, 0] = want[1, 1] = want[2, 2] = True
    np.testing.assert_array_equal(bad, np.broadcast_to(want, (4, 3, 4)))
    gap = samples(bperp=[1.0, np.nan, 2.0, 3.0])
    assert np.isnan(column(dem_error("bperp", 85e4, 34).evaluate(gap)))[:, 0].tolist() == [
        *(False, True, False, False)
    ]


def kept(term: Term) -> dict[str, xr.DataArray]:
    """Return the data of a term as a fit keeps them."""
    return {
        name: data.rename({one: f"design_{one}" for one in (*data.dims, *data.coords)})
        for name, data in term.variables.items()
    }


@pytest.mark.parametrize("name", [None, "asc"])
def test_a_fit_keeps_the_data_of_a_scene(name: str | None) -> None:
    bperp, _, _ = geometry()
    term = dem_error(bperp, 850e3, 34.5, name=name).bind(samples())
    key = "design_bperp" if name is None else "design_asc_bperp"
    assert list(term.variables) == [key]
    data = json.loads(json.dumps(term.to_json()))
    assert "bperp" not in data
    for variables in (term.variables, kept(term)):
        again = from_json(data, variables)
        assert again == term
        assert hash(again) == hash(term)
        np.testing.assert_array_equal(
            again.evaluate(samples()).matrix, term.evaluate(samples()).matrix
        )
    assert from_json(data, {key: bperp + 1}) != term
    with pytest.raises(ValueError, match="bperp=None must be the name of a coordinate"):
        from_json(data)


def test_a_fit_does_not_keep_what_differs_from_pixel_to_pixel() -> None:
    term = dem_error(*geometry()).bind(samples())
    assert term.variables == {}
    data = json.loads(json.dumps(term.to_json()))
    assert sorted(data["pixel_dims"]) == ["x", "y"]
    again = from_json(data)
    assert again.bind(samples()) == again
    with pytest.raises(ValueError, match=r"a fit does not keep it. Pass the rows of the design"):
        again.evaluate(samples())


def test_data_are_changed_by_a_function() -> None:
    seen = []

    def match(data: xr.DataArray, what: str) -> xr.DataArray:
        seen.append(what)
        return data.isel(pair=[2, 0]) if "pair" in data.dims else data

    bperp, slant, angle = geometry()
    term = dem_error(bperp, slant, angle)
    part = term.map_data(match)
    assert seen == [f"{name} of dem_error" for name in ("bperp", "slant_range", "incidence")]
    whole = term.evaluate(samples()).matrix
    got = part.evaluate(samples()[[2, 0]]).matrix
    assert isinstance(whole, xr.DataArray)
    assert isinstance(got, xr.DataArray)
    np.testing.assert_array_equal(got.values, whole.isel(pair=[2, 0]).values)
    by_name = dem_error("bperp", 85e4, 34)
    assert by_name.map_data(match) == by_name


@pytest.mark.parametrize("name", [None, "asc"])
def test_a_term_by_names_has_a_text(name: str | None) -> None:
    term = dem_error("bperp", 850_000, 34.5, name=name)
    assert parse(repr(term)) == term
    assert parse("dem_error(bperp, 850000, 34.5)") == dem_error("bperp", 850_000, 34.5)
    assert from_json(json.loads(json.dumps(term.to_json()))) == term
    assert "<pair>" in repr(dem_error(geometry()[0], 85e4, 34))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((BASELINES, 85e4, 34), r"must be the name of a coordinate along the sample dim"),
        (("bperp", 0, 34), r"slant_range=0 must be a number above 0, in the unit of bperp"),
        (("bperp", "slant", 34), r"slant_range='slant' must be a number"),
        (("bperp", 85e4, 90), r"incidence=90 must be a number above 0, in degrees, below 90"),
        (("bperp", 85e4, math.nan), r"incidence=nan must be a number"),
        (("bperp", 85e4, 34, "a b"), r"name='a b' must be letters"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dem_error(*arguments)


def test_data_must_be_numbers_along_the_samples() -> None:
    with pytest.raises(DtypeError, match="bperp holds <U1, and must hold real numbers"):
        dem_error(xr.DataArray(["a"], dims="pair"), 85e4, 34)
    with pytest.raises(LabelError, match="bperp='bperp' is no coordinate of numbers along 'pair'"):
        dem_error("bperp", 85e4, 34).bind(samples())
    with pytest.raises(LabelError, match=r"bperp has the sizes {'pair': 3}, and there are 4"):
        dem_error(xr.DataArray(BASELINES[:3], dims="pair"), 85e4, 34).bind(samples())
    with pytest.raises(LabelError, match=r"bperp has the sizes {'time': 4}"):
        dem_error(xr.DataArray(BASELINES, dims="time"), 85e4, 34).bind(samples())


def test_a_height_error_comes_back_beside_a_network() -> None:
    rng = np.random.default_rng(12)
    texts = [f"2018-{month:02d}-05" for month in range(1, 9)]
    ends = [(r, s) for r in range(8) for s in range(r + 1, min(r + 4, 8))]
    first, second = (tuple(texts[pair[k]] for pair in ends) for k in (0, 1))
    # Of each date, so that those of a pair are differences, which a network alone would take
    baselines = rng.normal(scale=80, size=len(ends))
    coord = samples(first, second, bperp=baselines)
    term = (network(unknown="displacement") + dem_error("bperp", 85e4, 34)).bind(coord)
    columns = term.evaluate(coord)
    truth = np.append(rng.normal(scale=0.01, size=7), 14.0)
    values = columns.matrix @ truth + rng.normal(scale=1e-9, size=len(ends))
    got = np.linalg.lstsq(columns.matrix, values, rcond=None)[0]
    np.testing.assert_allclose(got[-1], 14.0, rtol=1e-3)
    series = displacements(term.terms[0])[1] @ got[:-1]
    np.testing.assert_allclose(series[1:], truth[:-1], atol=1e-7)
