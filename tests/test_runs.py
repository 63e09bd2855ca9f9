from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import netCDF4
import numpy as np
import pytest
import xarray as xr

import xr_lstsq
from tests import oracle
from xr_lstsq import runs
from xr_lstsq.errors import ChunkError, DeviceError, LabelError, WriteError

if TYPE_CHECKING:
    from collections.abc import Callable

    import distributed

SIZES = {"time": 24, "y": 9, "x": 11}
DESIGN = "polynomial(1) + harmonics(1)"


def make_cube(seed: int = 0) -> xr.Dataset:
    """Make a noisy cube with gaps, `valid` and `weights`, no valid sample at y=0, x=0."""
    rng = np.random.default_rng(seed)
    shape = tuple(SIZES.values())
    time = np.datetime64("2015-01-05", "ns") + np.arange(24) * np.timedelta64(31, "D")
    ndvi = rng.normal(0.5, 0.2, size=shape).astype(np.float32)
    ndvi[rng.random(shape) < 0.2] = np.nan
    valid = (rng.random(shape) < 0.8).astype(np.uint8)
    valid[:, 0, 0] = 0
    return xr.Dataset(
        {
            "ndvi": (("time", "y", "x"), ndvi, {"units": "1", "long_name": "an index"}),
            "valid": (("time", "y", "x"), valid, {"flag_values": np.array([0, 1], "u1")}),
            "w": ("time", rng.uniform(0.5, 2.0, size=24)),
        },
        coords={
            "time": time,
            "y": 5e6 - 10.0 * np.arange(9),
            "x": 4e5 + 10.0 * np.arange(11),
            "spatial_ref": ((), 0, {"grid_mapping_name": "transverse_mercator"}),
        },
        attrs={"title": "made up", "licence": "none"},
    )


@pytest.fixture
def cube_file(tmp_path: Path) -> Path:
    cube = make_cube()
    cube["ndvi"].encoding = {"grid_mapping": "spatial_ref", "chunksizes": (24, 4, 5)}
    (tmp_path / "in").mkdir()
    cube.to_netcdf(tmp_path / "in" / "cube.nc")
    return tmp_path / "in" / "cube.nc"


def read(path: Path) -> xr.Dataset:
    with xr.open_dataset(path, decode_coords="all") as opened:
        return opened.load()


def made(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "in")


@pytest.mark.parametrize("chunks", [None, {"y": 2, "x": 3}, {"y": 100}])
def test_a_file_run_equals_the_oracle_and_the_fit_in_memory(
    cube_file: Path, tmp_path: Path, chunks: dict[str, int] | None
) -> None:
    summary = runs.solve_file(
        cube_file,
        tmp_path / "fit.nc",
        DESIGN,
        var="ndvi",
        weights="w",
        valid="valid",
        stats=("rss", "residual"),
        chunks=chunks,
    )
    fit, cube = read(tmp_path / "fit.nc"), make_cube()
    matrix = xr_lstsq.design.parse(DESIGN).evaluate(cube["time"]).matrix
    for y, x in np.ndindex(9, 11):
        weights = cube["w"].values * cube["valid"].values[:, y, x]
        want = oracle.fit(cube["ndvi"].values[:, y, x], matrix, weights)
        got = fit["coef"].values[:, y, x]
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want.coef))
        assert not (np.abs(got - want.coef) > want.coef_tol).any()
    memory = cube["ndvi"].lstsq.solve(
        DESIGN, weights=cube["w"], valid=cube["valid"].drop_attrs(), stats=("rss", "residual")
    )
    xr.testing.assert_allclose(fit, memory, rtol=1e-12, atol=1e-14)
    assert set(fit.variables) == set(memory.variables)
    assert summary.pixels == 99
    assert summary.statuses["no_data"] == 1
    assert sum(summary.statuses.values()) == 99
    assert summary.files == (tmp_path / "fit.nc",)
    assert summary.seconds > 0


def test_the_file_keeps_grid_coordinates_and_attributes(cube_file: Path, tmp_path: Path) -> None:
    runs.solve_file(cube_file, tmp_path / "fit.nc", DESIGN, var="ndvi", valid="valid", stats="rss")
    fit = read(tmp_path / "fit.nc")
    assert fit["coef"].encoding["grid_mapping"] == "spatial_ref"
    assert fit["spatial_ref"].attrs["grid_mapping_name"] == "transverse_mercator"
    assert fit.attrs["licence"] == "none"
    assert fit.attrs["Conventions"].startswith("CF-1.")
    history = fit.attrs["history"]
    assert f"solve '{cube_file}' var='ndvi' dim='time'" in history
    assert f"design='{DESIGN}'" in history
    assert "valid='valid'" in history
    assert "weights" not in history


