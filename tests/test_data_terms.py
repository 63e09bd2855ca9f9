"""Terms that hold data: regressors, factors and spectra, against loops over pixels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr

from xr_lstsq import design
from xr_lstsq.design.registry import from_json
from xr_lstsq.errors import DtypeError, LabelError

N, SHAPE = 40, (3, 4)
TIME = np.datetime64("2015-01-10", "ns") + np.arange(N) * np.timedelta64(29, "D")
LINE = design.polynomial(1)


def make_cube(seed: int = 0) -> xr.DataArray:
    """Return noisy samples (time, y, x) with gaps."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(N, *SHAPE)) + 3.0
    y[rng.random(y.shape) < 0.3] = np.nan
    coords = {"time": TIME, "y": [3.0, 2.0, 1.0], "x": np.arange(4.0)}
    return xr.DataArray(y, coords, ("time", "y", "x"), name="level", attrs={"units": "mm"})


def series(seed: int = 1, **attrs: str) -> xr.DataArray:
    """Return a regressor (time,)."""
    values = np.random.default_rng(seed).normal(size=N)
    return xr.DataArray(values, {"time": TIME}, ("time",), name="warmth", attrs=attrs)


def field(seed: int = 2) -> xr.DataArray:
    """Return a regressor (y, time, x), in an order of its own."""
    cube = make_cube()
    values = np.random.default_rng(seed).normal(size=cube.shape)
    array = xr.DataArray(values, cube.coords, cube.dims, name="warmth", attrs={"units": "K"})
    return array.transpose("y", "time", "x")


def loop(cube: xr.DataArray, *columns: Any) -> np.ndarray:
    """Return coefficients (p, y, x) of a line and these columns, each (time,) or (time, y, x)."""
    line = LINE.evaluate(cube["time"]).matrix
    rows = [np.broadcast_to(line[:, k, None, None], cube.shape) for k in range(2)]
    rows += [
        np.broadcast_to(c if np.ndim(c) == 3 else np.asarray(c)[:, None, None], cube.shape)
        for c in columns
    ]
    found = np.full((len(rows), *SHAPE), np.nan)
    for place in np.ndindex(SHAPE):
        own = np.array([part[:, *place] for part in rows]).T
        y = cube.values[:, *place]
        there = np.isfinite(y) & np.isfinite(own).all(axis=1)
        found[:, *place] = np.linalg.lstsq(own[there], y[there], rcond=None)[0]
    return found


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("lazy_data", [False, True])
def test_a_regressor_of_each_pixel_gives_each_a_design_of_its_own(
    lazy: bool, lazy_data: bool
) -> None:
    cube, regressor = make_cube(), field()
    want = loop(cube, regressor.transpose(*cube.dims).values)
    given = regressor.isel(y=[2, 0, 1])
    given = given.chunk({"x": 3}) if lazy_data else given
    fit = (cube.chunk({"y": 2}) if lazy else cube).lstsq.solve(
        LINE + design.covariate(given), stats=("stderr", "fitted")
    )
    assert (fit["coef"].chunks is not None) == (lazy or lazy_data)
    assert fit["param"].values.tolist() == ["intercept", "slope", "warmth"]
    np.testing.assert_allclose(fit["coef"], want, rtol=1e-9, atol=1e-12)
    # It is not kept with the fit, which says so
    assert not [name for name in fit if str(name).startswith("design_")]
    for ask in (fit.lstsq.predict, lambda at: fit.lstsq.validate(at.to_dataset(name="level"))):
        with pytest.raises(ValueError, match=r"differs along .*'y', 'x'"):
            ask(cube["time"] if ask == fit.lstsq.predict else cube)


