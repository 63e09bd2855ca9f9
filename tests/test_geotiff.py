from __future__ import annotations

import os
import pickle
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
import rioxarray
import xarray as xr
from affine import Affine
from rasterio.enums import ColorInterp

import xr_lstsq
from tests import oracle
from xr_lstsq.errors import ChunkError, DtypeError, LabelError, WriteError
from xr_lstsq.formats import geotiff
from xr_lstsq.formats.bands import Band

RASTERS = Path(__file__).parent / "data" / "rasters"
CUBES = Path(__file__).parent / "data" / "cubes"
UTM = Affine(30.0, 0.0, 399960.0, 0.0, -30.0, 4300020.0)
# Rasters without a place on the ground are part of what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def moved(columns: float, rows: float) -> Affine:
    return Affine(UTM.a, 0.0, UTM.c + UTM.a * columns, 0.0, UTM.e, UTM.f + UTM.e * rows)


def scaled(columns: float, rows: float) -> Affine:
    return Affine(UTM.a * columns, 0.0, UTM.c, 0.0, UTM.e * rows, UTM.f)


def place(transform: Affine, column: float, row: float) -> list[float]:
    """Return x and y of a place in a raster."""
    a, b, c, d, e, f = transform[:6]
    return [a * column + b * row + c, d * column + e * row + f]


def put(path: Path, values: np.ndarray, **profile: Any) -> Path:
    """Write a raster with rasterio alone."""
    values = values.reshape(-1, *values.shape[-2:])
    count, height, width = values.shape
    extra = {k: profile.pop(k) for k in ("scales", "offsets", "descriptions") if k in profile}
    given = {"crs": "EPSG:32633", "transform": UTM, "dtype": values.dtype, **profile}
    path.parent.mkdir(parents=True, exist_ok=True)
    with rasterio.open(
        path, "w", driver="GTiff", count=count, height=height, width=width, **given
    ) as file:
        file.write(values)
        for key, value in extra.items():
            setattr(file, key, value)
    return path


def plain(path: Path) -> dict[str, Any]:
    """Read with rasterio alone."""
    with rasterio.open(path) as file:
        return {
            "values": file.read(),
            "crs": file.crs,
            "transform": file.transform,
            "nodata": file.nodatavals,
            "descriptions": file.descriptions,
            "units": file.units,
            "tags": file.tags(),
            "band_tags": [file.tags(number) for number in file.indexes],
            "profile": file.profile,
        }


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def dates(folder: Path, n: int = 3, **profile: Any) -> np.ndarray:
    """Write a stack of a file a date, and return its values."""
    values = noise(n, 8, 10)
    for i in range(n):
        put(folder / f"ndvi_2020{i + 1:02d}15.tif", values[i], **profile)
    return values


# ------------------------------------------------------------------------------ awkward real files


@pytest.mark.parametrize("name", ["float_nan", "float_raster_with_nodata", "all-nodata"])
def test_nodata_of_real_files_is_nan(name: str) -> None:
    path = RASTERS / f"{name}.tif"
    with rasterio.open(path) as file:
        raw, valid, transform, crs = file.read(), file.read_masks(), file.transform, file.crs
    cube = geotiff.open(path)
    got = cube["data"].to_numpy()
    assert got.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(got), (valid == 0) | np.isnan(raw.astype("f4")))
    np.testing.assert_array_equal(got[~np.isnan(got)], raw[~np.isnan(got)])
    assert np.isnan(got).any()
    assert cube.rio.transform() == transform
    assert cube.rio.crs == crs


def test_names_of_bands_become_a_coordinate() -> None:
    cube = geotiff.open(RASTERS / "all-nodata.tif")
    assert cube["data"].dims == ("band", "y", "x")
    assert cube["description"].values.tolist() == ["blue", "green", "red", "nir"]
    assert cube["band"].values.tolist() == [1, 2, 3, 4]