def test_each_pixel_is_solved_once_for_all_results(
    cube_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xr_lstsq import device

    original: Callable[..., Any] = device.solve_block
    sizes: list[int] = []

    def count(cube: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(cube.size // SIZES["time"])
        return original(cube, *args, **kwargs)

    monkeypatch.setattr(device, "solve_block", count)
    done: list[tuple[int, int]] = []
    runs.solve_file(
        cube_file,
        tmp_path / "fit.nc",
        DESIGN,
        var="ndvi",
        stats=("dof", "rss", "rmse", "residual", "fitted"),
        chunks={"y": 2, "x": 4},
        progress=lambda *pixels: done.append(pixels),
    )
    assert sorted(sizes) == sorted(y * x for y in (2, 2, 2, 2, 1) for x in (4, 4, 3))
    assert done[0] == (0, 99)
    assert done[-1] == (99, 99)
    assert [pixels for pixels, _ in done] == sorted(pixels for pixels, _ in done)


def test_every_argument_of_solve_acts_through_a_file(cube_file: Path, tmp_path: Path) -> None:
    plain = {"var": "ndvi", "design": DESIGN}

    def run(**options: Any) -> xr.Dataset:
        runs.solve_file(cube_file, tmp_path / "fit.nc", **{**plain, **options})
        return read(tmp_path / "fit.nc")

    base = run()
    assert run(store="float32")["coef"].dtype == np.float32
    assert run(dtype="float32")["coef"].dtype == np.float32
    assert (run(min_obs=20)["status"] == 2).any()
    finite = make_cube()["ndvi"].values
    value = float(finite[np.isfinite(finite)][100])
    assert int((base["nobs"] - run(nodata=[value])["nobs"]).sum()) == 1
    assert "weights" not in base
    assert abs(run(weights="w")["coef"] - base["coef"]).max() > 1e-4


def test_the_only_variable_that_can_be_fitted_is_found(cube_file: Path, tmp_path: Path) -> None:
    runs.solve_file(cube_file, tmp_path / "fit.nc", DESIGN, valid="valid")
    assert "coef" in read(tmp_path / "fit.nc")
    cube = make_cube()
    cube.assign(other=cube["ndvi"]).to_netcdf(tmp_path / "two.nc")
    with pytest.raises(LabelError, match=r"2 variables that can be fitted \(ndvi, other\)\. Say"):
        runs.solve_file(tmp_path / "two.nc", tmp_path / "fit2.nc", DESIGN)


def test_a_labelled_matrix_fits_as_well(cube_file: Path, tmp_path: Path) -> None:
    cube = make_cube()
    matrix = xr.DataArray(
        np.stack([np.ones(24), np.arange(24.0)], axis=1),
        dims=("time", "param"),
        coords={"time": cube["time"], "param": ["a", "b"]},
    )
    runs.solve_file(cube_file, tmp_path / "fit.nc", matrix, var="ndvi")
    assert list(read(tmp_path / "fit.nc")["param"].values) == ["a", "b"]


def test_packed_integers_are_decoded_once_and_not_packed_again(tmp_path: Path) -> None:
    stored = np.array([[1712, -3], [1715, 1], [1713, -32768], [1719, -2]], dtype=np.int16)
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        file.createDimension("time", 4)
        file.createDimension("x", 2)
        time = file.createVariable("time", "f8", ("time",))
        time[:] = np.arange(4.0)
        packed = file.createVariable("t2m", "i2", ("time", "x"), fill_value=np.int16(-32768))
        packed.setncatts({"scale_factor": 0.01, "add_offset": 273.15, "units": "K"})
        packed.set_auto_maskandscale(False)
        packed[:] = stored
    runs.solve_file(tmp_path / "in.nc", tmp_path / "fit.nc", "polynomial(1)", dim="time")
    fit = read(tmp_path / "fit.nc")
    values = np.where(stored == -32768, np.nan, stored * 0.01 + 273.15)
    matrix = np.stack([np.ones(4), np.arange(4.0)], axis=1)
    for x in range(2):
        want = oracle.fit(values[:, x], matrix)
        np.testing.assert_allclose(fit["coef"].values[:, x], want.coef, rtol=1e-9)
    assert fit["coef"].dtype == np.float64
    assert not {"scale_factor", "add_offset"} & {*fit["coef"].encoding}
    assert fit["nobs"].values.tolist() == [4, 3]


def test_no_pixels_give_an_empty_fit(tmp_path: Path) -> None:
    make_cube().isel(y=slice(0, 0)).to_netcdf(tmp_path / "in.nc")
    summary = runs.solve_file(tmp_path / "in.nc", tmp_path / "fit.nc", DESIGN, var="ndvi")
    assert summary.pixels == 0
    assert read(tmp_path / "fit.nc")["coef"].shape == (4, 0, 11)


@pytest.mark.slow
def test_a_file_run_on_a_cluster_equals_one_on_threads(
    cube_file: Path, tmp_path: Path, cluster: distributed.Client
) -> None:
    options: dict[str, Any] = {"var": "ndvi", "valid": "valid", "chunks": {"y": 3}}
    assert len(cluster.scheduler_info()["workers"]) == 2
    runs.solve_file(cube_file, tmp_path / "a.nc", DESIGN, **options)
    with dask.config.set(scheduler="threads"):
        runs.solve_file(cube_file, tmp_path / "b.nc", DESIGN, **options)
    xr.testing.assert_equal(read(tmp_path / "a.nc"), read(tmp_path / "b.nc"))


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"var": "ndwi"}, LabelError, "var='ndwi' is not a variable of the file, which has"),
        ({"weights": "ww"}, LabelError, "weights='ww' is not a variable of the file"),
        ({"dim": "tme"}, LabelError, "'tme' is not a dim of 'ndvi'"),
        ({"chunks": {"t": 4}}, LabelError, "chunks names 't'"),
        ({"chunks": {"time": 4}}, ChunkError, "chunks cuts 'time'"),
        ({"stats": ("rs",)}, ValueError, "stats has"),
        ({"device": "tpu"}, (ValueError, DeviceError), "tpu"),
        ({"design": "poly(1)"}, ValueError, "poly"),
        ({"store": "int8"}, ValueError, "store='int8'"),
        ({"valid": "ndvi"}, ValueError, "valid"),
    ],
)
def test_a_bad_argument_is_refused_and_nothing_is_written(
    cube_file: Path,
    tmp_path: Path,
    options: dict[str, Any],
    kind: type[Exception] | tuple[type[Exception], ...],
    message: str,
) -> None:
    with pytest.raises(kind, match=message):
        runs.solve_file(
            cube_file, tmp_path / "fit.nc", **{"design": DESIGN, "var": "ndvi", **options}
        )
    assert made(tmp_path) == []


