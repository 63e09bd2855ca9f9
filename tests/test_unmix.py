"""Abundances of endmembers, against a plain loop over pixels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xr_lstsq.errors import LabelError
from xr_lstsq.recipes.unmix import unmix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DATA = Path(__file__).parent / "data"
BANDS = np.array([450, 550, 650, 750, 850, 950, 1250, 1600, 2200])
NAMES = ["soil", "leaf", "water"]
BLANK, FEW, BARE = (0, 0), (0, 1), (1, 2)
"""Places of a pixel without bands, of one with 4 bands, and of one with 5."""


def make_spectra(seed: int = 0) -> xr.DataArray:
    rng = np.random.default_rng(seed)
    return xr.DataArray(
        rng.random((9, 3)),
        {
            "band": BANDS,
            "endmember": NAMES,
            "family": ("endmember", ["a", "b", "c"]),
            "width": ("band", np.full(9, 10.0)),
        },
        ("band", "endmember"),
        attrs={"units": "1"},
    )


def make_cube(seed: int = 1) -> xr.DataArray:
    """Return mixtures with noise and gaps (y, band, x)."""
    rng = np.random.default_rng(seed)
    parts = rng.dirichlet([1, 1, 1], size=(3, 4))
    values = np.einsum("bk,yxk->ybx", make_spectra().values, parts)
    values += 0.01 * rng.normal(size=values.shape)
    values[rng.random(values.shape) < 0.1] = np.nan
    for (y, x), kept in ((BLANK, 0), (FEW, 4), (BARE, 5)):
        values[y, :, x] = rng.random(9)
        values[y, kept:, x] = np.nan
    return xr.DataArray(
        values,
        {"band": BANDS, "y": [2.0, 1.0, 0.0], "x": np.arange(4.0), "spatial_ref": 0},
        ("y", "band", "x"),
        name="reflectance",
        attrs={"units": "1"},
    )


def mixture(y: Floats, spectra: Floats, least: int) -> tuple[Floats, float, int]:
    """Return abundances, rmse and number of bands of one pixel."""
    there = np.isfinite(y) & np.isfinite(spectra).all(axis=1)
    count, none = int(there.sum()), np.full(spectra.shape[1], np.nan)
    if count < least or np.linalg.matrix_rank(spectra[there]) < spectra.shape[1]:
        return none, np.nan, count
    found = np.linalg.lstsq(spectra[there], y[there], rcond=None)[0]
    return found, float(np.sqrt(np.mean((y[there] - spectra[there] @ found) ** 2))), count


def assert_is_loop(
    found: xr.Dataset, cube: xr.DataArray, spectra: Floats, least: int = 5, prefix: str = ""
) -> None:
    for place in np.ndindex(3, 4):
        y = cube.transpose("y", "x", "band").values[place].astype(np.float64)
        parts, rmse, count = mixture(y, spectra, least)
        one = found.isel(y=place[0], x=place[1])
        np.testing.assert_allclose(one[f"{prefix}abundance"], parts, rtol=1e-9, atol=1e-12)
        if not np.isnan(rmse):
            np.testing.assert_allclose(one[f"{prefix}rmse"], rmse, rtol=1e-8, atol=1e-14)
        assert one[f"{prefix}nobs"] == count


def test_abundances_are_those_of_a_loop_over_pixels() -> None:
    cube, spectra = make_cube(), make_spectra()
    found = unmix(cube, spectra, method="ucls")
    assert_is_loop(found, cube, spectra.values)
    assert set(found) == {"abundance", "rmse", "nobs", "rank", "status"}
    assert found["abundance"].dims == ("endmember", "y", "x")
    status = {place: int(found["status"][place]) for place in (BLANK, FEW, BARE)}
    assert status == {BLANK: 1, FEW: 2, BARE: 0}
    assert np.isnan(found["rmse"][FEW])
    assert set(found.coords) == {"endmember", "family", "y", "x", "spatial_ref"}
    assert found["endmember"].values.tolist() == NAMES
    assert found["abundance"].attrs["units"] == "1"
    assert found["abundance"].attrs["long_name"] == "abundance of each endmember in reflectance"
    assert found.attrs["unmixing_method"].startswith("ucls")
    assert not any("lstsq" in array.attrs for array in found.variables.values())


@given(st.permutations(range(9)), st.permutations(range(3)), st.booleans())
def test_bands_are_matched_by_their_labels(bands: list[int], parts: list[int], turn: bool) -> None:
    cube, spectra = make_cube(), make_spectra()
    other = spectra.isel(band=bands, endmember=parts)
    found = unmix(cube, other.T if turn else other, method="ucls")
    expected = unmix(cube, spectra, method="ucls").isel(endmember=parts)
    xr.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_real_scene_has_the_abundances_of_its_reference() -> None:
    with (
        xr.open_dataset(DATA / "cubes" / "emit_jpl_unmix.nc") as opened,
        np.load(DATA / "expected" / "emit_jpl_unmix.npz") as reference,
    ):
        scene = opened.isel(wavelength=np.flatnonzero(opened["good_band"] == 1)).load()
        found = unmix(scene["reflectance"], scene["endmembers"], method="ucls")
        np.testing.assert_allclose(found["abundance"], reference["coef"], rtol=1e-8)
        rmse = np.sqrt(reference["rss"] / reference["n_valid"])
        np.testing.assert_allclose(found["rmse"], rmse, rtol=1e-8)
    # Without labels along the endmembers, as they came
    assert "endmember" not in found.coords
    xr.testing.assert_equal(found["endmember_class"], scene["endmember_class"])
    library = scene["library"].rename(library_wavelength="wavelength") * 1e-4
    again = unmix(scene["reflectance"], library, method="ucls", interpolate=True)
    np.testing.assert_allclose(again["abundance"], found["abundance"], atol=2e-3)


def test_spectra_are_interpolated_where_that_is_asked_for() -> None:
    cube = make_cube()
    fine = np.linspace(400, 2300, 400)
    rough = xr.DataArray(
        np.random.default_rng(3).random((400, 3)),
        {"band": fine, "endmember": NAMES},
        ("band", "endmember"),
    )
    at = np.stack([np.interp(BANDS, fine, column) for column in rough.values.T], axis=1)
    found = unmix(cube, rough, method="ucls", interpolate=True)
    assert_is_loop(found, cube, at)
    with pytest.raises(LabelError, match="400"):
        unmix(cube, rough, method="ucls")


def test_a_band_that_a_spectrum_lacks_counts_in_no_pixel() -> None:
    cube, spectra = make_cube(), make_spectra()
    spectra[3, 1] = np.nan
    assert_is_loop(unmix(cube, spectra, method="ucls"), cube, spectra.values)


def test_endmembers_that_cannot_be_told_apart_have_no_abundance() -> None:
    cube, spectra = make_cube(), make_spectra()
    # Alike but at one band, which some pixels lack
    spectra[:, 1] = spectra[:, 0]
    spectra[2, 1] += 0.5
    found = unmix(cube, spectra, method="ucls")
    assert_is_loop(found, cube, spectra.values)
    assert bool((found["status"] == 3).any())
    kept = unmix(cube, spectra, method="ucls", deficient="min_norm")["abundance"]
    assert bool((kept.notnull() & found["abundance"].isnull()).any())


def test_options_of_solve_are_handed_on() -> None:
    cube, spectra = make_cube(), make_spectra()
    found = unmix(cube, spectra, method="ucls", min_obs=4, stats="stderr", nodata=0.25)
    assert_is_loop(found, cube, spectra.values, least=4)
    assert found["stderr"].dims == ("endmember", "y", "x")
    weights = xr.DataArray(np.linspace(1, 3, 9), {"band": BANDS}, "band")
    again = unmix(cube, spectra, method="ucls", weights=weights, stats=["rmse", "cond"])
    root = np.sqrt(weights.values)
    y = cube.values[2, :, 3] * root
    there = np.isfinite(y)
    expected = np.linalg.lstsq((spectra.values * root[:, None])[there], y[there], rcond=None)[0]
    np.testing.assert_allclose(again["abundance"][:, 2, 3], expected, rtol=1e-9)
    assert "cond" in again


def test_variables_of_a_dataset_have_their_names_before() -> None:
    one, two, spectra = make_cube(), make_cube(5).rename("second"), make_spectra()
    found = unmix(xr.Dataset({"first": one, "second": two}), spectra, method="ucls")
    names = ("abundance", "rmse", "nobs", "rank", "status")
    assert set(found) == {f"{cube}_{name}" for cube in ("first", "second") for name in names}
    assert_is_loop(found, one, spectra.values, prefix="first_")
    assert_is_loop(found, two, spectra.values, prefix="second_")


def test_units_are_those_of_the_cube_over_those_of_the_spectra() -> None:
    cube, spectra = make_cube(), make_spectra()
    radiance = unmix(cube.assign_attrs(units="W m-2"), spectra, method="ucls")
    assert radiance["abundance"].attrs["units"] == "W m-2"
    assert radiance["rmse"].attrs["units"] == "W m-2"


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("something was computed")


def test_a_lazy_cube_gives_lazy_maps() -> None:
    cube, spectra = make_cube(), make_spectra()
    with dask.config.set(scheduler=refuse):
        found = unmix(cube.chunk(y=1, x=2), spectra, method="ucls")
    assert found["abundance"].chunks == ((3,), (1, 1, 1), (2, 2))
    xr.testing.assert_allclose(found.compute(), unmix(cube, spectra, method="ucls"))


def test_a_result_can_be_written(tmp_path: Path) -> None:
    found = unmix(make_cube(), make_spectra(), method="ucls", stats="cov")
    found.to_netcdf(tmp_path / "parts.nc")
    with xr.open_dataset(tmp_path / "parts.nc") as read:
        xr.testing.assert_allclose(read.set_coords("spatial_ref"), found)


@pytest.mark.parametrize(
    ("change", "arguments", "kind", "message"),
    [
        (None, {"method": "fcls"}, ValueError, "'fcls'.*'ucls'"),
        (None, {}, TypeError, "method"),
        (lambda e: e.values, {"method": "ucls"}, TypeError, "ndarray"),
        (lambda e: e.rename(band="wave"), {"method": "ucls"}, LabelError, "share none"),
        (lambda e: e.rename(endmember="x"), {"method": "ucls"}, LabelError, "dim="),
        (lambda e: e.isel(endmember=0), {"method": "ucls"}, LabelError, "dims"),
        (lambda e: e.isel(band=slice(1, None)), {"method": "ucls"}, LabelError, "8"),
        (lambda e: e.assign_coords(band=BANDS + 20), {"method": "ucls"}, LabelError, "20"),
        (None, {"method": "ucls", "dim": "y"}, LabelError, "band"),
        (None, {"method": "ucls", "param_dim": "k"}, TypeError, "param_dim"),
        (None, {"method": "ucls", "sum_to_one": True}, TypeError, "sum_to_one"),
        (None, {"method": "ucls", "mask": None}, TypeError, "valid="),
    ],
)
def test_what_does_not_fit_is_refused(
    change: Any, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    spectra = make_spectra() if change is None else change(make_spectra())
    with pytest.raises(kind, match=message):
        unmix(make_cube(), spectra, **arguments)


def test_names_like_those_of_kept_data_stay() -> None:
    cube = make_cube().rename("design_a").assign_coords(design_x=1)
    found = unmix(cube.to_dataset(), make_spectra(), method="ucls")
    assert {"design_a_abundance", "design_a_rmse"} < set(found)
    assert "design_x" in found.coords


def test_a_cube_with_a_name_of_the_answer_is_refused() -> None:
    with pytest.raises(LabelError, match="abundance"):
        unmix(make_cube().assign_coords(abundance=1), make_spectra(), method="ucls")
