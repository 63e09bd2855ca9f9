from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import rasterio
import rioxarray  # noqa: F401 - registers .rio
import xarray as xr
from affine import Affine

from tests.rasters import RASTERS, UTM, leftovers, noise, place, plain, put
from xr_lstsq.errors import WriteError
from xr_lstsq.formats import geotiff

# Rasters without a place on the ground are part of what is tested; rioxarray multiplies transforms.
pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning"),
]


# --------------------------------------------------------------------------------------- writing


def make_fit(chunks: dict[str, int] | None = None) -> xr.Dataset:
    """Make a Dataset of the shape of a fit, of 40 by 50 pixels."""
    rng = np.random.default_rng(0)
    coef = rng.normal(size=(2, 40, 50))
    coef[:, 3, 4] = np.nan
    fit = xr.Dataset(
        {
            "coef": (("param", "y", "x"), coef, {"long_name": "coefficients", "lstsq": '{"a": 1}'}),
            "rsquared": (("y", "x"), rng.random((40, 50)).astype(np.float32), {"units": "1"}),
            "nobs": (("y", "x"), rng.integers(0, 99, (40, 50)).astype(np.int32)),
            "status": (
                ("y", "x"),
                rng.integers(0, 6, (40, 50)).astype(np.int8),
                {"flag_values": np.arange(3, dtype="i1"), "flag_meanings": "solved no_data few"},
            ),
            "good": (("x", "y"), rng.random((50, 40)) < 0.5),
        },
        coords={
            "param": ["intercept", "slope"],
            "param_units": ("param", ["m", "m year-1"]),
            "y": UTM.f + UTM.e * (np.arange(40) + 0.5),
            "x": UTM.c + UTM.a * (np.arange(50) + 0.5),
            "spatial_ref": ((), 0),
        },
        attrs={"title": "made up", "history": "before"},
    )
    fit = fit.rio.write_crs("EPSG:32633").rio.write_transform(UTM)
    return fit if chunks is None else fit.chunk(chunks)


@pytest.mark.parametrize("chunks", [None, {"y": 16, "x": 32}, {"y": 7, "x": 11}, {"param": 1}])
def test_what_is_written_reads_back_equal(tmp_path: Path, chunks: dict[str, int] | None) -> None:
    fit = make_fit(chunks)
    geotiff.write(fit, tmp_path / "out.tif", history="xr_lstsq test")
    assert leftovers(tmp_path) == sorted(f"out_{name}.tif" for name in fit.data_vars)
    for name, variable in fit.data_vars.items():
        after = plain(tmp_path / f"out_{name}.tif")
        wanted = variable.transpose(..., "y", "x").values.reshape(-1, 40, 50)
        np.testing.assert_array_equal(after["values"], wanted)
        kind = "u1" if name == "good" else variable.dtype
        assert after["values"].dtype == kind
        assert (after["crs"], after["transform"]) == (rasterio.crs.CRS.from_epsg(32633), UTM)
        nodata = after["nodata"][0]
        assert nodata is None if variable.dtype.kind != "f" else np.isnan(nodata)
        assert after["profile"]["tiled"]
        assert after["profile"]["compress"] == "deflate"
        first, second = after["tags"]["history"].splitlines()
        assert (first, second.endswith("Z xr_lstsq test")) == ("before", True)
        assert after["tags"]["title"] == "made up"


def test_bands_say_what_they_are(tmp_path: Path) -> None:
    geotiff.write(make_fit(), tmp_path / "out.tif")
    coef, status = plain(tmp_path / "out_coef.tif"), plain(tmp_path / "out_status.tif")
    assert coef["descriptions"] == ("intercept", "slope")
    assert coef["units"] == ("m", "m year-1")
    assert coef["band_tags"][1]["param"] == "slope"
    assert coef["tags"]["lstsq"] == '{"a": 1}'
    assert status["descriptions"] == ("status",)
    assert status["tags"]["flag_meanings"] == "solved no_data few"
    assert status["tags"]["flag_values"] == "0 1 2"
    assert plain(tmp_path / "out_rsquared.tif")["units"] == ("1",)
    back = geotiff.open(tmp_path / "out_coef.tif")
    assert back["description"].values.tolist() == ["intercept", "slope"]


