"""Every term in a fit: through a netCDF file and a new process, with equal predictions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import xr_lstsq
from xr_lstsq import design
from xr_lstsq.design.registry import TERMS

N = 48
TIME = np.datetime64("2015-01-10", "ns") + np.arange(N) * np.timedelta64(29, "D")
PREDICT = """
import sys
from pathlib import Path
import xarray as xr
import xr_lstsq
for folder in map(Path, sys.argv[1:]):
    fit = xr.open_dataset(folder / "fit.nc")
    at = xr.open_dataset(folder / "at.nc")
    fit.lstsq.predict(at[fit.attrs["along"]]).to_netcdf(folder / "there.nc")
"""


def make_cube() -> xr.DataArray:
    """Return noisy samples (time, y, x) with gaps, and coordinates along them."""
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=(N, 3, 4)), axis=0) + rng.normal(size=(N, 3, 4))
    y[rng.random(y.shape) < 0.2] = np.nan
    coords = {
        "time": TIME,
        "y": [3.0, 2.0, 1.0],
        "x": np.arange(4.0),
        "sensor": ("time", rng.choice(["S2A", "S2B", "L8"], N)),
        "warmth": ("time", rng.normal(size=N), {"units": "K", "long_name": "warmth"}),
    }
    return xr.DataArray(y, coords, ("time", "y", "x"), name="level", attrs={"units": "mm"})


def make_pairs() -> xr.DataArray:
    """Return noisy pairs (pair, y, x) of ten dates, some of them from late to early."""
    rng = np.random.default_rng(1)
    ends = [(i, j) for i in range(10) for j in range(i + 1, min(i + 4, 10))]
    ends = [pair if k % 3 else pair[::-1] for k, pair in enumerate(ends)]
    signal = np.cumsum(rng.normal(size=(10, 3, 4)), axis=0)
    y = np.array([signal[j] - signal[i] for i, j in ends])
    y += 0.1 * rng.normal(size=y.shape)
    y[rng.random(y.shape) < 0.1] = np.nan
    coords = {
        "pair": np.arange(len(ends)),
        "reference": ("pair", TIME[[i for i, _ in ends]]),
        "secondary": ("pair", TIME[[j for _, j in ends]]),
        "bperp": ("pair", rng.normal(size=len(ends)) * 100),
    }
    return xr.DataArray(y, coords, ("pair", "y", "x"), name="unw", attrs={"units": "mm"})


def make_bands() -> xr.DataArray:
    """Return noisy spectra (band, y, x)."""
    rng = np.random.default_rng(2)
    cube = 0.3 + 0.1 * rng.normal(size=(12, 3, 4))
    return xr.DataArray(cube, {"band": np.arange(12) * 50.0 + 400}, ("band", "y", "x"), name="refl")


def series(name: str) -> xr.DataArray:
    """Return a covariate or a factor as a DataArray of its own."""
    return make_cube()[name].rename(f"own_{name}").drop_vars(["sensor", "warmth"])


def spectra(bands: np.ndarray) -> xr.DataArray:
    """Return three spectra on some bands."""
    rng = np.random.default_rng(3)
    values = rng.uniform(0.05, 0.6, (bands.size, 3))
    coords = {"band": bands, "kind": ["soil", "leaf", "bark"]}
    return xr.DataArray(values, coords, ("band", "kind"))


LINE = design.polynomial(1)
CASES: dict[str, tuple[Callable[[], xr.DataArray], Callable[[], design.Term]]] = {
    "constant": (make_cube, lambda: design.constant()),
    "polynomial": (make_cube, lambda: design.polynomial(3, origin="middle")),
    "harmonics": (make_cube, lambda: LINE + design.harmonics(1, 2)),
    "step": (make_cube, lambda: LINE + design.step("2016-05-01")),
    "ramp": (make_cube, lambda: LINE + design.ramp("2016-05-01", "2017-01-01")),
    "decay": (make_cube, lambda: LINE + design.decay("2016-05-01", [0.3, 2.0], kind="log")),
    "piecewise": (make_cube, lambda: LINE + design.piecewise(["2016-01-01", "2017-06-01"])),
    "spline": (make_cube, lambda: design.constant() + design.spline(df=5)),
    "covariate": (make_cube, lambda: LINE + design.covariate("warmth", standardize=True)),
    "covariate data": (make_cube, lambda: LINE + design.covariate(series("warmth"))),
    "indicator": (make_cube, lambda: LINE + design.indicator("sensor", reference="S2A")),
    "indicator data": (make_cube, lambda: LINE + design.indicator(series("sensor"))),
    "network": (make_pairs, lambda: design.network(min_redundancy=0, constraint="linear")),
    "network by displacement": (make_pairs, lambda: design.network(unknown="displacement")),
    "pairs": (make_pairs, lambda: design.pairs(LINE + design.harmonics(1))),
    "dem_error": (make_pairs, lambda: design.network() + design.dem_error("bperp", 8e5, 35.0)),
    "endmembers": (
        make_bands,
        lambda: design.endmembers(spectra(make_bands()["band"].values)),
    ),
    "endmembers between": (
        make_bands,
        lambda: design.endmembers(spectra(np.linspace(350.0, 1100.0, 40)), interpolate=True),
    ),
}


def test_every_term_is_here() -> None:
    words = {part.word for _, make in CASES.values() for part in make().terms}
    assert words == set(TERMS) - {"formula"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a fit by every term to a file, and predict from all of them in another process."""
    found = {}
    for name, (make, term) in CASES.items():
        cube, folder = make(), tmp_path_factory.mktemp("fit")
        fit = cube.lstsq.solve(term(), cube.dims[0], stats="cov")
        assert fit["coef"].notnull().all()
        fit.assign_attrs(along=cube.dims[0]).lstsq.to_netcdf(folder / "fit.nc")
        xr.Dataset(coords=cube[cube.dims[0]].coords).to_netcdf(folder / "at.nc")
        found[name] = folder
    command = [sys.executable, "-c", PREDICT, *map(str, found.values())]
    subprocess.run(command, check=True, timeout=300)
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_fit_from_a_file_predicts_the_same_in_a_new_process(
    name: str, folders: dict[str, Path]
) -> None:
    make, term = CASES[name]
    cube = make()
    dim = str(cube.dims[0])
    here = cube.lstsq.solve(term(), dim).lstsq.predict(cube[dim])
    with xr.open_dataset(folders[name] / "there.nc") as there:
        np.testing.assert_array_equal(there[str(cube.name)], here)
    with xr.open_dataset(folders[name] / "fit.nc") as stored:
        again = stored.lstsq.predict(cube[dim][::-1][:7])
        want = here.isel({dim: slice(None, None, -1)})[:7]
        np.testing.assert_allclose(again, want, rtol=1e-12, atol=1e-12)
        # And the same fit, whatever of it is read
        assert stored.lstsq.validate(cube).passed


