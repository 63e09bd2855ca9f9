"""Cubes in several netCDF files, and groups of files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.stores import DESIGN, listed, make_cube
from xr_lstsq import runs
from xr_lstsq.cli import main
from xr_lstsq.formats import netcdf, zarr
from xr_lstsq.runs.inputs import Inputs

PARTS = {"b.nc": slice(0, 5), "c.nc": slice(5, 6), "a.nc": slice(6, 12)}
"""Times of each file; the order of names is not that of time."""


@pytest.fixture(autouse=True)
def cube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xr.Dataset:
    """Make a cube in three files, each packed in its own way."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    whole = make_cube()
    for name, times in PARTS.items():
        part = whole.isel(time=times)
        part["h"].encoding |= {
            "dtype": "int16",
            "scale_factor": 0.5 ** (10 + times.start),
            "add_offset": float(times.start),
            "_FillValue": np.int16(-32768 + times.start),
        }
        scale, offset = part["h"].encoding["scale_factor"], part["h"].encoding["add_offset"]
        # What int16 can hold
        rounded = np.clip(np.round((part["h"].astype("f8") - offset) / scale), -32000, 32000)
        part["h"].values = (rounded * scale + offset).astype("f4")
        part.to_netcdf(Path("in", name))
        whole["h"][times] = part["h"].values
    return whole


def files(*names: str) -> list[Path]:
    return [Path("in", name) for name in names]


GIVEN: list[Any] = [
    "in/*.nc",
    "in/[abc].nc",
    files("a.nc", "b.nc", "c.nc"),
    ("in/c.nc", *files("b.nc", "a.nc")),
]


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize("chunks", [None, {}, {"time": -1, "y": 5}])
def test_files_join_along_time_in_its_order(
    cube: xr.Dataset, given: Any, chunks: dict[str, int] | None
) -> None:
    joined = netcdf.open(given, chunks=chunks)
    xr.testing.assert_allclose(joined.compute(), cube, rtol=1e-6)
    assert (joined["time"].diff("time") > np.timedelta64(0)).all()
    assert joined["h"].encoding["grid_mapping"] == "spatial_ref"
    assert joined.attrs["title"] == "made up"
    if chunks and "y" in chunks:
        assert joined["h"].chunks == ((12,), (5, 5, 2), (10,))


def test_a_chunk_reads_its_pixels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from xr_lstsq.formats import netcdf_read

    shapes: list[tuple[int, ...]] = []
    original = netcdf_read._Named.__array__

    def spy(self: Any, *args: Any, **kwargs: Any) -> Any:
        shapes.append(self.shape)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(netcdf_read._Named, "__array__", spy)
    runs.solve_file("in/*.nc", "fit.nc", DESIGN, var="h", chunks={"y": 6, "x": 5})
    # Of each of four chunks that of each file, once
    assert sorted(shapes) == [(n, 6, 5) for n in (1, 5, 6) for _ in range(4)]


@pytest.mark.parametrize("given", [GIVEN[0], GIVEN[2]], ids=str)
@pytest.mark.parametrize("output", ["fit.nc", "fit.zarr"])
def test_a_run_on_them_equals_the_fit_of_the_joined_cube(given: Any, output: str) -> None:
    chunks = {"y": 4, "x": 5}
    runs.solve_file(
        given, output, DESIGN, var="h", weights="w", stats=("rss", "residual"), chunks=chunks
    )
    lazy = netcdf.open("in/*.nc").load().chunk(time=-1, **chunks)
    want = lazy["h"].lstsq.solve(DESIGN, weights=lazy["w"], stats=("rss", "residual")).compute()
    fit = (zarr if output == "fit.zarr" else netcdf).open(output).load()
    xr.testing.assert_equal(fit, want)
    assert fit["coef"].encoding["grid_mapping"] == "spatial_ref"
    assert not {"scale_factor", "add_offset"} & {*fit["coef"].encoding}
    assert listed(Path()) == [output, "in"]


