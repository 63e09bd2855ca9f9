"""Linear combinations of params, against statsmodels pixel by pixel."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import cftime
import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from tests import oracle
from tests.fitted import (
    EMPTY,
    SHORT,
    TERMS,
    columns,
    in_chunks,
    make_cube,
    make_fit,
    make_weights,
    years,
)
from xr_lstsq import design
from xr_lstsq.errors import LabelError
from xr_lstsq.inference.distributions import quantile, two_sided
from xr_lstsq.inference.products import weigh

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("intercept", "slope", "cos_1", "sin_1")


def pixels(cube: xr.DataArray) -> Iterator[tuple[int, int]]:
    """Return the places of the pixels that have noise to tell of."""
    return (p for p in np.ndindex(*cube.shape[1:]) if p not in (EMPTY, SHORT))


def refit(cube: xr.DataArray, place: tuple[int, int], weights: xr.DataArray | None = None) -> Any:
    """Return statsmodels' model of one pixel, its missing rows dropped."""
    y, a = cube.values[:, *place], columns(cube["time"])
    w = None if weights is None else weights.values[:, *place]
    keep = oracle.valid_rows(y, a, w)
    return sm.WLS(y[keep], a[keep], 1.0 if w is None else w[keep])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "factors",
    [{"slope": 10}, {"sin_1": -0.5}, {"cos_1": 1, "sin_1": -2.5}, dict.fromkeys(NAMES, 0.25)],
    ids=str,
)
@pytest.mark.parametrize("level", [0.95, 0.5])
def test_estimates_errors_tests_and_intervals_are_those_of_statsmodels(
    factors: dict[str, float], weighted: bool, level: float
) -> None:
    cube = make_cube()
    weights = make_weights(cube) if weighted else None
    found = make_fit(cube, weights=weights).lstsq.contrast(factors, level)
    row = [factors.get(name, 0.0) for name in NAMES]
    for place in pixels(cube):
        test = refit(cube, place, weights).fit().t_test(row)
        for name, value in {
            "estimate": test.effect.item(),
            "stderr": test.sd.item(),
            "tvalue": test.tvalue.item(),
            "pvalue": test.pvalue.item(),
        }.items():
            np.testing.assert_allclose(found[name][place], value, rtol=1e-9, err_msg=name)
        ends = test.conf_int(alpha=1 - level)[0]
        np.testing.assert_allclose(found["conf_int"][:, *place], ends, rtol=1e-9)


def test_one_param_needs_only_its_standard_error() -> None:
    fit = make_fit(make_cube())
    whole, part = fit.lstsq.contrast({"slope": -10}), fit.drop_vars("cov")
    xr.testing.assert_allclose(part.lstsq.contrast({"slope": -10}), whole, rtol=1e-12)
    # Params with the factor 0 do not count.
    xr.testing.assert_allclose(
        part.lstsq.contrast({"intercept": 0, "slope": -10}), whole, rtol=1e-12
    )
    xr.testing.assert_allclose(
        fit.drop_vars("stderr").lstsq.contrast({"slope": -10}), whole, rtol=1e-12
    )


def test_a_pixel_without_noise_to_measure_has_an_estimate_and_no_test() -> None:
    found = make_fit(make_cube()).lstsq.contrast({"slope": 1, "cos_1": 1})
    assert np.isfinite(found["estimate"][SHORT])
    for name in ("stderr", "tvalue", "pvalue", "conf_int"):
        assert np.isnan(found[name][..., *SHORT]).all(), name
    for name in found:
        assert np.isnan(found[name][..., *EMPTY]).all(), name


