"""Small inputs on which this kind of software goes wrong, each with its known right answer.

`data/cases/README.md` says how to read a case. Every case runs as it is handed over and cut into
chunks of two pixels; every key of its `expect` is either checked here or listed in `LATER`.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import cftime
import dask
import dask.array as da
import netCDF4
import numpy as np
import pyproj
import pytest
import rioxarray  # noqa: F401 - registers .rio, which reads the grid
import xarray as xr

import xr_lstsq
from tests import oracle
from xr_lstsq.errors import ChunkError, LabelError
from xr_lstsq.formats import netcdf

DATA = Path(__file__).parent / "data" / "cases"
CASES = {path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))}
FILES = {"io-packed-int16-netcdf", "io-latitude-longitude-names"}
IN_MEMORY = [name for name in CASES if name not in {*FILES, "labels-name-clash"}]

# Keys of `expect` that are not checked, and why.
LATER = {
    "or_error": "the value itself is expected of the package, which is the better of the two",
    "float64_numpy_relerr": "tells how the tolerance was chosen",
    "relative_per_pixel": "tells why atol is 0; each number is compared with its own size anyway",
    "transform": "the in-memory half of the case has no grid",
    "roundtrip": "of the GeoTIFF half of the case, see test_geotiff_fits.py",
}
# Keys that steer a comparison.
SETTINGS = {"rtol", "atol", "fitted_atol", "chunk_invariance_atol", "at_pixels"}
COUNTS = ("rank", "nobs", "dof")
STATS = ("rss", "dof", "fitted")
ERRORS = {"stderr": ("param",), "cov": ("param", "param_2")}


def numbers(values: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return nested lists as an array; null is NaN, infinities are strings."""
    array = np.array(values, dtype=object)
    flat = [np.nan if x is None else float(x) if isinstance(x, str) else x for x in array.ravel()]
    return np.array(flat, dtype=dtype).reshape(array.shape)


def coordinate(spec: dict[str, Any]) -> tuple[list[str], Any, dict[str, Any]]:
    """Return dims, values and attrs of a coordinate: dates, strings or numbers."""
    values, attrs = spec["values"], dict(spec.get("attrs", {}))
    if spec["dims"] == ["time"] and isinstance(values[0], str):
        if "calendar" in spec:
            days = [[int(part) for part in value.split("-")] for value in values]
            values = [cftime.datetime(*day, calendar=spec["calendar"]) for day in days]
        else:
            values = np.array(values, dtype=spec.get("dtype", "datetime64[ns]"))
    if str(attrs.get("crs_wkt", "")).startswith("EPSG:"):
        attrs["crs_wkt"] = pyproj.CRS(attrs["crs_wkt"].split()[0]).to_wkt()
    return spec["dims"], values, attrs