def test_a_map_lends_each_pixel_a_scale() -> None:
    cube, regressor = make_cube(), series()
    scale = xr.DataArray([1.0, 2.0, 5.0], {"y": cube["y"]}, ("y",))
    fit = cube.lstsq.solve(LINE + design.covariate(regressor * scale, name="scaled"))
    want = loop(cube, regressor.values)
    want[2] /= scale.values[:, None]
    np.testing.assert_allclose(fit["coef"], want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("by_name", [False, True])
def test_a_series_is_matched_by_its_labels(by_name: bool) -> None:
    cube, regressor = make_cube(), series(units="K")
    regressor[7] = np.nan
    if by_name:
        cube = cube.assign_coords(warmth=regressor)
        term: design.Term = design.covariate("warmth")
    else:
        term = design.covariate(regressor[::-1])
    fit = cube.lstsq.solve(LINE + term)
    np.testing.assert_allclose(fit["coef"], loop(cube, regressor.values), rtol=1e-9, atol=1e-12)
    assert fit["nobs"].equals(cube.drop_vars("warmth", errors="ignore").notnull().where(
        regressor.notnull(), False).sum("time").astype(np.int32))  # fmt: skip
    assert fit["param_units"].values.tolist() == ["mm", "mm year-1", "mm K-1"]
    with pytest.raises(LabelError, match="covariate 'warmth' has other labels along 'time'"):
        cube.drop_vars("warmth", errors="ignore").lstsq.solve(
            design.covariate(regressor.assign_coords(time=TIME + np.timedelta64(5, "D")))
        )


def test_standardised_regressors_count_standard_deviations() -> None:
    cube, regressor = make_cube(), series() * 7.0 + 100.0
    plain = cube.lstsq.solve(LINE + design.covariate(regressor))["coef"]
    fit = cube.lstsq.solve(LINE + design.covariate(regressor, standardize=True))
    std, mean = float(regressor.std(ddof=1)), float(regressor.mean())
    np.testing.assert_allclose(fit["coef"][2], plain[2] * std, rtol=1e-8)
    np.testing.assert_allclose(fit["coef"][0], plain[0] + plain[2] * mean, rtol=1e-8)
    assert fit["param_units"].values[2] == "mm"
    # Later samples are treated alike
    some = fit.lstsq.predict(cube["time"][5:8])
    np.testing.assert_allclose(some, fit.lstsq.predict(cube["time"])[5:8], rtol=1e-12)
    each = field()
    own = cube.lstsq.solve(LINE + design.covariate(each, standardize=True))["coef"]
    beside = cube.lstsq.solve(LINE + design.covariate(each))["coef"]
    np.testing.assert_allclose(own[2], beside[2] * each.std("time", ddof=1), rtol=1e-8)
    with pytest.raises(ValueError, match="is constant and has no standard deviation"):
        cube.lstsq.solve(design.covariate(series() * 0 + 1.0, standardize=True))


@pytest.mark.parametrize("kind", ["text", "number", "flag", "object"])
def test_a_factor_has_a_column_for_each_level_but_one(kind: str) -> None:
    cube = make_cube()
    codes = np.random.default_rng(5).integers(0, 2 if kind == "flag" else 3, N)
    levels = {
        "text": np.array(["a b", "c", "d"]),
        "number": np.array([30, 4, 100]),
        "flag": np.array([False, True]),
        "object": np.array(["x", "y", "z"], dtype=object),
    }[kind]
    values = levels[codes]
    want_names = {
        "text": ["kind_c", "kind_d"],
        "number": ["kind_30", "kind_100"],
        "flag": ["kind_True"],
        "object": ["kind_y", "kind_z"],
    }[kind]
    there = np.ones(N, bool)
    if kind == "object":
        values[3] = None
        there[3] = False
    factor = xr.DataArray(values, {"time": TIME}, ("time",), name="kind")
    fit = cube.lstsq.solve(LINE + design.indicator(factor))
    assert fit["param"].values[2:].tolist() == want_names
    ordered = sorted({v for v in values.tolist() if v is not None})
    columns = [np.where(there, values == level, np.nan).astype(float) for level in ordered[1:]]
    np.testing.assert_allclose(fit["coef"], loop(cube, *columns), rtol=1e-9, atol=1e-12)
    other = cube.lstsq.solve(LINE + design.indicator(factor, reference=ordered[1]))
    np.testing.assert_allclose(other["coef"][0], fit["coef"][0] + fit["coef"][2], rtol=1e-8)


def test_a_level_that_was_not_fitted_is_refused() -> None:
    cube = make_cube().assign_coords(sensor=("time", np.array(["A", "B"])[np.arange(N) % 2]))
    fit = cube.lstsq.solve(LINE + design.indicator("sensor"))
    one = xr.Dataset(coords={"time": TIME[:1], "sensor": ("time", ["B"])})["time"]
    np.testing.assert_allclose(
        fit.lstsq.predict(one).isel(time=0),
        fit.lstsq.predict(cube["time"]).isel(time=0)
        + fit["coef"].sel(param="sensor_B", drop=True).values,
    )
    strange = one.assign_coords(sensor=("time", ["C"]))
    with pytest.raises(LabelError, match=r"no column for \['C'\] along 'time': it was fitted"):
        fit.lstsq.predict(strange)


def make_bands() -> tuple[xr.DataArray, xr.DataArray]:
    """Return noisy mixtures (band, y, x) with gaps, and the spectra of the parts."""
    rng = np.random.default_rng(3)
    bands = np.arange(12) * 50.0 + 400
    spectra = xr.DataArray(
        rng.uniform(0.05, 0.6, (12, 3)),
        {"band": bands, "kind": ["soil", "leaf", "bark"]},
        ("band", "kind"),
        attrs={"units": "1"},
    )
    share = xr.DataArray(rng.dirichlet([1, 1, 1], SHAPE), dims=("y", "x", "kind"))
    cube = (spectra * share).sum("kind") + 0.01 * rng.normal(size=(12, *SHAPE))
    cube.values[rng.random(cube.shape) < 0.2] = np.nan
    return cube.assign_coords(y=[3.0, 2.0, 1.0]), spectra


def test_spectra_are_matched_by_their_bands() -> None:
    cube, spectra = make_bands()
    fit = cube.lstsq.solve(design.endmembers(spectra[::-1]), "band")
    assert fit["param"].values.tolist() == ["soil", "leaf", "bark"]
    for place in np.ndindex(SHAPE):
        there = np.isfinite(cube.values[:, *place])
        want = np.linalg.lstsq(spectra.values[there], cube.values[there][:, *place], rcond=None)[0]
        np.testing.assert_allclose(fit["coef"].values[:, *place], want, rtol=1e-9)
    with pytest.raises(LabelError, match=r"spectra has 11 labels along 'band' .*interpolate=True"):
        cube.lstsq.solve(design.endmembers(spectra[1:]), "band")


def test_spectra_are_interpolated_on_request_only() -> None:
    cube, _ = make_bands()
    at = np.linspace(1000.0, 350.0, 27)  # falling, and on no band of the cube
    values = np.array([np.sqrt(at), at / 100, 30 - at / 50]).T
    fine = xr.DataArray(values, {"band": at, "kind": list("abc")}, ("band", "kind"))
    with pytest.raises(LabelError, match="spectra has 27 labels"):
        cube.lstsq.solve(design.endmembers(fine), "band")
    fit = cube.lstsq.solve(design.endmembers(fine, interpolate=True), "band")
    rows = np.array([np.interp(cube["band"], at[::-1], v[::-1]) for v in values.T]).T
    by_hand = cube.lstsq.solve(rows, "band")
    np.testing.assert_allclose(fit["coef"], by_hand["coef"], rtol=1e-12)
    np.testing.assert_array_equal(fit["design_band"], cube["band"])
    with pytest.raises(LabelError, match="run from 400 to 950, and those of the spectra from 525"):
        cube.lstsq.solve(design.endmembers(fine[:20], interpolate=True), "band")


@pytest.mark.parametrize(
    "term",
    [
        design.covariate("warmth", standardize=True),
        design.covariate(series(units="K")),
        design.indicator("sensor", reference="B"),
        design.endmembers(series().expand_dims(kind=["a", "b"]).T),
    ],
)
def test_json_and_the_variables_read_back_equal(term: design.Term) -> None:
    cube = make_cube().assign_coords(
        warmth=series(), sensor=("time", np.array(["A", "B"])[np.arange(N) % 2])
    )
    coord = cube["time"].assign_coords({k: cube[k] for k in ("warmth", "sensor")})
    for one in (term, term.bind(coord)):
        data = json.loads(json.dumps(one.to_json(), allow_nan=False))
        again = from_json(data, one.variables)
        assert again == one
        assert hash(again) == hash(one)
        assert str(again) == str(one)
    bound = term.bind(coord)
    assert from_json(bound.to_json(), {k: v + 1 if v.dtype.kind == "f" else v[::-1]
                                       for k, v in bound.variables.items()}) != bound  # fmt: skip
    with pytest.raises(ValueError, match="Keep it with the fit"):
        from_json(bound.to_json())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: design.covariate(5), TypeError, "data is a int. Pass a DataArray"),
        (lambda: design.covariate("cold"), LabelError, "names 'cold', and the coordinates along"),
        (lambda: design.covariate(series()[0]), LabelError, "has the sizes {}, and there are 40"),
        (lambda: design.covariate(series().rename(None)), ValueError, "no name for its params"),
        (lambda: design.covariate(series() * 1j), DtypeError, "needs real numbers"),
        (lambda: design.covariate(field().rename(x="z")), LabelError, r"the dims \['z'\], which"),
        (lambda: design.indicator(field()), LabelError, "a factor lies along 'time' alone"),
        (lambda: design.indicator(series() * 0), LabelError, r"has the levels \['0'\]"),
        (lambda: design.indicator(series().round(), reference=9), LabelError, "no level of"),
        (lambda: design.endmembers(series()), LabelError, "Pass a DataArray with the dim of"),
        (lambda: design.endmembers(3), TypeError, "spectra is a int"),
    ],
)
def test_bad_data_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make_cube().lstsq.solve(make(), "time")


def test_terms_that_samples_cannot_tell_apart_are_named() -> None:
    cube = make_cube()
    with pytest.warns(UserWarning, match="cannot tell step_2030-01-01 apart, so") as told:
        fit = cube.lstsq.solve(LINE + design.step("2030-01-01"))
    assert told[0].filename == __file__
    assert (fit["status"] == 3).all()
    yearly = cube[::12].assign_coords(time=np.arange(4) + 2000.0)
    with pytest.warns(UserWarning, match="cannot tell intercept, cos_1, sin_1 apart.* holds NaN"):
        yearly.lstsq.solve("polynomial(1)+harmonics(1)", "time", deficient="nan")
    both = xr.Dataset({"a": cube, "b": cube + 1})
    with pytest.warns(UserWarning, match="cannot tell") as told:
        both.lstsq.solve(LINE + design.ramp("2030-01-01", "2031-01-01"))
    assert len(told) == 1
