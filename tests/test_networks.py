"""Closure and connectivity of networks, against plain Python that walks each pixel's own graph."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cftime
import dask
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xr_lstsq.errors import ChunkError, DtypeError, LabelError
from xr_lstsq.networks import closure, connectivity

if TYPE_CHECKING:
    from collections.abc import Callable

CUBES = Path(__file__).parent / "data" / "cubes"
DAY = np.timedelta64(1, "D")
EPS32 = float(np.finfo(np.float32).eps)


def stack(
    days: np.ndarray, ends: list[tuple[int, int]], shape: tuple[int, ...] = (), seed: int = 0
) -> xr.DataArray:
    """Return pairs of dates (positions in days), with phases of the dates in every pixel."""
    rng = np.random.default_rng(seed)
    dates = np.datetime64("2017-03-04", "ns") + days.astype("timedelta64[D]")
    phase = rng.normal(scale=20.0, size=(days.size, *shape))
    a, b = np.array(ends, dtype=int).reshape(len(ends), 2).T
    return xr.DataArray(
        phase[b] - phase[a],
        dims=("pair", "y", "x")[: 1 + len(shape)],
        coords={"reference": ("pair", dates[a]), "secondary": ("pair", dates[b])},
        name="unw",
        attrs={"units": "radian", "standard_name": "phase"},
    )


@st.composite
def stacks(draw: st.DrawFn, flip: bool = True) -> xr.DataArray:
    """Draw networks with turned and repeated pairs, gaps and several pixels."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20), label="seed"))
    m = draw(st.sampled_from([2, 3, 5, 9, 70]), label="dates")
    n = draw(st.integers(1, 25), label="pairs")
    reach = draw(st.sampled_from([1, 2, 4, 100]), label="reach")
    days = np.cumsum(rng.integers(1, 60, m))
    ends = []
    for _ in range(n):
        a = int(rng.integers(0, m - 1))
        b = int(rng.integers(a + 1, min(m, a + 1 + reach)))
        ends.append((b, a) if flip and rng.random() < 0.3 else (a, b))
    cube = stack(days, ends, (3, 2), seed=int(rng.integers(2**20)))
    share = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]), label="share of gaps")
    return cube.where(rng.random(cube.shape) >= share)


def facts_of(cube: xr.DataArray, usable: np.ndarray) -> tuple[int, int, int, float]:
    """Return the facts of one pixel, by walking from date to date."""
    start, end = cube.reference.values, cube.secondary.values
    dates = sorted(set(start) | set(end))
    pairs = [(min(two), max(two)) for *two, ok in zip(start, end, usable, strict=True) if ok]
    left, groups = set(dates), []
    while left:
        group = {left.pop()}
        while more := {d for two in pairs if set(two) & group for d in two} - group:
            group |= more
        left -= group
        groups.append(group)
    gaps = sum(
        not any(a <= earlier and later <= b for a, b in pairs) for earlier, later in pairwise(dates)
    )
    looped = {
        k
        for three in combinations(range(len(pairs)), 3)
        if len({d for k in three for d in pairs[k]}) == 3 and len({pairs[k] for k in three}) == 3
        for k in three
    }
    years = max(((max(g) - min(g)) / DAY / 365.25 for g in groups), default=0.0)
    return len(groups), gaps, len(pairs) - len(looped), years


def triplets_of(cube: xr.DataArray) -> dict[tuple[Any, ...], list[np.ndarray]]:
    """Return the closures of each three dates, by trying all pairs."""
    start, end = cube.reference.values, cube.secondary.values

    def values(a: Any, b: Any) -> list[np.ndarray]:
        turned = [(k, -1.0) for k in range(start.size) if (start[k], end[k]) == (b, a)]
        given = [(k, 1.0) for k in range(start.size) if (start[k], end[k]) == (a, b)]
        return [s * cube.values[k] for k, s in sorted(given + turned)]

    found = {}
    for a, b, c in combinations(sorted(set(start) | set(end)), 3):
        sums = [x + y - z for x, y, z in product(values(a, b), values(b, c), values(a, c))]
        if sums:
            found[a, b, c] = sums
    return found


# --- connectivity ---------------------------------------------------------------------------


