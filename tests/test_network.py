"""Networks of pairs: rows, dates of every kind, laws of the three forms, text, JSON, refusals."""

from __future__ import annotations

import datetime
import json
from fractions import Fraction
from itertools import pairwise
from typing import Any

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xr_lstsq.design import from_json, parse
from xr_lstsq.design.intervals import WEAK
from xr_lstsq.design.network import Network, displacements, network
from xr_lstsq.design.terms import Sum
from xr_lstsq.design.time import polynomial
from xr_lstsq.errors import LabelError

UNKNOWNS = ("velocity", "displacement", "increment")
YEAR_DAYS = {
    "standard": Fraction(1461, 4),
    "proleptic_gregorian": Fraction(1461, 4),
    "julian": Fraction(1461, 4),
    "noleap": Fraction(365),
    "all_leap": Fraction(366),
    "360_day": Fraction(360),
}
DATES = ("2018-03-09", "2018-03-21", "2018-04-02", "2018-04-26", "2019-01-03")
PAIRS = ((0, 1), (1, 2), (0, 2), (3, 1), (2, 4), (4, 3))


def samples(reference: Any, secondary: Any, **coords: Any) -> xr.DataArray:
    """Return the sample coordinate of a cube of pairs, numbered, as a solve hands it to terms."""
    labels = 10 * np.arange(len(reference)) + 3
    cube = xr.DataArray(np.zeros(len(reference)), {"pair": labels}, ["pair"])
    given = {"reference": reference, "secondary": secondary} | coords
    cube = cube.assign_coords({name: ("pair", values) for name, values in given.items()})
    return cube["pair"]


def stamps(*texts: str, unit: str = "ns") -> np.ndarray:
    return np.array(texts, dtype=f"datetime64[{unit}]")


def stack(pairs: Any = PAIRS, dates: Any = DATES) -> xr.DataArray:
    every = stamps(*dates)
    return samples(every[[r for r, _ in pairs]], every[[s for _, s in pairs]])


def oracle(
    ends: list[tuple[datetime.datetime, datetime.datetime]],
    unknown: str,
    year: Fraction = YEAR_DAYS["standard"],
    reference: datetime.datetime | None = None,
) -> np.ndarray:
    """Return the design, pair by pair and interval by interval, in exact fractions."""
    dates = sorted({date for pair in ends for date in pair})
    reference = dates[0] if reference is None else reference
    rows = []
    for first, second in ends:
        row = []
        if unknown == "displacement":
            row = [(date == second) - (date == first) for date in dates if date != reference]
        else:
            for early, late in pairwise(dates):
                span = late - early
                days = (
                    span.days
                    + Fraction(span.seconds, 86400)
                    + Fraction(span.microseconds, 864 * 10**8)
                )
                length = days / year if unknown == "velocity" else Fraction(1)
                if first <= early and late <= second:
                    row.append(length)
                elif second <= early and late <= first:
                    row.append(-length)
                else:
                    row.append(Fraction(0))
        rows.append([float(value) for value in row])
    return np.array(rows)