def generated(case: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays y, A and weights of a case."""
    given = case["input"]
    made: dict[str, Any] = {}
    if isinstance(given["y"], dict):
        # The case files are part of this repository; their few lines of numpy may be run.
        made["np"] = np
        exec(given["y"]["generator"], made)
    else:
        made["y"] = numbers(given["y"], given["dtype"])
        if made["y"].ndim < len(given["dims"]):  # lists of an empty cube end early
            chunks = given["layout"]["chunks"]
            made["y"] = made["y"].reshape([sum(chunks[dim]) for dim in given["dims"]])
    for name in ("A", "weights"):
        if name in given and not isinstance(given[name], dict):
            made[name] = numbers(given[name], given.get(f"{name}_dtype", np.float64))
    return {name: made[name] for name in ("y", "A", "weights") if name in made}


def laid_out(y: np.ndarray, given: dict[str, Any]) -> Any:
    """Return the values in the memory layout of the case."""
    layout = given.get("layout", {})
    if "reversed_axes" in layout:
        flip = tuple(slice(None, None, -1 if dim in layout["reversed_axes"] else 1)
                     for dim in given["dims"])  # fmt: skip
        stored = y[flip].astype(np.dtype(given["dtype"]).newbyteorder(layout["byteorder"]))
        stored = np.ascontiguousarray(stored)
        stored.flags.writeable = not layout["readonly"]
        return stored[flip]
    if "masked" in layout:
        chunks = (len(y), *(1,) * (y.ndim - 1))
        mask = da.from_array(np.array(layout["masked"]), chunks=chunks)
        return da.ma.masked_array(da.from_array(y, chunks=chunks), mask)
    if "chunks" in layout:
        return da.from_array(y, chunks=tuple(tuple(layout["chunks"][d]) for d in given["dims"]))
    return y


def cube_and_arguments(case: dict[str, Any]) -> tuple[xr.DataArray, dict[str, Any]]:
    """Return the cube of a case and the keywords of solve."""
    given, arrays = case["input"], generated(case)
    coords = {name: coordinate(spec) for name, spec in given.get("coords", {}).items()}
    attrs = dict(given.get("attrs", {}))
    if case["id"] == "io-geotiff-nodata-sentinel":
        attrs["_FillValue"] = given["file"]["nodata"]
        wkt = pyproj.CRS(given["file"]["crs"]).to_wkt()
        coords["spatial_ref"] = ([], 0, {"crs_wkt": wkt})
    cube = xr.DataArray(
        laid_out(arrays["y"], given), coords, given["dims"], name=given.get("name"), attrs=attrs
    )
    dim = given["fit_dim"]
    labels: dict[str, Any] = {"param": given["params"]}
    if dim in cube.indexes:
        labels[dim] = cube[dim]
    design = xr.DataArray(arrays["A"], dims=given["A_dims"], coords=labels)
    if "A_as_dataarray" in given:
        other = given["A_as_dataarray"]
        labels[dim] = np.array(other[dim], dtype="datetime64[ns]")
        design = xr.DataArray(other["rows"], dims=given["A_dims"], coords=labels)
    arguments: dict[str, Any] = {"design": design, "dim": dim, "device": "cpu"}
    if "weights" in arrays:
        along = {dim: cube[dim]} if dim in cube.indexes else {}
        arguments["weights"] = xr.DataArray(arrays["weights"], along, given["weights_dims"])
    if "chunks" in given.get("layout", {}) and len(given["layout"]["chunks"][dim]) > 1:
        arguments["rechunk"] = True
    arguments["stats"] = [name for name in (*STATS, *ERRORS) if name in case["expect"]]
    return cube, arguments


def recut(cube: xr.DataArray, dim: str) -> xr.DataArray:
    """Return the cube in chunks of two pixels along each dim, all samples together."""
    size = 2 if cube.size < 100_000 else 5000
    return cube.chunk({d: -1 if d == dim else size for d in cube.dims})


def check_values(case: dict[str, Any], fit: xr.Dataset, cube: xr.DataArray) -> set[str]:
    """Compare numbers; return the keys of `expect` seen to."""
    expect, dim = case["expect"], case["input"]["fit_dim"]
    at = expect.get("at_pixels", slice(None))
    rtol = expect["rtol"]
    atol = np.array(expect["atol"]).reshape(-1, *[1] * (cube.ndim - 1))
    pixel_dims = [d for d in cube.dims if d != dim]
    seen = {"coef"}
    assert fit["coef"].dtype == np.float64
    coef = fit["coef"].transpose("param", *pixel_dims).values[..., at]
    want = numbers(expect["coef"]).reshape(coef.shape)
    assert_close(coef, want, atol + rtol * np.abs(want))
    for name in COUNTS:
        if name in expect:
            got = fit[name].transpose(*pixel_dims)
            assert got.dtype == np.int32
            np.testing.assert_array_equal(got.values[..., at], expect[name], err_msg=name)
            seen.add(name)
    if "rss" in expect:
        want = numbers(expect["rss"])
        assert_close(
            fit["rss"].transpose(*pixel_dims).values, want, rss_tolerance(cube, dim, want, rtol)
        )
        seen.add("rss")
    if "fitted" in expect:
        want = numbers(expect["fitted"])
        off = expect.get("fitted_atol", np.max(expect["atol"]) + rtol * np.abs(want))
        assert_close(fit["fitted"].transpose(*cube.dims).values, want, off)
        seen.add("fitted")
    for name, axes in ERRORS.items():
        if name in expect:
            got = fit[name].transpose(*axes, *pixel_dims).values[..., at]
            want = numbers(expect[name]).reshape(got.shape)
            assert_close(got, want, rtol * np.abs(want))
            seen.add(name)
    return seen


def rss_tolerance(cube: xr.DataArray, dim: str, want: np.ndarray, rtol: float) -> Any:
    """Return rtol of the value plus what rounding of the samples themselves leaves."""
    size = np.sqrt((cube.astype(np.float64) ** 2).sum(dim)).values * 100 * oracle.EPS
    return rtol * np.abs(want) + 2 * np.sqrt(np.nan_to_num(want)) * size + size**2


def assert_close(got: np.ndarray, want: np.ndarray, tolerance: Any) -> None:
    assert got.shape == want.shape
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    off = np.abs(got - want)
    assert not (off > tolerance).any(), f"off by {np.nanmax(off)}: {got}, not {want}"


def check_labels(case: dict[str, Any], fit: xr.Dataset) -> set[str]:
    """Compare names, dims, coordinates and grid; return the keys of `expect` seen to."""
    expect, coef = case["expect"], fit["coef"]
    given = case["input"].get("coords", {})
    checks = {
        "coef_axes": lambda want: list(coef.dims) == want,
        "remaining_dims_order": lambda want: list(fit["rank"].dims) == want,
        "dims_kept": lambda want: list(coef.dims[1:]) == want,
        "coords_kept": lambda want: all(
            coef[name].dims == tuple(given[name]["dims"])
            and coef[name].values.tolist() == given[name]["values"]
            for name in want
        ),
        "coords_dropped": lambda want: not set(want) & set(fit.variables),
        "shape_must_be": lambda want: want == {d: fit.sizes[d] for d in want},
        "coef_shape": lambda want: list(coef.shape) == want,
        "coef_dtype_kind": lambda want: coef.dtype.kind == want,
        "crs": lambda want: (
            fit.rio.crs.to_epsg() == pyproj.CRS(want).to_epsg()
            and coef.rio.crs.to_epsg() == pyproj.CRS(want).to_epsg()
        ),
        "transform_kept": lambda want: transform_of(coef) == want,
    }
    seen = {key for key in checks if key in expect}
    for key in seen:
        assert checks[key](expect[key]), key
    return seen


def transform_of(array: xr.DataArray) -> list[float]:
    """Return the affine transform that the grid mapping carries, in the order a, b, c, d, e, f."""
    c, a, b, f, d, e = map(float, array["spatial_ref"].attrs["GeoTransform"].split())
    return [a, b, c, d, e, f]


def check_others(case: dict[str, Any], fit: xr.Dataset) -> set[str]:
    """Compare what single cases add; return the keys of `expect` seen to."""
    expect = case["expect"]
    if "wrong_if_squared" in expect:
        wrong = numbers(expect["wrong_if_squared"])
        assert (np.abs(fit["coef"].values - wrong) > 1e3 * np.array(expect["atol"])[:, None]).all()
    if "certified_coef" in expect:
        np.testing.assert_allclose(fit["coef"].values[:, 0], expect["certified_coef"], rtol=1e-10)
    return {"wrong_if_squared", "certified_coef"} & set(expect)


@pytest.mark.parametrize("cut", ["as handed over", "in chunks of two pixels"])
@pytest.mark.parametrize("name", IN_MEMORY)
def test_the_case_has_its_known_answer(name: str, cut: str) -> None:
    case = CASES[name]
    expect = case["expect"]
    cube, arguments = cube_and_arguments(case)
    dim = case["input"]["fit_dim"]
    if cut != "as handed over":
        cube = recut(cube, dim)
    before = cube.copy(deep=True) if cube.chunks is None else None
    if "error" in expect:
        with pytest.raises(ValueError, match="(?i)" + "|".join(expect["error"]["mention_any"])):
            xr_lstsq.solve(cube, **arguments)
        return
    lazy = xr_lstsq.solve(cube, **arguments)
    seen = check_building(case, lazy, cube, arguments)
    assert (lazy["coef"].chunks is not None) == (cube.chunks is not None)
    fit = lazy.compute(scheduler="threads")
    if before is not None:
        xr.testing.assert_identical(cube, before)
    seen |= check_values(case, fit, cube) | check_labels(case, fit) | check_others(case, fit)
    ignored = set(expect) - seen - SETTINGS
    assert ignored <= set(LATER), f"not checked: {ignored - set(LATER)}"


def check_building(
    case: dict[str, Any], lazy: xr.Dataset, cube: xr.DataArray, arguments: dict[str, Any]
) -> set[str]:
    """Compare what is promised of a fit before it is computed."""
    expect = case["expect"]
    if "lazy_shape" in expect:
        assert {str(d): lazy["coef"].sizes[d] for d in lazy["coef"].dims} == expect["lazy_shape"]
        assert lazy["coef"].dtype == expect["lazy_dtype"]
    if expect.get("no_warning_on_build") or expect.get("y_not_computed_on_build"):

        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("computed")

        with warnings.catch_warnings(), dask.config.set(scheduler=refuse):
            warnings.simplefilter("error")
            xr_lstsq.solve(cube, **arguments)
    if expect.get("result_is_lazy"):
        assert lazy["coef"].chunks is not None
    keys = {"lazy_shape", "lazy_dtype", "no_warning_on_build", "y_not_computed_on_build"}
    return (keys | {"result_is_lazy"}) & set(expect)


@pytest.mark.parametrize(
    "name", [n for n in CASES if "chunk_invariance_atol" in CASES[n]["expect"]]
)
def test_the_answer_of_the_case_does_not_depend_on_its_chunks(name: str) -> None:
    case = CASES[name]
    cube, arguments = cube_and_arguments(case)
    cut = xr_lstsq.solve(cube, **arguments).compute()
    whole = xr_lstsq.solve(cube.compute(), **arguments)
    atol = case["expect"]["chunk_invariance_atol"]
    np.testing.assert_allclose(cut["coef"], whole["coef"], rtol=0, atol=atol)
    for count in ("rank", "nobs", "status"):
        np.testing.assert_array_equal(cut[count], whole[count])


def test_samples_in_several_chunks_are_refused_unless_rechunk_is_asked_for() -> None:
    cube, arguments = cube_and_arguments(CASES["dask-core-dim-chunked"])
    del arguments["rechunk"]
    with pytest.raises(ChunkError, match=r"(?s)'time'.*3 chunks.*chunk\(time=-1\).*rechunk=True"):
        xr_lstsq.solve(cube, **arguments)


def test_a_cube_without_pixels_gives_an_empty_fit_in_memory_too() -> None:
    cube, arguments = cube_and_arguments(CASES["dask-no-pixels"])
    fit = xr_lstsq.solve(cube.compute(), **arguments)
    assert fit["coef"].chunks is None
    assert fit["coef"].shape == (2, 0, 3)
    assert fit["status"].shape == (0, 3)


def test_a_dim_called_param_and_a_coordinate_called_rank_are_refused_with_the_way_out() -> None:
    case = CASES["labels-name-clash"]
    cube, arguments = cube_and_arguments(case)
    # Without the labels of the pixels: a design has its own idea of what `param` is.
    design = xr.DataArray(generated(case)["A"], dims=("time", "term"))
    arguments = {**arguments, "design": design}
    with pytest.raises(LabelError, match="param"):
        xr_lstsq.solve(cube, **{**arguments, "design": design.values})
    with pytest.raises(LabelError, match=r"rank.*(rename|drop_vars)"):
        xr_lstsq.solve(cube, **arguments, param_dim="term")
    free = cube.drop_vars("rank")
    fit = xr_lstsq.solve(free, **arguments, param_dim="term")
    assert fit["coef"].dims == ("term", "param")
    np.testing.assert_allclose(fit["coef"], case["expect"]["coef"], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(fit["nobs"], case["expect"]["nobs"])
    assert fit["param"].values.tolist() == ["vv", "vh", "hh"]


@pytest.mark.parametrize(
    ("name", "term"),
    [
        ("time-cftime-noleap", 'polynomial(1, origin="2004-01-01")'),
        ("time-resolution-and-old-dates", 'polynomial(1, unit="day", origin="first")'),
    ],
)
def test_the_terms_of_the_package_give_the_design_of_the_case(name: str, term: str) -> None:
    case = CASES[name]
    cube, arguments = cube_and_arguments(case)
    fit = cube.lstsq.solve(term, device="cpu")
    want = numbers(case["expect"]["coef"])
    atol = np.array(case["expect"]["atol"])[:, None]
    assert_close(fit["coef"].values, want, atol + case["expect"]["rtol"] * np.abs(want))
    assert fit["param"].values.tolist() == ["intercept", "slope"]
    # Handed over by its name too, the dim is found: it is the only one that holds dates.
    assert arguments["dim"] == "time"


def test_more_right_hand_sides_than_a_batched_kernel_may_take_are_solved() -> None:
    case = CASES["weights-batch-over-65535"]
    cube, arguments = cube_and_arguments(case)
    del arguments["weights"]
    first = cube.isel(cell=slice(65537))
    once = xr_lstsq.solve(first, **arguments)
    tiled = xr.concat([first] * 9, dim="copy")
    fit = xr_lstsq.solve(tiled, **arguments)
    assert fit["coef"].dims == ("param", "copy", "cell")
    for name in ("coef", "rank", "nobs", "status"):
        want = once[name].values
        got = fit[name].transpose("copy", *once[name].dims).values
        np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=1e-12, atol=1e-12)
    for pixel in case["expect"]["at_pixels"][:7]:
        want = oracle.fit(first.values[:, pixel], arguments["design"].values)
        assert abs(once["coef"].values[:, pixel] - want.coef).max() <= want.coef_tol.max()
        assert once["rank"].values[pixel] == want.rank


# --------------------------------------------------------------------------------------------
# Through files


def stored_file(case: dict[str, Any], path: Path) -> Path:
    """Write the numbers of a case as they are stored, with packing, fill and grid mapping."""
    given, file = case["input"], case["input"]["file"]
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.set_auto_maskandscale(False)
        stored = numbers(given["y"], given["dtype"])
        for dim, size in zip(given["dims"], stored.shape, strict=True):
            dataset.createDimension(dim, size)
        name = file.get("var", "signal")
        variable = dataset.createVariable(
            name, stored.dtype, given["dims"], fill_value=file.get("fill")
        )
        variable.set_auto_maskandscale(False)
        variable[...] = stored
        for key in ("scale_factor", "add_offset"):
            if key in file:
                variable.setncattr(key, file[key])
        variable.grid_mapping = "crs"
        dataset.createVariable("crs", "i4").crs_wkt = pyproj.CRS(file.get("crs", 4326)).to_wkt()
        coords = given.get("coords") or {"time": {"values": list(range(stored.shape[0]))}}
        for dim, spec in coords.items():
            dataset.createVariable(dim, "f8", (dim,))[:] = spec["values"]
    return path


@pytest.mark.parametrize("chunks", [None, {"time": -1}], ids=["in memory", "chunked"])
@pytest.mark.parametrize("name", sorted(FILES))
def test_the_case_has_its_known_answer_through_files(
    name: str, chunks: dict[str, int] | None, tmp_path: Path
) -> None:
    case = CASES[name]
    given, expect = case["input"], case["expect"]
    variable = given["file"].get("var", "signal")
    stats = [key for key in ("rss",) if key in expect]
    with netcdf.open(stored_file(case, tmp_path / "in.nc")) as source:
        cube = source[variable].load() if chunks is None else source[variable].chunk(chunks)
        design = xr.DataArray(
            numbers(given["A"]), {"time": cube["time"], "param": given["params"]}, given["A_dims"]
        )
        fit = cube.lstsq.solve(design, stats=stats, device="cpu")
        fit.lstsq.to_netcdf(tmp_path / "out.nc")
        fit, cube = fit.compute(), cube.compute()
    with netcdf.open(tmp_path / "out.nc") as written:
        back = written.load()
    seen = set()
    for result in (fit, back):
        seen = check_values(case, result, cube) | check_labels(case, result)
    assert pyproj.CRS(back["crs"].attrs["crs_wkt"]) == pyproj.CRS(given["file"].get("crs", 4326))
    if expect["roundtrip"]["write"] == "netcdf":
        check_roundtrip(expect["roundtrip"], fit, back, tmp_path / "out.nc")
        seen.add("roundtrip")
    ignored = set(expect) - seen - SETTINGS
    assert ignored <= set(LATER), f"not checked: {ignored - set(LATER)}"


def check_roundtrip(want: dict[str, Any], fit: xr.Dataset, back: xr.Dataset, path: Path) -> None:
    with netCDF4.Dataset(path) as raw:
        for name, variable in raw.variables.items():
            assert not set(want["encoding_must_not_have"]) & set(variable.ncattrs()), name
        assert raw["coef"].dtype.kind == want["dtype_kind"]
    change = abs(back["coef"] - fit["coef"]) / abs(fit["coef"])
    assert float(change.max()) <= want["max_rel_change"]


def test_every_case_that_is_kept_is_run() -> None:
    kinds = {case["kind"] for case in CASES.values()}
    assert kinds == {"missing", "rank", "scale", "dtype", "labels", "dask", "weights", "time",
                     "stats", "io"}  # fmt: skip
    assert len(CASES) == 45