@given(stacks())
def test_facts_are_those_of_a_walk_through_each_pixels_pairs(cube: xr.DataArray) -> None:
    facts = connectivity(cube)
    for y, x in np.ndindex(3, 2):
        expected = facts_of(cube, np.isfinite(cube.values[:, y, x]))
        found = [float(fact[y, x]) for fact in facts.data_vars.values()]
        assert found[:3] == list(expected[:3])
        assert found[3] == pytest.approx(expected[3], rel=EPS32)


def test_many_patterns_are_cut_into_batches_and_put_back_in_place() -> None:
    days = np.arange(12) * 12
    ends = [(a, b) for a, b in combinations(range(12), 2) if b - a < 4]
    cube = stack(days, ends, (60, 50))
    gaps = np.random.default_rng(3).random(cube.shape) < 0.6
    facts = connectivity(cube.where(~gaps))
    for y, x in [(0, 0), (31, 7), (59, 49), (17, 33), (44, 12)]:
        found = [float(fact[y, x]) for fact in facts.data_vars.values()]
        assert found == pytest.approx(facts_of(cube, ~gaps[:, y, x]), rel=EPS32)


def test_dtypes_names_and_attributes_say_what_each_map_is() -> None:
    facts = connectivity(stack(np.arange(4) * 12, [(0, 1), (1, 2), (2, 3)], (2, 2)))
    assert {name: str(fact.dtype) for name, fact in facts.items()} == {
        "n_components": "int32",
        "n_gap": "int32",
        "n_pairs_no_loop": "int32",
        "max_connected_years": "float32",
    }
    assert [fact.attrs["units"] for fact in facts.values()] == ["1", "1", "1", "year"]
    assert all(fact.attrs["long_name"] and fact.dims == ("y", "x") for fact in facts.values())


def test_a_pixel_without_pairs_has_as_many_groups_as_dates() -> None:
    cube = stack(np.array([0, 12, 24, 400]), [(0, 1), (1, 2), (0, 3)], (1, 1)) * np.nan
    facts = connectivity(cube).squeeze()
    assert [float(fact) for fact in facts.values()] == [4, 3, 0, 0]


def test_groups_that_overlap_in_time_have_no_gap_and_are_not_one() -> None:
    cube = stack(np.array([0, 100, 200, 300]), [(0, 2), (1, 3)])
    facts = connectivity(cube)
    assert (facts.n_components, facts.n_gap) == (2, 0)
    assert float(facts.max_connected_years) == pytest.approx(200 / 365.25)


def test_a_loop_of_four_pairs_has_no_triplet() -> None:
    facts = connectivity(stack(np.arange(4) * 12, [(0, 1), (1, 2), (2, 3), (0, 3)]))
    assert facts.n_pairs_no_loop == 4


def test_a_pair_that_is_there_twice_is_no_loop() -> None:
    facts = connectivity(stack(np.arange(2) * 12, [(0, 1), (1, 0)]))
    assert (facts.n_components, facts.n_pairs_no_loop) == (1, 2)


def test_the_order_of_pairs_and_their_direction_do_not_matter() -> None:
    cube = stack(np.arange(9) * 12, [(0, 1), (1, 2), (0, 2), (4, 5), (3, 8)], (4, 4))
    cube = cube.where(np.random.default_rng(1).random(cube.shape) < 0.6)
    turned = cube.isel(pair=[4, 2, 0, 3, 1])
    turned = turned.assign_coords(reference=turned.secondary, secondary=turned.reference)
    xr.testing.assert_identical(connectivity(cube), connectivity(turned))


