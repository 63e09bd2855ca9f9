from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path

import dask
import dask.array as da
import netCDF4
import numpy as np
import pytest
import xarray as xr

from xr_lstsq.errors import ChunkError, LabelError, WriteError
from xr_lstsq.formats import chunks as file_chunks
from xr_lstsq.formats import netcdf
from xr_lstsq.formats.regions import regions

SIZES = {"time": 7, "y": 23, "x": 18}


def make_fit(chunks: dict[str, int] | None = None, seed: int = 0) -> xr.Dataset:
    """Make a Dataset of the shape of a fit: floats with gaps, counts, flags, texts and a CRS."""
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=(2, SIZES["y"], SIZES["x"]))
    coef[:, 3, 4] = np.nan
    names = xr.DataArray(["intercept", "slope"], dims="param", attrs={"lstsq": "{}"})
    fit = xr.Dataset(
        {
            "coef": (("param", "y", "x"), coef, {"lstsq": json.dumps({"format": 1})}),
            "nobs": (("y", "x"), rng.integers(0, 7, size=coef.shape[1:]).astype(np.int32)),
            "status": (
                ("y", "x"),
                rng.integers(0, 4, size=coef.shape[1:]).astype(np.int8),
                {
                    "flag_values": np.arange(4, dtype=np.int8),
                    "flag_meanings": "solved no_data too_few_obs rank_deficient",
                },
            ),
            "residual": (
                ("time", "y", "x"),
                rng.normal(size=tuple(SIZES.values())),
                {"units": "m"},
            ),
        },
        coords={
            "param": names,
            "param_units": ("param", ["m", "m year-1"]),
            "time": np.datetime64("2015-07-11T10:00:08", "ns")
            + np.arange(7) * np.timedelta64(5 * 86400 + 1, "s"),
            "y": ("y", 5e6 - 10.0 * np.arange(SIZES["y"]), {"units": "m"}),
            "x": ("x", 4e5 + 10.0 * np.arange(SIZES["x"])),
            "lat": (("y", "x"), rng.normal(size=coef.shape[1:]), {"units": "degrees_north"}),
            "spatial_ref": ((), 0, {"grid_mapping_name": "transverse_mercator"}),
        },
        attrs={"title": "made up", "history": "before"},
    )
    for name in fit.data_vars:
        fit[name].encoding = {"grid_mapping": "spatial_ref"}
    return fit if chunks is None else fit.chunk(chunks)


def read_back(path: Path) -> xr.Dataset:
    """Read a file as a user does."""
    with xr.open_dataset(path, decode_coords="all") as opened:
        return opened.load()


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("chunks", [None, {"y": 10, "x": 7}, {"y": -1, "x": -1}])
def test_what_is_written_reads_back_equal(tmp_path: Path, chunks: dict[str, int] | None) -> None:
    fit = make_fit(chunks)
    netcdf.write(fit, tmp_path / "fit.nc", history="xr_lstsq test")
    back = read_back(tmp_path / "fit.nc")
    first, second = back.attrs.pop("history").splitlines()
    assert (first, second.endswith("Z xr_lstsq test")) == ("before", True)
    assert back.attrs.pop("Conventions").startswith("CF-1.")
    wanted = fit.compute()
    del wanted.attrs["history"]
    xr.testing.assert_identical(back, wanted)
    for name, variable in fit.variables.items():
        assert back.variables[name].dtype == variable.dtype
        assert back.variables[name].dims == variable.dims
    assert all(back[name].encoding["grid_mapping"] == "spatial_ref" for name in fit.data_vars)
    assert leftovers(tmp_path) == ["fit.nc"]


def test_the_file_follows_cf(tmp_path: Path) -> None:
    netcdf.write(make_fit({"y": 10, "x": 7}), tmp_path / "fit.nc")
    with netCDF4.Dataset(tmp_path / "fit.nc") as file:
        coef, status = file["coef"], file["status"]
        assert np.isnan(coef.getncattr("_FillValue"))
        assert coef.grid_mapping == "spatial_ref"
        assert coef.coordinates == "lat param_units"
        assert not coef.filters()["zlib"]
        assert status.filters()["zlib"]
        assert coef.chunking() == [2, 10, 7]
        assert "_FillValue" not in status.ncattrs()
        assert status.flag_meanings.split()[3] == "rank_deficient"
        assert status.flag_values.dtype == np.int8
        assert "_FillValue" not in file["x"].ncattrs()
        assert "coordinates" not in file.ncattrs()


