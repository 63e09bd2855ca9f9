"""Displacement from stacks of interferograms, against plain loops and MintPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr

from tests import mintpy_answers
from tests.mintpy_answers import network_of, real, some_of
from tests.test_timeseries import DATES, PAIRS, YEARS, line, make_stack, oracle, rows, series
from xr_lstsq.errors import DtypeError, LabelError
from xr_lstsq.recipes.sbas import sbas

DATA = Path(__file__).parent / "data" / "cubes"
WAVELENGTH = 0.05550415767769124
NAMES = ("timeseries", "velocity", "velocity_stderr", "temporal_coherence", "pair_rmse")


def make_phase(**kwargs: Any) -> xr.DataArray:
    """Return a stack of phase in radians."""
    return make_stack(**kwargs).assign_attrs(units="rad", long_name="unwrapped phase")


def test_every_map_is_that_of_a_loop_over_pixels() -> None:
    phase = make_phase()
    found = sbas(phase, wavelength=WAVELENGTH, min_redundancy=0)
    metres = -WAVELENGTH / (4 * np.pi)
    expected = oracle(phase)
    np.testing.assert_allclose(found["timeseries"], expected * metres, rtol=1e-9, atol=1e-15)
    residuals = np.full(phase.shape, np.nan)
    for place in np.ndindex(4, 6):
        y = phase.values[:, *place]
        there = np.isfinite(y)
        slope, stderr = line(YEARS, expected[:, *place] * metres)
        np.testing.assert_allclose(found["velocity"][place], slope, rtol=1e-8)
        np.testing.assert_allclose(found["velocity_stderr"][place], stderr, rtol=1e-7)
        full = series(y)
        e = y - np.array([full[b] - full[a] for a, b in PAIRS])
        residuals[:, *place] = e
        coherence = np.abs(np.exp(1j * e[there]).mean()) if there.any() else np.nan
        np.testing.assert_allclose(found["temporal_coherence"][place], coherence, rtol=1e-12)
        assert found["nobs"][place] == there.sum()
        design = rows(PAIRS, "velocity", 0, YEARS)[there]
        assert found["rank"][place] == (np.linalg.matrix_rank(design) if there.any() else 0)
    rmse = np.sqrt(np.nanmean(residuals**2, axis=(1, 2))) * abs(metres)
    np.testing.assert_allclose(found["pair_rmse"], rmse, rtol=1e-9, atol=1e-15)
    assert {str(name): array.attrs.get("units") for name, array in found.items()} == {
        "timeseries": "m",
        "velocity": "m year-1",
        "velocity_stderr": "m year-1",
        "pair_rmse": "m",
        "temporal_coherence": "1",
        "nobs": "1",
        "rank": "1",
        "status": None,
    }
    zero = found["timeseries"].isel(date=0).values
    assert not np.signbit(zero[zero == 0]).any()
    np.testing.assert_array_equal(found["pair_rmse"]["secondary"], phase["secondary"])
    assert found["timeseries"].encoding["grid_mapping"] == "spatial_ref"


@pytest.mark.parametrize("name", mintpy_answers.STACKS)
def test_real_stacks_have_the_minimum_norm_answer_of_a_loop_over_pixels(name: str) -> None:
    stack = real(name)
    found = sbas(stack, min_redundancy=0, undetermined="min_norm")["timeseries"]
    pairs, years = network_of(stack)
    flat, pixels = some_of(stack)
    for pixel in pixels:
        expected = series(flat[:, pixel], pairs=pairs, years=years)
        mine = found.values.reshape(len(years), -1)[:, pixel]
        np.testing.assert_allclose(mine, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", mintpy_answers.STACKS)
@pytest.mark.parametrize("least", mintpy_answers.LEAST)
def test_real_stacks_agree_with_mintpy(name: str, least: int) -> None:
    stack = real(name)
    found = sbas(stack, min_redundancy=least, undetermined="min_norm")
    pairs, years = network_of(stack)
    first = [k for k, pair in enumerate(pairs) if 0 in pair]
    flat, pixels = some_of(stack)
    theirs = np.load(mintpy_answers.path(name, least))
    np.testing.assert_array_equal(theirs["pixels"], pixels)
    solved = 0
    for k, pixel in enumerate(pixels):
        mine = found["timeseries"].values.reshape(len(years), -1)[:, pixel]
        # Theirs are 0 at blank pixels, and ask for no pairs at the first date
        if not theirs["counts"][k] or np.isfinite(flat[first, pixel]).sum() < least:
            assert np.isnan(mine).all()
            continue
        solved += 1
        tolerance = 1e-6 * np.abs(mine).max()
        np.testing.assert_allclose(mine, theirs["series"][:, k], rtol=0, atol=tolerance)
        quality = found["temporal_coherence"].values.ravel()[pixel]
        np.testing.assert_allclose(quality, theirs["coherence"][k], rtol=1e-6)
    assert solved > 50


def test_phase_of_the_opposite_sign_gives_the_same() -> None:
    phase = make_phase()
    opposite = (-phase).assign_attrs(phase.attrs)
    xr.testing.assert_allclose(
        sbas(phase, wavelength=0.2), sbas(opposite, wavelength=0.2, phase_sign=-1)
    )


def test_ground_that_comes_closer_has_a_positive_displacement() -> None:
    # One way of half a wave less is one cycle of phase less
    phase = make_phase(gaps=0.0)
    phase[:] = -2 * np.pi
    found = sbas(phase.isel(pair=[0]), wavelength=0.06)
    np.testing.assert_allclose(found["timeseries"].values[1], 0.03, rtol=1e-12)


def by_map(stack: xr.DataArray) -> Any:
    inside = (stack["y"] < 19.35) & (stack["x"] > -99.05)
    return inside.transpose("x", "y").isel(x=slice(None, None, -1))


AREAS: dict[str, Any] = {
    "slices": lambda _: {"y": slice(19.3, 19.35), "x": slice(-99.05, -99.0)},
    "downward": lambda _: {"y": slice(19.35, 19.3), "x": slice(-99.05, None)},
    "a map": by_map,
    "two-dimensional": lambda _: {"lat": slice(None, 19.35), "lon": slice(-99.05, 0)},
}


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("chunks", [None, {"y": 1, "x": 4}])
def test_the_mean_of_the_reference_area_is_taken_from_each_pair(
    area: str, chunks: dict[str, int] | None
) -> None:
    phase = make_phase(gaps=0.2, seed=4)
    lat, lon = xr.broadcast(phase["y"], phase["x"])
    phase = phase.assign_coords(lat=lat.drop_attrs(), lon=lon)
    given = phase if chunks is None else phase.chunk(chunks)
    found = sbas(given, reference_area=AREAS[area](phase), min_redundancy=0)
    window = phase.values[:, 2:, 3:]
    shifted = phase - xr.DataArray(np.nanmean(window, axis=(1, 2)), dims="pair")
    np.testing.assert_allclose(found["timeseries"], oracle(shifted), rtol=1e-9, atol=1e-12)
    assert "sbas_reference_area" in found.attrs


def test_a_place_is_the_nearest_pixel() -> None:
    phase = make_phase(gaps=0.0)
    found = sbas(phase, reference_area={"y": 19.36, "x": np.float32(-99.085)})
    assert (found["timeseries"].isel(y=1, x=1) == 0).all()
    assert (np.abs(found["timeseries"].isel(date=1)) < 1e-12).sum() == 1


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("fill", "nodata"), [(0.0, 0), (-99.0, [-99, 0]), (0.0, None)])
def test_nodata_is_left_out_before_the_mean_is_taken(fill: float, nodata: Any, sign: int) -> None:
    phase = make_phase(gaps=0.2, seed=4)
    area = {"y": slice(19.3, 19.35)}
    expected = sbas(phase, reference_area=area, min_redundancy=0)
    filled = (phase * sign).fillna(fill).assign_attrs(phase.attrs)
    if nodata is None:
        filled.attrs["_FillValue"] = fill
    found = sbas(filled, reference_area=area, nodata=nodata, phase_sign=sign, min_redundancy=0)
    xr.testing.assert_allclose(found.drop_attrs(), expected.drop_attrs())


def test_only_samples_that_count_enter_the_mean() -> None:
    phase = make_phase(gaps=0.0, seed=4)
    rng = np.random.default_rng(8)
    flags = xr.DataArray(rng.random(phase.shape) > 0.3, phase.coords, phase.dims)
    weights = xr.DataArray(rng.choice([0, 1, 3], phase.shape).astype(float), dims=phase.dims)
    area = {"y": slice(19.3, 19.35)}
    found = sbas(
        phase,
        reference_area=area,
        valid=flags.isel(y=slice(None, None, -1)),
        weights=weights,
        min_redundancy=0,
    )
    kept = phase.where(flags & (weights > 0)).values
    shifted = phase - xr.DataArray(np.nanmean(kept[:, 2:], axis=(1, 2)), dims="pair")
    shifted = shifted.where(np.isfinite(kept))
    for place in ((0, 1), (3, 4)):
        y = shifted.values[:, *place]
        expected = series(y, weights=weights.values[:, *place])
        line_ = found["timeseries"].values[:, *place]
        known = np.isfinite(line_)
        assert known.sum() > 1
        np.testing.assert_allclose(line_[known], expected[known], rtol=1e-9, atol=1e-12)


def test_a_pair_without_a_value_in_the_area_is_missing_and_named_once() -> None:
    phase = make_phase(gaps=0.1, seed=4)
    phase[1, 2:] = phase[4, 2:] = np.nan
    with pytest.warns(
        UserWarning, match="2 of 9 pairs .*2018-01-18_2018-01-30, 2018-03-07_201"
    ) as told:
        found = sbas(phase, reference_area={"y": slice(19.3, 19.35)}, min_redundancy=0)
    assert len(told) == 1
    assert Path(told[0].filename).name == "test_sbas.py"
    assert found["pair_rmse"].isnull().values.nonzero()[0].tolist() == [1, 4]
    assert int(found["nobs"].max()) == 7


def test_the_residuals_of_pairs_tell_the_bad_one() -> None:
    phase = make_phase(gaps=0.1)
    phase[1] += 2 * np.pi  # alone in two loops of pairs
    assert np.argmax(sbas(phase)["pair_rmse"].values) == 1


def test_weights_and_unknowns_are_handed_to_the_network() -> None:
    phase = make_phase(gaps=0.4, seed=2)
    weights = xr.DataArray(np.random.default_rng(1).random(phase.shape) + 0.1, dims=phase.dims)
    found = sbas(
        phase,
        unknown="displacement",
        weights=weights,
        reference_date="2018-02-23",
        min_redundancy=0,
        undetermined="min_norm",
    )
    for place in np.ndindex(4, 6):
        expected = series(
            phase.values[:, *place],
            unknown="displacement",
            zero=3,
            weights=weights.values[:, *place],
        )
        np.testing.assert_allclose(
            found["timeseries"].values[:, *place], expected, rtol=1e-8, atol=1e-10
        )
    assert found.attrs["sbas_unknown"] == "displacement"
    assert found.attrs["sbas_reference_date"] == "2018-02-23"
    assert found["timeseries"].attrs["reference_date"] == "2018-02-23"


def test_gaps_are_filled_by_a_constraint_where_one_is_given() -> None:
    phase = make_phase(gaps=0.4)
    found = sbas(phase, min_redundancy=0, constraint="linear")
    solved = found["nobs"] > 1
    assert bool(found["timeseries"].notnull().all("date").where(solved, True).all())
    assert bool((found["rank"] < 6).any())
    assert found.attrs["sbas_constraint"] == "linear"


def test_errors_of_the_pairs_can_be_propagated() -> None:
    phase = make_phase(gaps=0.1)
    own = sbas(phase, wavelength=0.2)
    found = sbas(phase, wavelength=0.2, error="propagated", absolute_sigma=True, weights=np.ones(9))
    xr.testing.assert_allclose(found["velocity"], own["velocity"])
    at = rows([(0, k) for k in range(len(DATES))], "velocity", 0, YEARS)
    c = np.linalg.pinv(np.c_[np.ones(len(DATES)), YEARS])[1] @ at
    design = rows(PAIRS, "velocity", 0, YEARS)[np.isfinite(phase.values[:, 2, 2])]
    expected = np.sqrt(c @ np.linalg.inv(design.T @ design) @ c) * 0.2 / (4 * np.pi)
    assert own["status"][2, 2] == 0
    np.testing.assert_allclose(found["velocity_stderr"][2, 2], expected, rtol=1e-8)


@pytest.mark.parametrize(("units", "coherent"), [(None, True), ("radians", True), ("mm", False)])
def test_without_a_wavelength_units_stay(units: str | None, coherent: bool) -> None:
    phase = make_phase()
    del phase.attrs["units"]
    found = sbas(phase if units is None else phase.assign_attrs(units=units))
    expected = units if units == "mm" else "radian"
    assert found["timeseries"].attrs["units"] == expected
    assert found["pair_rmse"].attrs["units"] == expected
    assert found["velocity"].attrs["units"] == f"{expected} year-1"
    assert ("temporal_coherence" in found) == coherent


def test_integers_are_phase_too() -> None:
    phase = make_phase().round().fillna(-99).astype(np.int16)
    expected = sbas(
        phase.where(phase != -99), min_redundancy=0, reference_area={"y": slice(19.3, 19.35)}
    )
    found = sbas(phase, nodata=-99, min_redundancy=0, reference_area={"y": slice(19.3, 19.35)})
    xr.testing.assert_allclose(found.drop_attrs(), expected.drop_attrs())


def test_a_stack_of_one_pixel_and_dates_beside_it() -> None:
    phase = make_phase(gaps=0.0)
    whole = sbas(phase, wavelength=0.2)
    one = phase.isel(y=1, x=2)
    bare = one.drop_vars(["reference", "secondary"])
    for found in (
        sbas(one, wavelength=0.2),
        sbas(
            bare,
            wavelength=0.2,
            dim="pair",
            reference=one["reference"].values,
            secondary=one["secondary"].values,
        ),
        sbas(
            bare,
            wavelength=0.2,
            reference=one["reference"].reset_coords(drop=True),
            secondary=one["secondary"].reset_coords(drop=True),
        ),
    ):
        assert found["timeseries"].dims == ("date",)
        np.testing.assert_allclose(
            found["timeseries"], whole["timeseries"].isel(y=1, x=2), rtol=1e-10, atol=1e-15
        )


def test_dates_may_be_levels_of_an_index() -> None:
    phase = make_phase()
    indexed = phase.set_index(pair=["reference", "secondary"])
    np.testing.assert_allclose(sbas(indexed)["timeseries"], sbas(phase)["timeseries"])


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("something was computed")


def test_a_lazy_stack_is_computed_in_one_pass_and_not_before() -> None:
    phase = make_phase(gaps=0.2)
    lazy = phase.copy(data=phase.chunk(y=2, x=3).data)
    arguments: dict[str, Any] = {"wavelength": 0.2, "nodata": 0, "phase_sign": -1}
    with dask.config.set(scheduler=refuse):
        found = sbas(lazy, **arguments)
        assert all(array.chunks for array in found.values())
        with pytest.raises(AssertionError, match="computed"):
            sbas(lazy, reference_area={"y": 19.3}, **arguments)
    assert found["timeseries"].chunks == ((7,), (2, 2), (3, 3))
    xr.testing.assert_allclose(found.compute(), sbas(phase, **arguments), rtol=1e-10)
    read: list[int] = []

    def count(block: Any) -> Any:
        read.append(block.size)
        return block

    counted = lazy.copy(data=lazy.data.map_blocks(count, dtype=lazy.dtype, meta=lazy.data._meta))
    sbas(counted, **arguments).compute(scheduler="synchronous")
    assert sum(read) == phase.size


def test_a_lazy_stack_reads_the_area_alone_for_its_means() -> None:
    phase = make_phase(gaps=0.2)
    read: list[int] = []

    def count(block: Any) -> Any:
        read.append(block.size)
        return block

    lazy = phase.copy(data=phase.chunk(y=1, x=3).data)
    counted = lazy.copy(data=lazy.data.map_blocks(count, dtype=lazy.dtype, meta=lazy.data._meta))
    with dask.config.set(scheduler="synchronous"):
        sbas(counted, reference_area={"y": 19.34, "x": -99.0})
    assert sum(read) == 9 * 3


def test_a_result_can_be_written(tmp_path: Path) -> None:
    found = sbas(
        make_phase(),
        wavelength=0.2,
        reference_area={"y": 19.3},
        nodata=[0, -99],
        min_redundancy=0,
        constraint="linear",
        valid=xr.DataArray(np.ones(9, bool), dims="pair", name="good"),
    )
    assert found.attrs["sbas_valid"] == "good"
    found.to_netcdf(tmp_path / "sbas.nc")
    with xr.open_dataset(tmp_path / "sbas.nc") as read:
        xr.testing.assert_allclose(read.set_coords("spatial_ref"), found)
        assert read.attrs["sbas_wavelength"] == 0.2


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"wavelength": -1.0}, ValueError, "0.0555"),
        ({"wavelength": True}, ValueError, "is not a length"),
        ({"phase_sign": 0}, ValueError, "nor -1"),
        ({"undetermined": "zero"}, ValueError, "'nan', 'min_norm'"),
        ({"error": "bootstrap"}, ValueError, "'fit', 'propagated'"),
        ({"reference": "date1"}, LabelError, "no coordinate 'date1'.*'reference'"),
        ({"secondary": "date2"}, LabelError, "date2"),
        ({"dim": "y"}, LabelError, "lie along 'pair'"),
        ({"stats": "rss"}, TypeError, "stats"),
        ({"cov_type": "HC3"}, TypeError, "cov_type"),
        ({"level": 0.9}, TypeError, "level"),
        ({"mask": None}, TypeError, "valid="),
        ({"nodata": "none"}, ValueError, "nodata"),
        ({"reference_area": {}}, ValueError, "boolean map"),
        ({"reference_area": {"z": 1}}, LabelError, "'z'.*'y', 'x'"),
        ({"reference_area": {"reference": 1}}, LabelError, "'reference'"),
        ({"reference_area": {"y": 2000.0}}, LabelError, "runs from 19.3 to 19.4"),
        ({"reference_area": {"y": "19.3"}}, ValueError, "numbers"),
        ({"reference_area": {"y": slice(0, 1)}}, ValueError, "no pixel"),
        ({"reference_area": {"y": slice(19, 20, 2)}}, ValueError, "step"),
        ({"reference_area": xr.DataArray([1, 0], dims="y")}, DtypeError, "bool"),
        ({"reference_area": xr.DataArray([True, False], dims="z")}, LabelError, r"\('y', 'x'\)"),
        ({"reference_area": xr.DataArray([True, False], dims="y")}, LabelError, "2 values"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        sbas(make_phase(), **arguments)


def test_stacks_that_do_not_fit_are_refused() -> None:
    phase = make_phase()
    with pytest.raises(ValueError, match=r"'mm'.*radian"):
        sbas(phase.assign_attrs(units="mm"), wavelength=0.2)
    with pytest.raises(TypeError, match="DataArray of the unwrapped phase"):
        sbas(phase.to_dataset())  # type: ignore[arg-type]
    with pytest.raises(LabelError, match=r"date.*Rename"):
        sbas(phase.assign_coords(date=("pair", np.arange(9))))
    with pytest.raises(DtypeError, match="phase with xarray"):
        sbas(phase.astype(complex))
