"""What a fit looks like and what it remembers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import xr_lstsq
from xr_lstsq import design, fits, outputs
from xr_lstsq.errors import LabelError

TERMS = design.polynomial(1) + design.harmonics(1)


def cube(name: str | None = "lst", units: str | None = "degC") -> xr.DataArray:
    rng = np.random.default_rng(0)
    time = np.arange(np.datetime64("2010-01-01", "ns"), np.datetime64("2012-01-01", "ns"),
                     np.timedelta64(20, "D"))  # fmt: skip
    values = rng.normal(size=(time.size, 2, 3))
    values[3, 0, 1] = np.nan
    array = xr.DataArray(
        values, {"time": time, "y": [1.0, 0.0], "crs": ((), 0, {"crs_wkt": "x"})},
        ("time", "y", "x"), name=name, attrs={"long_name": "surface temperature"},
    )  # fmt: skip
    if units is not None:
        array.attrs["units"] = units
    array.encoding = {"grid_mapping": "crs", "scale_factor": 0.01, "dtype": "int16"}
    return array


def test_a_fit_has_the_dtypes_dims_and_chunks_of_its_table() -> None:
    for lazy in (False, True):
        for dtype in ("float64", "float32"):
            given = cube(units="radians").chunk(x=2) if lazy else cube(units="radians")
            fit = given.lstsq.solve(TERMS, stats=outputs.STATS, dtype=dtype)
            pixels = ("y", "x")
            dims = {
                "param": ("param", *pixels),
                "bound": ("param", "bound", *pixels),
                "matrix": ("param", "param_2", *pixels),
                "pixel": pixels,
                "sample": given.dims,
            }
            assert list(fit) == [*outputs.ALWAYS, *outputs.STATS]
            computed = fit.compute()
            for name in fit:
                row = outputs.OUTPUTS[name]
                assert fit[name].dims == dims[row.shape], name
                assert fit[name].dtype == outputs.dtype_of(row, dtype), name
                assert computed[name].dtype == fit[name].dtype, name
            assert fit["bound"].values.tolist() == ["lower", "upper"]
            assert fit["param_2"].values.tolist() == fit["param"].values.tolist()


def test_only_values_along_the_samples_carry_their_coordinates() -> None:
    assert "time" not in cube().lstsq.solve(TERMS).coords
    fit = cube().lstsq.solve(TERMS, stats="residual")
    assert "time" in fit["residual"].coords
    assert "time" not in fit["coef"].coords


def test_attributes_and_encoding_are_those_of_the_fit() -> None:
    fit = cube().lstsq.solve(TERMS, stats=("residual", "fitted", "rss", "rmse"))
    assert fit["param_units"].values.tolist() == ["degC", "K year-1", "K", "K"]
    assert "units" not in fit["coef"].attrs
    assert fit["fitted"].attrs == {"long_name": "surface temperature", "units": "degC"}
    assert fit["rss"].attrs["units"] == "K2"
    for name in fit.data_vars:
        assert fit[name].encoding == {"grid_mapping": "crs"}, name
        assert "grid_mapping" not in fit[name].attrs, name


def test_coefficients_that_share_their_units_say_them() -> None:
    fit = cube(units="K").lstsq.solve(design.harmonics(1, 2))
    assert fit["coef"].attrs["units"] == "K"


def test_weighted_sums_of_squares_have_no_units_of_the_cube() -> None:
    weights = xr.DataArray(np.ones(2), dims="y")
    fit = cube().lstsq.solve(TERMS, stats=("rss", "rmse"), weights=weights)
    assert "units" not in fit["rss"].attrs
    assert "units" not in fit["rmse"].attrs


def test_a_cube_without_units_gives_none() -> None:
    fit = cube(units=None).lstsq.solve(TERMS, stats="rss")
    assert "param_units" not in fit.coords
    assert "units" not in fit["rss"].attrs
    assert "units" not in fit.lstsq.params()["slope"].attrs


def test_a_fit_remembers_its_terms_and_arguments() -> None:
    valid = xr.ones_like(cube(), dtype=bool).rename("clear")
    fit = cube().lstsq.solve(TERMS, valid=valid, nodata=-1, min_obs=3, deficient="nan", rcond=1e-9)
    spec = json.loads(fit["coef"].attrs["lstsq"])
    assert json.loads(fit["param"].attrs["lstsq"]) == spec
    bound = design.from_json(spec["terms"])
    np.testing.assert_array_equal(
        bound.evaluate(cube()["time"]).matrix, TERMS.evaluate(cube()["time"]).matrix
    )
    assert (spec["dim"], spec["param_dim"], spec["variable"]) == ("time", "param", "lst")
    assert spec["xr_lstsq"] == xr_lstsq.__version__
    assert spec["arguments"] == {
        "weights": None, "valid": "clear", "nodata": [-1.0], "min_obs": 3, "deficient": "nan",
        "rcond": 1e-9, "dtype": "float64", "cov_type": "nonrobust", "maxlags": None,
        "absolute_sigma": False, "noise": None, "level": 0.95,
    }  # fmt: skip


def test_the_specification_survives_arithmetic_on_the_param_coordinate() -> None:
    fit = cube().lstsq.solve(TERMS)
    assert "lstsq" in (fit["coef"] * 2)["param"].attrs


def test_a_matrix_is_kept_with_the_fit() -> None:
    columns = np.c_[np.ones(37), np.arange(37.0)]
    fit = cube().lstsq.solve(columns, stats="residual")
    assert fit["design_matrix"].dims == ("time", "param")
    np.testing.assert_array_equal(fit["design_matrix"], columns)
    assert "time" not in cube().lstsq.solve(columns)["design_matrix"].coords
    spec = json.loads(fit["coef"].attrs["lstsq"])
    assert spec["terms"] == {"term": "matrix", "variable": "design_matrix"}


def test_a_design_per_pixel_is_told_and_not_copied_into_the_fit() -> None:
    columns = xr.DataArray(
        np.random.default_rng(0).normal(size=(37, 2, 3)), dims=("time", "param", "x")
    )
    fit = cube().lstsq.solve(columns, "time")
    assert "design_matrix" not in fit
    spec = json.loads(fit["coef"].attrs["lstsq"])
    assert spec["terms"] == {"term": "matrix", "pixel_dims": ["x"]}


def test_params_are_variables_with_their_own_units() -> None:
    found = cube().lstsq.solve(TERMS).lstsq.params()
    assert list(found) == ["intercept", "slope", "cos_1", "sin_1"]
    assert found["slope"].attrs == {"long_name": "rate of change", "units": "K year-1"}
    assert found["intercept"].attrs == {"long_name": "value at 2000-01-01", "units": "degC"}
    assert found["slope"].encoding == {"grid_mapping": "crs"}
    assert "param" not in found.coords
    np.testing.assert_array_equal(
        found["slope"], cube().lstsq.solve(TERMS)["coef"].sel(param="slope")
    )


def test_params_of_a_plain_matrix_are_numbered() -> None:
    found = cube().lstsq.solve(np.ones((37, 1))).lstsq.params()
    assert list(found) == ["param_0"]


def test_a_param_called_like_a_coordinate_is_refused() -> None:
    columns = xr.DataArray(np.ones((37, 1)), {"param": ["y"]}, ("time", "param"))
    with pytest.raises(LabelError, match="the param 'y' is called like a coordinate"):
        cube().lstsq.solve(columns).lstsq.params()


def test_variables_in_other_units_have_their_own() -> None:
    cubes = xr.Dataset({"lst": cube(), "uplift": cube("uplift", "mm")}, attrs={"title": "T"})
    fit = cubes.lstsq.solve(TERMS)
    assert fit.attrs == {"title": "T"}
    assert fit["uplift_param_units"].values.tolist()[:2] == ["mm", "mm year-1"]
    assert fit["lst_param_units"].values.tolist()[:2] == ["degC", "K year-1"]
    found = fit.lstsq.params()
    assert found["uplift_slope"].attrs["units"] == "mm year-1"
    assert found["lst_slope"].attrs["units"] == "K year-1"
    assert json.loads(fit["param"].attrs["lstsq"])["variable"] is None
    assert json.loads(fit["uplift_coef"].attrs["lstsq"])["variable"] == "uplift"
    same = xr.Dataset({"a": cube("a"), "b": cube("b")}).lstsq.solve(TERMS)
    assert "param_units" in same.coords


def test_a_grid_mapping_among_the_variables_becomes_a_coordinate() -> None:
    cubes = cube().to_dataset().reset_coords("crs")
    fit = cubes.lstsq.solve(TERMS)
    assert "crs" in fit.coords
    assert fit["lst_coef"].encoding == {"grid_mapping": "crs"}


def test_a_fit_is_stored_in_the_type_asked_for(tmp_path: Path) -> None:
    fit = cube().lstsq.solve(TERMS)
    for store, dtype in ((None, np.float64), ("float32", np.float32)):
        fit.lstsq.to_netcdf(tmp_path / "fit.nc", store=store)
        with xr.open_dataset(tmp_path / "fit.nc") as stored:
            assert stored["coef"].dtype == dtype
            np.testing.assert_array_equal(stored["coef"], fit["coef"].astype(dtype))


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (xr.Dataset({"a": ("x", [1.0])}), r"variables \['a'\] is no fit"),
        (xr.DataArray([1.0], name="a"), "is for a fit, which is a Dataset, and 'a' is a DataArray"),
    ],
)
def test_what_is_no_fit_says_so(obj: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        obj.lstsq.params()


def test_errors_say_what_they_are_and_belong_to_the_coefficients() -> None:
    stats = ("stderr", "conf_int", "cov", "tvalue", "pvalue", "rsquared", "resid_std", "dof")
    fit = cube().lstsq.solve(TERMS, stats=stats)
    assert fit["coef"].attrs["ancillary_variables"] == "stderr status nobs"
    assert fit["stderr"].attrs["standard_name"] == "standard_error"
    assert fit["nobs"].attrs["standard_name"] == "number_of_observations"
    assert fit["status"].attrs["standard_name"] == "status_flag"
    assert fit["stderr"]["param_units"].values.tolist() == ["degC", "K year-1", "K", "K"]
    for name in ("tvalue", "pvalue", "rsquared", "dof"):
        assert fit[name].attrs["units"] == "1", name
    assert fit["resid_std"].attrs["units"] == "K"
    for name in stats:
        assert fit[name].attrs["long_name"], name
        assert fit[name].encoding == {"grid_mapping": "crs"}, name
    alike = cube(units="degC").lstsq.solve("polynomial(0)", stats=("stderr", "conf_int"))
    assert alike["coef"].attrs["units"] == alike["conf_int"].attrs["units"] == "degC"
    assert alike["stderr"].attrs["units"] == "K"
    both = xr.Dataset({"a": cube("a"), "b": cube("b")}).lstsq.solve(TERMS, stats="stderr")
    assert both["b_coef"].attrs["ancillary_variables"] == "b_stderr b_status b_nobs"


def test_a_fit_remembers_what_predictions_need() -> None:
    fit = cube().lstsq.solve(TERMS, stats="cov", cov_type="HAC", maxlags=2, level=0.9)
    [(_, _, spec)] = fits.coefficients(fit)
    assert spec["dims"] == list(cube().dims)
    assert spec["attrs"] == {"long_name": "surface temperature", "units": "degC"}
    first, last = (np.datetime64(label) for label in spec["span"])
    assert first == cube()["time"].values.min()
    assert last == cube()["time"].values.max()
    method = {"cov_type": "HAC", "maxlags": 2, "absolute_sigma": False, "noise": None, "level": 0.9}
    assert {name: spec["arguments"][name] for name in method} == method


def test_fits_are_found_when_their_variables_have_lost_their_attributes() -> None:
    fit = xr.Dataset({"a": cube("a"), "b": cube("b", "mm")}).lstsq.solve(TERMS)
    want = [(name, spec) for name, _, spec in fits.coefficients(fit)]
    bare = fit.copy()
    for variable in bare.data_vars.values():
        variable.attrs = {}
    assert [(name, spec) for name, _, spec in fits.coefficients(bare)] == want
    assert [name for name, _, _ in fits.coefficients(bare[["b_coef"]])] == ["b_coef"]


def test_a_fit_with_every_statistic_comes_back_from_its_file(tmp_path: Path) -> None:
    fit = cube(units="radians").lstsq.solve(TERMS, stats=outputs.STATS)
    fit.lstsq.to_netcdf(tmp_path / "fit.nc")
    with xr.open_dataset(tmp_path / "fit.nc", decode_coords="all") as back:
        xr.testing.assert_equal(back.load(), fit)