def test_a_bare_fit_without_coordinates_is_written(tmp_path: Path) -> None:
    fit = xr.Dataset({"coef": (("param", "cell"), np.eye(3)), "number": ((), 4.5)}).chunk(cell=2)
    netcdf.write(fit, tmp_path / "fit.nc")
    xr.testing.assert_equal(read_back(tmp_path / "fit.nc"), fit.compute())


def test_a_coordinate_that_no_variable_spans_stays_a_coordinate(tmp_path: Path) -> None:
    fit = xr.Dataset({"coef": ("param", np.ones(2))}, coords={"lat": ("y", np.arange(3.0))})
    netcdf.write(fit, tmp_path / "fit.nc")
    assert "lat" in read_back(tmp_path / "fit.nc").coords


def test_no_pixels_give_an_empty_file(tmp_path: Path) -> None:
    fit = make_fit().isel(y=slice(0, 0)).chunk(x=5)
    blocks: list[xr.Dataset] = []
    netcdf.write(fit, tmp_path / "fit.nc", on_block=blocks.append)
    back = read_back(tmp_path / "fit.nc")
    assert back["coef"].shape == (2, 0, 18)
    assert sum(block["status"].size for block in blocks) == 0
    xr.testing.assert_equal(back, fit.compute())


def test_cftime_and_booleans_and_lazy_coordinates_survive(tmp_path: Path) -> None:
    times = xr.date_range("2001-01-30", periods=7, freq="30D", calendar="360_day", use_cftime=True)
    fit = make_fit().assign_coords(time=times)
    fit["good"] = fit["nobs"] > 3
    fit = fit.chunk(y=9)
    fit = fit.assign_coords(lon=fit["lat"].chunk(y=9) * 2)
    netcdf.write(fit, tmp_path / "fit.nc")
    back = read_back(tmp_path / "fit.nc")
    assert back["good"].dtype == bool
    assert "lon" in back.coords
    xr.testing.assert_equal(back, fit.compute())


def test_times_are_exact_whatever_units_they_came_with(tmp_path: Path) -> None:
    fit = make_fit()
    # Whole days cannot hold these times; a file in days would move them.
    fit["time"].encoding = {"units": "days since 1970-01-01", "dtype": np.dtype("int32")}
    netcdf.write(fit, tmp_path / "fit.nc")
    np.testing.assert_array_equal(read_back(tmp_path / "fit.nc")["time"], fit["time"])


def test_packing_is_decoded_on_the_way_in_and_left_behind_on_the_way_out(tmp_path: Path) -> None:
    stored = np.array([[1712, -32768], [-3, 2210]], dtype=np.int16)
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        file.createDimension("y", 2)
        file.createDimension("x", 2)
        packed = file.createVariable("t2m", "i2", ("y", "x"), fill_value=np.int16(-32768))
        packed.setncatts({"scale_factor": 0.01, "add_offset": 273.15, "units": "K"})
        packed.set_auto_maskandscale(False)
        packed[:] = stored
    with netcdf.open(tmp_path / "in.nc", chunks={}) as cube:
        wanted = np.where(stored == -32768, np.nan, stored * 0.01 + 273.15)
        assert cube["t2m"].dtype == np.float64
        np.testing.assert_allclose(cube["t2m"], wanted, rtol=1e-15)
        fit = xr.Dataset({"coef": cube["t2m"] / 1e4})
        fit["coef"].encoding = cube["t2m"].encoding
        netcdf.write(fit, tmp_path / "out.nc")
    back = read_back(tmp_path / "out.nc")
    assert back["coef"].dtype == np.float64
    assert not {"scale_factor", "add_offset"} & {*back["coef"].encoding}
    np.testing.assert_array_equal(back["coef"], wanted / 1e4)


def test_floats_are_compressed_when_that_is_asked_for(tmp_path: Path) -> None:
    fit = make_fit({"y": 10, "x": 7})
    for level in (0, 1, 9):
        netcdf.write(fit, tmp_path / "fit.nc", complevel=level)
        with netCDF4.Dataset(tmp_path / "fit.nc") as file:
            assert file["coef"].filters()["complevel"] == level
        with netcdf.open(tmp_path / "fit.nc") as found:
            np.testing.assert_array_equal(found["coef"], fit["coef"])
    with pytest.raises(ValueError, match=r"complevel=10 is no level of zlib\. Use 0"):
        netcdf.write(fit, tmp_path / "fit.nc", complevel=10)