def test_known_variances_give_the_normal_distribution() -> None:
    cube = make_cube()
    weights = make_weights(cube)
    fit = make_fit(cube, weights=weights, absolute_sigma=True)
    found = fit.lstsq.contrast({"slope": 10, "cos_1": 2})
    t = make_fit(cube, weights=weights).lstsq.contrast({"slope": 10, "cos_1": 2})
    row = np.array([0, 10, 2, 0.0])
    for place in [*pixels(cube), SHORT]:
        y, a, w = cube.values[:, *place], columns(cube["time"]), weights.values[:, *place]
        keep = oracle.valid_rows(y, a, w)
        root = np.linalg.pinv(a[keep] * np.sqrt(w[keep])[:, None])
        stderr = np.linalg.norm(row @ root)
        estimate = row @ root @ (y[keep] * np.sqrt(w[keep]))
        np.testing.assert_allclose(found["estimate"][place], estimate, rtol=1e-9)
        np.testing.assert_allclose(found["stderr"][place], stderr, rtol=1e-9)
        p = 2 * scipy.stats.norm.sf(abs(estimate / stderr))
        np.testing.assert_allclose(found["pvalue"][place], p, rtol=1e-8, atol=1e-300)
        ends = scipy.stats.norm.interval(0.95, estimate, stderr)
        np.testing.assert_allclose(found["conf_int"][:, *place], ends, rtol=1e-9)
    # The option acts, and far beyond rounding
    assert abs(found["stderr"] / t["stderr"] - 1).max() > 0.01


def test_autocorrelated_noise_counts_the_samples_that_are_independent() -> None:
    cube = make_cube()
    fit = make_fit(cube, cov_type="ar1")
    fit["n_eff"] = fit["nobs"] * 0.41
    found = fit.lstsq.contrast({"slope": 10})
    dof = fit["n_eff"].values - 4
    expected = 2 * scipy.stats.t.sf(abs(found["tvalue"].values), np.where(dof > 0, dof, np.nan))
    np.testing.assert_allclose(found["pvalue"], expected, rtol=1e-9)
    assert (dof <= 0).any()
    assert np.isnan(found["stderr"].values[dof <= 0]).all()
    with pytest.raises(ValueError, match=r"needs 'n_eff', which the fit does not have"):
        fit.drop_vars("n_eff").lstsq.contrast({"slope": 10})


def test_a_robust_covariance_is_the_one_that_counts() -> None:
    cube = make_cube()
    fit = make_fit(cube)
    robust = fit.drop_vars("stderr").copy(deep=True)
    models = {place: refit(cube, place).fit(cov_type="HC3", use_t=True) for place in pixels(cube)}
    for place, model in models.items():
        robust["cov"][:, :, *place] = model.cov_params()
    found = robust.lstsq.contrast({"slope": 10, "sin_1": 1})
    for place, model in models.items():
        test = model.t_test([0, 10, 0, 1])
        np.testing.assert_allclose(found["pvalue"][place], test.pvalue.item(), rtol=1e-9)
    plain = fit.lstsq.contrast({"slope": 10, "sin_1": 1})["stderr"]
    assert abs(found["stderr"] / plain - 1).max() > 0.01


def test_nothing_over_nothing_is_no_test() -> None:
    cube = make_cube()
    fit = make_fit(cube)
    fit["stderr"][:, 0, 0] = 0.0
    fit["coef"][1, 0, 0] = 0.0
    found = fit.lstsq.contrast({"slope": 10})
    assert np.isnan(found["tvalue"][0, 0])
    assert np.isnan(found["pvalue"][0, 0])
    other = fit.lstsq.contrast({"cos_1": 10})
    assert np.isinf(other["tvalue"][0, 0])
    assert other["pvalue"][0, 0] == 0
    nothing = fit.lstsq.contrast({"slope": 0})
    assert (nothing["estimate"].values[1, :2] == 0).all()
    assert np.isnan(nothing["tvalue"]).all()


def test_a_variance_below_zero_by_rounding_is_zero() -> None:
    fit = make_fit(make_cube())
    fit["cov"][:, :, 0, 0] = np.array([[1, -1 - 1e-15], [-1 - 1e-15, 1]])[0, 0]
    fit["cov"][2:, 2:, 0, 0] = [[1, -1 - 1e-15], [-1 - 1e-15, 1]]
    assert fit.lstsq.contrast({"cos_1": 1, "sin_1": 1})["stderr"][0, 0] == 0