def test_samples_are_bands_with_their_dates(tmp_path: Path) -> None:
    fit = make_fit()
    both = ["2020-01-01", "2020-01-13"]
    layers = xr.concat([fit["rsquared"], fit["rsquared"] * 2], "time")
    named = layers.assign_coords(time=np.array(both, "M8[ns]"))
    geotiff.write(named.to_dataset(name="fitted"), tmp_path / "a.tif")
    assert plain(tmp_path / "a_fitted.tif")["descriptions"] == tuple(both)
    dates = np.array(both, "M8[ns]")
    pairs = layers.rename(time="pair").assign_coords(
        reference=("pair", dates[:1].repeat(2)), secondary=("pair", dates)
    )
    geotiff.write(pairs.to_dataset(name="fitted"), tmp_path / "b.tif")
    assert plain(tmp_path / "b_fitted.tif")["descriptions"][1] == "2020-01-01_2020-01-13"
    bare = layers.to_dataset(name="fitted")
    geotiff.write(bare, tmp_path / "c.tif")
    assert plain(tmp_path / "c_fitted.tif")["descriptions"] == ("time_0", "time_1")


def test_chunks_are_whole_tiles(tmp_path: Path) -> None:
    big = xr.Dataset(
        {"coef": (("y", "x"), da.zeros((960, 1000), chunks=(192, 1000)))},
        {"y": np.arange(960.0), "x": np.arange(1000.0)},
    )
    geotiff.write(big, tmp_path / "a.tif")
    profile = plain(tmp_path / "a_coef.tif")["profile"]
    assert 192 % profile["blockysize"] == 0
    geotiff.write(big.chunk(y=100, x=300), tmp_path / "b.tif")
    profile = plain(tmp_path / "b_coef.tif")["profile"]
    assert (profile["blockysize"], profile["blockxsize"]) == (256, 256)


def test_every_block_is_computed_once_for_all_variables(tmp_path: Path) -> None:
    solved: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()

    def solve(block: np.ndarray, block_info: dict | None = None) -> np.ndarray:
        if block_info:
            with lock:
                solved[tuple(block_info[0]["chunk-location"])] += 1
        return block * 2.0

    fit = make_fit()
    values = fit["rsquared"].values.astype(float)
    doubled = da.from_array(values, chunks=(8, 10)).map_blocks(solve, dtype=float, meta=np.empty(0))
    fit["coef"] = ("param", "y", "x"), da.stack([doubled, doubled + 1]).rechunk({0: -1})
    fit["nobs"] = ("y", "x"), doubled.astype(np.int32)
    blocks: list[xr.Dataset] = []
    geotiff.write(fit, tmp_path / "fit.tif", on_block=blocks.append)
    assert len(solved) == 25
    assert set(solved.values()) == {1}
    assert sum(block["nobs"].size for block in blocks if "nobs" in block) == values.size
    np.testing.assert_array_equal(plain(tmp_path / "fit_coef.tif")["values"][1], values * 2 + 1)


def test_store_sets_the_type_of_the_floats_in_the_files_only(tmp_path: Path) -> None:
    fit = make_fit({"y": 16})
    geotiff.write(fit, tmp_path / "fit.tif", store="float32")
    after = {name: plain(tmp_path / f"fit_{name}.tif")["values"] for name in fit.data_vars}
    assert (after["coef"].dtype, after["nobs"].dtype) == ("f4", "i4")
    np.testing.assert_array_equal(after["coef"], fit["coef"].astype("f4"))
    with pytest.raises(ValueError, match="store='int16' is not a type of the file"):
        geotiff.write(fit, tmp_path / "fit.tif", store="int16")  # type: ignore[arg-type]