def test_the_shell_takes_a_pattern_and_several_files() -> None:
    fits = []
    for given in (["in/*.nc"], ["in/a.nc", "in/b.nc", "in/c.nc"]):
        command = ["solve", *given, "-o", "fit.nc", "--var", "h", "--design", DESIGN]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        fits.append(netcdf.open("fit.nc").load())
    xr.testing.assert_equal(*fits)
    assert "solve 'in/*.nc'" not in fits[1].attrs["history"]
    assert "in/a.nc and 2 more" in fits[1].attrs["history"]


def test_a_resumed_run_knows_that_a_file_was_added(cube: xr.Dataset) -> None:
    def stop(done: int, _: int) -> None:
        if done:
            raise ZeroDivisionError

    options: dict[str, Any] = {"var": "h", "chunks": {"y": 2}}
    with dask.config.set(num_workers=1), pytest.raises(ZeroDivisionError):
        runs.solve_file("in/*.nc", "fit.zarr", DESIGN, progress=stop, **options)
    later = cube.isel(time=[0]).assign_coords(time=cube["time"][-1:] + np.timedelta64(9, "D"))
    later.to_netcdf("in/d.nc")
    with pytest.raises(ValueError, match=r"inputs\.files was 3 and is 4"):
        runs.solve_file("in/*.nc", "fit.zarr", DESIGN, resume=True, **options)
    Path("in/d.nc").unlink()
    runs.solve_file("in/*.nc", "fit.zarr", DESIGN, resume=True, **options)
    assert listed(Path()) == ["fit.zarr", "in"]


def test_tiles_of_a_grid_join_in_space(cube: xr.Dataset) -> None:
    Path("tiles").mkdir()
    for i, y in enumerate((slice(7, 12), slice(0, 7))):
        for j, x in enumerate((slice(0, 4), slice(4, 10))):
            cube.isel(y=y, x=x).to_netcdf(f"tiles/{i}{j}.nc")
    xr.testing.assert_equal(netcdf.open("tiles/*.nc").compute(), cube)


# --------------------------------------------------------------------------------------- refusals