# --- ready-made combinations --------------------------------------------------------------------


@pytest.mark.parametrize("degree", [1, 2, 4])
@pytest.mark.parametrize("origin", [None, "2016-01-01", "first", "1900-05-06"])
@pytest.mark.parametrize("alone", [False, True])
def test_the_mean_rate_is_that_between_the_first_and_the_last_sample(
    degree: int, origin: str | None, alone: bool
) -> None:
    cube = make_cube()
    term: Any = design.polynomial(degree, origin=origin, name="trend")
    fit = make_fit(cube, term if alone else design.harmonics(1) + term)
    found = fit.lstsq.contrast("mean_rate")["estimate"]
    coef = fit["coef"].sel(param=[n for n in fit["param"].values if n.startswith("trend_")])
    start = {None: "2000-01-01", "first": str(cube["time"].values[0])}.get(origin, origin)
    first, last = (exact_years(cube["time"].values[i], start) for i in (0, -1))
    for place in pixels(cube):
        x = [Fraction(float(c)) for c in coef.values[:, *place]]
        value = [sum(c * t**k for k, c in enumerate(x)) for t in (first, last)]
        expected = float((value[1] - value[0]) / (last - first))
        size = sum(abs(float(c * k * last ** (k - 1))) for k, c in enumerate(x) if k)
        np.testing.assert_allclose(found[place], expected, rtol=1e-12, atol=1e-14 * size)
    if degree == 1:
        np.testing.assert_array_equal(found, coef.sel(param="trend_slope"))


def exact_years(date: Any, origin: str | None) -> Fraction:
    """Return a date as years since an origin, without rounding."""
    ns = np.datetime64(date, "ns").astype(int) - np.datetime64(origin, "ns").astype(int)
    return Fraction(int(ns), 36525 * 24 * 36 * 10**9)


def test_the_error_of_the_mean_rate_is_that_of_its_own_combination() -> None:
    cube = make_cube()
    fit = make_fit(cube, design.polynomial(2))
    first, last = years(cube["time"].values[[0, -1]])
    same = {"slope": 1, "degree_2": first + last}
    xr.testing.assert_allclose(
        fit.lstsq.contrast("mean_rate"), fit.lstsq.contrast(same), rtol=1e-12
    )


def test_acceleration_is_twice_the_second_degree_and_grows_with_the_third() -> None:
    cube = make_cube()
    fit = make_fit(cube, design.polynomial(2))
    np.testing.assert_array_equal(
        fit.lstsq.contrast("acceleration")["estimate"], 2 * fit["coef"].sel(param="degree_2")
    )
    fit = make_fit(cube, design.polynomial(3))
    first, last = years(cube["time"].values[[0, -1]])
    same = {"degree_2": 2, "degree_3": 3 * (first + last)}
    xr.testing.assert_allclose(
        fit.lstsq.contrast("acceleration"), fit.lstsq.contrast(same), rtol=1e-12
    )


def test_ready_made_combinations_know_numbers_and_other_calendars() -> None:
    cube = make_cube()
    numbers = cube.assign_coords(time=("time", np.linspace(3, 8, 40), {"units": "km"}))
    found = make_fit(numbers, design.polynomial(2)).lstsq.contrast("mean_rate")
    same = make_fit(numbers, design.polynomial(2)).lstsq.contrast({"slope": 1, "degree_2": 11})
    np.testing.assert_allclose(found["estimate"], same["estimate"], rtol=1e-12)
    assert found["estimate"].attrs["units"] == "K km-1"
    dates = [cftime.datetime(2000 + k, 2, 30, calendar="360_day") for k in range(40)]
    old = cube.assign_coords(time=dates)
    fit = make_fit(old, design.polynomial(2, origin="2000-02-30"))
    same = fit.lstsq.contrast({"slope": 1, "degree_2": 39})
    np.testing.assert_allclose(
        fit.lstsq.contrast("mean_rate")["estimate"], same["estimate"], rtol=1e-12
    )