def test_cloud_optimized_files_hold_the_same(tmp_path: Path) -> None:
    fit = make_fit({"y": 16})
    geotiff.write(fit, tmp_path / "fit.tif", cog=True)
    assert leftovers(tmp_path) == sorted(f"fit_{name}.tif" for name in fit.data_vars)
    after = plain(tmp_path / "fit_coef.tif")
    np.testing.assert_array_equal(after["values"], fit["coef"])
    assert after["descriptions"] == ("intercept", "slope")
    assert np.isnan(after["nodata"][0])
    assert after["transform"] == UTM
    with rasterio.open(tmp_path / "fit_coef.tif") as file:
        assert file.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"


@pytest.mark.parametrize(
    ("part", "columns", "rows"),
    [
        ({"y": slice(5, 20), "x": slice(7, None)}, (7, 1), (5, 1)),
        ({"y": slice(None, None, -1)}, (0, 1), (39, -1)),
        ({"y": slice(1, None, 3), "x": slice(None, None, 2)}, (0, 2), (1, 3)),
        ({"y": [4], "x": [6]}, (6, 1), (4, 1)),
    ],
)
def test_a_part_lies_where_it_lay(
    tmp_path: Path, part: dict[str, Any], columns: tuple[int, int], rows: tuple[int, int]
) -> None:
    geotiff.write(make_fit().isel(part), tmp_path / "part.tif")
    got = plain(tmp_path / "part_nobs.tif")["transform"]
    for step in (0, 1):
        column, row = columns[0] + step * columns[1], rows[0] + step * rows[1]
        centre = place(UTM, column + 0.5, row + 0.5)
        np.testing.assert_allclose(place(got, step + 0.5, step + 0.5), centre, rtol=1e-15)


def test_a_grid_without_a_transform_has_that_of_its_coordinates(tmp_path: Path) -> None:
    fit = make_fit().rename(y="latitude", x="longitude").drop_vars("spatial_ref")
    fit = fit.assign_coords(
        latitude=50.0 - 0.25 * np.arange(40), longitude=-5.0 + 0.25 * np.arange(50)
    )
    geotiff.write(fit.rio.write_crs("EPSG:4326"), tmp_path / "a.tif")
    after = plain(tmp_path / "a_coef.tif")
    assert after["transform"] == Affine(0.25, 0, -5.125, 0, -0.25, 50.125)
    assert after["crs"].to_epsg() == 4326
    np.testing.assert_array_equal(after["values"], fit["coef"])
    # A transform of something else is not believed.
    moved = fit.rio.write_crs("EPSG:4326").rio.write_transform(UTM)
    geotiff.write(moved, tmp_path / "b.tif")
    assert plain(tmp_path / "b_coef.tif")["transform"] == after["transform"]
    named = fit.rename(latitude="j", longitude="i")
    named["j"].attrs["standard_name"], named["i"].attrs["axis"] = "latitude", "X"
    geotiff.write(named, tmp_path / "c.tif")
    assert plain(tmp_path / "c_coef.tif")["transform"] == after["transform"]