@pytest.mark.parametrize("missing", [np.inf, -np.inf, -9999.0])
def test_infinity_and_nodata_are_missing(missing: float) -> None:
    cube = stack(np.arange(3) * 12, [(0, 1), (1, 2), (0, 2)], (1, 2))
    holes = cube.copy()
    holes[1, 0, 0] = missing
    nodata = missing if np.isfinite(missing) else None
    expected = cube.where(holes == cube)
    xr.testing.assert_identical(connectivity(holes, nodata=nodata), connectivity(expected))
    assert connectivity(expected).n_pairs_no_loop.values.tolist() == [[2, 0]]


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8"])
def test_fill_values_in_the_attrs_count_as_their_dtype_stores_them(dtype: str) -> None:
    cube = stack(np.arange(3) * 12, [(0, 1), (1, 2), (0, 2)], (1, 2))
    values = np.array([[[3, 4]], [[7, 5]], [[7, 6]]]).astype(dtype)
    fill: Any = 7
    if dtype == "float32":
        values[values == 7] = 0.1
        fill = [0.1]
    cube = cube.copy(data=values).assign_attrs(_FillValue=fill)
    assert connectivity(cube).n_components.values.tolist() == [[2, 1]]
    other = [70000.0, -1.5, np.nan]  # in no cube of integers
    assert connectivity(cube, nodata=other).n_components.values.tolist() == [[2, 1]]
    assert connectivity(cube, nodata=[4, *other]).n_components.values.tolist() == [[2, 1]]
    assert connectivity(cube, nodata=[4, 5]).n_components.values.tolist() == [[2, 2]]


def test_valid_counts_by_labels_and_from_any_dims() -> None:
    cube = stack(np.arange(5) * 12, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)], (3, 2))
    cube = cube.assign_coords(pair=list("abcde"), y=[3.0, 2.0, 1.0], x=[0, 1])
    rng = np.random.default_rng(5)
    valid = cube.copy(data=rng.random(cube.shape) < 0.5)
    expected = connectivity(cube.where(valid))
    assert not expected.equals(connectivity(cube))
    shuffled = valid.isel(y=[1, 2, 0], pair=[4, 0, 2, 1, 3]).transpose("x", "pair", "y")
    for flags in (valid, shuffled, valid.astype("i1"), valid.values):
        xr.testing.assert_identical(connectivity(cube, valid=flags), expected)
    bare = valid.drop_vars(["reference", "secondary"])
    of_pairs, of_pixels = bare[:, 0, 0].drop_vars(["y", "x"]), bare[2].drop_vars("pair")
    for some in (of_pairs, of_pairs.values, of_pixels, bare[:, 1].drop_vars("y")):
        flags = some if isinstance(some, xr.DataArray) else of_pairs
        expected = connectivity(cube.where(flags))
        xr.testing.assert_identical(connectivity(cube, valid=some), expected)


def test_a_pair_without_a_date_does_not_count() -> None:
    cube = stack(np.arange(4) * 12, [(0, 1), (1, 2), (0, 2), (2, 3)], (2, 2))
    secondary = cube.secondary.copy()
    secondary[3] = np.datetime64("NaT", "ns")
    lame = cube.assign_coords(secondary=secondary)
    xr.testing.assert_identical(connectivity(lame), connectivity(cube[:3]))
    assert closure(lame).sizes["triplet"] == 1


@pytest.mark.parametrize(("calendar", "year"), [("standard", 365.25), ("noleap", 365)])
def test_cftime_dates_of_any_calendar_are_read(calendar: str, year: float) -> None:
    cube = stack(np.arange(4) * 12, [(0, 1), (1, 2), (3, 1), (0, 2)], (2, 2))
    cube = cube.where(np.random.default_rng(0).random(cube.shape) < 0.7)

    def convert(dates: xr.DataArray) -> Any:
        parts = [(d.year, d.month, d.day) for d in dates.to_index()]
        return "pair", [cftime.datetime(*ymd, calendar=calendar) for ymd in parts]

    other = cube.assign_coords(reference=convert(cube.reference), secondary=convert(cube.secondary))
    facts = connectivity(cube)
    facts["max_connected_years"].values *= 365.25 / year
    xr.testing.assert_allclose(connectivity(other), facts, rtol=1e-6)
    np.testing.assert_array_equal(closure(other).values, closure(cube).values)
    assert closure(other).first.values[0].calendar == calendar


def test_a_cube_of_no_pairs_and_one_of_no_pixels_have_facts() -> None:
    cube = stack(np.arange(3) * 12, [(0, 1), (1, 2), (0, 2)], (2, 2))
    assert connectivity(cube[:0]).n_components.values.tolist() == [[0, 0], [0, 0]]
    assert connectivity(cube[:, :0]).n_gap.shape == (0, 2)
    assert closure(cube[:0]).shape == (0, 2, 2)


# --- closure --------------------------------------------------------------------------------