def day(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("unknown", UNKNOWNS)
def test_rows_are_those_of_the_pairs_one_by_one(unknown: str) -> None:
    columns = network(unknown=unknown).evaluate(stack())
    want = oracle([(day(DATES[r]), day(DATES[s])) for r, s in PAIRS], unknown)
    np.testing.assert_array_equal(columns.matrix, want)
    assert columns.matrix.dtype == np.float64
    assert not np.signbit(columns.matrix[columns.matrix == 0]).any()
    ends = DATES[1:]
    assert columns.names == tuple(f"{unknown}_{date}" for date in ends)
    assert set(columns.units) == {"year-1" if unknown == "velocity" else ""}
    assert columns.levels == (False,) * 4
    assert columns.origins == ("",) * 4


def test_long_names_say_from_when_to_when() -> None:
    assert network().evaluate(stack()).long_names[1] == "velocity from 2018-03-21 to 2018-04-02"
    term = network(unknown="increment")
    assert term.evaluate(stack()).long_names[0] == "change from 2018-03-09 to 2018-03-21"
    term = network(unknown="displacement", reference_date="2018-03-21")
    long_names = term.evaluate(stack()).long_names
    assert long_names[:2] == (
        "displacement at 2018-03-09 since 2018-03-21",
        "displacement at 2018-04-02 since 2018-03-21",
    )


@pytest.mark.parametrize("place", range(len(DATES)))
def test_any_date_can_be_the_one_without_displacement(place: int) -> None:
    term = network(unknown="displacement", reference_date=DATES[place])
    columns = term.evaluate(stack())
    ends = [(day(DATES[r]), day(DATES[s])) for r, s in PAIRS]
    want = oracle(ends, "displacement", reference=day(DATES[place]))
    np.testing.assert_array_equal(columns.matrix, want)
    assert f"displacement_{DATES[place]}" not in columns.names


def test_a_pair_the_other_way_round_has_the_other_sign() -> None:
    for unknown in UNKNOWNS:
        forward = network(unknown=unknown).evaluate(stack()).matrix
        backward = network(unknown=unknown).evaluate(stack([(s, r) for r, s in PAIRS])).matrix
        np.testing.assert_array_equal(forward, -backward)


@pytest.mark.parametrize("unit", ["day", "hour", "minute", "second"])
def test_velocities_are_counted_in_the_unit(unit: str) -> None:
    columns = network(unit=unit).evaluate(stack([(0, 1), (1, 2)], DATES[:3]))
    each = {"day": 12, "hour": 288, "minute": 17280, "second": 1036800}[unit]
    np.testing.assert_array_equal(columns.matrix, [[each, 0], [0, each]])
    assert columns.units == (f"{unit}-1",) * 2


def test_a_name_goes_before_every_param_name() -> None:
    names = network(name="asc").evaluate(stack([(0, 1)])).names
    assert names == ("asc_velocity_2018-03-21",)


def test_dates_with_a_time_of_day_keep_it() -> None:
    coord = samples(stamps("2018-03-09T05:30:00"), stamps("2018-03-21T05:30:12.5"))
    columns = network().evaluate(coord)
    assert columns.names == ("velocity_2018-03-21T05:30:12.5",)
    ends = [(day("2018-03-09T05:30:00"), day("2018-03-21T05:30:12.500000"))]
    np.testing.assert_array_equal(columns.matrix, oracle(ends, "velocity"))


# --- dates of every kind ------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_resolution_of_dates_does_not_matter(unit: str) -> None:
    first, second = stamps(*DATES[:4], unit=unit), stamps(*DATES[1:])
    want = network().evaluate(samples(stamps(*DATES[:4]), second))
    got = network().evaluate(samples(first, second))
    np.testing.assert_array_equal(got.matrix, want.matrix)
    assert got.names == want.names


@pytest.mark.parametrize("calendar", YEAR_DAYS)
def test_cftime_dates_have_the_years_of_their_calendar(calendar: str) -> None:
    parts = [(2018, 2, 27), (2018, 3, 1, 6), (2019, 2, 28), (2020, 4, 30)]
    dates = [cftime.datetime(*part, calendar=calendar) for part in parts]
    ends = [(dates[r], dates[s]) for r, s in ((0, 1), (3, 1), (2, 3), (0, 2))]
    coord = samples(
        np.array([r for r, _ in ends], dtype=object), np.array([s for _, s in ends], dtype=object)
    )
    for unknown in UNKNOWNS:
        bound = network(unknown=unknown).bind(coord)
        columns = bound.evaluate(coord)
        want = oracle(ends, unknown, YEAR_DAYS[calendar])
        np.testing.assert_array_equal(columns.matrix, want)
        assert (bound.kind, bound.calendar) == ("cftime", calendar)
        assert columns.names[0] == f"{unknown}_2018-03-01T06:00:00"


def kinds_of_dates(texts: tuple[str, ...]) -> dict[str, Any]:
    days = [day(text) for text in texts]
    return {
        "texts": list(texts),
        "digits": [text.replace("-", "") for text in texts],
        "tuple": texts,
        "datetime": days,
        "date": [one.date() for one in days],
        "Timestamp": [pd.Timestamp(text) for text in texts],
        "DatetimeIndex": pd.DatetimeIndex(list(texts)),
        "datetime64[D]": stamps(*texts, unit="D"),
        "datetime64[h]": stamps(*texts, unit="h"),
        "list of datetime64": list(stamps(*texts)),
        "DataArray": xr.DataArray(stamps(*texts), dims="pair"),
        "bytes": np.array([text.encode() for text in texts]),
        "objects": np.array(texts, dtype=object),
    }


@pytest.mark.parametrize("kind", kinds_of_dates(DATES))
def test_dates_may_be_given_in_any_way(kind: str) -> None:
    plain = stack()[:4].drop_vars(["reference", "secondary"])
    coord = samples(stamps(*DATES[:4]), stamps(*DATES[1:]))
    want = network().evaluate(coord)
    term = network(kinds_of_dates(DATES[:4])[kind], kinds_of_dates(DATES[1:])[kind])
    got = term.evaluate(plain)
    np.testing.assert_array_equal(got.matrix, want.matrix)
    assert got.names == want.names
    assert json.dumps(term.bind(plain).to_json()["dates"]) == json.dumps(list(DATES))
    hash(term)


@pytest.mark.parametrize("missing", [None, np.datetime64("NaT"), "NaT", "", pd.NaT, np.nan])
def test_a_missing_date_makes_a_row_of_nan_and_leaves_the_others_alone(missing: Any) -> None:
    whole = network().evaluate(stack([(0, 1), (1, 2)]))
    first = [DATES[0], DATES[4], DATES[1]]
    second = np.array([DATES[1], missing, DATES[2]], dtype=object)
    plain = stack(PAIRS[:3]).drop_vars(["reference", "secondary"])
    got = network(first, second).evaluate(plain)
    assert got.names == whole.names
    np.testing.assert_array_equal(got.matrix[[0, 2]], whole.matrix)
    assert np.isnan(got.matrix[1]).all()
    assert got.required is not None
    assert not got.required[0][:, 1].any()


def test_coordinates_of_texts_are_read_as_dates() -> None:
    term = network()
    coord = samples(list(DATES[:4]), [text.replace("-", "") for text in DATES[1:]])
    want = term.evaluate(samples(stamps(*DATES[:4]), stamps(*DATES[1:])))
    np.testing.assert_array_equal(term.evaluate(coord).matrix, want.matrix)


def test_any_coordinate_along_the_samples_may_hold_the_dates() -> None:
    coord = stack().rename(reference="master", secondary="slave")
    want = network().evaluate(stack()).matrix
    np.testing.assert_array_equal(network("master", "slave").evaluate(coord).matrix, want)
    # The dim itself too, as where a cube lies along the second dates
    time = xr.DataArray(np.zeros(4), {"time": stamps(*DATES[1:])}, ["time"])
    time = time.assign_coords(reference=("time", stamps(*DATES[:4])))["time"]
    got = network(secondary="time").evaluate(time).matrix
    np.testing.assert_array_equal(got, network(DATES[:4], DATES[1:]).evaluate(time).matrix)
    assert np.count_nonzero(got) == 4


# --- dates that the term holds ------------------------------------------------------------------


def test_dates_that_a_coordinate_has_go_by_its_name() -> None:
    coord = stack()
    by_name = network().bind(coord)
    assert network(coord["reference"], coord["secondary"]).bind(coord) == by_name
    assert network(coord["reference"].values, "secondary").bind(coord) == by_name
    other = coord.rename(reference="master")
    assert network(other["master"], "secondary").bind(other) == network("master").bind(other)


def test_labelled_dates_are_matched_with_the_samples() -> None:
    coord = stack()
    plain = coord.drop_vars(["reference", "secondary"])
    want = network().evaluate(coord).matrix
    order = [3, 0, 5, 1, 4, 2]
    mixed = network(coord["reference"][order], coord["secondary"][order])
    np.testing.assert_array_equal(mixed.evaluate(plain).matrix, want)
    bound = mixed.bind(plain)
    # Bound dates are those of the samples by their labels, so that some of them can be asked for
    np.testing.assert_array_equal(bound.evaluate(plain[order[:2]]).matrix, want[order[:2]])
    foreign = plain.assign_coords(pair=plain["pair"] + 1)["pair"]
    with pytest.raises(LabelError, match=r"by the labels of 'pair', and none for '4'"):
        mixed.bind(foreign)


def test_plain_dates_are_in_the_order_of_the_samples() -> None:
    coord = stack().drop_vars(["reference", "secondary"])
    term = network(stack()["reference"].values, stack()["secondary"].values)
    np.testing.assert_array_equal(term.evaluate(coord).matrix, network().evaluate(stack()).matrix)
    with pytest.raises(LabelError, match=r"has 6 dates, and 'pair' has 5 samples.*assign_coords"):
        term.bind(coord[:5])


def test_samples_need_no_labels() -> None:
    bare = xr.DataArray(np.zeros(6), dims="pair")["pair"]
    coord = bare.assign_coords(
        {name: ("pair", stack()[name].values) for name in ("reference", "secondary")}
    )
    assert "pair" not in coord.coords
    want = network().evaluate(stack()).matrix
    np.testing.assert_array_equal(network().evaluate(coord).matrix, want)
    term = network(stack()["reference"].values, stack()["secondary"].values)
    np.testing.assert_array_equal(term.evaluate(bare).matrix, want)


# --- a bound network ----------------------------------------------------------------------------


def test_a_bound_network_knows_all_pairs_of_its_dates() -> None:
    bound = network().bind(stack([(0, 1), (1, 2), (2, 3), (3, 4)]))
    got = bound.evaluate(stack([(4, 0), (1, 3)])).matrix
    want = oracle([(day(a), day(b)) for a, b in pairwise(DATES)], "velocity")
    np.testing.assert_array_equal(got[0], -want.sum(axis=0))
    np.testing.assert_array_equal(got[1], want[1] + want[2])
    assert bound.bind(stack([(0, 1)])) == bound


def test_a_bound_network_refuses_other_dates() -> None:
    bound = network().bind(stack([(0, 1), (1, 2)]))
    with pytest.raises(LabelError, match=r"^2019-01-03 is none of the 3 dates"):
        bound.evaluate(stack([(0, 4)]))
    noleap = np.array([cftime.DatetimeNoLeap(2018, 3, 9)], dtype=object)
    later = np.array([cftime.DatetimeNoLeap(2018, 3, 21)], dtype=object)
    with pytest.raises(ValueError, match="is bound to datetime64 dates"):
        bound.evaluate(samples(noleap, later))


def test_the_reference_date_is_the_first_unless_another_is_asked_for() -> None:
    assert network().bind(stack()).reference_date == DATES[0]
    term = network(reference_date=np.datetime64(DATES[2]))
    assert term.bind(stack()).reference_date == DATES[2]
    with pytest.raises(ValueError, match=r"reference_date='2018-03-10' is none of the 5 dates"):
        network(reference_date="2018-03-10").bind(stack())


def test_displacements_of_a_pair_are_its_row_exactly() -> None:
    for unknown in UNKNOWNS:
        for start in DATES:
            term = network(unknown=unknown, reference_date=start).bind(stack())
            dates, matrix = displacements(term)
            assert dates == list(DATES)
            assert not matrix[dates.index(start)].any()
            rows = term.evaluate(stack()).matrix
            differences = [matrix[s] - matrix[r] for r, s in PAIRS]
            np.testing.assert_array_equal(differences, rows)
            assert np.linalg.matrix_rank(matrix) == 4
            assert term.names == term.evaluate(stack()).names


def test_displacements_need_dates() -> None:
    with pytest.raises(ValueError, match="bind it to samples first"):
        displacements(network())


# --- what a pixel must have, and constraints ----------------------------------------------------


def test_every_date_requires_its_pairs() -> None:
    groups, least = network(min_redundancy=2).evaluate(stack()).required or (np.zeros(0), 0)
    assert least == 2
    want = [[place in pair for pair in PAIRS] for place in range(len(DATES))]
    assert groups.dtype == bool
    np.testing.assert_array_equal(groups, want)
    assert network(min_redundancy=0).evaluate(stack()).required is None
    joined = (network() + polynomial(0)).evaluate(stack_with_time())
    assert joined.required is not None


def stack_with_time() -> xr.DataArray:
    time = xr.DataArray(np.zeros(4), {"time": stamps(*DATES[1:])}, ["time"])
    ends = {"reference": ("time", stamps(*DATES[:4])), "secondary": ("time", stamps(*DATES[1:]))}
    return time.assign_coords(ends)["time"]


@pytest.mark.parametrize("unknown", UNKNOWNS)
@pytest.mark.parametrize(("constraint", "degree"), [("linear", 1), ("quadratic", 2)])
def test_a_constraint_is_weak_and_zero_for_a_polynomial_alone(
    unknown: str, constraint: Any, degree: int
) -> None:
    term = network(unknown=unknown, constraint=constraint, reference_date=DATES[2]).bind(stack())
    rows = term.evaluate(stack()).constraint
    assert rows is not None
    dates, at_dates = displacements(term)
    years = np.array([(day(date) - day(dates[0])).days / 365.25 for date in dates])
    x = np.random.default_rng(3).normal(size=4)
    moved = at_dates @ x
    nearest = np.polyval(np.polyfit(years, moved, degree), years)
    want = WEAK**2 * np.sum((moved - nearest) ** 2)
    np.testing.assert_allclose(np.sum((rows @ x) ** 2), want, rtol=1e-10)
    # Params whose displacements follow the polynomial
    follow = np.array([years - years[2], (years - years[2]) ** 2][:degree]).T
    for target in follow.T:
        exact = np.linalg.lstsq(at_dates, target, rcond=None)[0]
        np.testing.assert_allclose(at_dates @ exact, target, atol=1e-14)
        np.testing.assert_allclose(rows @ exact, 0, atol=1e-17)
    assert rows.shape == (len(dates) - degree - 1, 4)
    assert np.linalg.matrix_rank(rows) == len(rows)


def test_a_constraint_ties_unconnected_parts_to_one_velocity() -> None:
    apart = [(0, 1), (1, 2), (3, 4)]
    term = network(constraint="linear", min_redundancy=0).bind(stack(apart))
    columns = term.evaluate(stack(apart))
    whole = np.concatenate([columns.matrix, columns.constraint])
    assert np.linalg.matrix_rank(columns.matrix) == 3
    assert np.linalg.matrix_rank(whole) == 4
    velocity = np.full(4, -0.25)
    values = np.concatenate([columns.matrix @ velocity, np.zeros(3)])
    got = np.linalg.lstsq(whole, values, rcond=None)[0]
    np.testing.assert_allclose(got, velocity, rtol=1e-9)


def test_no_constraint_is_left_of_a_polynomial_through_all_dates() -> None:
    two = stack([(0, 1)])
    assert network(constraint="linear").evaluate(two).constraint is None
    assert network(constraint="quadratic").evaluate(stack([(0, 1), (1, 2)])).constraint is None
    assert network().evaluate(stack()).constraint is None


# --- laws ---------------------------------------------------------------------------------------


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, int]]]:
    """Return dates and pairs that connect all of them, in any order and direction."""
    days = draw(st.lists(st.integers(0, 4000), min_size=2, max_size=8, unique=True))
    start = np.datetime64("2014-10-03")
    dates = [str(start + np.timedelta64(each, "D")) for each in days]
    pairs = [(draw(st.integers(0, k - 1)), k) for k in range(1, len(dates))]
    place = st.integers(0, len(dates) - 1)
    more = st.tuples(place, place).filter(lambda pair: pair[0] != pair[1])
    pairs += draw(st.lists(more, max_size=8))
    pairs = [pair[::-1] if draw(st.booleans()) else pair for pair in pairs]
    return dates, draw(st.permutations(pairs))


