"""Real cubes against reference fits that a plain loop over pixels made, through real files.

`data/README.md` says where cubes and reference fits come from.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import xr_lstsq
from xr_lstsq.formats import netcdf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import distributed

DATA = Path(__file__).parent / "data"
RTOL = 1e-9


@dataclass(frozen=True)
class Real:
    """A cube, what is fitted and how.

    Attributes
    ----------
    file : str
        Name of the cube without suffix.
    prepare : callable
        Makes the variable to fit of the opened file; all other steps are the package's.
    extra : callable
        Makes further keywords of solve of the opened file.
    term : str, optional
        Terms that give the design of the reference fit.
    """

    file: str
    prepare: Callable[[xr.Dataset], xr.DataArray]
    extra: Callable[[xr.Dataset], dict[str, xr.DataArray]] = lambda _: {}
    term: str | None = None


def referenced_phase(cube: xr.Dataset) -> xr.DataArray:
    """Return the phase minus, in each pair, its mean over the reference window."""
    phase = cube["unw"].astype(np.float64)
    window = phase.isel(y=slice(35, 40), x=slice(60, 65))
    return (phase - window.mean(("y", "x"))).rename("unw")


def coherence_squared(cube: xr.Dataset) -> dict[str, xr.DataArray]:
    return {"weights": cube["coherence"].astype(np.float64) ** 2}


def cloud_free(cube: xr.Dataset) -> dict[str, xr.DataArray]:
    return {"valid": cube["valid"]}


DISPLACEMENTS = "network(first_date, second_date, unknown=displacement, min_redundancy=0)"
REALS = {
    "emit_jpl_unmix": Real(
        "emit_jpl_unmix",
        lambda cube: cube["reflectance"].isel(wavelength=np.flatnonzero(cube["good_band"] == 1)),
    ),
    "fosi_sst_curvilinear": Real("fosi_sst_curvilinear", lambda cube: cube["SST"]),
    "hadgem_a1b_tas_annual": Real(
        "hadgem_a1b_tas_annual",
        lambda cube: cube["air_temperature"],
        term='polynomial(1, origin="first")',
    ),
    "insar_mexico_s1_rate": Real("insar_mexico_s1", referenced_phase),
    "insar_mexico_s1_sbas": Real("insar_mexico_s1", referenced_phase, term=DISPLACEMENTS),
    "insar_mexico_s1_sbas_wls": Real(
        "insar_mexico_s1", referenced_phase, coherence_squared, DISPLACEMENTS
    ),
    "insar_sydney_c_rate": Real("insar_sydney_c", lambda cube: cube["unw"]),
    "insar_sydney_c_sbas": Real("insar_sydney_c", lambda cube: cube["unw"], term=DISPLACEMENTS),
    "ostia_sst_monthly": Real(
        "ostia_sst_monthly",
        lambda cube: cube["surface_temperature"],
        term='polynomial(1, origin="2006-01-01") + harmonics(1, origin="2006-01-01")',
    ),
    "s2_slovenia_ndvi": Real(
        "s2_slovenia_ndvi",
        lambda cube: cube["ndvi"],
        cloud_free,
        'polynomial(1, origin="2015-01-01") + harmonics(1, origin="2015-01-01")',
    ),
}


def path_of(real: Real) -> Path:
    if real.file == "s2_slovenia_ndvi":  # the sample that the package ships
        return Path(str(files(xr_lstsq).joinpath("data", "s2_slovenia_ndvi.nc")))
    return DATA / "cubes" / f"{real.file}.nc"


@contextmanager
def task(name: str, chunks: dict[str, int] | None) -> Iterator[tuple[xr.DataArray, dict[str, Any]]]:
    """Open the cube of a reference fit, cut to its window, with the keywords of solve.

    The file is closed at the end: one that is left to the garbage collector may be closed by any
    thread, in the middle of another's reading.
    """
    real = REALS[name]
    with np.load(DATA / "expected" / f"{name}.npz") as reference:
        y0, x0, ny, nx = (int(i) for i in reference["window"])
        names, design = reference["design_names"], reference["design"]
    with netcdf.open(path_of(real), chunks=chunks) as opened:
        cube = real.prepare(opened)
        dim, *pixel_dims = cube.dims
        window = dict(zip(pixel_dims, (slice(y0, y0 + ny), slice(x0, x0 + nx)), strict=True))
        labels: dict[str, Any] = {"param": names}
        if dim in cube.indexes:
            labels[str(dim)] = cube[dim]
        arguments: dict[str, Any] = {
            "design": xr.DataArray(design, labels, (dim, "param")),
            "dim": dim,
            "stats": ("rss", "stderr"),
            "device": "cpu",
        }
        arguments |= {key: array.isel(window) for key, array in real.extra(opened).items()}
        yield cube.isel(window), arguments


def in_chunks(cube: xr.DataArray) -> xr.DataArray:
    """Return the cube in irregular chunks of pixels, all samples together."""
    dim, *pixel_dims = cube.dims
    return cube.chunk({dim: -1, **dict(zip(pixel_dims, (7, 9), strict=True))})


def assert_reference(fit: xr.Dataset, name: str) -> None:
    with np.load(DATA / "expected" / f"{name}.npz") as reference:
        want = {key: reference[key] for key in ("coef", "rss", "rank", "n_valid", "stderr")}
    assert fit["coef"].dims[0] == "param"
    np.testing.assert_array_equal(fit["rank"], want["rank"])
    np.testing.assert_array_equal(fit["nobs"], want["n_valid"])
    params = len(want["coef"])
    status = np.select([want["n_valid"] == 0, want["rank"] < params], [1, 3], 0)
    np.testing.assert_array_equal(fit["status"], status)
    # A coefficient that is zero by minimum norm is zero beside the others of its pixel.
    size = np.abs(want["coef"]).max(axis=0)
    off = np.abs(fit["coef"].values - want["coef"])
    np.testing.assert_array_equal(np.isnan(off), np.isnan(want["coef"]))
    assert not (off > RTOL * np.abs(want["coef"]) + 1e-13 * size).any(), np.nanmax(off / size)
    rss = want["rss"]
    floor = 1e-24 * np.nan_to_num(size) ** 2  # where there are no degrees of freedom
    off = np.abs(fit["rss"].values - rss)
    np.testing.assert_array_equal(np.isnan(off), np.isnan(rss))
    assert not (off > RTOL * rss + floor).any(), np.nanmax(off / rss)
    # The reference tells no errors of pixels short of rank: theirs are those of the pseudo-inverse.
    known = want["n_valid"] > want["rank"]
    np.testing.assert_array_equal(np.isfinite(fit["stderr"]).all("param"), known)
    full = want["rank"] == params
    got, stderr = fit["stderr"].values[:, full], want["stderr"][:, full]
    np.testing.assert_allclose(got, stderr, rtol=RTOL)


@pytest.mark.parametrize("name", REALS)
def test_a_fit_in_memory_equals_the_reference_through_files(name: str, tmp_path: Path) -> None:
    with task(name, None) as (cube, arguments):
        fit = cube.load().lstsq.solve(**arguments)
        assert_reference(fit, name)
        fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with netcdf.open(tmp_path / "fit.nc") as back:
        assert_reference(back, name)
        assert back["coef"].dims == fit["coef"].dims


@pytest.mark.parametrize("name", REALS)
def test_a_chunked_fit_equals_the_reference_through_files(name: str, tmp_path: Path) -> None:
    with task(name, {}) as (cube, arguments):
        fit = in_chunks(cube).lstsq.solve(**arguments)
        assert fit["coef"].chunks is not None
        fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with netcdf.open(tmp_path / "fit.nc") as back:
        assert_reference(back, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", REALS)
def test_a_fit_on_a_cluster_of_two_processes_equals_the_reference_through_files(
    name: str, tmp_path: Path, cluster: distributed.Client
) -> None:
    assert len(cluster.scheduler_info()["workers"]) == 2
    with task(name, {}) as (cube, arguments):
        fit = in_chunks(cube).lstsq.solve(**arguments)
        fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with netcdf.open(tmp_path / "fit.nc") as back:
        assert_reference(back, name)


def test_a_fit_on_the_process_scheduler_equals_the_reference() -> None:
    name = "insar_mexico_s1_sbas_wls"
    with task(name, {}) as (cube, arguments):
        fit = in_chunks(cube).lstsq.solve(**arguments)
        assert_reference(fit.compute(scheduler="processes", num_workers=2), name)


@pytest.mark.parametrize("name", [name for name in REALS if REALS[name].term])
def test_the_terms_of_the_package_give_the_reference_as_well(name: str) -> None:
    with task(name, None) as (cube, arguments):
        if arguments["dim"] != "pair":  # of dates a solve finds the dim itself
            del arguments["dim"]
        fit = cube.load().lstsq.solve(**{**arguments, "design": REALS[name].term})
    assert_reference(fit, name)


@pytest.mark.parametrize(
    "name", ["fosi_sst_curvilinear", "insar_mexico_s1_sbas", "ostia_sst_monthly"]
)
def test_coordinates_and_grid_of_a_real_cube_are_those_of_its_fit(
    name: str, tmp_path: Path
) -> None:
    with task(name, None) as (cube, arguments):
        cube = cube.load()
        cube.lstsq.solve(**arguments).lstsq.to_netcdf(tmp_path / "fit.nc")
    kept = [key for key, coord in cube.coords.items() if cube.dims[0] not in coord.dims]
    assert kept
    grid = cube.encoding.get("grid_mapping", "spatial_ref" if "spatial_ref" in kept else None)
    with netcdf.open(tmp_path / "fit.nc") as back:
        for key in kept:
            xr.testing.assert_equal(back[key].variable, cube[key].variable)
            assert back[key].attrs == cube[key].attrs
        assert back["coef"].encoding.get("grid_mapping") == grid