def multi_index(fit: xr.Dataset) -> xr.Dataset:
    return fit.stack(pixel=("y", "x"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: f.assign(
                cov=f["coef"] * f["coef"].rename(param="param_2").drop_vars("param_2")
            ),
            r"drop_vars\(\['cov'\]\) .*isel\(param_2=0\), or write netCDF or Zarr",
        ),
        (multi_index, r"'pixel' is a MultiIndex.* Call fit\.unstack\('pixel'\)"),
        (
            lambda f: f.expand_dims(depth=3),
            r"'coef' has the dims .*'depth'.* bands along one dim more",
        ),
        (lambda f: f.assign(d=("time", [1.0])), r"'d' has the dims .* fit\.drop_vars\(\['d'\]\)"),
        (
            lambda f: f.rename(y="j", x="i"),
            r"are no rows and columns of a raster. Call fit\.rename",
        ),
        (lambda f: f.drop_vars(["y", "x", "spatial_ref"]), "neither coordinates along 'y' and 'x'"),
        (lambda f: f.assign_coords(y=np.arange(40.0) ** 2), "'y' is not evenly spaced"),
        (
            lambda f: f.rio.write_transform(Affine.rotation(30)),
            r"GeoTransform is rotated.* Call fit\.drop_vars\(\['y', 'x'\]\)",
        ),
        (lambda f: f.assign(t=f["nobs"].astype("M8[ns]")), "'t' has dtype datetime64"),
        (lambda f: f.assign(t=f["nobs"] + 1j), "'t' has dtype complex128"),
        (lambda f: f.isel(y=slice(0)), "a GeoTIFF has at least one pixel"),
        (lambda f: f.drop_vars(list(f.data_vars)), "no data variables"),
        (lambda f: f.rename(nobs="a/b"), r"called 'a/b'.*Rename it"),
        (lambda f: f.assign(n=f["nobs"].assign_attrs(scale_factor=2)), "packing attribute 'scale_"),
    ],
)
def test_what_a_geotiff_cannot_hold_is_refused_before_any_work(
    tmp_path: Path, change: Any, message: str
) -> None:
    def boom(_block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    fit = make_fit({"y": 10})
    fit["coef"] = fit["coef"].copy(
        data=fit["coef"].data.map_blocks(boom, dtype=float, meta=np.empty(0))
    )
    with pytest.raises(ValueError, match=message):
        geotiff.write(change(fit), tmp_path / "fit.tif")
    assert leftovers(tmp_path) == []


def test_the_input_is_never_overwritten(tmp_path: Path) -> None:
    values = noise(2, 4, 5)
    for i, name in enumerate(("20200101_coef", "20200102_coef")):
        put(tmp_path / f"{name}.tif", values[i])
    put(tmp_path / "t_w.tif", values[0])
    (tmp_path / "t.csv").write_text("path,time\n20200101_coef.tif,20200101\n")
    cubes = geotiff.open_stack({"coef": tmp_path / "{time}_coef.tif", "w": tmp_path / "t_w.tif"})
    before = (tmp_path / "20200101_coef.tif").read_bytes()
    message = "is the file that the data are read from"
    with pytest.raises(ValueError, match=message):
        geotiff.write(cubes[["coef"]], tmp_path / "20200101.tif")
    with pytest.raises(ValueError, match=message):  # known by the grid alone
        geotiff.write((cubes[["w"]] * 2).rename(w="coef"), tmp_path / "20200102.tif")
    bare = cubes[["coef"]].drop_vars("spatial_ref").compute()
    bare["coef"].encoding = {}
    for source in (tmp_path / "t.csv", tmp_path / "{time}_coef.tif"):
        with pytest.raises(ValueError, match=message):
            geotiff.write(bare, tmp_path / "20200101.tif", sources=[source])
    assert (tmp_path / "20200101_coef.tif").read_bytes() == before


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_failure_keeps_all_old_files_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    (tmp_path / "fit_coef.tif").write_text("old")
    blocks = 0

    def stop(_block: xr.Dataset) -> None:
        nonlocal blocks
        blocks += 1
        if blocks == 3:
            assert len(leftovers(tmp_path)) == 6
            raise error

    with dask.config.set(scheduler="sync"), pytest.raises(error):
        geotiff.write(make_fit({"y": 1}), tmp_path / "fit.tif", on_block=stop)
    assert leftovers(tmp_path) == ["fit_coef.tif"]
    assert (tmp_path / "fit_coef.tif").read_text() == "old"


@pytest.mark.parametrize("moves", range(6))
def test_files_of_one_write_appear_together_or_not_at_all(
    tmp_path: Path, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three new files of which two replace old ones take five moves."""
    fit = make_fit({"y": 16})[["coef", "nobs", "status"]]
    for name in ("coef", "status"):
        (tmp_path / f"fit_{name}.tif").write_text(f"old {name}")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    move, done = Path.replace, 0

    def stop(self: Path, target: Path) -> Path:
        nonlocal done
        done += 1
        if done == moves + 1:
            raise KeyboardInterrupt
        return move(self, target)

    monkeypatch.setattr(Path, "replace", stop)
    if moves < 5:
        with pytest.raises(KeyboardInterrupt):
            geotiff.write(fit, tmp_path / "fit.tif")
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    else:
        geotiff.write(fit, tmp_path / "fit.tif")
        assert leftovers(tmp_path) == ["fit_coef.tif", "fit_nobs.tif", "fit_status.tif"]
        np.testing.assert_array_equal(plain(tmp_path / "fit_coef.tif")["values"], fit["coef"])


def test_a_target_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"absent' is not a directory"):
        geotiff.write(make_fit(), tmp_path / "absent" / "fit.tif")
    with pytest.raises(ValueError, match=r"fit\.csv' has the suffix '\.csv'.* \.tif or \.tiff"):
        geotiff.write(make_fit(), tmp_path / "fit.csv")
    with pytest.raises(ValueError, match=r"has the suffix '\.vrt'"):
        geotiff.check_target(tmp_path / "fit.vrt", [])
    with pytest.raises(ValueError, match="is the file that the data are read from"):
        geotiff.check_target(tmp_path / "fit.tif", [tmp_path / "fit.tif"])
    assert geotiff.check_target(tmp_path / "fit.tif", []) == tmp_path / "fit.tif"
    (tmp_path / "fit_coef.tif").mkdir()
    with pytest.raises(WriteError, match="is a directory"):
        geotiff.write(make_fit(), tmp_path / "fit.tif")


FULL_DISK = """
import resource, signal, sys
import dask.array as da, numpy as np, xarray as xr
from xr_lstsq.errors import WriteError
from xr_lstsq.formats import geotiff
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
noise = da.random.default_rng(0).normal(size=(1000, 1000), chunks=(100, 1000))
coords = {"y": np.arange(1000.0), "x": np.arange(1000.0)}
try:
    fit = xr.Dataset({"coef": (("y", "x"), noise)}, coords)
    geotiff.write(fit, sys.argv[1], cog=sys.argv[3] == "True")
except WriteError as error:
    print(error)
    sys.exit(7)
"""


# The last limit is that of a COG: the file as it is first written takes less.
@pytest.mark.parametrize(
    ("limit", "cog"), [(100, False), (1_000_000, False), (5_000_000, False), (8_500_000, True)]
)
def test_a_full_disk_leaves_nothing_and_is_named(tmp_path: Path, limit: int, cog: bool) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "fit.tif"), str(limit), str(cog)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 7, run.stderr
    assert f"Could not write '{tmp_path}/fit_coef.tif'" in run.stdout
    assert "bytes) free" in run.stdout
    assert leftovers(tmp_path) == []


def test_a_rotated_grid_keeps_its_transform_and_has_no_x_and_y(tmp_path: Path) -> None:
    before = plain(RASTERS / "rotated.tif")
    cube = geotiff.open(RASTERS / "rotated.tif")
    assert cube["data"].dtype == np.uint8  # nothing is masked: integers stay
    assert not {"x", "y"} & {*cube.coords}
    np.testing.assert_array_equal(cube["data"], before["values"])
    geotiff.write(cube[["data"]].astype(float), tmp_path / "out.tif")
    after = plain(tmp_path / "out_data.tif")
    assert after["transform"] == before["transform"]
    np.testing.assert_array_equal(after["values"], before["values"])


def test_a_part_of_a_rotated_grid_lies_where_it_lay(tmp_path: Path) -> None:
    whole = plain(RASTERS / "rotated.tif")["transform"]
    part = geotiff.open(RASTERS / "rotated.tif").isel(y=slice(3, None, 2), x=slice(None, 4, -1))
    geotiff.write(part, tmp_path / "part.tif")
    after = plain(tmp_path / "part_data.tif")
    np.testing.assert_allclose(
        place(after["transform"], 0.5, 0.5), place(whole, 9.5, 3.5), rtol=1e-12
    )
    np.testing.assert_allclose(
        place(after["transform"], 1.5, 1.5), place(whole, 8.5, 5.5), rtol=1e-12
    )


def test_rows_that_go_north_stay_so(tmp_path: Path) -> None:
    before = plain(RASTERS / "float_nan.tif")
    cube = geotiff.open(RASTERS / "float_nan.tif")
    assert cube["y"].values.tolist() == [50.0, 150.0]
    geotiff.write(cube, tmp_path / "out.tif")
    after = plain(tmp_path / "out_data.tif")
    assert (after["transform"], after["crs"]) == (before["transform"], None)
    np.testing.assert_array_equal(after["values"], before["values"])