@given(networks(), st.integers(0, 2**32 - 1))
def test_the_three_forms_fit_the_same_values(
    found: tuple[list[str], list[tuple[int, int]]], seed: int
) -> None:
    dates, pairs = found
    coord = stack(pairs, dates)
    noise = np.random.default_rng(seed).normal(size=len(pairs))
    fitted, series = [], []
    for unknown in UNKNOWNS:
        term = network(unknown=unknown, unit="day").bind(coord)
        matrix = term.evaluate(coord).matrix
        coef, _, rank, _ = np.linalg.lstsq(matrix, noise, rcond=1e-13)
        assert rank == len(dates) - 1
        fitted.append(matrix @ coef)
        series.append(displacements(term)[1] @ coef)
    for one in (fitted, series):
        np.testing.assert_allclose(one[0], one[1], atol=1e-9)
        np.testing.assert_allclose(one[0], one[2], atol=1e-9)


@given(networks(), st.integers(0, 2**32 - 1), st.sampled_from(UNKNOWNS))
def test_the_order_of_samples_is_that_of_the_rows(
    found: tuple[list[str], list[tuple[int, int]]], seed: int, unknown: Any
) -> None:
    dates, pairs = found
    order = np.random.default_rng(seed).permutation(len(pairs))
    term = network(unknown=unknown)
    one = term.evaluate(stack(pairs, dates))
    other = term.evaluate(stack([pairs[k] for k in order], dates))
    assert one.names == other.names
    np.testing.assert_array_equal(one.matrix[order], other.matrix)
    assert one.required is not None
    assert other.required is not None
    np.testing.assert_array_equal(one.required[0][:, order], other.required[0])