def test_transparency_masks_and_is_no_sample() -> None:
    with rasterio.open(RASTERS / "RGBA.uint16.tif") as file:
        raw, alpha = file.read([1, 2, 3]), file.read(4)
        assert file.colorinterp[3] == ColorInterp.alpha
    got = geotiff.open(RASTERS / "RGBA.uint16.tif")["data"].to_numpy()
    assert got.shape == raw.shape
    np.testing.assert_array_equal(got, np.where(alpha == 0, np.nan, raw))
    assert (got == 0).any() or raw[:, alpha > 0].min() > 0  # a zero that shows is data


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


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(DtypeError, match=r"cint16\.tif' holds complex numbers .* phase or amplit"):
        geotiff.open(RASTERS / "cint16.tif")


# ----------------------------------------------------------------------------------- single files


def test_scale_offset_and_nodata_are_those_of_each_band(tmp_path: Path) -> None:
    raw = np.array([[[1712, -32768]], [[-3, 2210]]], dtype=np.int16)
    path = put(tmp_path / "t.tif", raw, nodata=-32768, scales=(0.01, 1.0), offsets=(273.15, -5.0))
    cube = geotiff.open(path)["data"]
    assert cube.dtype == np.float64
    np.testing.assert_array_equal(
        cube.values.squeeze(), [[1712 * 0.01 + 273.15, np.nan], [-8.0, 2205.0]]
    )


@pytest.mark.parametrize(
    ("dtype", "nodata", "wanted"),
    [
        ("int16", None, "int16"),
        ("int16", -1, "float32"),
        ("uint16", 65535, "float32"),
        ("int32", 16777217, "float64"),
        ("float32", -9999.0, "float32"),
        ("float64", None, "float64"),
    ],
)
def test_the_dtype_holds_every_value(
    tmp_path: Path, dtype: str, nodata: float | None, wanted: str
) -> None:
    raw = np.array([[0, 16777217 if dtype == "int32" else 5, 16777219 if "32" in dtype else 7]])
    cube = geotiff.open(put(tmp_path / "a.tif", raw.astype(dtype), nodata=nodata))["data"]
    assert cube.dtype == wanted
    stored = raw.astype(dtype).astype(wanted)[None]
    gaps = cube.isnull() if nodata == 16777217 else np.zeros(raw.shape, bool)
    np.testing.assert_array_equal(cube.where(~gaps), np.where(gaps, np.nan, stored))