@given(stacks())
def test_closures_are_those_of_every_combination_of_pairs(cube: xr.DataArray) -> None:
    found = closure(cube)
    expected = triplets_of(cube)
    flat = [(dates, one) for dates, sums in expected.items() for one in sums]
    assert found.dims == ("triplet", "y", "x")
    dates = zip(found.first.values, found.second.values, found.third.values, strict=True)
    assert list(dates) == [three for three, _ in flat]
    np.testing.assert_array_equal(found.values, np.array([x for _, x in flat]).reshape(found.shape))


@given(stacks(), st.integers(0, 24), st.sampled_from(["float64", "float32"]))
def test_an_error_of_one_pair_is_in_its_triplets_and_in_no_other(
    cube: xr.DataArray, k: int, dtype: str
) -> None:
    k %= cube.sizes["pair"]
    clean = closure(cube.astype(dtype))
    assert clean.dtype == dtype
    bound = 8 * float(np.finfo(dtype).eps) * float(np.abs(cube).max().fillna(0))
    assert (np.abs(clean).fillna(0) <= bound).all()
    wrong = cube.copy()
    wrong[k] += 2 * np.pi
    jump = np.abs(closure(wrong.astype(dtype)) - clean)
    two = {cube.reference.values[k], cube.secondary.values[k]}
    of_dates = [
        two <= {a, b, c}
        for a, b, c in zip(jump.first.values, jump.second.values, jump.third.values, strict=True)
    ]
    twins = [
        {a, b} == two for a, b in zip(cube.reference.values, cube.secondary.values, strict=True)
    ]
    seen = np.isfinite(jump.values)
    hit = (jump.values > 1) & seen
    assert not hit[~np.array(of_dates, dtype=bool)].any()
    np.testing.assert_allclose(jump.values[hit], 2 * np.pi, rtol=1e-4)
    if sum(twins) == 1:
        np.testing.assert_array_equal(hit, seen & np.array(of_dates, dtype=bool)[:, None, None])


def test_closure_keeps_units_coordinates_and_grid_mapping() -> None:
    cube = stack(np.arange(3) * 12, [(0, 1), (1, 2), (0, 2)], (2, 3))
    cube = cube.assign_coords(
        y=[2.0, 1.0],
        bperp=("pair", [1.0, 2.0, 3.0]),
        lat=(("y", "x"), np.zeros((2, 3))),
        spatial_ref=0,
    )
    cube.encoding["grid_mapping"] = "spatial_ref"
    found = closure(cube.transpose("y", "pair", "x"))
    assert found.dims == ("triplet", "y", "x")
    assert found.attrs == {"long_name": "triplet closure", "units": "radian"}
    assert set(found.coords) == {"y", "lat", "spatial_ref", "first", "second", "third"}
    assert found.encoding["grid_mapping"] == "spatial_ref"
    facts = connectivity(cube)
    assert set(facts.coords) == {"y", "lat", "spatial_ref"}
    assert all(fact.encoding["grid_mapping"] == "spatial_ref" for fact in facts.values())


def test_no_triplet_is_an_empty_array_that_can_be_written(tmp_path: Path) -> None:
    found = closure(stack(np.arange(4) * 12, [(0, 1), (1, 2), (2, 3)], (2, 2)))
    assert found.shape == (0, 2, 2)
    found.to_netcdf(tmp_path / "empty.nc")
    with xr.open_dataarray(tmp_path / "empty.nc", decode_times=False) as again:
        assert again.sizes == found.sizes


def test_integers_become_float64_and_fill_values_nan() -> None:
    cube = stack(np.arange(3) * 12, [(1, 0), (1, 2), (0, 2)], (1, 2))
    cube = cube.copy(data=np.array([[[250, 9]], [[200, 200]], [[0, 0]]], "u1"))
    found = closure(cube.assign_attrs(_FillValue=np.uint8(9)))
    np.testing.assert_array_equal(found.values, [[[-50.0, np.nan]]])
    assert found.dtype == np.float64


def test_infinite_values_have_no_closure() -> None:
    cube = stack(np.arange(3) * 12, [(0, 1), (1, 2), (0, 2)]).copy(data=[np.inf, 1.0, np.inf])
    assert np.isnan(closure(cube).values).all()


# --- dates, dims and labels -----------------------------------------------------------------