@given(networks(), st.data())
def test_rows_follow_from_displacements_and_the_oracle(
    found: tuple[list[str], list[tuple[int, int]]], data: st.DataObject
) -> None:
    dates, pairs = found
    unknown = data.draw(st.sampled_from(UNKNOWNS))
    start = data.draw(st.sampled_from(dates))
    coord = stack(pairs, dates)
    term = network(unknown=unknown, reference_date=start).bind(coord)
    rows = term.evaluate(coord).matrix
    ends = [(day(dates[r]), day(dates[s])) for r, s in pairs]
    np.testing.assert_array_equal(rows, oracle(ends, unknown, reference=day(start)))
    every, matrix = displacements(term)
    place = {date: number for number, date in enumerate(every)}
    got = [matrix[place[dates[s]]] - matrix[place[dates[r]]] for r, s in pairs]
    np.testing.assert_array_equal(got, rows)


# --- text and JSON ------------------------------------------------------------------------------

TERMS = [
    network(),
    network("master", "a name, with (marks)"),
    network(unknown="displacement", reference_date="2018-03-21"),
    network(unknown="increment", min_redundancy=0, constraint="quadratic", name="asc"),
    network(unit="day", min_redundancy=3),
    network([DATES[0]], [DATES[1]]),
    network(stack()["reference"], stack()["secondary"]),
    network(
        [cftime.datetime(2018, 2, 30, calendar="360_day"), None],
        [cftime.datetime(2018, 3, 30, calendar="360_day")] * 2,
    ),
]


