"""Arguments of solve: each acts, and each bad one is refused with what to type instead."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xr_lstsq
from xr_lstsq.errors import DeviceError, DtypeError, LabelError

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERANCE = 1e-10  # of coefficients of size 1 and condition below 100


def ndvi(**_: Any) -> xr.DataArray:
    """Return a cube of 30 dates and 3 x 4 pixels with noise and a gap, all values above 0."""
    rng = np.random.default_rng(21)
    time = np.arange(np.datetime64("2019-01-01", "ns"), np.datetime64("2021-06-19", "ns"),
                     np.timedelta64(30, "D"))  # fmt: skip
    values = 2.0 + np.abs(rng.normal(size=(30, 3, 4)))
    values[4, 1, 2] = np.nan
    return xr.DataArray(
        values,
        {"time": time, "y": [300.0, 200.0, 100.0], "x": [0.1, 0.2, 0.3, 0.4]},
        ("time", "y", "x"),
        name="ndvi",
        attrs={"units": "1"},
    )


def design(cube: xr.DataArray | None = None) -> xr.DataArray:
    cube = ndvi() if cube is None else cube
    t = np.linspace(-1.0, 1.0, cube.sizes["time"])
    return xr.DataArray(
        np.c_[np.ones_like(t), t],
        {"time": cube["time"], "param": ["level", "rate"]},
        ("time", "param"),
    )


def weights() -> xr.DataArray:
    cube = ndvi()
    return xr.ones_like(cube).fillna(1.0) * xr.DataArray(np.linspace(0.1, 3.0, 30), dims="time")


def dataset() -> xr.Dataset:
    cube = ndvi()
    quality = xr.DataArray(
        np.full(cube.shape, 4, np.uint8), cube.coords, attrs={"flag_values": [4, 5]}
    )
    return xr.Dataset({"ndvi": cube, "evi": cube**2, "scl": quality, "height": cube.isel(time=0)})


def solve(**arguments: Any) -> xr.Dataset:
    arguments = {"design": design(), "device": "cpu", **arguments}
    return xr_lstsq.solve(arguments.pop("cube", ndvi()), **arguments)


# --------------------------------------------------------------------------------------------
# Every argument acts


def moved(a: xr.DataArray, b: xr.DataArray) -> bool:
    """Return whether two answers lie further apart than 100 tolerances, somewhere."""
    return bool((abs(a - b) > 100 * TOLERANCE).any())


def one_sample_pixel() -> xr.DataArray:
    cube = ndvi()
    cube[1:, 0, 0] = np.nan
    return cube


def nearly_collinear() -> xr.DataArray:
    columns = design()
    columns[:, 1] = 1.0 + 1e-6 * columns[:, 1]
    return columns


def design_acts() -> bool:
    return moved(solve()["coef"], solve(design=design() * 2)["coef"])


def dim_acts() -> bool:
    square = ndvi().isel(time=0, y=[0, 1, 2, 0]).drop_vars(["time", "y", "x"])
    columns = np.c_[np.ones(4), np.arange(4.0)]
    by_y, by_x = (solve(cube=square, design=columns, dim=dim) for dim in ("y", "x"))
    return by_y["coef"].dims == ("param", "x") and by_x["coef"].dims == ("param", "y")


def data_acts() -> bool:
    fit = solve(cube=dataset(), data="evi")
    return "evi_coef" in fit and "ndvi_coef" not in fit


def weights_act() -> bool:
    return moved(solve()["coef"], solve(weights=weights())["coef"])


def valid_acts() -> bool:
    half = xr.DataArray(np.arange(30) % 2 == 0, dims="time", coords={"time": ndvi()["time"]})
    fit = solve(valid=half)
    return moved(solve()["coef"], fit["coef"]) and int(fit["nobs"].max()) == 15


def nodata_acts() -> bool:
    cube = ndvi()
    cube[7, 0, 0] = 0.0
    fit, plain = solve(cube=cube, nodata=0), solve(cube=cube)
    several = solve(cube=cube, nodata=[0, float(cube[3, 0, 0])])
    counts = [int(x["nobs"][0, 0]) for x in (plain, fit, several)]
    return moved(plain["coef"], fit["coef"]) and counts == [30, 29, 28]


def min_obs_acts() -> bool:
    plain, fit = solve(cube=one_sample_pixel()), solve(cube=one_sample_pixel(), min_obs=2)
    return (
        int(plain["status"][0, 0]) == 3
        and int(fit["status"][0, 0]) == 2
        and bool(fit["coef"][:, 0, 0].isnull().all())
        and not bool(plain["coef"][:, 0, 0].isnull().any())
        and int(fit["nobs"][0, 0]) == 1
    )


def deficient_acts() -> bool:
    plain = solve(cube=one_sample_pixel())
    fit = solve(cube=one_sample_pixel(), deficient="nan")
    return (
        bool(fit["coef"][:, 0, 0].isnull().all())
        and not bool(plain["coef"][:, 0, 0].isnull().any())
        and int(fit["status"][0, 0]) == int(plain["status"][0, 0]) == 3
        and int(fit["rank"][0, 0]) == 1
    )


def rcond_acts() -> bool:
    plain, fit = solve(design=nearly_collinear()), solve(design=nearly_collinear(), rcond=1e-3)
    return bool((plain["rank"] == 2).all()) and bool((fit["rank"] == 1).all())


def stats_act() -> bool:
    fit = solve(stats=("rss", "dof"))
    return {"rss", "dof"} <= set(fit) and not {"rss", "dof"} & set(solve())


def cov_type_acts() -> bool:
    plain, robust = (solve(stats="stderr", cov_type=kind) for kind in ("nonrobust", "HC3"))
    return moved(plain["stderr"], robust["stderr"]) and not moved(plain["coef"], robust["coef"])


def maxlags_acts() -> bool:
    short, long = (solve(stats="stderr", cov_type="HAC", maxlags=lags) for lags in (1, 6))
    return moved(short["stderr"], long["stderr"])


def absolute_sigma_acts() -> bool:
    plain, known = (solve(stats="stderr", absolute_sigma=known) for known in (False, True))
    return moved(plain["stderr"], known["stderr"])


def noise_acts() -> bool:
    fit = solve(noise="ar1")
    return {"rho", "n_eff"} <= set(fit) and "rho" not in solve()


def level_acts() -> bool:
    wide, narrow = (solve(stats="conf_int", level=level)["conf_int"] for level in (0.99, 0.5))
    return bool((wide.sel(bound="upper") > narrow.sel(bound="upper")).all())


def dtype_acts() -> bool:
    fit = solve(dtype="float32", stats=("rss", "fitted"))
    kinds = {fit[name].dtype for name in ("coef", "rss", "fitted")}
    return kinds == {np.dtype("float32")} and fit["rank"].dtype == np.int32


def device_acts() -> bool:
    with pytest.raises(DeviceError):
        solve(device="cuda:77")
    return True


def max_memory_acts() -> bool:
    with pytest.raises(DeviceError, match="max_memory"):
        solve(max_memory=10)
    return True


def rechunk_acts() -> bool:
    cube = ndvi().chunk(time=7)
    with pytest.raises(xr_lstsq.errors.ChunkError):
        solve(cube=cube)
    return solve(cube=cube, rechunk=True)["coef"].equals(solve()["coef"])


def param_dim_acts() -> bool:
    fit = solve(design=design().rename(param="term"), param_dim="term")
    return fit["coef"].dims[0] == "term" and fit["term"].values.tolist() == ["level", "rate"]


ACTS: dict[str, Callable[[], bool]] = {
    "design": design_acts,
    "dim": dim_acts,
    "data": data_acts,
    "weights": weights_act,
    "valid": valid_acts,
    "nodata": nodata_acts,
    "min_obs": min_obs_acts,
    "deficient": deficient_acts,
    "rcond": rcond_acts,
    "stats": stats_act,
    "cov_type": cov_type_acts,
    "maxlags": maxlags_acts,
    "absolute_sigma": absolute_sigma_acts,
    "noise": noise_acts,
    "level": level_acts,
    "dtype": dtype_acts,
    "device": device_acts,
    "max_memory": max_memory_acts,
    "rechunk": rechunk_acts,
    "param_dim": param_dim_acts,
}


@pytest.mark.parametrize("argument", ACTS)
def test_the_argument_acts(argument: str) -> None:
    assert ACTS[argument]()


def test_every_argument_of_solve_has_a_test_that_it_acts() -> None:
    assert {"cube", *ACTS} == set(inspect.signature(xr_lstsq.solve).parameters)


@pytest.mark.parametrize("kind", [xr.DataArray, xr.Dataset], ids=lambda kind: kind.__name__)
def test_the_accessor_takes_exactly_the_arguments_of_solve(kind: type) -> None:
    cube = ndvi() if kind is xr.DataArray else dataset()
    accessor = inspect.signature(cube.lstsq.solve)
    function = inspect.signature(xr_lstsq.solve)
    wanted = [parameter for name, parameter in function.parameters.items() if name != "cube"]
    got = list(accessor.parameters.values())
    assert [(p.name, p.kind, p.default) for p in got] == [
        (p.name, p.kind, p.default) for p in wanted
    ]


def test_the_accessor_and_the_function_give_the_same_fit() -> None:
    xr.testing.assert_identical(ndvi().lstsq.solve(design(), device="cpu"), solve())


# --------------------------------------------------------------------------------------------
# Bad arguments


def refused(error: type[Exception], match: str, /, **arguments: Any) -> None:
    """Check that a call is refused, also when the cube is lazy: before any work."""
    cube = arguments.pop("cube", ndvi())
    for each in (cube, cube.chunk()):
        with pytest.raises(error, match=match):
            solve(cube=each, **arguments)


def test_an_unknown_dim_is_refused_with_the_dims_there_are() -> None:
    refused(
        LabelError,
        r"'tme' is not a dim of 'ndvi', which has \('time', 'y', 'x'\).*dim='time'",
        dim="tme",
    )


def test_a_dim_that_cannot_be_told_is_asked_for() -> None:
    cube = ndvi().drop_vars("time")
    refused(LabelError, r"none of them holds dates.*Pass dim=", cube=cube, design=design().values)
    two = cube.assign_coords(
        time=np.arange(30).astype("datetime64[D]").astype("datetime64[ns]"),
        y=np.arange(3).astype("datetime64[D]").astype("datetime64[ns]"),
    )
    refused(LabelError, r"2 of them hold dates.*Pass dim=", cube=two, design=design().values)


def test_a_design_with_another_number_of_rows_is_refused_with_both_numbers() -> None:
    refused(ValueError, r"design has 29 rows, and the cube has 30.*", design=design().values[:-1])
    for labelled in (design(), design().drop_vars("time")):
        refused(LabelError, r"design has 29 .*'time'.*30", design=labelled.isel(time=slice(29)))


@pytest.mark.parametrize("argument", ["weights", "valid", "design"])
def test_labels_off_by_a_pixel_are_refused_and_off_by_rounding_are_not(argument: str) -> None:
    arrays = {"weights": weights(), "valid": weights() > 0.5, "design": design() * weights()}
    array = arrays[argument]
    want = solve(**{argument: array, "dim": "time"})
    # A float32 round trip of 0.1, 0.2 ... is no other grid.
    near = array.assign_coords(x=array["x"].astype(np.float32))
    xr.testing.assert_identical(solve(**{argument: near, "dim": "time"})["coef"], want["coef"])
    for off in (array.assign_coords(x=array["x"] + 0.1), array.assign_coords(y=array["y"] - 100)):
        refused(
            LabelError,
            rf"{argument} .*differ by up to (0.1|100).*reindex_like",
            dim="time",
            **{argument: off},
        )


@pytest.mark.parametrize("argument", ["weights", "valid", "design"])
def test_the_same_labels_in_another_order_are_put_in_order(argument: str) -> None:
    arrays = {"weights": weights(), "valid": weights() > 0.5, "design": design() * weights()}
    array = arrays[argument]
    want = solve(**{argument: array, "dim": "time"})
    other = array.isel(time=slice(None, None, -1), y=[2, 0, 1])
    got = solve(**{argument: other, "dim": "time"})
    xr.testing.assert_allclose(got["coef"], want["coef"], rtol=1e-12)
    assert moved(want["coef"], solve()["coef"])


def test_dates_that_differ_by_a_day_are_refused_with_the_difference() -> None:
    late = design().assign_coords(time=ndvi()["time"] + np.timedelta64(1, "D"))
    refused(LabelError, r"design .*'time'.*1 days.*reindex_like", design=late)
    refused(
        LabelError,
        r"weights .*'time'.*1 days.*reindex_like",
        weights=weights().assign_coords(time=late["time"]),
    )


def test_weights_with_a_dim_the_cube_lacks_are_refused() -> None:
    refused(LabelError, r"weights .*'band'", weights=weights().expand_dims(band=2))


def test_negative_weights_are_refused_with_their_number_and_the_smallest() -> None:
    bad = weights()
    bad[2:5, 0, 0] = [-0.1, -0.2, -0.05]
    refused(
        ValueError, r"weights has 3 values below 0, the smallest -0\.2.*inverse variances",
        weights=bad,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1.0 + 2.0j, "complex128"), (1.5, "object"), ("a", "<U1"), (0, r"datetime64\[ns\]")],
    ids=["complex", "object", "text", "dates"],
)
def test_values_that_are_not_real_numbers_are_refused(value: Any, dtype: str) -> None:
    cube = ndvi().copy(data=np.full((30, 3, 4), value, dtype.replace("\\", "")))
    refused(DtypeError, rf"'ndvi' has the dtype {dtype}.*real", cube=cube)


def test_a_complex_design_or_weight_is_refused() -> None:
    refused(DtypeError, "design.*complex", design=design() * 1j)
    refused(DtypeError, "weights.*complex", weights=weights() * 1j)


def test_a_class_layer_as_valid_is_refused_with_the_line_to_write() -> None:
    layer = xr.full_like(ndvi(), 4, dtype=np.uint8)
    refused(ValueError, r"valid.*isin\(\[", valid=layer)
    refused(ValueError, r"valid", valid=ndvi())
    for good in (layer * 0 + 1, (layer > 0).astype(np.int16), layer > 0):
        xr.testing.assert_equal(solve(valid=good)["coef"], solve()["coef"])


# --------------------------------------------------------------------------------------------
# What counts, and in which form


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", ">f8", "longdouble", "int8", ">i2", "uint8", "int64", "uint64"]
)
def test_any_real_dtype_gives_the_answer_of_its_float64_values(dtype: str) -> None:
    cube = (10 * ndvi().fillna(2.0)).astype(dtype)
    want = solve(cube=cube.astype(np.float64))
    for each in (cube, cube.chunk(y=2)):
        fit = solve(cube=each)
        assert fit["coef"].dtype == np.float64
        xr.testing.assert_equal(fit["coef"].compute(), want["coef"])


@pytest.mark.parametrize("key", ["_FillValue", "missing_value"])
@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_fill_values_in_the_attributes_mean_missing_and_those_in_the_encoding_do_not(
    key: str, dtype: str
) -> None:
    cube = (1000 * ndvi().fillna(2.0)).astype(dtype)
    cube[3] = -9999
    assert (solve(cube=cube)["nobs"] == 30).all()
    encoded = cube.copy()
    encoded.encoding[key] = -9999
    assert (solve(cube=encoded)["nobs"] == 30).all()
    marked = cube.assign_attrs({key: np.array(-9999, dtype)})
    fit = solve(cube=marked, stats="fitted")
    assert (fit["nobs"] == 29).all()
    assert moved(fit["coef"], solve(cube=cube)["coef"])
    # What marks a gap in the samples says nothing of the fit.
    assert key not in {**fit["coef"].attrs, **fit["fitted"].attrs}


def test_a_weight_that_is_masked_or_infinite_or_zero_leaves_its_sample_out() -> None:
    want = solve(weights=weights().where(weights() >= 0.5))
    small = (weights() < 0.5).values
    masked = da.ma.masked_array(da.from_array(weights().values), small)
    others = {
        "masked": weights().copy(data=masked),
        "infinite": weights().where(~small, np.inf),
        "zero": weights().where(~small, 0.0),
    }
    for name, other in others.items():
        fit = solve(weights=other).compute()
        assert (fit["nobs"] == want["nobs"]).all(), name
        xr.testing.assert_allclose(fit["coef"], want["coef"], rtol=1e-12)


def test_negative_lazy_weights_that_all_pixels_share_fail_all_pixels() -> None:
    bad = xr.DataArray(np.r_[-1.0, np.ones(29)], dims="time")
    fit = solve(weights=bad.chunk()).compute()
    assert (fit["status"] == 5).all()
    assert fit["coef"].isnull().all()


def test_a_lazy_class_layer_as_valid_fails_its_pixels() -> None:
    layer = xr.zeros_like(ndvi(), dtype=np.uint8) + 1
    layer[4, 0, 0] = 4
    fit = solve(valid=layer.chunk()).compute()
    assert int(fit["status"][0, 0]) == 5
    assert (fit["status"] == 5).sum() == 1


def test_the_order_of_the_dims_of_a_design_does_not_matter() -> None:
    xr.testing.assert_equal(solve(design=design().transpose())["coef"], solve()["coef"])


def test_a_plain_design_has_no_names_and_a_list_of_rows_will_do() -> None:
    fit = solve(design=design().values.tolist(), dim="time")
    np.testing.assert_array_equal(fit["coef"], solve()["coef"])


def test_two_params_of_one_name_are_refused() -> None:
    refused(LabelError, r"'a', 'a'", design=design().assign_coords(param=["a", "a"]))


# --------------------------------------------------------------------------------------------
# Values of single arguments


@pytest.mark.parametrize(
    ("argument", "value", "error", "match"),
    [
        ("device", "tpu", DeviceError, "'tpu' is not known. Pass 'auto', 'cpu'"),
        ("device", "cuda:", DeviceError, "'cuda:' is not known"),
        ("stats", ("rss", "r2"), ValueError, r"stats has \['r2'\].*Choose from dof, rss, rmse"),
        ("stats", "coef", ValueError, "coef.*always there"),
        ("deficient", "zero", ValueError, "deficient='zero'.*min_norm.*nan"),
        ("dtype", "int16", ValueError, "dtype='int16'.*float64.*float32"),
        ("min_obs", -1, ValueError, "min_obs=-1"),
        ("min_obs", 2.5, (ValueError, TypeError), "min_obs=2.5"),
        ("rcond", -0.1, ValueError, "rcond=-0.1"),
        ("rcond", 1.5, ValueError, "rcond=1.5"),
        ("rcond", float("nan"), ValueError, "rcond=nan"),
        ("max_memory", "lots", ValueError, "max_memory='lots'.*'2GB'"),
        ("max_memory", 0, ValueError, "max_memory=0 is not positive"),
        ("nodata", "none", (ValueError, TypeError), "nodata='none'"),
        ("param_dim", "time", LabelError, "time"),
        ("weights", "quality", (LabelError, ValueError), "quality.*DataArray|Dataset"),
        ("data", "ndvi", ValueError, "data.*Dataset"),
        ("design", "polynom(1)", ValueError, "polynom.*polynomial"),
        ("design", "polynomial(1) + ", ValueError, "polynomial"),
        ("design", 3, (TypeError, ValueError), "design"),
    ],
)
def test_a_bad_value_is_refused_with_what_to_type(
    argument: str, value: Any, error: type[Exception], match: str
) -> None:
    refused(error, match, **{argument: value})


@pytest.mark.parametrize(
    ("foreign", "value", "sentence"),
    [
        ("w", np.ones(30), r"weights=.*w\*\*2|weights=w \*\* 2|weights"),
        ("sigma", np.ones(30), r"weights=1 ?/ ?sigma ?\*\* ?2"),
        ("mask", ndvi().isnull(), r"valid=~mask|valid="),
        ("skipna", True, "missing|gaps|NaN"),
        ("deg", 2, r"polynomial\(2\)|polynomial"),
    ],
)
def test_a_keyword_of_another_library_is_refused_with_the_sentence_to_type(
    foreign: str, value: Any, sentence: str
) -> None:
    for call in (solve, lambda **kw: ndvi().lstsq.solve(design(), **kw)):
        with pytest.raises(TypeError, match=sentence):
            call(**{foreign: value})


def test_an_unknown_keyword_is_refused_like_that_of_any_function() -> None:
    with pytest.raises(TypeError, match="wieghts"):
        solve(wieghts=weights())


# --------------------------------------------------------------------------------------------
# Empty cubes


@pytest.mark.parametrize("lazy", [False, True], ids=["in memory", "lazy"])
@pytest.mark.parametrize("gone", [{"y": 0}, {"x": 0}, {"y": 0, "x": 0}])
def test_a_cube_without_pixels_gives_an_empty_fit(lazy: bool, gone: dict[str, int]) -> None:
    cube = ndvi().isel({dim: slice(0) for dim in gone})
    fit = solve(cube=cube.chunk() if lazy else cube, stats=("rss", "fitted")).compute()
    shape = {"y": 3, "x": 4, **gone}
    assert fit["coef"].shape == (2, shape["y"], shape["x"])
    assert fit["fitted"].shape == (30, shape["y"], shape["x"])
    assert fit["coef"].dtype == np.float64


def test_a_cube_without_samples_has_no_data() -> None:
    cube = ndvi().isel(time=slice(0))
    fit = solve(cube=cube, design=design().isel(time=slice(0)), stats=("rss", "dof"))
    assert (fit["status"] == 1).all()
    assert fit["coef"].isnull().all()
    assert (fit["rank"] == 0).all()


def test_a_design_without_params_is_refused() -> None:
    refused(ValueError, "design.*(0 params|no param)", design=design().isel(param=slice(0)))


# --------------------------------------------------------------------------------------------
# Dataset cubes


def test_a_dataset_is_fitted_variable_by_variable_and_says_what_it_left_out() -> None:
    with pytest.warns(UserWarning, match=r"(?s)ndvi.*evi.*scl") as caught:
        fit = solve(cube=dataset())
    assert len(caught) == 1
    assert {"ndvi_coef", "evi_coef", "ndvi_status"} <= set(fit.data_vars)
    assert not any(str(name).startswith(("scl", "height")) for name in fit.data_vars)
    xr.testing.assert_equal(fit["ndvi_coef"].rename("coef"), solve()["coef"])


def test_data_names_what_to_fit_and_silences_the_warning() -> None:
    fit = solve(cube=dataset(), data=["evi", "ndvi"])
    assert {"ndvi_coef", "evi_coef"} <= set(fit.data_vars)


def test_names_of_variables_do_for_weights_and_valid() -> None:
    cube = dataset().assign(w=weights(), ok=ndvi() > 2.5)
    fit = solve(cube=cube, data="ndvi", weights="w", valid="ok")
    want = solve(weights=weights(), valid=ndvi() > 2.5)
    xr.testing.assert_equal(fit["ndvi_coef"].rename("coef"), want["coef"])


@pytest.mark.parametrize("argument", ["data", "weights", "valid"])
def test_an_unknown_name_in_a_dataset_is_refused_with_those_there_are(argument: str) -> None:
    keywords = {"data": "ndvi", argument: "nvdi"}
    with pytest.raises((LabelError, ValueError), match=r"nvdi.*ndvi"):
        solve(cube=dataset(), **keywords)


def test_all_bad_variables_of_a_dataset_are_told_at_once() -> None:
    cube = dataset().drop_vars(["scl", "height"])
    cube["ndvi"] = cube["ndvi"] * 1j
    cube["evi"] = cube["evi"].astype(object)
    with pytest.raises(DtypeError, match=r"(?s)(ndvi.*evi|evi.*ndvi)"):
        solve(cube=cube, data=["ndvi", "evi"])


def test_a_dataset_with_nothing_to_fit_is_refused() -> None:
    with pytest.raises((LabelError, ValueError), match="scl"):
        solve(cube=dataset()[["scl"]])


@pytest.mark.parametrize("method", ["params", "to_netcdf"])
def test_a_dataset_that_is_no_fit_says_so(method: str, tmp_path: Any) -> None:
    arguments = [tmp_path / "out.nc"] if method == "to_netcdf" else []
    with pytest.raises(ValueError, match=r"no fit|not a fit"):
        getattr(dataset().lstsq, method)(*arguments)
    assert not list(tmp_path.iterdir())


def test_something_that_is_no_cube_is_refused() -> None:
    with pytest.raises(TypeError, match=r"ndarray.*DataArray"):
        solve(cube=ndvi().values)


METHODS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cov_type": "HC4"}, ValueError, "cov_type='HC4' is not known. Choose from 'nonrobust'"),
    ({"noise": "ar2"}, ValueError, "noise='ar2' is not known"),
    ({"level": 1.0}, ValueError, "level=1.0 is not between 0 and 1"),
    ({"level": True}, ValueError, "level=True is not between 0 and 1"),
    ({"maxlags": 3}, ValueError, "maxlags=3 is for cov_type='HAC', and cov_type is 'nonrobust'"),
    ({"maxlags": -1, "cov_type": "HAC"}, ValueError, "maxlags=-1 is not a whole number from 0"),
    ({"maxlags": 1.5, "cov_type": "HAC"}, ValueError, "maxlags=1.5 is not a whole number from 0"),
    ({"absolute_sigma": 1}, TypeError, "absolute_sigma=1 is neither True nor False"),
    ({"absolute_sigma": True, "cov_type": "HC1"}, ValueError, "absolute_sigma=True .*Drop one"),
    ({"noise": "ar1", "cov_type": "ar1"}, ValueError, "noise='ar1' .*Drop one"),
    ({"stats": "fvalue", "cov_type": "HC0"}, ValueError, "'fvalue'.*cov_type='HC0' denies"),
    ({"stats": "f_pvalue", "absolute_sigma": True}, ValueError, "absolute_sigma=True denies"),
    ({"stats": "rho"}, ValueError, "rho: comes with cov_type='ar1' or noise='ar1'"),
    ({"stats": "r2"}, ValueError, "Choose from dof, rss"),
    ({"stats": "temporal_coherence"}, ValueError, "phases in radians.*'radians'"),
]


@pytest.mark.parametrize(("options", "error", "message"), METHODS, ids=str)
def test_ways_to_make_statistics_that_do_not_go_together_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    time = np.arange("2020-01", "2021-01", dtype="datetime64[M]").astype("datetime64[ns]")
    lazy = xr.DataArray(np.ones((12, 3)), {"time": time}, ("time", "x")).chunk(x=1)
    with pytest.raises(error, match=message):
        lazy.lstsq.solve("polynomial(1)", **options)
    with pytest.raises(error, match=message):
        lazy.lstsq.explain("polynomial(1)", **options)


@pytest.mark.parametrize("stats", ["cov", "conf_int"])
def test_names_of_the_dims_of_statistics_are_refused_where_the_cube_has_them(stats: str) -> None:
    name = {"cov": "param_2", "conf_int": "bound"}[stats]
    cube = xr.DataArray(np.ones((4, 3)), dims=("t", name))
    cube.lstsq.solve(np.ones((4, 1)), "t")
    with pytest.raises(LabelError, match=name):
        cube.lstsq.solve(np.ones((4, 1)), "t", stats=stats)
