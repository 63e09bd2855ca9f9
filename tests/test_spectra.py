"""Endmembers: columns, bands, interpolation, the fit that keeps them, refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xr_lstsq.design import constant, endmembers, from_json, parse
from xr_lstsq.errors import DtypeError, LabelError

WAVES = np.array([450.0, 520.0, 655.0, 865.0, 1610.0, 2200.0])


def spectra_of(waves: Any = WAVES, names: Any = ("soil", "leaf", "water")) -> xr.DataArray:
    rng = np.random.default_rng(len(waves))
    values = rng.uniform(0.05, 0.6, (len(waves), len(names)))
    coords = {"band": np.asarray(waves), "endmember": list(names)}
    return xr.DataArray(values, coords, ("band", "endmember"), attrs={"units": "1"})


def bands(waves: Any = WAVES) -> xr.DataArray:
    waves = np.asarray(waves)
    return xr.DataArray(np.zeros(len(waves)), {"band": waves}, ("band",))["band"]


def mixture(spectra: xr.DataArray, count: int = 7) -> xr.DataArray:
    """Return noisy mixtures (band, pixel) with a few bands missing in each."""
    rng = np.random.default_rng(1)
    parts = rng.dirichlet(np.ones(spectra.sizes["endmember"]), count).T
    y = spectra.values @ parts + 0.01 * rng.normal(size=(spectra.sizes["band"], count))
    y[rng.random(y.shape) < 0.15] = np.nan
    return xr.DataArray(y, {"band": spectra.band.values}, ("band", "pixel"), name="toa")


def line(waves: Any, values: np.ndarray, at: float) -> float:
    """Return the value on the straight line between the two neighbours of a wavelength."""
    order = np.argsort(waves)
    waves, values = np.asarray(waves)[order], values[order]
    above = int(np.searchsorted(waves, at))
    if waves[above] == at:
        return float(values[above])
    part = (at - waves[above - 1]) / (waves[above] - waves[above - 1])
    return float((1 - part) * values[above - 1] + part * values[above])


# --- columns ------------------------------------------------------------------------------------


@given(order=st.permutations(range(6)), count=st.integers(1, 6), turned=st.booleans())
def test_spectra_are_columns_on_the_bands_of_the_cube(
    order: list[int], count: int, turned: bool
) -> None:
    spectra = spectra_of()
    term = endmembers(spectra.transpose() if turned else spectra)
    columns = term.evaluate(bands(WAVES[order[:count]]))
    np.testing.assert_array_equal(columns.matrix, spectra.values[order[:count]])
    assert columns.names == ("soil", "leaf", "water")
    assert columns.units == ("",) * 3
    assert columns.long_names[1] == "abundance of leaf"
    assert columns.levels == (False,) * 3


def test_endmembers_without_labels_are_numbered() -> None:
    columns = endmembers(spectra_of().drop_vars("endmember")).evaluate(bands())
    assert columns.names == ("0", "1", "2")


def test_labels_of_bands_may_be_texts() -> None:
    names = ["blue", "green", "red", "nir", "swir1", "swir2"]
    spectra = spectra_of(names)
    columns = endmembers(spectra).evaluate(bands(names[::-1]))
    np.testing.assert_array_equal(columns.matrix, spectra.values[::-1])


def test_a_band_that_a_spectrum_lacks_is_a_row_of_nan() -> None:
    spectra = spectra_of()
    spectra[2, 1] = np.nan
    cube = mixture(spectra_of())
    fit = cube.lstsq.solve(endmembers(spectra), "band")
    without = cube.isel(band=[0, 1, 3, 4, 5])
    alone = without.lstsq.solve(endmembers(spectra.sel(band=without.band)), "band")
    np.testing.assert_allclose(fit.coef, alone.coef, rtol=1e-12)


def test_units_are_one_over_those_of_the_spectra() -> None:
    spectra = spectra_of().assign_attrs(units="W m-2")
    assert endmembers(spectra).evaluate(bands()).units == ("W-1 m2",) * 3


@pytest.mark.parametrize("lazy", [False, True])
def test_abundances_are_those_of_a_loop_over_pixels(lazy: bool) -> None:
    spectra = spectra_of()
    cube = mixture(spectra)
    shuffled = spectra.isel(band=[3, 0, 5, 1, 4, 2])
    fit = (cube.chunk(pixel=2) if lazy else cube).lstsq.solve(endmembers(shuffled), "band")
    for k in range(cube.sizes["pixel"]):
        y = cube.values[:, k]
        there = np.isfinite(y)
        expected = np.linalg.lstsq(spectra.values[there], y[there], rcond=None)[0]
        np.testing.assert_allclose(fit.coef.values[:, k], expected, rtol=1e-9)


# --- interpolation ------------------------------------------------------------------------------


@given(
    waves=st.lists(st.integers(400, 2500), min_size=2, max_size=9, unique=True),
    parts=st.lists(st.floats(0, 1), min_size=1, max_size=6),
)
def test_interpolation_follows_the_line_between_neighbours(
    waves: list[int], parts: list[float]
) -> None:
    spectra = spectra_of(waves)
    low, high = min(waves), max(waves)
    at = [min(low + part * (high - low), float(high)) for part in parts]
    columns = endmembers(spectra, interpolate=True).evaluate(bands(at))
    expected = [[line(waves, column, wave) for column in spectra.values.T] for wave in at]
    np.testing.assert_allclose(columns.matrix, expected, rtol=1e-9)
    same = endmembers(spectra, interpolate=True).evaluate(bands([float(w) for w in waves]))
    np.testing.assert_array_equal(same.matrix, spectra.values)


def test_other_bands_are_never_interpolated_in_silence() -> None:
    cube = mixture(spectra_of()).assign_coords(band=WAVES + 7.0)
    with pytest.raises(LabelError, match="spectra has other labels along 'band'"):
        cube.lstsq.solve(endmembers(spectra_of()), "band")
    with pytest.raises(LabelError, match="no value for 6 of the 6 labels"):
        endmembers(spectra_of()).evaluate(cube.band)


def test_a_fit_keeps_the_spectra_on_its_bands_and_interpolates_no_further() -> None:
    spectra = spectra_of(np.linspace(400, 2500, 12))
    cube = mixture(spectra_of())
    fit = cube.lstsq.solve(endmembers(spectra, interpolate=True), "band")
    np.testing.assert_array_equal(fit.design_band, WAVES)
    expected = np.stack([np.interp(WAVES, spectra.band, column) for column in spectra.values.T], 1)
    np.testing.assert_allclose(fit.design_endmembers, expected)
    predicted = fit.lstsq.predict(cube.band[[4, 1]])
    np.testing.assert_allclose(predicted, expected[[4, 1]] @ fit.coef.values)
    with pytest.raises(LabelError, match="is kept with the fit at 6 labels"):
        fit.lstsq.predict([500.0, 600.0])


# --- JSON and the data that a fit keeps ---------------------------------------------------------


@pytest.mark.parametrize("own", ["endmember", "class", "endmembers"])
@pytest.mark.parametrize("interpolate", [False, True])
def test_a_bound_term_reads_back_equal_with_its_spectra(own: str, interpolate: bool) -> None:
    spectra = spectra_of().rename(endmember=own)
    term = endmembers(spectra, param_dim=own, interpolate=interpolate)
    bound = term.bind(bands())
    fit = xr.Dataset({"coef": ("param", [1.0])}, {"spatial_ref": 0})
    for name, data in bound.variables.items():
        fit[name] = data.rename({k: f"design_{k}" for k in {*data.dims, *data.coords}})
    assert "design_endmembers" in fit.data_vars
    variables = {str(name): variable for name, variable in fit.data_vars.items()}
    again = from_json(json.loads(json.dumps(bound.to_json())), variables)
    assert again == bound
    assert hash(again) == hash(bound)
    assert again.bind(bands()) == bound
    mine, theirs = bound.evaluate(bands()), again.evaluate(bands())
    np.testing.assert_array_equal(mine.matrix, theirs.matrix)
    assert (mine.names, mine.units) == (theirs.names, theirs.units)


def test_terms_are_equal_when_their_spectra_are() -> None:
    assert endmembers(spectra_of()) == endmembers(spectra_of())
    assert endmembers(spectra_of()) != endmembers(2 * spectra_of())
    assert endmembers(spectra_of()) != endmembers(spectra_of(), interpolate=True)


def test_spectra_are_no_text() -> None:
    with pytest.raises(ValueError, match="holds what a text cannot"):
        parse("endmembers(x)")
    assert str(endmembers(spectra_of())) == "endmembers(<spectra (band: 6, endmember: 3)>)"


def test_spectra_stand_beside_other_terms() -> None:
    columns = (constant() + endmembers(spectra_of())).evaluate(bands())
    assert columns.names == ("intercept", "soil", "leaf", "water")


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: endmembers(np.zeros((6, 3))), TypeError, "Pass a DataArray"),
        (lambda: endmembers(spectra_of(), interpolate=1), TypeError, "neither True nor False"),
        (lambda: endmembers(spectra_of()[:, 0]), LabelError, "one of the endmembers"),
        (lambda: endmembers(spectra_of().astype(str)), DtypeError, "needs real numbers"),
        (lambda: endmembers(spectra_of(), param_dim="class"), LabelError, "no dim of spectra"),
        (lambda: endmembers(spectra_of(), param_dim="band"), LabelError, "lie along 'band'"),
        (lambda: endmembers(spectra_of().rename(band="wave")), LabelError, "lie along 'band'"),
        (lambda: endmembers(spectra_of(names=("a", "a"))), LabelError, r"\['a'\] more than once"),
        (lambda: endmembers(spectra_of(WAVES[:4])), LabelError, "no value for 2 of the 6"),
        (
            lambda: endmembers(spectra_of(WAVES[1:]), interpolate=True),
            LabelError,
            "run from 450 to 2200, and those of the spectra from 520 to 2200",
        ),
        (
            lambda: endmembers(spectra_of(list("abcdef")), interpolate=True),
            LabelError,
            "needs numbers along 'band'",
        ),
        (
            lambda: endmembers(spectra_of().drop_vars("band"), interpolate=True),
            LabelError,
            "needs labels along 'band'",
        ),
        (
            lambda: endmembers(spectra_of([1, 500, 500, 3000]), interpolate=True),
            LabelError,
            "each label along 'band' of the spectra once",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make().evaluate(bands())