@pytest.mark.parametrize("term", TERMS, ids=repr)
def test_text_and_json_read_back(term: Network) -> None:
    assert parse(repr(term)) == term
    assert from_json(json.loads(json.dumps(term.to_json()))) == term
    assert hash(parse(repr(term))) == hash(term)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("unknown", UNKNOWNS)
def test_a_bound_term_reads_back_and_gives_the_same_rows(unknown: Any, plain: bool) -> None:
    coord = stack()
    ends = (coord["reference"].values, coord["secondary"].values)
    term = network(*ends, unknown=unknown) if plain else network(unknown=unknown)
    coord = coord.drop_vars(["reference", "secondary"]) if plain else coord
    bound = term.bind(coord)
    data = json.loads(json.dumps(bound.to_json()))
    assert data["dates"] == list(DATES)
    assert (data["kind"], data["calendar"]) == ("datetime64", "proleptic_gregorian")
    for again in (from_json(data), parse(repr(bound))):
        assert again == bound
        np.testing.assert_array_equal(again.evaluate(coord).matrix, bound.evaluate(coord).matrix)


def test_networks_stand_in_sums() -> None:
    term = parse("network(unknown=displacement, reference_date=2018-03-21) + polynomial(1)")
    assert isinstance(term, Sum)
    assert term.terms[0] == network(unknown="displacement", reference_date="2018-03-21")
    assert parse("network(first, second)") == network("first", "second")
    twice = network() + network(name="b")
    with pytest.raises(ValueError, match="one network at most"):
        twice.evaluate(stack())


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unknown": "speed"}, r"unknown='speed' is not known. Choose from 'velocity'"),
        ({"constraint": "cubic"}, r"constraint='cubic' is not known"),
        ({"unit": "month"}, r"unit='month' is not known"),
        ({"min_redundancy": -1}, r"min_redundancy=-1 must be a whole number"),
        ({"min_redundancy": 1.5}, r"min_redundancy=1.5 must be a whole number"),
        ({"min_redundancy": True}, r"min_redundancy=True must be a whole number"),
        ({"name": "a b"}, r"name='a b' must be letters"),
        ({"reference_date": 20180321}, r"reference_date=20180321 must be a date, as in"),
        ({"reference_date": "NaT"}, r"reference_date='NaT' must be a date"),
        ({"reference_date": ["2018-03-21"]}, r"must be a date"),
        ({"reference": [1.5, 2.5]}, r"reference holds float64, and a pair needs dates"),
        ({"reference": [object()]}, r"reference holds objects such as"),
        ({"reference": ["March"]}, r"reference: 'March' is no date"),
        ({"reference": np.zeros((2, 2), "datetime64[ns]")}, r"reference has 2 dims"),
        ({"reference": []}, r"reference holds float64|must be the name"),
        ({"reference": DATES[:2], "secondary": DATES[:3]}, r"do not have one length, but 2, 3"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network(**arguments)


def test_a_pair_of_a_date_with_itself_is_refused() -> None:
    with pytest.raises(LabelError, match=r"sample 1 along 'pair' is a pair of 2018-03-21 with it"):
        network().bind(stack([(0, 1), (1, 1)]))


def test_a_coordinate_that_is_not_there_is_named() -> None:
    coord = stack().drop_vars("secondary")
    with pytest.raises(LabelError, match=r"secondary='secondary' is no coordinate along 'pair'"):
        network().bind(coord)
    with pytest.raises(LabelError, match=r"which has 'pair', 'reference'. Attach the dates with"):
        network().bind(coord)
    numbers = samples(stamps(*DATES[:2]), [1, 2])
    with pytest.raises(LabelError, match="the coordinate 'secondary' holds int64"):
        network().bind(numbers)


def test_dates_of_two_kinds_are_refused() -> None:
    noleap = np.array([cftime.DatetimeNoLeap(2018, 3, 9)], dtype=object)
    with pytest.raises(LabelError, match=r"dates of several kinds, .*cftime, datetime64"):
        network().bind(samples(noleap, stamps(DATES[1])))
    with pytest.raises(LabelError, match="dates of the calendars noleap, proleptic_gregorian"):
        network(noleap, stamps(DATES[1]))
    # Texts are of any calendar
    term = network(secondary=["2018-03-21"])
    bound = term.bind(samples(noleap, stamps(DATES[1])))
    assert (bound.kind, bound.calendar) == ("cftime", "noleap")


def test_samples_without_two_dates_are_refused() -> None:
    with pytest.raises(LabelError, match="finds no sample along 'pair' with 2 dates"):
        network().bind(samples(stamps("NaT"), stamps(DATES[0])))


def test_dates_with_different_labels_are_refused() -> None:
    coord = stack()
    with pytest.raises(LabelError, match="different labels of their samples"):
        network(coord["reference"], coord["secondary"][::-1])
    with pytest.raises(LabelError, match="different labels of their samples"):
        network(coord["reference"], coord["secondary"].values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dates": list(DATES[::-1])}, "must run from early to late"),
        ({"dates": list(DATES[1:])}, "with reference_date='2018-03-09' among them"),
        ({"dates": [DATES[0]]}, "two dates or more, or neither"),
        ({"dates": None}, "must both be there"),
        ({"kind": "numeric"}, "kind='numeric' must be 'datetime64' or 'cftime'"),
        ({"kind": None}, "must both be there"),
        ({"calendar": "noleap"}, "calendar='noleap' does not go with kind='datetime64'"),
        ({"calendar": "lunar"}, "calendar='lunar' does not go with"),
        ({"samples": ["a"]}, "do not have one length"),
        ({"samples": 3}, "must be the labels of samples"),
        ({"samples": "a, b"}, "must be the labels of samples"),
        ({"reference": 7}, "reference=7 must be the name of a coordinate, or dates"),
        ({"place": 7}, "unknown argument 'place'"),
    ],
    ids=str,
)
def test_json_that_is_no_network_is_refused(change: dict[str, Any], message: str) -> None:
    data = network().bind(stack()).to_json() | change
    with pytest.raises(ValueError, match=message):
        from_json({key: value for key, value in data.items() if value is not None})