@pytest.mark.parametrize(
    ("combination", "factor"), [("mean_rate", "year-1"), ("acceleration", "year-2")]
)
def test_ready_made_combinations_know_their_units(combination: str, factor: str) -> None:
    found = make_fit(make_cube(), design.polynomial(2)).lstsq.contrast(combination)
    for name in ("estimate", "stderr", "conf_int"):
        assert found[name].attrs["units"] == f"K {factor}", name
    assert "from 2012-03-09 to 2020-01-26" in found["estimate"].attrs["long_name"]


# --- labels -------------------------------------------------------------------------------------


def test_units_are_there_where_all_params_share_them() -> None:
    fit = make_fit(make_cube())
    for factors, units, error in (
        ({"slope": 10}, "K year-1", "K year-1"),
        ({"cos_1": 1, "sin_1": -3}, "K", "K"),
        ({"intercept": 1}, "degC", "K"),
        ({"intercept": 2}, None, None),
        ({"slope": 10, "cos_1": 1}, None, None),
    ):
        found = fit.lstsq.contrast(factors)
        assert found["estimate"].attrs.get("units") == units, factors
        assert found["conf_int"].attrs.get("units") == units, factors
        assert found["stderr"].attrs.get("units") == error, factors
        assert found["pvalue"].attrs["units"] == "1"
    two = design.polynomial(0, name="a") + design.polynomial(0, name="b", origin="2016-01-01")
    found = make_fit(make_cube(), two).lstsq.contrast({"a_intercept": 1, "b_intercept": -1})
    assert found["estimate"].attrs["units"] == "K"


def test_coordinates_grid_mapping_and_names_are_those_of_the_fit() -> None:
    fit = make_fit(make_cube())
    found = fit.lstsq.contrast({"slope": 10, "cos_1": -1, "sin_1": 0.5})
    assert set(found.coords) == {"y", "x", "lat", "spatial_ref", "bound"}
    for name in ("y", "x", "lat", "spatial_ref"):
        xr.testing.assert_identical(found[name], fit["nobs"][name])
    assert found["conf_int"].dims == ("bound", "y", "x")
    assert found["bound"].values.tolist() == ["lower", "upper"]
    assert found.attrs == {"title": "made by hand"}
    for name in found:
        assert found[name].encoding == {"grid_mapping": "spatial_ref"}, name
        assert "10 slope - cos_1 + 0.5 sin_1 of lst" in found[name].attrs["long_name"], name
    assert "95 % confidence interval" in found["conf_int"].attrs["long_name"]


def test_a_fit_of_a_dataset_has_its_prefix() -> None:
    cubes = {name: make_cube(seed=seed, name=name) for seed, name in enumerate(("lst", "ndvi"))}
    parts = {name: make_fit(cube, prefix=f"{name}_") for name, cube in cubes.items()}
    found = xr.merge(parts.values(), compat="override", join="exact").lstsq.contrast({"slope": 10})
    assert set(found) == {
        f"{name}_{key}"
        for name in cubes
        for key in ("estimate", "stderr", "tvalue", "pvalue", "conf_int")
    }
    for name, cube in cubes.items():
        alone = make_fit(cube).lstsq.contrast({"slope": 10})
        for key in alone:
            np.testing.assert_array_equal(found[f"{name}_{key}"], alone[key])
    assert "of ndvi" in found["ndvi_estimate"].attrs["long_name"]


def test_the_answer_has_the_dtype_of_the_fit() -> None:
    fit = make_fit(make_cube())
    low = fit.assign({name: fit[name].astype("f4") for name in ("coef", "cov", "stderr")})
    found = low.lstsq.contrast({"slope": 10, "cos_1": 1})
    assert {array.dtype for array in found.data_vars.values()} == {np.dtype("f4")}
    np.testing.assert_allclose(
        found["estimate"], fit.lstsq.contrast({"slope": 10, "cos_1": 1})["estimate"], rtol=1e-4
    )


