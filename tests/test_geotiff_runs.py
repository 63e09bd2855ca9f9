"""GeoTIFF stacks through the shell and the accessor, from files to files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray as xr
from click.testing import CliRunner, Result

from tests.rasters import UTM, plain, put
from xr_lstsq import runs
from xr_lstsq.cli import main
from xr_lstsq.formats import geotiff, zarr

DESIGN = "polynomial(1)"
DATES = np.datetime64("2018-01-10") + 37 * np.arange(14)
pytestmark = [pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")]


@pytest.fixture(autouse=True)
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xr.Dataset:
    """Write files of two bands and masks beside them; return what they hold, in memory."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    values = rng.normal(size=(14, 2, 9, 12)).astype("f4")
    values[rng.random(values.shape) < 0.2] = np.nan
    clear = (rng.random((14, 9, 12)) < 0.8).astype("u1")
    for date, bands, mask in zip(DATES, values, clear, strict=True):
        put(Path(f"s2_{date}.tif"), bands)
        put(Path(f"clear_{date}.tif"), mask)
    dims = ("time", "y", "x")
    data = {"nir": (dims, values[:, 1]), "clear": (dims, clear)}
    return xr.Dataset(data, {"time": DATES.astype("M8[ns]")})


def shell(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def test_the_shell_takes_a_pattern_for_each_variable(stack: xr.Dataset) -> None:
    want = stack["nir"].lstsq.solve(DESIGN, valid=stack["clear"], stats="stderr")
    result = shell(
        *("solve", "nir=s2_{time}.tif", "clear=clear_{time}.tif", "-o", "fit.tif"),
        *("--design", DESIGN, "--var", "nir", "--valid", "clear", "--stats", "stderr"),
    )
    assert result.exit_code == 2
    assert "band" in result.output  # of two, and one of which is not said
    names = [f"fit_{name}.tif" for name in ("coef", "nobs", "rank", "status", "stderr")]
    assert not list(Path().glob("fit*"))
    for date in DATES:
        with rasterio.open(f"s2_{date}.tif") as file:
            nir = file.read(2)
        put(Path(f"nir_{date}.tif"), nir)
    result = shell(
        *("solve", "nir=nir_{time}.tif", "clear=clear_{time}.tif", "-o", "fit.tif"),
        *("--design", DESIGN, "--var", "nir", "--valid", "clear", "--stats", "stderr"),
    )
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in Path().glob("fit*")) == names
    assert all(name in result.stdout for name in names)
    for name in ("coef", "stderr", "nobs"):
        got = plain(Path(f"fit_{name}.tif"))["values"]
        np.testing.assert_array_equal(got.reshape(want[name].shape), want[name].to_numpy())


@pytest.mark.parametrize("band", ["2", "b2"])
def test_the_shell_reads_a_band_of_many(stack: xr.Dataset, band: str) -> None:
    for date in DATES:
        with rasterio.open(f"s2_{date}.tif", "r+") as file:
            file.descriptions = ("b1", "b2")
    want = stack["nir"].lstsq.solve(DESIGN)
    arguments = ["--design", DESIGN, "--band", band]
    explained = shell("explain", "s2_{time}.tif", *arguments)
    assert "108 pixels of 14 samples" in explained.output, explained.output
    result = shell("solve", "s2_{time}.tif", "-o", "fit.zarr", *arguments)
    assert result.exit_code == 0, result.output
    with zarr.open("fit.zarr") as fit:
        np.testing.assert_array_equal(fit["coef"], want["coef"])
    told = shell("info", "fit.zarr")
    assert "polynomial(1" in told.output
    assert f"{int((want.status == 0).sum())} " in told.output


def test_arguments_of_other_formats_are_refused(stack: xr.Dataset) -> None:
    stack.to_netcdf("in.nc")
    for arguments, message in (
        (["in.nc", "--band", "2", "-o", "fit.nc"], "files of netCDF have no band"),
        (["s2_{time}.tif", "--group", "a", "-o", "fit.nc"], "files of GeoTIFF have no group"),
        (["in.nc", "--cog", "-o", "fit.nc"], "a run into netCDF knows no cog"),
        (["in.nc", "s2_{time}.tif", "-o", "fit.nc"], "of several formats, GeoTIFF and netCDF"),
        (["a=x_{time}.tif", "in.nc", "-o", "fit.nc"], "either all are NAME=PATH"),
    ):
        result = shell("solve", *arguments, "--design", DESIGN)
        assert result.exit_code == 2, result.output
        assert message in " ".join(result.output.split())
    assert not list(Path().glob("fit*"))


@pytest.mark.parametrize("cog", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_the_accessor_writes_the_files_of_a_fit(
    stack: xr.Dataset, *, cog: bool, lazy: bool
) -> None:
    opened = geotiff.open_stack("s2_{time}.tif", band=2, chunks={"y": 4, "x": 12})
    fit = opened["data"].lstsq.solve(DESIGN)
    want = stack["nir"].lstsq.solve(DESIGN)
    (fit if lazy else fit.compute()).lstsq.to_geotiff("out.tif", cog=cog, progress=True)
    coef = plain(Path("out_coef.tif"))
    np.testing.assert_array_equal(coef["values"], want["coef"])
    assert coef["transform"] == UTM
    with rasterio.open("out_coef.tif") as file:
        assert file.descriptions == ("intercept", "slope")
        assert (file.tags(ns="IMAGE_STRUCTURE").get("LAYOUT") == "COG") == cog


def test_the_accessor_writes_a_store_of_a_fit(
    stack: xr.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = stack["nir"].chunk(y=4).lstsq.solve(DESIGN, stats="rss")
    fit.lstsq.to_zarr("fit.zarr", progress=True, store="float32")
    assert "108/108" in capsys.readouterr().err
    with zarr.open("fit.zarr") as got:
        np.testing.assert_array_equal(got["rss"], fit["rss"].astype("f4"))
    with pytest.raises(ValueError, match=r"suffix of netCDF, and Zarr is to be written"):
        fit.lstsq.to_zarr("fit.nc")
    with pytest.raises(ValueError, match="is no fit"):
        stack.lstsq.to_zarr("other.zarr")
    assert runs.info_file("fit.zarr").variables[0].statuses["solved"] == 108
