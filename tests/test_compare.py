"""Nested models against each other, against statsmodels pixel by pixel."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.fitted import EMPTY, SHORT, TERMS, columns, make_cube, make_fit, make_weights
from xr_lstsq import design
from xr_lstsq.errors import LabelError

LINE = design.polynomial(1)
RESULTS = ("fvalue", "pvalue", "aic_difference")


def respecify(fit: xr.Dataset, **changes: Any) -> xr.Dataset:
    """Return a fit whose specification says something else."""
    fit = fit.copy()
    spec = json.loads(fit["coef"].attrs["lstsq"])
    for key, value in changes.items():
        (spec if key in spec else spec["arguments"])[key] = value
    fit["coef"].attrs["lstsq"] = json.dumps(spec)
    return fit


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cycles", [1, 2])
def test_f_its_p_value_and_aic_are_those_of_statsmodels(weighted: bool, cycles: int) -> None:
    cube = make_cube()
    weights = make_weights(cube) if weighted else None
    large = make_fit(cube, LINE + design.harmonics(1, cycles), weights)
    found = large.lstsq.compare(make_fit(cube, LINE, weights))
    a = columns(cube["time"], cycles=cycles)
    for place in np.ndindex(2, 4):
        if place in (EMPTY, SHORT):
            continue
        y, w = cube.values[:, *place], None if weights is None else weights.values[:, *place]
        keep = oracle.valid_rows(y, a, w)
        wide, narrow = (
            sm.WLS(y[keep], m[keep], 1.0 if w is None else w[keep]).fit() for m in (a, a[:, :2])
        )
        fvalue, pvalue, _ = wide.compare_f_test(narrow)
        np.testing.assert_allclose(found["fvalue"][place], fvalue, rtol=1e-9)
        np.testing.assert_allclose(found["pvalue"][place], pvalue, rtol=1e-9)
        np.testing.assert_allclose(found["aic_difference"][place], wide.aic - narrow.aic, rtol=1e-9)


def test_the_order_of_the_two_turns_only_the_sign_of_aic() -> None:
    cube = make_cube()
    large, small = make_fit(cube), make_fit(cube, LINE)
    one, two = large.lstsq.compare(small), small.lstsq.compare(large)
    for name in ("fvalue", "pvalue"):
        np.testing.assert_array_equal(one[name], two[name])
    np.testing.assert_array_equal(one["aic_difference"], -two["aic_difference"])


def test_a_pixel_without_an_answer_in_both_or_without_noise_left_is_nan() -> None:
    cube = make_cube()
    large, small = make_fit(cube), make_fit(cube, LINE)
    found = large.lstsq.compare(small)
    for name in RESULTS:
        assert np.isnan(found[name][EMPTY]), name
        assert np.isnan(found[name][SHORT]), name
        assert np.isnan(found[name]).sum() == 2, name
    # Deficient pixels that hold no answer
    hidden = small.copy(deep=True)
    hidden["rss"][0, 0] = np.nan
    assert np.isnan(large.lstsq.compare(hidden).to_dataarray()[:, 0, 0]).all()
    away = large.lstsq.compare(small.where(small["x"] > 0))
    assert np.isnan(away.to_dataarray()[:, :, 0]).all()
    np.testing.assert_array_equal(away["fvalue"][:, 1:], found["fvalue"][:, 1:])


def test_fits_of_other_samples_are_not_compared() -> None:
    cube = make_cube()
    large, small = make_fit(cube), make_fit(cube, LINE)
    small["nobs"][0, 0] -= 1
    found = large.lstsq.compare(small)
    assert np.isnan(found.to_dataarray()[:, 0, 0]).all()
    assert np.isfinite(found.to_dataarray()[:, 0, 2]).all()


def test_models_of_equal_rank_in_a_pixel_have_no_f_and_an_aic() -> None:
    cube = make_cube()
    yearly, other = make_fit(cube), make_fit(cube, LINE + design.harmonics(0.7))
    found = yearly.lstsq.compare(other)
    assert np.isnan(found["fvalue"]).all()
    assert np.isnan(found["pvalue"]).all()
    expected = yearly["nobs"] * np.log(yearly["rss"] / other["rss"])
    np.testing.assert_allclose(found["aic_difference"][0, 0], expected[0, 0], rtol=1e-12)
    assert np.isfinite(found["aic_difference"]).sum() == 6


def test_ranks_of_the_pixel_count_and_not_numbers_of_params() -> None:
    rng = np.random.default_rng(3)
    cube = make_cube()
    a = columns(cube["time"])
    # The third column adds nothing in any pixel, the fourth does.
    wide = np.column_stack([a[:, :2], a[:, 0] - a[:, 1], rng.normal(size=len(a))])
    found = make_fit(cube, wide).lstsq.compare(make_fit(cube, a[:, :2]))
    same = make_fit(cube, wide[:, [0, 1, 3]]).lstsq.compare(make_fit(cube, a[:, :2]))
    for name in RESULTS:
        np.testing.assert_allclose(found[name], same[name], rtol=1e-9)


def test_a_perfect_fit_is_infinitely_better() -> None:
    cube = make_cube()
    large, small = make_fit(cube), make_fit(cube, LINE)
    large["rss"][0, 0] = 0.0
    found = large.lstsq.compare(small)
    assert np.isposinf(found["fvalue"][0, 0])
    assert found["pvalue"][0, 0] == 0
    assert np.isneginf(found["aic_difference"][0, 0])


@settings(max_examples=12)
@given(seed=st.integers(0, 1000), scale=st.floats(1e-6, 1e6), shift=st.floats(-100, 100))
def test_neither_the_units_nor_what_both_models_hold_moves_a_test(
    seed: int, scale: float, shift: float
) -> None:
    cube = make_cube(n=12, seed=seed)
    small = columns(cube["time"])[:, :2]
    moved = cube * scale + shift * scale
    one, two = (make_fit(c).lstsq.compare(make_fit(c, LINE, matrix=small)) for c in (cube, moved))
    for name in RESULTS:
        # A few samples may be met to rounding.
        np.testing.assert_allclose(one[name], two[name], rtol=1e-5, atol=1e-8)


# --- labels -------------------------------------------------------------------------------------


def test_names_coordinates_and_attributes() -> None:
    cube = make_cube()
    fits = [make_fit(cube, term, prefix="lst_") for term in (TERMS, LINE)]
    found = fits[0].lstsq.compare(fits[1])
    assert list(found) == [f"lst_{name}" for name in RESULTS]
    assert set(found.coords) == {"y", "x", "lat", "spatial_ref"}
    for name in found.coords:
        xr.testing.assert_identical(found[name], fits[0]["lst_nobs"][name])
    assert found.attrs == {"title": "made by hand"}
    for name in found:
        assert found[name].dims == ("y", "x")
        assert found[name].encoding == {"grid_mapping": "spatial_ref"}
        assert found[name].attrs["units"] == "1"
    assert found["lst_fvalue"].attrs["long_name"] == (
        "F of the fit of lst with cos_1, sin_1 against the fit without"
    )
    assert "AIC of this fit of lst minus" in found["lst_aic_difference"].attrs["long_name"]


def test_pixels_are_matched_by_their_labels() -> None:
    cube = make_cube()
    large, small = make_fit(cube), make_fit(cube, LINE)
    expected = large.lstsq.compare(small)
    for same in (
        small.isel(x=[2, 0, 3, 1]),
        small.transpose(..., "x", "y"),
        small.assign_coords(x=small["x"].astype("f4")),
    ):
        xr.testing.assert_allclose(large.lstsq.compare(same), expected, rtol=1e-12)
    xr.testing.assert_allclose(
        large.isel(y=0).lstsq.compare(small.isel(y=0)), expected.isel(y=0), rtol=1e-12
    )


def test_a_cube_of_one_pixel_has_no_pixel_dims() -> None:
    cube = make_cube()
    whole = make_fit(cube).lstsq.compare(make_fit(cube, LINE))
    one = cube.isel(y=0, x=3)
    found = make_fit(one).lstsq.compare(make_fit(one, LINE))
    xr.testing.assert_allclose(found, whole.isel(y=0, x=3), rtol=1e-9)


def test_lazy_fits_give_a_lazy_answer_whatever_their_chunks() -> None:
    cube = make_cube()
    large, small = make_fit(cube), make_fit(cube, LINE)
    expected = large.lstsq.compare(small)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("computed")

    import dask

    for one, two in (
        (large.chunk(x=2), small.chunk(x=2)),
        (large.chunk(x=2), small.chunk(x=3, y=1)),
        (large.chunk(x=2), small),
        (large, small.chunk(y=1)),
    ):
        with dask.config.set(scheduler=refuse):
            found = one.lstsq.compare(two)
        assert all(array.chunks is not None for array in found.data_vars.values())
        xr.testing.assert_allclose(found.compute(), expected, rtol=1e-12)


def test_the_answer_has_the_dtype_of_the_fit() -> None:
    fit = make_fit(make_cube())
    fit["coef"] = fit["coef"].astype("f4")
    found = fit.lstsq.compare(make_fit(make_cube(), LINE))
    assert {array.dtype for array in found.data_vars.values()} == {np.dtype("f4")}


def test_known_variances_leave_the_test_as_it_is() -> None:
    cube = make_cube()
    one, two = (
        make_fit(cube, absolute_sigma=known).lstsq.compare(
            make_fit(cube, LINE, absolute_sigma=known)
        )
        for known in (False, True)
    )
    xr.testing.assert_identical(one, two)


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": "given"}, r"made with weights None and 'given'\. Models are compared on the "),
        ({"valid": "clear"}, "valid None and 'clear'"),
        ({"cov_type": "HC3"}, "cov_type 'nonrobust' and 'HC3'"),
        ({"noise": "ar1"}, "noise None and 'ar1'"),
        ({"variable": "ndvi"}, "variable 'lst' and 'ndvi'"),
        ({"dim": "date"}, "dim 'time' and 'date'"),
        ({"span": ["2001-01-01", "2002-01-01"]}, "span .*2020-01-26.* and .*2002-01-01"),
        ({"weights": "a", "noise": "ar1"}, "weights None and 'a'; noise None and 'ar1'"),
    ],
)
def test_fits_made_in_other_ways_are_refused(change: dict[str, Any], message: str) -> None:
    cube = make_cube()
    other = respecify(make_fit(cube, LINE), **change)
    with pytest.raises(ValueError, match=message):
        make_fit(cube).lstsq.compare(other)


def test_models_that_are_not_nested_are_refused() -> None:
    cube = make_cube()
    with pytest.raises(ValueError, match="neither is a part of the other: an F test needs nested"):
        make_fit(cube, LINE).lstsq.compare(make_fit(cube, design.harmonics(1)))
    # Called as part of the larger one, and none of it
    for period in (0.4, 3):
        small = make_fit(cube, LINE + design.harmonics(period))
        with pytest.raises(ValueError, match=r"no part of .* names of its params are"):
            make_fit(cube, LINE + design.harmonics(1, 2)).lstsq.compare(small)


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (LINE, design.polynomial(2)),
        (design.polynomial(1, unit="second"), design.polynomial(4)),
        (design.polynomial(3, origin="1850-01-01"), design.polynomial(6, origin="middle")),
        (design.harmonics(1, origin="2011-11-11"), design.harmonics(1, 3)),
        (design.harmonics(1), LINE + design.harmonics(1)),
        (design.harmonics(1), design.harmonics(1) + design.harmonics(0.01, name="fast")),
    ],
    ids=str,
)
def test_models_that_are_nested_in_other_units_or_origins_are_compared(
    small: design.Term, large: design.Term
) -> None:
    cube = make_cube()
    found = make_fit(cube, large).lstsq.compare(make_fit(cube, small))
    assert np.isfinite(found["fvalue"]).sum() >= 6


def test_other_pixels_or_variables_are_refused() -> None:
    cube = make_cube()
    large, small = make_fit(cube), make_fit(cube, LINE)
    with pytest.raises(LabelError, match="other has other labels along 'x'"):
        large.lstsq.compare(small.assign_coords(x=small["x"] + 10))
    with pytest.raises(LabelError, match="other has 3 labels along 'x' where"):
        large.lstsq.compare(small.isel(x=slice(3)))
    with pytest.raises(LabelError, match=r"pixel dims \('y', 'x'\) and \('x',\)"):
        large.lstsq.compare(small.isel(y=0))
    with pytest.raises(LabelError, match=r"the fits are at 'y' 50\.0 and 49\.0"):
        large.isel(y=0).lstsq.compare(small.isel(y=1))
    with pytest.raises(ValueError, match=r"\['coef'\] and \['lst_coef'\], which are not the same"):
        large.lstsq.compare(make_fit(cube, LINE, prefix="lst_"))


def test_a_fit_without_rss_says_what_to_ask_for() -> None:
    cube = make_cube()
    large, small = make_fit(cube), make_fit(cube, LINE)
    for one, two in ((large.drop_vars("rss"), small), (large, small.drop_vars("rss"))):
        with pytest.raises(ValueError, match=r"compare needs 'rss', .*stats=\(\"rss\",\)"):
            one.lstsq.compare(two)
    with pytest.raises(LabelError, match=r"called \['fvalue'\]"):
        large.assign_coords(fvalue=1).lstsq.compare(small)


def test_what_is_no_fit_says_so() -> None:
    fit = make_fit(make_cube())
    with pytest.raises(ValueError, match="other is a DataArray, and a fit is compared with a fit"):
        fit.lstsq.compare(fit["coef"])
    with pytest.raises(ValueError, match="is no fit"):
        fit.lstsq.compare(xr.Dataset({"a": 1}))
    with pytest.raises(ValueError, match="compare is for a fit"):
        fit["coef"].lstsq.compare(fit)