@pytest.mark.parametrize("function", [closure, connectivity])
def test_dates_may_be_named_or_given_in_another_order(function: Callable[..., Any]) -> None:
    cube = stack(np.arange(4) * 12, [(0, 1), (1, 2), (0, 2), (3, 1)], (2, 2))
    cube = cube.where(np.random.default_rng(2).random(cube.shape) < 0.8)
    expected = function(cube)
    named = cube.rename(reference="date1", secondary="date2")
    xr.testing.assert_identical(function(named, "date1", "date2"), expected)
    labelled = named.assign_coords(pair=list("abcd"))
    one, two = (labelled[name].isel(pair=[2, 0, 1, 3]) for name in ("date1", "date2"))
    bare = labelled.drop_vars(["date1", "date2"])
    xr.testing.assert_identical(function(bare, one, two, dim="pair"), expected)


@pytest.mark.parametrize("function", [closure, connectivity])
@pytest.mark.parametrize(
    ("change", "arguments", "error", "words"),
    [
        (lambda c: c.to_dataset(), {}, TypeError, "Select one of its variables"),
        (lambda c: c.values, {}, TypeError, "pairs come as a DataArray"),
        (lambda c: np.exp(1j * c), {}, DtypeError, "numpy.angle"),
        (lambda c: c, {"dim": "time"}, LabelError, "'time' is not a dim of 'unw'"),
        (lambda c: c, {"dim": "y"}, LabelError, "one date a pair along 'y' is needed"),
        (lambda c: c, {"reference": "date1"}, LabelError, "date1' is not a coordinate of 'unw'"),
        (lambda c: c, {"secondary": [1, 2, 3]}, TypeError, "secondary is a list"),
        (lambda c: c.assign_coords(reference=3), {}, LabelError, r"has the dims \(\)"),
        (lambda c: c.assign_coords(reference=c.bperp), {}, LabelError, "pandas.to_datetime"),
        (lambda c: c.assign_coords(secondary=c.reference), {}, LabelError, "3 pairs have one date"),
        (
            lambda c: c.assign_coords(reference=("pair", [cftime.DatetimeNoLeap(2000, 1, 1)] * 3)),
            {},
            LabelError,
            "cftime noleap and datetime64 dates",
        ),
        (
            lambda c: c.isel(y=slice(0, 3)).assign_coords(late=("y", c.reference.values)),
            {"secondary": "late"},
            LabelError,
            "reference lies along 'pair' and secondary along 'y'",
        ),
    ],
)
def test_what_is_no_network_is_refused_with_what_to_type(
    function: Callable[..., Any],
    change: Callable[[xr.DataArray], Any],
    arguments: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    cube = stack(np.arange(3) * 12, [(0, 1), (1, 2), (0, 2)], (4, 2))
    cube = cube.assign_coords(bperp=("pair", [1.0, 2.0, 3.0]))
    with pytest.raises(error, match=words):
        function(change(cube), **arguments)


def test_names_of_the_result_are_refused_in_the_cube() -> None:
    cube = stack(np.arange(3) * 12, [(0, 1), (1, 2), (0, 2)], (2, 2))
    with pytest.raises(LabelError, match=r"\['n_gap'\]"):
        connectivity(cube.assign_coords(n_gap=1))
    with pytest.raises(LabelError, match=r"\['triplet'\]"):
        closure(cube.rename(y="triplet"))
    assert closure(cube.rename(pair="triplet")).sizes["triplet"] == 1


@pytest.mark.parametrize(
    ("valid", "error", "words"),
    [
        (np.ones(4), LabelError, r"shape \(4,\)"),
        (np.ones(3), DtypeError, "float64"),
        (np.array([0, 1, 4]), ValueError, "layer of classes"),
        (xr.DataArray([True, False], dims="band"), LabelError, r"\['band'\]"),
    ],
)
def test_valid_that_holds_no_flags_is_refused(valid: Any, error: type, words: str) -> None:
    cube = stack(np.arange(3) * 12, [(0, 1), (1, 2), (0, 2)], (2, 2))
    with pytest.raises(error, match=words):
        connectivity(cube, valid=valid)
    with pytest.raises(ValueError, match="nodata='x'"):
        connectivity(cube, nodata="x")  # type: ignore[arg-type]


# --- lazy cubes -----------------------------------------------------------------------------


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("computed while the graph was built")


def test_lazy_cubes_give_the_same_and_compute_nothing_before() -> None:
    days = np.arange(9) * 12
    cube = stack(days, [(a, b) for a, b in combinations(range(9), 2) if b - a < 4], (7, 5))
    rng = np.random.default_rng(4)
    cube = cube.where(rng.random(cube.shape) < 0.6).astype("f4")
    valid = cube.copy(data=rng.random(cube.shape) < 0.8)

    def cut(array: xr.DataArray, **chunks: int) -> xr.DataArray:
        # The dates stay in memory, where xarray's own chunk would make them lazy too.
        return array.copy(data=array.variable.chunk(chunks).data)

    lazy = cut(cube, y=3, x=2)
    with dask.config.set(scheduler=refuse):
        facts = connectivity(lazy)
        masked = connectivity(lazy, valid=cut(valid, pair=4, y=7))
        by_valid = connectivity(cube, valid=cut(valid, pair=4, y=2))
        sums = closure(lazy)
        sums_cut = closure(cut(cube, pair=5, y=4))
    assert all(fact.chunks == ((3, 3, 1), (2, 2, 1)) for fact in facts.values())
    assert all(fact.chunks == ((3, 3, 1), (2, 2, 1)) for fact in masked.values())
    assert sums.chunks[1:] == ((3, 3, 1), (2, 2, 1))
    assert by_valid.n_gap.chunks is not None
    xr.testing.assert_identical(facts.compute(), connectivity(cube))
    xr.testing.assert_identical(masked.compute(), connectivity(cube, valid=valid))
    xr.testing.assert_identical(by_valid.compute(), connectivity(cube, valid=valid))
    xr.testing.assert_identical(sums.compute(), closure(cube))
    xr.testing.assert_identical(sums_cut.compute(), closure(cube))
    xr.testing.assert_identical(closure(cube.chunk(y=2)).compute(), closure(cube))


def test_all_facts_of_a_chunk_are_found_in_one_task() -> None:
    cube = stack(np.arange(5) * 12, [(0, 1), (1, 2), (0, 2), (2, 3)], (4, 4)).chunk(y=2)
    reads = []

    def read(block: np.ndarray) -> np.ndarray:
        reads.append(block.shape)
        return block

    counted = cube.copy(data=cube.data.map_blocks(read, dtype=cube.dtype, meta=cube.data._meta))
    connectivity(counted).compute(scheduler="sync")
    assert len(reads) == 2


def test_a_cube_cut_along_its_pairs_is_refused_with_what_to_type() -> None:
    cube = stack(np.arange(3) * 12, [(0, 1), (1, 2), (0, 2)], (2, 2)).chunk(pair=2)
    with pytest.raises(ChunkError, match=r"'pair' of 'unw' is in 2 chunks.*unw.chunk\(pair=-1\)"):
        connectivity(cube)


# --- a real stack ---------------------------------------------------------------------------


def test_a_real_stack_closes_but_for_whole_cycles_and_hangs_together_where_it_is_valid() -> None:
    with xr.open_dataset(CUBES / "insar_sydney_c.nc") as data:
        cube = data["unw"].load()
    facts = connectivity(cube, "first_date", "second_date")
    named = cube.rename(first_date="reference", second_date="secondary")
    stacked = named.stack(pixel=("y", "x"))
    for k in range(0, stacked.sizes["pixel"], 97):
        pixel = stacked.isel(pixel=k)
        y, x = divmod(k, cube.sizes["x"])
        found = [float(fact[y, x]) for fact in facts.values()]
        assert found == pytest.approx(facts_of(pixel, np.isfinite(pixel.values)), rel=EPS32)
    with xr.open_dataset(CUBES / "insar_mexico_s1.nc") as data:
        mexico = data["unw"].load()
    sums = closure(mexico, "first_date", "second_date")
    # Unreferenced pairs have constants of their own, which the median of a triplet takes off.
    cycles = (sums - sums.median(("y", "x"))) / (2 * np.pi)
    assert sums.sizes["triplet"] > 5
    assert float((np.abs(cycles - np.round(cycles)) < 0.25).mean()) > 0.9