def test_a_selection_of_params_is_enough_for_its_own_combinations() -> None:
    fit = make_fit(make_cube())
    whole = fit.lstsq.contrast({"slope": 10})
    for part in (fit.sel(param=["sin_1", "slope"]), fit.sel(param="slope")):
        for given_fit in (part, part.drop_vars("stderr")):
            xr.testing.assert_allclose(given_fit.lstsq.contrast({"slope": 10}), whole, rtol=1e-12)
    both = {"slope": 10, "sin_1": 1}
    xr.testing.assert_identical(
        fit.isel(param=[3, 1, 0, 2]).lstsq.contrast(both), fit.lstsq.contrast(both)
    )


@pytest.mark.parametrize("combination", [{"slope": 10}, {"slope": 10, "cos_1": 1}, "mean_rate"])
def test_a_cube_of_one_pixel_has_no_pixel_dims(combination: Any) -> None:
    cube = make_cube()
    whole = make_fit(cube).lstsq.contrast(combination)
    found = make_fit(cube.isel(y=0, x=3)).lstsq.contrast(combination)
    assert found["conf_int"].dims == ("bound",)
    xr.testing.assert_allclose(found, whole.isel(y=0, x=3), rtol=1e-12)


def test_a_lazy_fit_gives_a_lazy_answer_in_its_chunks() -> None:
    fit = make_fit(make_cube())
    lazy = in_chunks(fit, x=2, y=1, param=1)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("computed")

    import dask

    for combination in ({"slope": 10, "cos_1": 1}, {"slope": 10}, "mean_rate"):
        with dask.config.set(scheduler=refuse):
            found = lazy.lstsq.contrast(combination)
        for array in found.data_vars.values():
            assert array.chunks[-2:] == ((1, 1), (2, 2))
        xr.testing.assert_allclose(found.compute(), fit.lstsq.contrast(combination), rtol=1e-12)


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "combination", "message"),
    [
        (
            TERMS,
            {"rate": 1},
            r"\['rate'\], which the fit of lst does not have. It has 'intercept', ",
        ),
        (TERMS, {"slope": np.inf}, r"factors of \['slope'\] that are not finite numbers"),
        (TERMS, {"slope": "10"}, "not finite numbers"),
        (TERMS, {"slope": True}, "not finite numbers"),
        (TERMS, {}, "neither a mapping of param name to factor, .* nor one of 'mean_rate', 'acc"),
        (TERMS, 10, "neither a mapping of param name to factor"),
        (TERMS, "rate", "'rate' is not known. Choose from 'mean_rate', 'acceleration', or pass"),
        (TERMS, "slope", r"Of the param write \{'slope': 1\}"),
        (TERMS, "acceleration", "needs a polynomial of degree 2 or more, and polynomial.1"),
        (design.polynomial(0), "mean_rate", "needs a polynomial of degree 1 or more"),
        (design.harmonics(1), "mean_rate", "with 0 polynomials. Pass a mapping"),
        (TERMS + design.polynomial(1, name="b"), "mean_rate", "with 2 polynomials. Pass a"),
        (columns(make_cube()["time"]), "mean_rate", "one polynomial, and the design of lst is a m"),
    ],
)
def test_a_combination_that_is_none_is_refused(term: Any, combination: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_fit(make_cube(), term).lstsq.contrast(combination)


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, np.nan, "0.9", None])
def test_a_level_is_between_0_and_1(level: Any) -> None:
    with pytest.raises(ValueError, match=r"level=.* is not between 0 and 1"):
        make_fit(make_cube()).lstsq.contrast({"slope": 10}, level)


def test_a_fit_without_what_a_test_is_made_of_says_what_to_ask_for() -> None:
    fit = make_fit(make_cube(), prefix="lst_").drop_vars(["lst_cov"])
    with pytest.raises(
        ValueError, match=r"'lst_cov', which the .* Solve with stats=\(\"cov\",\)\."
    ):
        fit.lstsq.contrast({"slope": 1, "cos_1": 1})
    with pytest.raises(ValueError, match=r"stats=\(\"cov\",\), or stats=\(\"stderr\",\) for one"):
        fit.drop_vars("lst_stderr").lstsq.contrast({"slope": 1})
    with pytest.raises(ValueError, match=r"needs 'lst_rank', .* Keep it with the fit"):
        fit.drop_vars("lst_rank").lstsq.contrast({"slope": 1})