def test_store_sets_the_type_of_the_floats_in_the_file_only(tmp_path: Path) -> None:
    fit = make_fit({"y": 10})
    netcdf.write(fit, tmp_path / "fit.nc", store="float32")
    back = read_back(tmp_path / "fit.nc")
    assert (back["coef"].dtype, back["nobs"].dtype, back["lat"].dtype) == ("f4", "i4", "f8")
    np.testing.assert_array_equal(back["coef"], fit["coef"].astype("f4"))
    with pytest.raises(ValueError, match="store='int16' is not a type of the file"):
        netcdf.write(fit, tmp_path / "fit.nc", store="int16")  # type: ignore[arg-type]


def test_every_block_is_computed_once_for_all_variables(tmp_path: Path) -> None:
    solved: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()

    def solve(block: np.ndarray, block_info: dict | None = None) -> np.ndarray:
        if block_info:
            with lock:
                solved[tuple(block_info[0]["chunk-location"])] += 1
        return block * 2.0

    values = np.random.default_rng(0).normal(size=(23, 18))
    doubled = da.from_array(values, chunks=(5, 4)).map_blocks(solve, dtype=float, meta=np.empty(0))
    fit = xr.Dataset(
        {
            "coef": (("param", "y", "x"), da.stack([doubled, doubled + 1]).rechunk({0: -1})),
            "nobs": (("y", "x"), doubled.astype(np.int32)),
            "rss": (("y", "x"), doubled**2),
            "eager": (("y", "x"), values),
        }
    )
    blocks: list[xr.Dataset] = []
    netcdf.write(fit, tmp_path / "fit.nc", on_block=blocks.append)
    assert len(solved) == 25
    assert set(solved.values()) == {1}
    assert sum(block["nobs"].size for block in blocks if "nobs" in block) == values.size
    np.testing.assert_array_equal(read_back(tmp_path / "fit.nc")["rss"], (values * 2) ** 2)


def test_regions_cover_everything_once() -> None:
    chunks = {"y": (3, 0, 4, 1), "x": (2, 2, 1)}
    seen = np.zeros((8, 5), dtype=int)
    for region in regions(chunks):
        seen[region.window["y"], region.window["x"]] += 1
    assert (seen == 1).all()


def test_large_eager_variables_are_written_in_slabs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xr_lstsq.formats.windows.SLAB_BYTES", 2000)
    fit = make_fit()
    blocks: list[xr.Dataset] = []
    netcdf.write(fit, tmp_path / "fit.nc", on_block=blocks.append)
    assert sum("residual" in block for block in blocks) > 5
    xr.testing.assert_equal(read_back(tmp_path / "fit.nc"), fit)


def test_storage_chunks_stay_small(tmp_path: Path) -> None:
    values = da.zeros((40, 500, 500), chunks=(-1, 250, 500))
    netcdf.write(xr.Dataset({"residual": (("time", "y", "x"), values)}), tmp_path / "fit.nc")
    with netCDF4.Dataset(tmp_path / "fit.nc") as file:
        assert np.prod(file["residual"].chunking()) * 8 <= 2**20
        assert file["residual"].chunking()[1:] == [250, 500]


# ------------------------------------------------------------------ what cannot be read or written


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.nc' does not exist\. Check the name"):
        netcdf.open(tmp_path / "nothing.nc")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a directory, and a netCDF file is needed"):
        netcdf.open(tmp_path)