def test_a_mask_beside_the_file_counts(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tif", np.arange(6, dtype=np.uint8).reshape(2, 3))
    with rasterio.open(path, "r+") as file:
        file.write_mask(np.array([[0, 255, 255], [255, 255, 0]], dtype=np.uint8))
    assert (tmp_path / "a.tif.msk").exists()
    got = geotiff.open(path)["data"].values
    np.testing.assert_array_equal(got, [[[np.nan, 1, 2], [3, 4, np.nan]]])


def test_nodata_of_each_band_of_a_vrt(tmp_path: Path) -> None:
    put(tmp_path / "a.tif", np.array([[[1, 2]], [[1, 2]]], dtype=np.int16))
    bands = "".join(
        f'<VRTRasterBand dataType="Int16" band="{b}"><NoDataValue>{b}</NoDataValue>'
        f'<SimpleSource><SourceFilename relativeToVRT="1">a.tif</SourceFilename>'
        f"<SourceBand>{b}</SourceBand></SimpleSource></VRTRasterBand>"
        for b in (1, 2)
    )
    (tmp_path / "a.vrt").write_text(
        f'<VRTDataset rasterXSize="2" rasterYSize="1">{bands}</VRTDataset>'
    )
    got = geotiff.open(tmp_path / "a.vrt")["data"].values
    np.testing.assert_array_equal(got, [[[np.nan, 2]], [[1, np.nan]]])


def test_wavelengths_become_a_coordinate(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tif", noise(2, 3, 4))
    with rasterio.open(path, "r+") as file:
        file.update_tags(1, wavelength="490.5", wavelength_units="nm")
        file.update_tags(2, wavelength="560", wavelength_units="nm")
    cube = geotiff.open(path)
    assert cube["wavelength"].values.tolist() == [490.5, 560.0]
    assert cube["wavelength"].attrs == {"units": "nm"}


def test_x_and_y_are_those_of_rioxarray(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tif", noise(2, 8, 10))
    cube, other = geotiff.open(path), rioxarray.open_rasterio(path)
    for name in ("x", "y", "band"):
        np.testing.assert_allclose(cube[name], other[name], rtol=1e-15)
    assert cube["x"].attrs["standard_name"] == "projection_x_coordinate"
    assert cube["spatial_ref"].attrs["crs_wkt"] == other["spatial_ref"].attrs["crs_wkt"]
    assert cube["data"].encoding["grid_mapping"] == "spatial_ref"


def test_ground_control_points_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tif", noise(3, 4), transform=None, crs=None)
    with rasterio.open(path, "r+") as file:
        points = [rasterio.control.GroundControlPoint(r, c, c, r) for r in (0, 3) for c in (0, 4)]
        file.gcps = (points, rasterio.crs.CRS.from_epsg(4326))
    with pytest.raises(ValueError, match=r"placed by ground control points.*gdalwarp"):
        geotiff.open(path)


# ---------------------------------------------------------------------------------------- stacks


@pytest.mark.parametrize(
    ("names", "pattern", "first"),
    [
        (["20200131", "20200131T101112", "2021-01-31"], "{time}.tif", "2020-01-31"),
        (["2020-01-31T10:11:12Z", "2020-02-01T00:00"], "{time}.tif", "2020-01-31T10:11:12"),
        (["S2A_20200131T101112_T33", "S2B_20200203_T3"], "*_{time}_*.tif", "2020-01-31T10:11:12"),
        (["20200131/b_20200131", "20200201/b_20200201"], "{time}/b_{time}.tif", "2020-01-31"),
        (["x[1]{}20200131"], "x[1]*{time}.tif", "2020-01-31"),
    ],
)
def test_dates_are_read_from_names(
    tmp_path: Path, names: list[str], pattern: str, first: str
) -> None:
    values = noise(len(names), 4, 5)
    for name, layer in zip(names, values, strict=True):
        put(tmp_path / f"{name}.tif", layer)
    put(tmp_path / "b_mean.tif", values[0] + 9)
    cube = geotiff.open_stack(str(tmp_path / pattern))
    assert cube["time"].dtype == "datetime64[ns]"
    assert cube["time"].values[0] == np.datetime64(first)
    assert (np.diff(cube["time"].values) > np.timedelta64(0)).all()
    np.testing.assert_array_equal(cube["data"], values)


def test_pairs_have_two_dates_and_companions(tmp_path: Path) -> None:
    pairs = [("20200101", "20200113"), ("20200101", "20200125"), ("20200113", "20200125")]
    phase, coherence, height = noise(3, 4, 5), noise(3, 4, 5, seed=1), noise(4, 5, seed=2)
    for i, (first, second) in enumerate(pairs):
        put(tmp_path / f"{first}_{second}_unw.tif", phase[i])
        put(tmp_path / "coh" / f"{second}-{first}.tif", coherence[i])
    put(tmp_path / "dem.tif", height)
    cube = geotiff.open_stack(
        {
            "unw": tmp_path / "{reference}_{secondary}_unw.tif",
            "coherence": tmp_path / "coh" / "{secondary}-{reference}.tif",
            "height": tmp_path / "dem.tif",
        }
    )
    assert cube["unw"].dims == ("pair", "y", "x")
    assert cube["height"].dims == ("y", "x")
    np.testing.assert_array_equal(
        cube["reference"],
        np.array(["2020-01-01", "2020-01-01", "2020-01-13"], "M8[ns]"),
    )
    np.testing.assert_array_equal(
        cube["secondary"], np.array(["2020-01-13", "2020-01-25", "2020-01-25"], "M8[ns]")
    )
    np.testing.assert_array_equal(cube["unw"], phase)
    np.testing.assert_array_equal(cube["coherence"], coherence)
    np.testing.assert_array_equal(cube["height"], height)


def test_samples_without_a_companion_are_nan_there_with_one_warning(tmp_path: Path) -> None:
    values = dates(tmp_path)
    for month in (1, 3):
        put(tmp_path / f"valid_2020{month:02d}15.tif", np.ones((8, 10), np.uint8))
    patterns = {"ndvi": tmp_path / "ndvi_{time}.tif", "valid": tmp_path / "valid_{time}.tif"}
    with pytest.warns(
        UserWarning, match=r"'valid' has no file for 1 of 3 samples.*: 2020-02-15\."
    ) as told:
        cube = geotiff.open_stack(patterns)
    assert len(told) == 1
    assert Path(told[0].filename).name == "test_geotiff.py"
    assert cube["valid"].dtype == np.float32
    np.testing.assert_array_equal(cube["valid"].isnull().all(("y", "x")), [False, True, False])
    np.testing.assert_array_equal(cube["ndvi"], values)


def test_a_table_gives_files_dates_and_coordinates(tmp_path: Path) -> None:
    values = noise(3, 4, 5)
    for i in range(3):
        put(tmp_path / "files" / f"{i}.tif", values[i])
        put(tmp_path / "files" / f"w{i}.tif", values[i] ** 2)
    (tmp_path / "stack.csv").write_text(
        "path, std,reference,secondary,bperp,orbit,seen,by\n"
        "files/1.tif,files/w1.tif,2020-01-13,20200125,-3.5,22,2021-05-01,a\n"
        "files/0.tif,files/w0.tif,2020-01-01,20200113,,44,2021-05-02,b\n"
        "files/2.tif,,2020-01-01,20200125,7,22,2021-05-03,c\n"
    )
    with pytest.warns(UserWarning, match="'std' has no file for 1 of 3 .*: 2020-01-01/2020-01-25"):
        cube = geotiff.open(tmp_path / "stack.csv")
    assert {*cube.data_vars} == {"data", "std"}
    np.testing.assert_array_equal(cube["data"], values[[1, 0, 2]])
    np.testing.assert_array_equal(cube["std"][:2], values[[1, 0]] ** 2)
    assert cube["orbit"].dtype.kind == "i"
    np.testing.assert_array_equal(cube["bperp"], [-3.5, np.nan, 7])
    assert cube["seen"].values[2] == np.datetime64("2021-05-03")
    assert cube["by"].values.tolist() == ["a", "b", "c"]
    assert cube["bperp"].dims == ("pair",)


def test_a_table_may_name_bands_of_one_file(tmp_path: Path) -> None:
    values = noise(3, 4, 5)
    put(tmp_path / "all.tif", values, interleave="pixel")
    (tmp_path / "t.csv").write_text("path,time,band\nall.tif,20200301,3\nall.tif,20200101,1\n")
    cube = geotiff.open(tmp_path / "t.csv")
    np.testing.assert_array_equal(cube["data"], values[[2, 0]])
    with pytest.raises(ValueError, match="the table has the column 'band', and band=1 is given"):
        geotiff.open_stack(tmp_path / "t.csv", band=1)


def test_a_band_is_chosen_by_number_or_name(tmp_path: Path) -> None:
    values = noise(2, 3, 4, 5)
    for i in range(2):
        path = tmp_path / f"s2_2020010{i + 1}.tif"
        put(path, values[i], descriptions=("red", "nir", "clear"))
    pattern = tmp_path / "s2_{time}.tif"
    np.testing.assert_array_equal(geotiff.open_stack(pattern, band=2)["data"], values[:, 1])
    cube = geotiff.open_stack({"nir": pattern, "valid": pattern}, band={"nir": "nir", "valid": 3})
    np.testing.assert_array_equal(cube["nir"], values[:, 1])
    np.testing.assert_array_equal(cube["valid"], values[:, 2])
    assert cube["nir"].attrs == {"long_name": "nir"}
    one = geotiff.open_stack({"red": tmp_path / "s2_20200101.tif"}, band="red")
    assert one["red"].dims == ("y", "x")
    with pytest.raises(ValueError, match="has the bands 1 red, 2 nir, 3 clear, and one is needed"):
        geotiff.open_stack(pattern)
    with pytest.raises(ValueError, match="band='blue' is 0 of them"):
        geotiff.open_stack(pattern, band="blue")
    with pytest.raises(LabelError, match="band names 'nri'; the variables are nir"):
        geotiff.open_stack({"nir": pattern}, band={"nri": 2})


@pytest.mark.parametrize("shift", [0.0009, -0.0009])
def test_grids_a_thousandth_of_a_pixel_apart_are_one(tmp_path: Path, shift: float) -> None:
    values = noise(2, 4, 5)
    put(tmp_path / "20200101.tif", values[0])
    put(tmp_path / "20200102.tif", values[1], transform=moved(shift, 0))
    cube = geotiff.open_stack(tmp_path / "{time}.tif")
    assert cube.rio.transform() == UTM
    np.testing.assert_array_equal(cube["data"], values)


@pytest.mark.parametrize(
    ("profile", "shape", "message"),
    [
        ({"transform": moved(0, 0.002)}, (4, 5), "pixels that are off by 0.002"),
        ({"transform": scaled(1.01, 1.01)}, (4, 5), "pixels that are off by 0.05 pixels"),
        ({"transform": scaled(1, -1)}, (4, 5), "pixels that are off by 8 pixels"),
        ({"crs": "EPSG:32634"}, (4, 5), "EPSG:32634 instead of EPSG:32633"),
        ({"crs": None}, (4, 5), "no CRS instead of EPSG:32633"),
        ({}, (4, 6), "4 by 6 pixels instead of 4 by 5"),
    ],
)
def test_other_grids_are_refused_by_name(
    tmp_path: Path, profile: dict[str, Any], shape: tuple[int, int], message: str
) -> None:
    put(tmp_path / "20200101.tif", noise(4, 5))
    put(tmp_path / "20200102.tif", noise(*shape), **profile)
    with pytest.raises(LabelError, match=f"20200102.tif' has {message}"):
        geotiff.open_stack(tmp_path / "{time}.tif")


def test_chunks_follow_the_blocks_and_samples_stay_whole(tmp_path: Path) -> None:
    values = noise(3, 64, 96)
    for i in range(3):
        put(tmp_path / f"2020010{i + 1}.tif", values[i], tiled=True, blockxsize=32, blockysize=16)
    pattern = tmp_path / "{time}.tif"
    cube = geotiff.open_stack(pattern)
    assert cube["data"].encoding["chunksizes"] == (1, 16, 32)
    assert cube["data"].chunks == ((3,), (64,), (96,))
    cut = geotiff.open_stack(pattern, chunks={"y": 16, "x": 32})["data"]
    assert cut.chunks == ((3,), (16,) * 4, (32,) * 3)
    np.testing.assert_array_equal(cut, values)
    assert all("read-geotiff-" in str(key) for key in cut.__dask_keys__()[0][0])
    lazy = geotiff.open(pattern)["data"]
    assert lazy.chunks is None
    assert not lazy._in_memory
    assert geotiff.open(pattern, chunks={})["data"].chunks is not None
    with pytest.raises(ChunkError, match="chunks cuts 'time'"):
        geotiff.open_stack(pattern, chunks={"time": 1})
    with pytest.raises(LabelError, match="chunks names 'lat'"):
        geotiff.open_stack(pattern, chunks={"lat": 1})


def test_any_selection_reads_what_numpy_selects(tmp_path: Path) -> None:
    values = dates(tmp_path, 5)
    lazy = geotiff.open(tmp_path / "ndvi_{time}.tif")["data"]
    picks: list[dict[str, Any]] = [
        {"time": 1},
        {"time": [3, 0, 3], "y": 2},
        {"y": slice(6, 1, -2), "x": [9, 0]},
        {"time": slice(None, None, -1), "y": slice(2, 2)},
        {"time": 4, "y": 7, "x": 9},
        {"y": [1, 3, 2]},
        {"x": [2, 2, 2]},
    ]
    whole = lazy.copy(data=values)
    for pick in picks:
        xr.testing.assert_equal(lazy.isel(pick), whole.isel(pick))
    xr.testing.assert_equal(pickle.loads(pickle.dumps(lazy)), whole)


def test_a_cube_is_read_by_threads_and_one_task_a_chunk(tmp_path: Path) -> None:
    values = dates(tmp_path, 4, blockysize=1)
    cube = geotiff.open_stack(tmp_path / "ndvi_{time}.tif", chunks={"y": 2, "x": 5})["data"]
    assert len(dict(cube.__dask_graph__())) <= 8 + 2
    with dask.config.set(scheduler="threads", num_workers=4):
        np.testing.assert_array_equal(cube, values)


# --------------------------------------------------------------------- what cannot be opened


def test_what_no_file_fits_is_told(tmp_path: Path) -> None:
    put(tmp_path / "ndvi_mean.tif", noise(2, 2))
    with pytest.raises(FileNotFoundError, match=r"1 fit without its dates \(such as .*ndvi_mean"):
        geotiff.open_stack(tmp_path / "ndvi_{time}.tif")
    with pytest.raises(FileNotFoundError, match=r"nothing\.tif' does not exist"):
        geotiff.open(tmp_path / "nothing.tif")
    with pytest.raises(FileNotFoundError, match=r"0 files fit .*Write \{time\}"):
        geotiff.open(tmp_path / "*.png")
    put(tmp_path / "other.tif", noise(2, 2))
    with pytest.raises(ValueError, match=r"2 files fit .*Write \{time\}"):
        geotiff.open(tmp_path / "*.tif")


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("{date}.tif", r"has the fields date\. Use \{time\} for one date"),
        ("{reference}.tif", "has the fields reference"),
        ({"a": "{time}.tif", "b": "{reference}_{secondary}.tif"}, "no file fits|different fields"),
        ({}, "the mapping of patterns is empty"),
    ],
)
def test_patterns_that_leave_open_what_is_meant_are_refused(
    tmp_path: Path, patterns: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "20200101.tif", noise(2, 2))
    put(tmp_path / "20200101_20200113.tif", noise(2, 2))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        geotiff.open_stack(patterns)


def test_impossible_dates_and_two_files_of_a_sample_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a_20200101.tif", noise(2, 2))
    put(tmp_path / "b_20200101.tif", noise(2, 2))
    with pytest.raises(ValueError, match=r"a_.*' and '.*b_.*' are both the sample of time 2020-01"):
        geotiff.open_stack(tmp_path / "*_{time}.tif")
    put(tmp_path / "c_20201332.tif", noise(2, 2))
    with pytest.raises(ValueError, match=r"c_20201332\.tif' has '20201332', which is no date"):
        geotiff.open_stack(tmp_path / "c_{time}.tif")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("path\na.tif\n", ValueError, "has the columns path and 1 rows"),
        ("path,time\n", ValueError, "has the columns path, time and 0 rows"),
        ("path,time\na.tif,soon\n", ValueError, "column 'time' has 'soon', which is no date"),
        ("path,time\nb.tif,20200101\n", FileNotFoundError, r"b\.tif' does not exist"),
        ("ndvi,time\nb.tif,20200101\n", FileNotFoundError, "names no file that is there"),
        ("path,time,band\na.tif,20200101,x\n", ValueError, "Bands are whole numbers from 1"),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    tmp_path: Path, text: str, kind: type[Exception], message: str
) -> None:
    put(tmp_path / "a.tif", noise(2, 2))
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(kind, match=message):
        geotiff.open(tmp_path / "t.csv")


