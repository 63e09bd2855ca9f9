from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import rioxarray  # noqa: F401 - registers .rio
import xarray as xr
from affine import Affine

import xr_lstsq
from tests import oracle
from tests.rasters import UTM, plain, put
from xr_lstsq import runs
from xr_lstsq.formats import geotiff

CUBES = Path(__file__).parent / "data" / "cubes"
CASES = Path(__file__).parent / "data" / "cases"
# Rasters without a place on the ground are part of what is tested; rioxarray multiplies transforms.
pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning"),
]


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
        wanted = oracle.fit(values, design)
        np.testing.assert_allclose(coef["values"][:, y, x], wanted.coef, atol=wanted.coef_tol.max())
    assert status["values"][0, 0, 0] == 1
    assert np.isnan(coef["values"][:, 0, 0]).all()
    assert coef["descriptions"] == ("intercept", "slope")
    assert coef["transform"] == UTM
    assert {path.name for path in tmp_path.glob("out*")} == {f"out_{n}.tif" for n in fit.data_vars}


def read_case(name: str) -> tuple[np.ndarray, dict[str, Any], dict[str, Any]]:
    case = json.loads((CASES / f"{name}.json").read_text())
    return np.array(case["input"]["y"]), case["input"], case["expect"]


def solve_case(folder: Path, cube: xr.DataArray, given: dict[str, Any]) -> None:
    dim = given["fit_dim"]
    labels = {dim: cube[dim], "param": given["params"]}
    fit = xr_lstsq.solve(cube, xr.DataArray(given["A"], labels, given["A_dims"]), dim, device="cpu")
    with pytest.raises(ValueError, match=r"Call fit\.drop_vars\(\['design_matrix'\]\) first, or"):
        geotiff.write(fit, folder / "fit.tif")
    geotiff.write(fit.drop_vars("design_matrix"), folder / "fit.tif")


def check_case(folder: Path, want: dict[str, Any], given: dict[str, Any]) -> None:
    """Compare the written fit with the answer of a case, to the case's own tolerances."""
    coef = plain(folder / "fit_coef.tif")
    for values, wanted, atol in zip(coef["values"], want["coef"], want["atol"], strict=True):
        np.testing.assert_allclose(values, np.array(wanted, float), rtol=want["rtol"], atol=atol)
    assert coef["descriptions"] == tuple(given["params"])
    assert coef["values"].dtype.kind == "f"
    assert np.isnan(coef["nodata"]).all()
    assert coef["transform"] == Affine(*given["file"]["transform"])
    assert coef["crs"] == rasterio.crs.CRS.from_string(given["file"]["crs"])
    for name in ("rank", "nobs"):
        np.testing.assert_array_equal(plain(folder / f"fit_{name}.tif")["values"][0], want[name])


def test_the_sentinel_of_the_case_is_missing_on_the_way_in_and_out(tmp_path: Path) -> None:
    stored, given, want = read_case("io-geotiff-nodata-sentinel")
    file = given["file"]
    grid = {"crs": file["crs"], "transform": Affine(*file["transform"])}
    put(tmp_path / "in.tif", stored.astype(given["dtype"]), nodata=file["nodata"], **grid)
    cube = geotiff.open(tmp_path / "in.tif", chunks={})["data"]
    solve_case(tmp_path, cube, given)
    check_case(tmp_path, want, given)


def test_latitude_and_longitude_of_the_case_are_rows_and_columns(tmp_path: Path) -> None:
    stored, given, want = read_case("io-latitude-longitude-names")
    coords = {name: spec["values"] for name, spec in given["coords"].items()}
    cube = xr.DataArray(stored.astype(float), coords, given["dims"])
    cube = cube.rio.write_crs(given["file"]["crs"])
    solve_case(tmp_path, cube, given)
    check_case(tmp_path, want, given)


def test_a_run_reads_patterns_and_writes_files_of_bands(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    (tmp_path / "in").mkdir()
    for date in np.datetime64("2018-01-10") + 37 * np.arange(12):
        raw = rng.integers(0, 9000, (40, 30)).astype(np.int16)
        put(tmp_path / f"in/ndvi_{date}.tif", raw, nodata=0, scales=(1e-4,))
        put(tmp_path / f"in/w_{date}.tif", 1 + rng.random((40, 30)))
    patterns = {"ndvi": tmp_path / "in/ndvi_{time}.tif", "w": tmp_path / "in/w_{time}.tif"}
    summary = runs.solve_file(
        patterns,
        tmp_path / "out.tif",
        "polynomial(1)",
        var="ndvi",
        weights="w",
        chunks={"y": 16, "x": 16},
        device="cpu",
    )
    cube = geotiff.open_stack(patterns).load()
    wanted = xr_lstsq.solve(cube["ndvi"], "polynomial(1)", weights=cube["w"], device="cpu")
    written = plain(tmp_path / "out_coef.tif")
    np.testing.assert_allclose(written["values"], wanted["coef"], rtol=1e-9, atol=1e-12)
    assert written["transform"] == UTM
    assert "solve" in written["tags"]["history"]
    assert summary.pixels == 1200
    assert summary.seconds > 0
    names = {path.name for path in tmp_path.glob("out*")}
    assert names == {f"out_{name}.tif" for name in wanted.data_vars}


def test_packing_of_the_input_is_left_behind(tmp_path: Path) -> None:
    put(tmp_path / "a.tif", np.array([[5, -1]], np.int16), nodata=-1, scales=(0.5,), offsets=(7,))
    geotiff.write(geotiff.open(tmp_path / "a.tif"), tmp_path / "b.tif")
    with rasterio.open(tmp_path / "b_data.tif") as file:
        assert (file.scales, file.offsets, file.dtypes) == ((1.0,), (0.0,), ("float64",))
        np.testing.assert_array_equal(file.read(1), [[9.5, np.nan]])