def test_the_dates_of_the_samples_are_needed_for_a_mean_rate() -> None:
    fit = make_fit(make_cube().isel(time=slice(0, None)))
    text = (
        fit["coef"].attrs["lstsq"].replace('"span": ["2012-03-09", "2020-01-26"]', '"span": null')
    )
    fit["coef"].attrs["lstsq"] = text
    with pytest.raises(ValueError, match="needs the dates of the samples, and the fit had none"):
        fit.lstsq.contrast("mean_rate")
    part = make_fit(make_cube(), design.polynomial(2)).sel(param=["intercept", "slope"])
    with pytest.raises(ValueError, match=r"has not \['degree_2'\]. Call it on the fit before"):
        part.lstsq.contrast("mean_rate")


def test_a_coordinate_called_like_the_answer_is_refused() -> None:
    fit = make_fit(make_cube()).assign_coords(estimate=1)
    with pytest.raises(LabelError, match=r"coordinates or dims called \['estimate'\]"):
        fit.lstsq.contrast({"slope": 1})


@pytest.mark.parametrize("obj", [xr.Dataset({"a": ("x", [1.0])}), xr.DataArray([1.0], name="a")])
def test_what_is_no_fit_says_so(obj: Any) -> None:
    with pytest.raises(ValueError, match=r"is no fit|is for a fit"):
        obj.lstsq.contrast({"slope": 1})


# --- parts --------------------------------------------------------------------------------------


@given(
    dof=st.floats(0.1, 500),
    level=st.floats(0.01, 0.999),
    t=st.floats(-60, 60),
)
def test_tails_and_quantiles_are_those_of_scipy(dof: float, level: float, t: float) -> None:
    at = np.array([t]), np.array([dof])
    expected = 2 * scipy.stats.t.sf(abs(t), dof)
    np.testing.assert_allclose(two_sided(*at), expected, rtol=1e-10)
    np.testing.assert_allclose(
        quantile(at[1], level), scipy.stats.t.ppf((1 + level) / 2, dof), rtol=1e-9
    )
    np.testing.assert_allclose(two_sided(at[0], None), 2 * scipy.stats.norm.sf(abs(t)), rtol=1e-10)
    np.testing.assert_allclose(quantile(None, level), scipy.stats.norm.ppf((1 + level) / 2))


@given(
    seed=st.integers(0, 100),
    dims=st.permutations(["param", "param_2", "y", "x"]),
    pixelwise=st.booleans(),
    chunks=st.sampled_from([None, 1, 2]),
)
def test_sums_over_params_are_einsum_for_any_order_of_dims_and_chunks(
    seed: int, dims: list[str], pixelwise: bool, chunks: int | None
) -> None:
    rng = np.random.default_rng(seed)
    sizes = {"param": 3, "param_2": 2, "y": 4, "x": 5}
    values = xr.DataArray(rng.normal(size=[sizes[d] for d in dims]), dims=dims)
    first = xr.DataArray(rng.normal(size=(6, 3)), dims=("time", "param"))
    second = xr.DataArray(rng.normal(size=(2, 6)), dims=("param_2", "time"))
    if pixelwise:
        first = first * xr.DataArray(rng.normal(size=5), dims="x")
    letters = {"param": "p", "param_2": "q", "y": "y", "x": "x", "time": "t"}
    inputs = ["".join(letters[str(d)] for d in a.dims) for a in (values, first, second)]
    expected = np.einsum(f"{','.join(inputs)}->tyx", values.values, first.values, second.values)
    lazy = values if chunks is None else values.chunk(dict.fromkeys(dims, chunks))
    found = weigh(lazy, ["param", "param_2"], first, second).transpose("time", "y", "x")
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert (found.chunks is None) == (chunks is None)