def test_files_of_other_formats_are_named(tmp_path: Path) -> None:
    (tmp_path / "20200101.tif").write_text("no raster")
    with pytest.raises(OSError, match=r"20200101\.tif' is not a readable raster"):
        geotiff.open_stack(tmp_path / "{time}.tif")


def test_a_damaged_block_is_named_with_its_place(tmp_path: Path) -> None:
    values = dates(tmp_path, compress="deflate")
    cube = geotiff.open_stack(tmp_path / "ndvi_{time}.tif", chunks={"y": 4})
    broken = tmp_path / "ndvi_20200215.tif"
    content = bytearray(broken.read_bytes())
    content[8:200] = b"\xff" * 192  # of the same size, at the same time
    stat = broken.stat()
    broken.write_bytes(content)
    os.utime(broken, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(OSError, match=r"Reading rows \d to \d and columns 0 to 9 of '.*0215\.tif'"):
        cube.compute()
    assert len(values) == 3


def test_a_file_that_has_changed_is_not_mixed_with_the_others(tmp_path: Path) -> None:
    dates(tmp_path)
    cube = geotiff.open_stack(tmp_path / "ndvi_{time}.tif")
    put(tmp_path / "ndvi_20200215.tif", noise(8, 11))
    with pytest.raises(OSError, match=r"0215\.tif' failed \(it has changed since it was opened\)"):
        cube.compute()


def test_what_is_missing_can_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(ImportError, match=r'pip install "xr_lstsq\[geotiff\]"'):
        geotiff.open(RASTERS / "rotated.tif")
    with pytest.raises(ImportError, match=r'pip install "xr_lstsq\[geotiff\]"'):
        geotiff.write(make_fit(), "out.tif")


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
    geotiff.write(big.chunk(y=3, x=5), tmp_path / "b.tif")
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
            r"'cov' has the dims .* bands of a GeoTIFF are one of them .* or write netCDF or Zarr",
        ),
        (multi_index, r"'pixel' is a MultiIndex.* Call fit\.unstack\('pixel'\)"),
        (lambda f: f.expand_dims(depth=3), "'coef' has the dims .*'depth'.* one of them"),
        (lambda f: f.assign(d=("time", [1.0])), r"'d' has the dims .* fit\.drop_vars\('d'\)"),
        (
            lambda f: f.rename(y="j", x="i"),
            r"are no rows and columns of a raster. Call fit\.rename",
        ),
        (lambda f: f.drop_vars(["y", "x", "spatial_ref"]), "neither coordinates along 'y' and 'x'"),
        (lambda f: f.assign_coords(y=np.arange(40.0) ** 2), "'y' is not evenly spaced"),
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
            geotiff.write(bare, tmp_path / "20200101.tif", source=source)
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