@pytest.mark.parametrize("name", CASES)
def test_fitted_values_are_predictions(name: str) -> None:
    make, term = CASES[name]
    cube = make()
    dim = str(cube.dims[0])
    fit = cube.lstsq.solve(term(), dim, stats="fitted")
    size = float(np.abs(fit["fitted"]).max())
    np.testing.assert_allclose(fit.lstsq.predict(cube[dim]), fit["fitted"], atol=1e-11 * size)


def test_a_formula_read_from_a_file_predicts_by_a_matrix(tmp_path: Path) -> None:
    cube = make_cube()
    term = design.formula("~ 1 + years + C(sensor) + warmth").bind(cube["time"])
    fit = cube.lstsq.solve(term, stats="fitted")
    by_text = cube.lstsq.solve("~ 1 + years + C(sensor) + warmth")
    np.testing.assert_array_equal(fit["coef"], by_text["coef"])
    fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with xr.open_dataset(tmp_path / "fit.nc") as stored:
        with pytest.raises(ValueError, match="predicts with a design matrix only"):
            stored.lstsq.predict(cube["time"])
        found = stored.lstsq.predict(term.evaluate(cube["time"]).matrix)
        np.testing.assert_allclose(found, fit["fitted"], rtol=1e-10)
        assert stored.lstsq.validate(cube).passed


def test_a_covariate_is_kept_with_its_labels() -> None:
    cube = make_cube()
    fit = cube.lstsq.solve(LINE + design.covariate(series("warmth")))
    assert fit["design_own_warmth"].dims == ("design_time",)
    np.testing.assert_array_equal(fit["design_time"].values, TIME)
    with pytest.raises(xr_lstsq.LabelError, match="is kept with the fit at 48 labels of 'time'"):
        fit.lstsq.predict(["2030-01-01"])
    coords = {"time": np.array(["2030-01-01"], "datetime64[ns]"), "own_warmth": ("time", [2.0])}
    new = xr.Dataset(coords=coords)["time"]
    found = fit.lstsq.predict(new).isel(time=0)
    years = design.polynomial(1).evaluate(new["time"]).matrix[0, 1]
    intercept, slope, factor = fit["coef"].values
    np.testing.assert_allclose(found, intercept + slope * years + 2.0 * factor)
