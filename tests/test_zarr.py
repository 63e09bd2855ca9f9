"""Zarr stores of version 2 and 3: what is written reads back, here and with plain xarray."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr as zarr_python

from tests import oracle
from tests.stores import DESIGN, STATS, listed, make_cube, make_fit, plain, tree
from xr_lstsq import design, runs
from xr_lstsq.errors import ChunkError, WriteError
from xr_lstsq.formats import netcdf, zarr


@pytest.fixture(params=[2, 3], ids=["v2", "v3"])
def version(request: pytest.FixtureRequest) -> Iterator[int]:
    with zarr_python.config.set({"default_zarr_format": request.param}):
        yield request.param


def read(path: Path) -> xr.Dataset:
    """Read a store as a user does."""
    return xr.open_zarr(path, chunks=None, decode_coords="all", consolidated=False).load()


# ----------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("chunks", [None, {"y": 5, "x": 4}, {"y": -1, "x": -1}])
def test_what_is_written_reads_back_equal(
    tmp_path: Path, version: int, chunks: dict[str, int] | None
) -> None:
    fit = make_fit(chunks)
    zarr.write(fit, tmp_path / "fit.zarr", history="xr_lstsq test")
    want = plain(fit.compute())
    for back in (read(tmp_path / "fit.zarr"), zarr.open(tmp_path / "fit.zarr").load()):
        first, second = back.attrs["history"].splitlines()
        assert (first, second.endswith("Z xr_lstsq test")) == ("before", True)
        assert back.attrs["Conventions"].startswith("CF-1.")
        assert back["coef"].encoding["grid_mapping"] == "spatial_ref"
        xr.testing.assert_identical(plain(back), want)
        assert back["param"].values.tolist() == ["intercept", "slope µ"]
        numbers = [n for n, v in fit.variables.items() if v.dtype.kind not in "UT"]
        assert {n: back[n].dtype for n in numbers} == {n: fit[n].dtype for n in numbers}
    assert listed(tmp_path) == ["fit.zarr"]
    assert zarr_python.open_group(tmp_path / "fit.zarr", mode="r").metadata.zarr_format == version


@pytest.mark.usefixtures("version")
def test_a_plain_reader_finds_it_whole(tmp_path: Path) -> None:
    zarr.write(make_fit({"y": 5}), tmp_path / "fit.zarr")
    back = xr.open_zarr(tmp_path / "fit.zarr")  # warns where metadata are not consolidated
    xr.testing.assert_equal(back.set_coords("spatial_ref").compute(), make_fit())
    assert back["coef"].chunks == ((2,), (5, 5, 2), (9,))


@pytest.mark.usefixtures("version")
def test_zeros_are_data_in_every_dtype(tmp_path: Path) -> None:
    kinds = ("i1", "u1", "i2", "i4", "i8", "f4", "f8", "?")
    zeros = {f"v{kind.strip('?') or 'b'}": da.zeros((4, 6), chunks=2, dtype=kind) for kind in kinds}
    fit = xr.Dataset({name: (("y", "x"), values) for name, values in zeros.items()})
    zarr.write(fit, tmp_path / "fit.zarr")
    for back in (read(tmp_path / "fit.zarr"), zarr.open(tmp_path / "fit.zarr").load()):
        for name, values in zeros.items():
            assert back[name].dtype == values.dtype
            assert (back[name] == 0).all()


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("dtype", ["i2", "u1", "f4"])
def test_a_storage_fill_of_0_blanks_nothing(tmp_path: Path, dtype: str) -> None:
    group = zarr_python.open_group(tmp_path / "in.zarr", mode="w")
    version = group.metadata.zarr_format
    named = {} if version == 2 else {"dimension_names": ("y", "x")}
    array = group.create_array("v", shape=(4, 6), chunks=(2, 2), dtype=dtype, fill_value=0, **named)
    if version == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    array[:2] = np.arange(12).reshape(2, 6)  # the rest is never written
    want = np.vstack([np.arange(12).reshape(2, 6), np.zeros((2, 6))])
    for chunks in (None, {}, {"y": 4}):
        cube = zarr.open(tmp_path / "in.zarr", chunks=chunks)
        assert cube["v"].dtype == np.dtype(dtype)
        np.testing.assert_array_equal(cube["v"], want)


@pytest.mark.parametrize("writer", ["xarray", "plain numbers"])
def test_packing_is_decoded_on_the_way_in_and_left_behind_on_the_way_out(
    tmp_path: Path, version: int, writer: str
) -> None:
    stored = np.array([[1712, -32768, 0], [-3, 2210, 1]], dtype=np.int16)
    packing = {"scale_factor": 0.01, "add_offset": 273.15}
    want = np.where(stored == -32768, np.nan, stored * 0.01 + 273.15)
    if writer == "xarray":
        encoding = {"dtype": "int16", "_FillValue": np.int16(-32768), **packing}
        cube = xr.Dataset({"t2m": (("y", "x"), want, {"units": "K"})})
        cube.to_zarr(
            tmp_path / "in.zarr",
            encoding={"t2m": encoding},
            zarr_format=version,
            consolidated=False,
        )
    else:
        group = zarr_python.open_group(tmp_path / "in.zarr", mode="w")
        named = {} if version == 2 else {"dimension_names": ("y", "x")}
        array = group.create_array("t2m", shape=(2, 3), dtype="i2", fill_value=0, **named)
        array[:] = stored
        array.attrs.update({**packing, "_FillValue": -32768, "units": "K"})
        if version == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    cube = zarr.open(tmp_path / "in.zarr", chunks={})
    assert cube["t2m"].dtype == np.float64
    np.testing.assert_allclose(cube["t2m"], want, rtol=1e-15)
    fit = xr.Dataset({"coef": cube["t2m"] / 1e4})
    fit["coef"].encoding = cube["t2m"].encoding
    zarr.write(fit, tmp_path / "out.zarr")
    back = read(tmp_path / "out.zarr")
    assert back["coef"].dtype == np.float64
    assert not {"scale_factor", "add_offset"} & {*back["coef"].encoding}
    np.testing.assert_array_equal(back["coef"], fit["coef"])


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("text", ["NaN", "AAAAAAAA+H8=", "-9999.0"])
def test_a_float_fill_value_is_read_as_any_writer_spells_it(tmp_path: Path, text: str) -> None:
    group = zarr_python.open_group(tmp_path / "in.zarr", mode="w")
    is_old = group.metadata.zarr_format == 2
    named = {} if is_old else {"dimension_names": ("x",)}
    array = group.create_array("v", shape=(3,), dtype="f4", fill_value=0.0, **named)
    array[:] = [0.0, -9999.0, np.nan]
    array.attrs["_FillValue"] = -9999.0 if text == "-9999.0" else text
    if is_old:
        array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    blank = np.nan if text == "-9999.0" else -9999.0
    np.testing.assert_array_equal(zarr.open(tmp_path / "in.zarr")["v"], [0.0, blank, np.nan])


@pytest.mark.usefixtures("version")
def test_a_south_up_grid_stays_as_it_is(tmp_path: Path) -> None:
    cube = make_cube().sortby("y")
    zarr.write(cube.chunk(y=5), tmp_path / "in.zarr")
    runs.solve_file(tmp_path / "in.zarr", tmp_path / "fit.zarr", DESIGN, var="h")
    fit = read(tmp_path / "fit.zarr")
    np.testing.assert_array_equal(fit["y"], cube["y"])
    want = make_cube()["h"].lstsq.solve(DESIGN)
    xr.testing.assert_allclose(fit["coef"], want["coef"].sortby("y"), rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("version")
def test_cftime_and_odd_times_and_empty_cubes_survive(tmp_path: Path) -> None:
    times = xr.date_range("2001-01-30", periods=7, freq="30D", calendar="360_day", use_cftime=True)
    fit = make_fit({"y": 5}).assign_coords(time=times)
    zarr.write(fit, tmp_path / "fit.zarr")
    xr.testing.assert_equal(zarr.open(tmp_path / "fit.zarr").load(), fit.compute())
    fit = make_fit()
    # Whole days cannot hold these times; a store in days would move them
    fit["time"].encoding = {"units": "days since 1970-01-01", "dtype": np.dtype("int32")}
    zarr.write(fit, tmp_path / "fit.zarr")
    np.testing.assert_array_equal(zarr.open(tmp_path / "fit.zarr")["time"], fit["time"])
    empty = make_fit().isel(y=slice(0, 0)).chunk(x=5)
    zarr.write(empty, tmp_path / "fit.zarr")
    assert zarr.open(tmp_path / "fit.zarr")["coef"].shape == (2, 0, 9)


@pytest.mark.usefixtures("version")
def test_store_sets_the_type_of_float_data_only(tmp_path: Path) -> None:
    fit = make_fit({"y": 5})
    zarr.write(fit, tmp_path / "fit.zarr", store="float32")
    back = read(tmp_path / "fit.zarr")
    assert (back["coef"].dtype, back["nobs"].dtype, back["lat"].dtype) == ("f4", "i4", "f8")
    np.testing.assert_array_equal(back["coef"], fit["coef"].astype("f4"))
    with pytest.raises(ValueError, match="store='int16' is not a type of the file"):
        zarr.write(fit, tmp_path / "fit.zarr", store="int16")  # type: ignore[arg-type]


def test_a_group_has_the_coordinates_of_those_above_it(tmp_path: Path, version: int) -> None:
    cube = make_cube()
    above = cube[["y", "x", "spatial_ref"]].reset_coords("spatial_ref")
    above.to_zarr(tmp_path / "in.zarr", zarr_format=version, consolidated=False)
    inner = cube.drop_vars(["y", "x", "spatial_ref"])
    inner.to_zarr(
        tmp_path / "in.zarr",
        group="science/grids",
        zarr_format=version,
        consolidated=False,
        mode="a",
    )
    opened = zarr.open(tmp_path / "in.zarr", group="science/grids", chunks={"y": 5})
    xr.testing.assert_equal(opened.compute(), cube)
    assert opened["h"].encoding["grid_mapping"] == "spatial_ref"
    options: dict[str, Any] = {"group": "science/grids", "var": "h"}
    runs.solve_file(tmp_path / "in.zarr", tmp_path / "fit.zarr", DESIGN, **options)
    fit = read(tmp_path / "fit.zarr")
    xr.testing.assert_equal(fit, cube["h"].lstsq.solve(DESIGN))
    assert fit["coef"].encoding["grid_mapping"] == "spatial_ref"
    with pytest.raises(OSError, match="nowhere' is not a readable Zarr group"):
        zarr.open(tmp_path / "in.zarr", group="science/nowhere")


# ------------------------------------------------------------------------------------------ runs


@pytest.mark.parametrize(
    ("source", "target"), [("in.zarr", "fit.zarr"), ("in.nc", "fit.zarr"), ("in.zarr", "fit.nc")]
)
@pytest.mark.usefixtures("version")
def test_a_run_from_file_to_file_equals_the_fit_in_memory(
    tmp_path: Path, source: str, target: str
) -> None:
    cube = make_cube().chunk(y=5, x=4)
    for module, name in ((zarr, "in.zarr"), (netcdf, "in.nc")):
        module.write(cube, tmp_path / name)
    summary = runs.solve_file(
        tmp_path / source,
        tmp_path / target,
        DESIGN,
        var="h",
        weights="w",
        stats=STATS,
        chunks={"y": 4, "x": 5},
    )
    lazy = make_cube().chunk(y=4, x=5)
    want = lazy["h"].lstsq.solve(DESIGN, weights=lazy["w"], stats=STATS).compute()
    fit = (zarr if target.endswith("zarr") else netcdf).open(tmp_path / target).load()
    xr.testing.assert_equal(fit, want)
    assert set(fit.variables) == set(want.variables)
    assert fit["coef"].encoding["grid_mapping"] == "spatial_ref"
    assert summary.statuses["no_data"] == 1
    matrix = design.parse(DESIGN).evaluate(make_cube()["time"]).matrix
    values, weights = (make_cube()[name].values[:, 7, 3] for name in ("h", "w"))
    one = oracle.fit(values, matrix, weights)
    assert (np.abs(fit["coef"].values[:, 7, 3] - one.coef) <= one.coef_tol).all()
    assert listed(tmp_path) == sorted({"in.nc", "in.zarr", target})


@pytest.mark.usefixtures("version")
def test_a_fit_is_written_from_python(tmp_path: Path) -> None:
    fit = make_cube()["h"].chunk(y=4).lstsq.solve(DESIGN, stats=("cov", "residual"))
    fit.lstsq.to_zarr(tmp_path / "fit.zarr")
    assert read(tmp_path / "fit.zarr").attrs["history"].endswith("to_zarr")
    xr.testing.assert_identical(plain(read(tmp_path / "fit.zarr")), plain(fit.compute()))
    with pytest.raises(ValueError, match="Write to another name"):
        zarr.open(tmp_path / "fit.zarr", chunks={}).lstsq.to_zarr(tmp_path / "fit.zarr")


def test_chunks_of_a_run_are_whole_storage_chunks(tmp_path: Path) -> None:
    zarr.write(make_cube((12, 40, 30)).chunk(y=10, x=6), tmp_path / "in.zarr")
    told: list[dict[str, Any]] = []
    runs.solve_file(
        tmp_path / "in.zarr",
        tmp_path / "fit.zarr",
        DESIGN,
        var="h",
        chunks={"y": 10},
        tell=told.append,
    )
    assert told[0]["chunks"]["y"] == 10
    assert told[0]["chunks"]["x"] % 6 == 0
    array = zarr_python.open_group(tmp_path / "fit.zarr", mode="r")["coef"]
    assert array.chunks == (4, told[0]["chunks"]["y"], told[0]["chunks"]["x"])


# --------------------------------------------------------------------------------------- regions


@pytest.mark.usefixtures("version")
def test_every_block_is_computed_once_in_bounded_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xr_lstsq.formats.regions.GRAPH_REGIONS", 8)
    solved: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()
    written = most = 0

    def solve(block: np.ndarray, block_info: dict | None = None) -> np.ndarray:
        nonlocal most
        if block_info:
            with lock:
                solved[tuple(block_info[0]["chunk-location"])] += 1
                most = max(most, len(solved) - written)
        return block * 2.0

    def count(block: xr.Dataset) -> None:
        nonlocal written
        written += "nobs" in block

    values = np.random.default_rng(0).normal(size=(23, 18))
    doubled = da.from_array(values, chunks=(2, 3)).map_blocks(solve, dtype=float, meta=np.empty(0))
    fit = xr.Dataset(
        {
            "coef": (("param", "y", "x"), da.stack([doubled, doubled + 1]).rechunk({0: -1})),
            "nobs": (("y", "x"), doubled.astype(np.int32)),
            "eager": (("y", "x"), values),
        }
    )
    from xr_lstsq.formats.windows import at_most

    with at_most(nbytes=None, threads=2), dask.config.set(num_workers=2):
        zarr.write(fit, tmp_path / "fit.zarr", on_block=count)
    assert len(solved) == written == 72
    assert set(solved.values()) == {1}
    assert most <= 16  # a window of eight for each thread
    np.testing.assert_array_equal(read(tmp_path / "fit.zarr")["coef"][1], values * 2 + 1)


def test_each_region_is_one_object_and_fill_has_none(tmp_path: Path, version: int) -> None:
    zarr.write(make_fit({"y": 5, "x": 4}), tmp_path / "fit.zarr")
    store = tmp_path / "fit.zarr"
    group = zarr_python.open_group(store, mode="r")
    assert group["coef"].chunks == (2, 5, 4)
    assert group["residual"].chunks == (7, 5, 4)
    regions = {(y, x) for y in range(3) for x in range(3)}
    for name, whole in (("coef", "0"), ("status", ""), ("residual", "0")):
        parts = [filter(None, (whole, str(y), str(x))) for y, x in sorted(regions)]
        marks = {".".join(p) if version == 2 else "c/" + "/".join(p) for p in parts}
        there = {file for file in tree(store / name) if not file.endswith(("json", "ay", "rs"))}
        # That of status whose values are all 0 has no object in version 3: it proves nothing
        missing = {"c/0/0"} if (name, version) == ("status", 3) else set()
        assert there == marks - missing


@pytest.mark.parametrize("cut", [((3, 4, 5), "y"), ((4, 8), "y"), ((4, 1, 4), "x")])
def test_uneven_chunks_are_refused_with_the_remedy(
    tmp_path: Path, cut: tuple[tuple[int, ...], str]
) -> None:
    sizes, dim = cut
    fit = make_fit().chunk({dim: sizes})
    remedy = rf"cube\.chunk\({{'{dim}': {max(sizes)}}}\)"
    with pytest.raises(ChunkError, match=rf"cut uneven.*along '{dim}' \({sizes[0]}, .*{remedy}"):
        zarr.write(fit, tmp_path / "fit.zarr")
    assert listed(tmp_path) == []
    zarr.write(fit.chunk({dim: max(sizes)}), tmp_path / "fit.zarr")


def test_large_eager_variables_are_written_in_slabs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xr_lstsq.formats.windows.SLAB_BYTES", 2000)
    blocks: list[xr.Dataset] = []
    zarr.write(make_fit(), tmp_path / "fit.zarr", on_block=blocks.append)
    assert sum("residual" in block for block in blocks) > 3
    xr.testing.assert_equal(read(tmp_path / "fit.zarr"), make_fit())


# ------------------------------------------------------------------ what cannot be read or written


def test_what_zarr_cannot_hold_is_refused(tmp_path: Path) -> None:
    fit = make_fit()
    cases = {
        r"'pixel' is a MultiIndex.*fit\.reset_index\(\['pixel'\]\)": fit.stack(pixel=("y", "x")),
        "'raw' has dtype .S1": fit.assign(raw=("x", np.full(9, b"a"))),
        "Attribute 'made' of 'coef' is nan": fit.assign(
            coef=fit["coef"].assign_attrs(made=math.nan)
        ),
        "Attribute 'made' of the dataset is <": fit.assign_attrs(made=object()),
        "'coef' has the packing attribute '_FillValue'": fit.assign(
            coef=fit["coef"].assign_attrs(_FillValue=0)
        ),
        "A variable is called 'a/b'": fit.rename(coef="a/b"),
        r"A variable is called '\.'": fit.rename(coef="."),
    }
    for message, dataset in cases.items():
        with pytest.raises(ValueError, match=message):
            zarr.write(dataset, tmp_path / "fit.zarr")
    assert listed(tmp_path) == []


def test_a_stack_of_pixels_is_written_once_its_index_is_reset(tmp_path: Path) -> None:
    fit = make_fit().drop_vars(["residual", "time"]).stack(pixel=("y", "x"))
    zarr.write(fit.reset_index(["pixel"]), tmp_path / "fit.zarr")
    back = read(tmp_path / "fit.zarr").set_index(pixel=["y", "x"])
    xr.testing.assert_equal(back["coef"], fit["coef"])


@pytest.mark.parametrize("how", ["is", "link", "encoding", "holds", "is inside"])
def test_the_source_is_never_replaced(tmp_path: Path, how: str) -> None:
    source = tmp_path / "in" / "cube.zarr"
    source.parent.mkdir()
    zarr.write(make_fit(), source)
    before = tree(source)
    given, target, word = [source], source, how
    if how == "link":
        target, word = tmp_path / "link.zarr", "is"
        target.symlink_to(source)
    elif how == "encoding":
        given, word = [], "is"
    elif how == "holds":
        target = source.parent
        (target / "zarr.json").write_text("{}")
    elif how == "is inside":
        target = source / "fit.zarr"
    with pytest.raises(ValueError, match=f"{word} the data that are read .* Write to another name"):
        zarr.write(zarr.open(source, chunks={"y": 5}), target, sources=given)
    assert tree(source) == before
    assert [name for name in listed(source.parent) if name.startswith(".")] == []


def test_what_is_no_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos.zarr").mkdir()
    (tmp_path / "photos.zarr" / "a.jpg").write_text("photo")
    (tmp_path / "file.zarr").write_text("text")
    (tmp_path / "empty.zarr").mkdir()

    def boom(_block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    lazy = da.zeros((4, 4)).map_blocks(boom, dtype=float, meta=np.empty(0))
    fit = xr.Dataset({"coef": (("y", "x"), lazy)})
    with pytest.raises(WriteError, match="holds something else than a store"):
        zarr.write(fit, tmp_path / "photos.zarr")
    with pytest.raises(WriteError, match=r"file\.zarr' is a file, and a store is a directory"):
        zarr.write(fit, tmp_path / "file.zarr")
    with pytest.raises(WriteError, match=r"absent' is not a directory, so 'fit\.zarr'"):
        zarr.write(fit, tmp_path / "absent" / "fit.zarr")
    assert (tmp_path / "photos.zarr" / "a.jpg").read_text() == "photo"
    zarr.write(make_fit(), tmp_path / "empty.zarr")
    assert listed(tmp_path) == ["empty.zarr", "file.zarr", "photos.zarr"]


def test_what_is_no_store_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.zarr' does not exist\. Check the name"):
        zarr.open(tmp_path / "no.zarr")
    (tmp_path / "file.zarr").write_text("text")
    with pytest.raises(NotADirectoryError, match="is a file, and a Zarr store is a directory"):
        zarr.open(tmp_path / "file.zarr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"folder' is not a readable Zarr group .* A group has a"):
        zarr.open(tmp_path / "folder")
    zarr.write(make_fit(), tmp_path / "broken.zarr")
    (tmp_path / "broken.zarr" / "coef" / "zarr.json").write_text("{")
    with pytest.raises(OSError, match=r"broken\.zarr' is not a readable Zarr group"):
        zarr.open(tmp_path / "broken.zarr")


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_store_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    zarr.write(make_fit(), tmp_path / "fit.zarr")
    before = tree(tmp_path)

    def stop(_block: xr.Dataset) -> None:
        raise error

    with pytest.raises(error):
        zarr.write(make_fit({"y": 1}, seed=1), tmp_path / "fit.zarr", on_block=stop)
    assert tree(tmp_path) == before
    zarr.write(make_fit({"y": 1}, seed=1), tmp_path / "fit.zarr")
    xr.testing.assert_equal(read(tmp_path / "fit.zarr"), make_fit(seed=1))
    assert listed(tmp_path) == ["fit.zarr"]


def test_resume_needs_a_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="resume=True needs fingerprint"):
        zarr.write(make_fit(), tmp_path / "fit.zarr", resume=True)