def test_bad_files_are_refused_and_nothing_is_written(cube_file: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        runs.solve_file(tmp_path / "no.nc", tmp_path / "fit.nc", DESIGN)
    with pytest.raises(ValueError, match="is the file that the data are read from"):
        runs.solve_file(cube_file, cube_file, DESIGN, var="ndvi")
    with pytest.raises(WriteError, match="is not a directory"):
        runs.solve_file(cube_file, tmp_path / "no" / "fit.nc", DESIGN, var="ndvi")
    with pytest.raises(ValueError, match=r"suffix '\.tif2', which names no format"):
        runs.solve_file(cube_file, tmp_path / "fit.tif2", DESIGN, var="ndvi")
    with pytest.raises(ValueError, match=r"suffix '\.hdf9', which names no format"):
        runs.write_fit(make_cube(), tmp_path / "fit.hdf9", "netCDF")
    assert made(tmp_path) == []


def test_an_argument_of_another_format_is_refused(cube_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"netCDF knows no resume.* Zarr, such as fit\.zarr"):
        runs.solve_file(cube_file, tmp_path / "fit.nc", DESIGN, var="ndvi", resume=True)
    with pytest.raises(ValueError, match=r"Zarr knows no complevel.* netCDF, such as fit\.nc"):
        runs.solve_file(cube_file, tmp_path / "fit.zarr", DESIGN, var="ndvi", complevel=0)
    assert made(tmp_path) == []


def test_the_process_scheduler_is_refused_with_the_remedy(cube_file: Path, tmp_path: Path) -> None:
    lazy = make_cube()["ndvi"].chunk(y=3).lstsq.solve(DESIGN)
    with dask.config.set(scheduler="processes"):
        with pytest.raises(ValueError, match=r"process scheduler .*scheduler='threads'"):
            runs.solve_file(cube_file, tmp_path / "fit.nc", DESIGN, var="ndvi")
        with pytest.raises(ValueError, match=r"distributed\.Client"):
            runs.write_fit(lazy, tmp_path / "fit.nc", "netCDF")
        assert made(tmp_path) == []
        runs.write_fit(lazy.compute(scheduler="sync"), tmp_path / "fit.nc", "netCDF")
    assert made(tmp_path) == ["fit.nc"]


def test_a_chunk_damaged_on_disk_names_the_input(tmp_path: Path) -> None:
    cube = make_cube()
    cube["ndvi"].encoding = {"chunksizes": (24, 9, 11), "shuffle": False, "fletcher32": True}
    cube[["ndvi"]].to_netcdf(tmp_path / "in.nc")
    content = bytearray((tmp_path / "in.nc").read_bytes())
    place = content.index(cube["ndvi"].values.tobytes()[400:500])
    content[place] ^= 0xFF  # the check sum of the chunk is wrong now
    (tmp_path / "in.nc").write_bytes(content)
    with pytest.raises(OSError, match=r"Reading 'ndvi' of '.*in\.nc' at its only .*damaged"):
        runs.solve_file(tmp_path / "in.nc", tmp_path / "fit.nc", DESIGN)
    assert made(tmp_path) == ["in.nc"]


def test_a_fit_is_written_from_python(tmp_path: Path) -> None:
    fit = make_cube()["ndvi"].chunk(y=4).lstsq.solve(DESIGN, stats=("fitted",))
    runs.write_fit(fit, tmp_path / "fit.nc", "netCDF")
    back = read(tmp_path / "fit.nc")
    history = back.attrs.pop("history")
    assert history.endswith("to_netcdf")
    assert back.attrs.pop("Conventions")
    xr.testing.assert_identical(back, fit.compute())
    runs.write_fit(fit, tmp_path / "fit.nc", "netCDF", store="float32")
    assert read(tmp_path / "fit.nc")["coef"].dtype == np.float32


def test_a_fit_read_from_a_file_is_not_written_over_it(tmp_path: Path) -> None:
    runs.write_fit(make_cube()["ndvi"].lstsq.solve(DESIGN), tmp_path / "fit.nc", "netCDF")
    with pytest.raises(ValueError, match="Write to another name"):
        runs.write_fit(read(tmp_path / "fit.nc"), tmp_path / "fit.nc", "netCDF")


def test_the_sample_is_there_and_small() -> None:
    path = runs.sample_path()
    assert path.stat().st_size < 3e6
    assert {"ndvi", "valid"} <= {*read(path).data_vars}
    assert any("LICENSE" in file.name for file in path.parent.iterdir())


MEMORY = """
import resource, sys
import numpy as np, xarray as xr
from xr_lstsq import runs
from xr_lstsq.formats import chunks
chunks.CHUNK_BYTES = 4 * 2**20
runs.solve_file(sys.argv[1], sys.argv[3], "polynomial(1)", dim="time")
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
runs.solve_file(sys.argv[2], sys.argv[3], "polynomial(1)", dim="time", stats="rss")
print(peak() - before)
"""


@pytest.mark.slow
def test_a_cube_larger_than_the_memory_allowed_is_processed(tmp_path: Path) -> None:
    for name, rows in (("small.nc", 400), ("large.nc", 2000)):
        with netCDF4.Dataset(tmp_path / name, "w") as file:
            for dim, size in {"time": 50, "y": rows, "x": 1000}.items():
                file.createDimension(dim, size)
            file.createVariable("time", "f8", ("time",))[:] = np.arange(50.0)
            # Never written to: reads as zeros, and takes no space on the disk.
            file.createVariable("v", "f4", ("time", "y", "x"), chunksizes=(50, 20, 500)).setncattr(
                "units", "m"
            )
            file["v"].set_auto_maskandscale(False)
            file["v"][0, 0, 0] = 1.0
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            MEMORY,
            *(str(tmp_path / n) for n in ("small.nc", "large.nc", "f.nc")),
        ],
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    assert int(run.stdout) < 50 * 2000 * 1000 * 4 / 3