def test_a_target_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"absent' is not a directory"):
        geotiff.write(make_fit(), tmp_path / "absent" / "fit.tif")
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
    geotiff.write(xr.Dataset({"coef": (("y", "x"), noise)}, coords), sys.argv[1])
except WriteError as error:
    print(error)
    sys.exit(7)
"""


@pytest.mark.parametrize("limit", [100, 20_000, 1_000_000, 5_000_000])
def test_a_full_disk_leaves_nothing_and_is_named(tmp_path: Path, limit: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "fit.tif"), str(limit)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 7, run.stderr
    assert f"Could not write '{tmp_path}/fit_coef.tif'" in run.stdout
    assert "bytes) free" in run.stdout
    assert leftovers(tmp_path) == []


# ------------------------------------------------------------------------------- the whole way


def test_a_network_of_pair_files_is_solved_as_in_memory(tmp_path: Path) -> None:
    with xr.open_dataset(CUBES / "insar_mexico_s1.nc", decode_coords="all") as opened:
        real = opened.isel(y=slice(0, 24), x=slice(0, 30)).load()
    grid = {"crs": real.rio.crs, "transform": real.rio.transform(recalc=True)}
    for i in range(real.sizes["pair"]):
        ends = [str(real[n].values[i].astype("M8[D]")) for n in ("first_date", "second_date")]
        name = "_".join(end.replace("-", "") for end in ends)
        gaps = real["unw"].values[i]
        put(
            tmp_path / f"{name}_unw.tif",
            np.where(np.isnan(gaps), -9999, gaps),
            nodata=-9999,
            **grid,
        )
        put(tmp_path / f"{name}_coh.tif", real["coherence"].values[i], **grid)
    stack = geotiff.open_stack(
        {v: tmp_path / f"{{reference}}_{{secondary}}_{v}.tif" for v in ("unw", "coh")},
        chunks={"y": 16, "x": 16},
    )
    memory = real.rename(first_date="reference", second_date="secondary")
    wanted = xr_lstsq.recipes.sbas(
        memory["unw"], weights=memory["coherence"], reference_area=None, device="cpu"
    )
    fit = xr_lstsq.recipes.sbas(stack["unw"], weights=stack["coh"], device="cpu")
    spatial = [n for n, v in fit.data_vars.items() if {"y", "x"} <= {*v.dims}]
    geotiff.write(fit[spatial], tmp_path / "out.tif")
    assert len(spatial) > 2
    for name in spatial:
        after = plain(tmp_path / f"out_{name}.tif")
        expected = wanted[name].transpose(..., "y", "x").values.reshape(after["values"].shape)
        np.testing.assert_allclose(after["values"], expected, rtol=1e-6, atol=1e-9, err_msg=name)
        assert after["crs"] == real.rio.crs
        assert after["transform"].almost_equals(grid["transform"], 1e-12)


def test_a_stack_of_dates_is_solved_as_by_the_oracle(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    raw = rng.integers(0, 9000, (20, 8, 10)).astype(np.int16)
    raw[rng.random(raw.shape) < 0.3] = -9999
    raw[:, 0, 0] = -9999
    for i, date in enumerate(np.datetime64("2018-01-10") + 37 * np.arange(20)):
        put(tmp_path / f"in/ndvi_{date}.tif", raw[i], nodata=-9999, scales=(1e-4,))
    stack = geotiff.open_stack(tmp_path / "in" / "ndvi_{time}.tif")
    fit = xr_lstsq.solve(stack["data"], "polynomial(1)", stats="default", device="cpu")
    geotiff.write(fit, tmp_path / "out.tif")
    coef, status = plain(tmp_path / "out_coef.tif"), plain(tmp_path / "out_status.tif")
    years = (
        (stack["time"].values - np.datetime64("2000-01-01")) / np.timedelta64(86400, "s") / 365.25
    )
    design = np.stack([np.ones(20), years], axis=1)
    for y, x in np.ndindex(8, 10):
        values = np.where(raw[:, y, x] == -9999, np.nan, raw[:, y, x] * 1e-4)
        wanted = oracle.fit(design, values)
        np.testing.assert_allclose(coef["values"][:, y, x], wanted.coef, atol=wanted.coef_tol.max())
    assert status["values"][0, 0, 0] == 1
    assert np.isnan(coef["values"][:, 0, 0]).all()
    assert coef["descriptions"] == ("intercept", "slope")
    assert coef["transform"] == UTM
    assert {path.name for path in tmp_path.glob("out*")} == {f"out_{n}.tif" for n in fit.data_vars}


def test_packing_of_the_input_is_left_behind(tmp_path: Path) -> None:
    put(tmp_path / "a.tif", np.array([[5, -1]], np.int16), nodata=-1, scales=(0.5,), offsets=(7,))
    geotiff.write(geotiff.open(tmp_path / "a.tif"), tmp_path / "b.tif")
    with rasterio.open(tmp_path / "b_data.tif") as file:
        assert (file.scales, file.offsets, file.dtypes) == ((1.0,), (0.0,), ("float64",))
        np.testing.assert_array_equal(file.read(1), [[9.5, np.nan]])


def test_a_band_knows_what_holds_its_values() -> None:
    band = Band("a", (), (1, 1), 1, "uint32", is_masked=True)
    assert band.decoded == np.float64
    assert not band.is_scaled
