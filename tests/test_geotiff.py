from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
import pytest
import rasterio
import rioxarray
import xarray as xr
from affine import Affine
from rasterio.enums import ColorInterp

from tests.rasters import RASTERS, UTM, noise, put
from xr_lstsq.errors import ChunkError, DtypeError, LabelError
from xr_lstsq.formats import geotiff

# Rasters without a place on the ground are part of what is tested; rioxarray multiplies transforms.
pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning"),
]


def moved(columns: float, rows: float) -> Affine:
    return Affine(UTM.a, 0.0, UTM.c + UTM.a * columns, 0.0, UTM.e, UTM.f + UTM.e * rows)


def scaled(columns: float, rows: float) -> Affine:
    return Affine(UTM.a * columns, 0.0, UTM.c, 0.0, UTM.e * rows, UTM.f)


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
        ("uint32", 5, "float64"),
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
    np.testing.assert_array_equal(cube, np.where(stored == nodata, np.nan, stored))


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_mask_in_or_beside_the_file_counts(tmp_path: Path, is_inside: bool) -> None:
    path = put(tmp_path / "a.tif", np.arange(6, dtype=np.uint8).reshape(2, 3))
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=is_inside),
        rasterio.open(path, "r+") as file,
    ):
        file.write_mask(np.array([[0, 255, 255], [255, 255, 0]], dtype=np.uint8))
    assert (tmp_path / "a.tif.msk").exists() != is_inside
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
    read = [path.relative_to(tmp_path).as_posix() for path in geotiff.files(tmp_path / "stack.csv")]
    assert read == ["stack.csv", *(f"files/{name}.tif" for name in ("1", "0", "2", "w1", "w0"))]


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
        {"y": [1, 3, 2], "x": [4, 4, 6]},
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


def test_workers_open_the_files_themselves(tmp_path: Path, cluster: distributed.Client) -> None:
    values = dates(tmp_path, 3)
    cube = geotiff.open_stack(tmp_path / "ndvi_{time}.tif", chunks={"y": 4})["data"]
    there = cube.persist()
    np.testing.assert_array_equal(there, values)
    assert any(cluster.has_what().values())


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
        (["20200101.tif"], r"1 raster files are given.*a pattern with \{time\}, or into a table"),
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
        geotiff.write(xr.Dataset(), "out.tif")