def test_files_that_do_not_join_are_refused(cube: xr.Dataset) -> None:
    cases = {
        "overlap": cube.isel(time=slice(4, 8)),
        "same": cube.isel(time=PARTS["b.nc"]),
        "grid": cube.isel(time=slice(5, 6)).assign_coords(x=cube["x"] + 5.0),
        "size": cube.isel(time=slice(5, 6), y=slice(0, 5)),
    }
    for name, other in cases.items():
        Path(name).mkdir()
        other.to_netcdf(Path(name, "other.nc"))
        given = ["in/b.nc", f"{name}/other.nc"]
        message = (
            "overlap along 'time': 1 labels .* 2015-05-09" if name == "overlap" else "do not join"
        )
        with pytest.raises(ValueError, match=f"The 2 files.*{message}"):
            runs.solve_file(given, "fit.nc", DESIGN, var="h")
    assert not Path("fit.nc").exists()


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ("in/*.nc4", FileNotFoundError, r"No file fits 'in/\*\.nc4'"),
        ([], ValueError, "No file was given"),
        (["in/a.nc", "in/z.nc"], FileNotFoundError, r"z\.nc' does not exist"),
        (["in/a.nc", "in/z.zarr"], ValueError, "several formats, Zarr and netCDF"),
        (["x.zarr", "y.zarr"], TypeError, "2 Zarr stores"),
        ({"h": "in/a.nc"}, TypeError, "NAME=PATH"),
    ],
    ids=str,
)
def test_names_that_do_not_fit_are_refused(given: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        runs.solve_file(given, "fit.nc", DESIGN, var="h")
    assert listed(Path()) == ["in"]


def test_one_of_the_files_is_never_overwritten() -> None:
    before = Path("in/c.nc").read_bytes()
    with pytest.raises(ValueError, match="Write to another name"):
        runs.solve_file("in/*.nc", "in/c.nc", DESIGN, var="h")
    assert Path("in/c.nc").read_bytes() == before


# ------------------------------------------------------------------------------------------ groups


def write_group(name: str, cube: xr.Dataset) -> None:
    cube[["y", "x"]].assign(spatial_ref=cube["spatial_ref"].variable).to_netcdf(name)
    inner = cube.drop_vars(["y", "x", "spatial_ref", "time"])
    cube[["time"]].to_netcdf(name, group="science", mode="a")
    inner.to_netcdf(name, group="science/grids", mode="a")


@pytest.mark.parametrize("many", [False, True])
def test_a_group_has_the_coordinates_of_those_above_it(cube: xr.Dataset, many: bool) -> None:
    Path("groups").mkdir()
    if many:
        for name, times in PARTS.items():
            write_group(f"groups/{name}", cube.isel(time=times))
    else:
        write_group("groups/all.nc", cube)
    opened = netcdf.open("groups/*.nc", group="science/grids")
    xr.testing.assert_equal(opened.compute(), cube)
    assert opened["h"].encoding["grid_mapping"] == "spatial_ref"
    runs.solve_file("groups/*.nc", "fit.nc", DESIGN, var="h", group="science/grids")
    fit = netcdf.open("fit.nc").load()
    xr.testing.assert_equal(fit, cube["h"].lstsq.solve(DESIGN))
    with pytest.raises(OSError, match=r"has no group 'science/no' .*ncdump"):
        netcdf.open("groups/*.nc", group="science/no")


# ------------------------------------------------------------------------------------ damaged files


def damage(file: str) -> None:
    """Write a cube with check sums into a file, and change a byte in y 4:8, x 5:10."""
    with xr.open_dataset(file, decode_coords="all") as opened:
        part = opened.load()
    part["h"].encoding = {
        "chunksizes": (part.sizes["time"], 4, 5),
        "fletcher32": True,
        "shuffle": False,
        "grid_mapping": "spatial_ref",
    }
    part.to_netcdf(file)
    content = bytearray(Path(file).read_bytes())
    place = content.index(part["h"].values[:, 4:8, 5:].tobytes())
    content[place] ^= 0xFF
    Path(file).write_bytes(content)


def test_a_damaged_file_among_many_is_named_with_the_chunk() -> None:
    damage("in/c.nc")
    options: dict[str, Any] = {"var": "h", "chunks": {"y": 4, "x": 5}}
    message = r"Reading 'h' of 'in/\*\.nc' at y 4:8, x 5:10 failed \('in/c\.nc': NetCDF.*damaged"
    for output in ("fit.nc", "fit.zarr"):
        with pytest.raises(OSError, match=message):
            runs.solve_file("in/*.nc", output, DESIGN, **options)
    assert not Path("fit.nc").exists()
    with pytest.warns(UserWarning, match=r"'in/c\.nc'.*its pixels get status failed"):
        runs.solve_file("in/*.nc", "fit.nc", DESIGN, skip_unreadable=True, **options)
    status = netcdf.open("fit.nc")["status"]
    meanings = dict(zip(status.flag_meanings.split(), status.flag_values, strict=True))
    assert (status[4:8, 5:] == meanings["failed"]).all()
    assert int((status == meanings["failed"]).sum()) == 20


def test_a_truncated_file_among_many_is_named() -> None:
    content = Path("in/c.nc").read_bytes()
    Path("in/c.nc").write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match=r"'in/c\.nc' is not a readable netCDF file"):
        runs.solve_file("in/*.nc", "fit.nc", DESIGN, var="h")


def test_a_file_that_is_gone_is_no_damaged_chunk() -> None:
    inputs = Inputs("in/*.nc")
    assert inputs.missing() == []
    # As on a worker that does not see one of those the pattern fits
    Path("in/c.nc").unlink()
    assert pickle.loads(pickle.dumps(inputs)).missing() == files("c.nc")