@pytest.mark.parametrize("content", ["truncated", "text", "empty"])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    netcdf.write(make_fit(), tmp_path / "whole.nc")
    whole = (tmp_path / "whole.nc").read_bytes()
    contents = {"truncated": whole[: len(whole) // 2], "text": b"no netCDF", "empty": b""}
    (tmp_path / "broken.nc").write_bytes(contents[content])
    with pytest.raises(OSError, match=r"broken\.nc' is not a readable netCDF file .*truncated"):
        netcdf.open(tmp_path / "broken.nc")


def test_old_dates_become_cftime_without_a_warning(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "old.nc", "w") as file:
        file.createDimension("time", 2)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"units": "days since 1000-01-01", "calendar": "standard"})
        time[:] = [0.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with netcdf.open(tmp_path / "old.nc") as cube:
            assert cube["time"].values[1].year == 1000


@pytest.mark.parametrize("how", ["same", "link", "hard link", "encoding"])
def test_the_source_is_never_overwritten(tmp_path: Path, how: str) -> None:
    source, target = tmp_path / "cube.nc", tmp_path / "target.nc"
    netcdf.write(make_fit(), source)
    before = source.read_bytes()
    with netcdf.open(source, chunks={"y": 5}) as cube:
        given = [source]
        if how in ("same", "encoding"):
            target = source
            given = [] if how == "encoding" else [source]
        elif how == "link":
            target.symlink_to(source)
        else:
            target.hardlink_to(source)
        with pytest.raises(ValueError, match="is the file that the data are read from"):
            netcdf.write(cube, target, sources=given)
    assert source.read_bytes() == before


def test_a_link_is_followed_and_kept(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "fit.nc").symlink_to(tmp_path / "disk" / "real.nc")
    netcdf.write(make_fit(), tmp_path / "fit.nc")
    assert (tmp_path / "fit.nc").is_symlink()
    assert leftovers(tmp_path / "disk") == ["real.nc"]


def test_a_target_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    def boom(_block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    lazy = da.zeros((4, 4)).map_blocks(boom, dtype=float, meta=np.empty(0))
    fit = xr.Dataset({"coef": (("y", "x"), lazy)})
    with pytest.raises(WriteError, match=r"absent' is not a directory, so 'fit\.nc' cannot"):
        netcdf.write(fit, tmp_path / "absent" / "fit.nc")
    with pytest.raises(WriteError, match=r"is a directory\. Give the name of a file"):
        netcdf.write(fit, tmp_path)
    # /proc refuses new files even to root, whom the mode of a directory does not stop.
    folder = Path("/proc/self") if Path("/proc/self").is_dir() else None
    if folder is not None:
        with pytest.raises(WriteError, match=r"Could not write .* bytes\) free"):
            netcdf.write(fit, folder / "fit.nc")


def test_the_mode_of_the_file_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        netcdf.write(make_fit(), tmp_path / "fit.nc")
    finally:
        os.umask(before)
    assert (tmp_path / "fit.nc").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_a_failure_removes_the_partial_file_and_keeps_the_old_one(
    tmp_path: Path, error: type[BaseException]
) -> None:
    (tmp_path / "fit.nc").write_text("old")
    blocks = 0

    def stop(_block: xr.Dataset) -> None:
        nonlocal blocks
        blocks += 1
        if blocks == 3:
            assert len(leftovers(tmp_path)) == 2
            raise error

    with dask.config.set(scheduler="sync"), pytest.raises(error):
        netcdf.write(make_fit({"y": 1}), tmp_path / "fit.nc", on_block=stop)
    assert leftovers(tmp_path) == ["fit.nc"]
    assert (tmp_path / "fit.nc").read_text() == "old"


def test_a_failing_block_is_not_called_a_disk_error(tmp_path: Path) -> None:
    def boom(_block: np.ndarray) -> np.ndarray:
        raise RuntimeError("the solver broke")

    lazy = da.zeros((4, 4)).map_blocks(boom, dtype=float, meta=np.empty(0))
    with pytest.raises(RuntimeError, match="the solver broke"):
        netcdf.write(xr.Dataset({"coef": (("y", "x"), lazy)}), tmp_path / "fit.nc")
    assert leftovers(tmp_path) == []


def test_what_netcdf_cannot_hold_is_refused(tmp_path: Path) -> None:
    fit = make_fit()
    stacked = fit.stack(pixel=("y", "x"))
    cases = {
        "Call fit.reset_index\\('pixel'\\) first": stacked,
        "'coef' has dtype complex128": fit.assign(coef=fit["coef"] + 1j),
        "Attribute 'made' of 'coef' is None": fit.assign(coef=fit["coef"].assign_attrs(made=None)),
        "Attribute 'made' of the dataset is {}": fit.assign_attrs(made={}),
        "'coef' has the packing attribute '_FillValue'": fit.assign(
            coef=fit["coef"].assign_attrs(_FillValue=0)
        ),
        "A variable is called 'a b'": fit.rename(coef="a b"),
    }
    for message, dataset in cases.items():
        with pytest.raises(ValueError, match=message):
            netcdf.write(dataset, tmp_path / "fit.nc")
    assert leftovers(tmp_path) == []


FULL_DISK = """
import resource, signal, sys
import dask.array as da, numpy as np, xarray as xr
from xr_lstsq.errors import WriteError
from xr_lstsq.formats import netcdf
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
noise = da.random.default_rng(0).normal(size=(1000, 1000), chunks=(100, 1000))
try:
    netcdf.write(xr.Dataset({"coef": (("y", "x"), noise)}), sys.argv[1])
except WriteError as error:
    print(error)
    sys.exit(7)
"""


@pytest.mark.parametrize("limit", [100, 20_000, 1_000_000, 5_000_000])
def test_a_full_disk_leaves_nothing_and_is_named(tmp_path: Path, limit: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "fit.nc"), str(limit)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 7, run.stderr
    assert run.stderr == ""
    assert f"Could not write '{tmp_path}/fit.nc'" in run.stdout
    assert "bytes) free" in run.stdout
    assert leftovers(tmp_path) == []


MEMORY = """
import resource, sys
import dask.array as da, numpy as np, xarray as xr
from xr_lstsq.formats import netcdf
netcdf.write(xr.Dataset({"coef": ("y", da.zeros(10, chunks=5))}), sys.argv[1])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
blocks = da.ones((50, 2500, 2000), chunks=(-1, 20, 2000), dtype="f4").cumsum(axis=0)
netcdf.write(xr.Dataset({"residual": (("time", "y", "x"), blocks)}), sys.argv[1])
print(peak() - before, blocks.nbytes)
"""


@pytest.mark.slow
def test_memory_stays_bounded_whatever_the_size(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "fit.nc")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    growth, whole = map(int, run.stdout.split())
    assert whole >= 1e9
    assert growth < whole / 3


# --------------------------------------------------------------------------- chunks of an input


def stored(shape: tuple[int, ...], chunksizes: tuple[int, ...] | None) -> xr.DataArray:
    """Make a cube that looks as if read from a file with these storage chunks."""
    values = np.broadcast_to(np.float32(0), shape)
    cube = xr.DataArray(values, dims=("time", "y", "x")[: len(shape)], name="ndvi")
    cube.encoding["chunksizes"] = chunksizes
    return cube


@pytest.mark.parametrize(
    ("shape", "chunksizes"),
    [
        ((100, 5000, 4000), (10, 256, 256)),
        ((100, 5000, 4000), (1, 5000, 4000)),
        ((100, 5000, 4000), None),
        ((20_000, 500, 400), (20_000, 1, 1)),
        ((68, 101, 100), (32, 101, 100)),
        ((10**8, 3, 3), None),
    ],
)
def test_planned_chunks_are_bounded_and_not_tiny(
    shape: tuple[int, ...], chunksizes: tuple[int, ...] | None
) -> None:
    cube = stored(shape, chunksizes)
    plan = file_chunks.plan(cube, "time")
    assert plan["time"] == -1
    pixels = plan["y"] * plan["x"]
    bound = max(1, file_chunks.CHUNK_BYTES // (4 * shape[0]))
    assert 1 <= pixels <= bound
    assert pixels >= min(bound / 4, shape[1] * shape[2])


def test_planned_chunks_are_whole_storage_chunks() -> None:
    plan = file_chunks.plan(stored((100, 5000, 4000), (10, 128, 100)), "time")
    assert plan["y"] % 128 == 0
    assert plan["x"] % 100 == 0 or plan["x"] == 4000


def test_weights_count_in_the_size_of_a_chunk() -> None:
    cube = stored((100, 5000, 4000), None)
    alone = file_chunks.plan(cube, "time")
    both = file_chunks.plan(cube, "time", [cube])
    assert both["y"] * both["x"] < alone["y"] * alone["x"]


def test_chunks_asked_for_are_taken_or_refused() -> None:
    cube = stored((10, 50, 40), (10, 50, 40))
    assert file_chunks.plan(cube, "time", (), {"y": 7}) == {"time": -1, "y": 7, "x": 40}
    with pytest.raises(LabelError, match=r"chunks names 'z', and 'ndvi' has the dims"):
        file_chunks.plan(cube, "time", (), {"z": 7})
    with pytest.raises(ChunkError, match="chunks cuts 'time' into pieces of 5"):
        file_chunks.plan(cube, "time", (), {"time": 5})
    with pytest.raises(ChunkError, match="chunks has 0 for 'y'"):
        file_chunks.plan(cube, "time", (), {"y": 0})


def test_a_cube_without_pixels_can_be_planned() -> None:
    assert file_chunks.plan(stored((10, 0, 40), (1, 1, 40)), "time")["y"] >= 1
    assert file_chunks.plan(stored((10,), None), "time") == {"time": -1}
