"""Powers of time far from the samples keep their digits; the model is the same."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import xarray as xr

from xr_lstsq import design

DIGITS = 50


def make_cube(k: int = 6, first: float = 2005.0, seed: int = 0) -> xr.DataArray:
    """Return noisy samples (time, x) at raw years, with gaps but in the first pixel."""
    rng = np.random.default_rng(seed)
    years = np.sort(rng.uniform(first, first + 12.0, 60)).round(3)
    y = np.sin(years)[:, None] * rng.normal(size=k) * 5 + rng.normal(size=(60, k)) + 20.0
    y[:, 1:][rng.random((60, k - 1)) < 0.3] = np.nan
    return xr.DataArray(y, {"time": years}, ("time", "x"), name="level")


def exactly(years: np.ndarray, y: np.ndarray, degree: int) -> list[mpmath.mpf]:
    """Return the coefficients of powers of the samples that are there, to 50 digits."""
    there = np.isfinite(y)
    with mpmath.workdps(DIGITS + 60):
        rows = mpmath.matrix([[mpmath.mpf(t) ** k for k in range(degree + 1)]
                              for t in years[there].tolist()])  # fmt: skip
        target = mpmath.matrix([mpmath.mpf(value) for value in y[there].tolist()])
        return list(mpmath.lu_solve(rows.T * rows, rows.T * target))


@pytest.mark.parametrize("degree", [1, 2, 4, 6, 8])
def test_raw_years_keep_ten_digits(degree: int) -> None:
    cube = make_cube()
    fit = cube.lstsq.solve(design.polynomial(degree), "time", stats="stderr")
    assert (fit["rank"] == degree + 1).all()
    for x in range(cube.sizes["x"]):
        want = exactly(cube["time"].values, cube.values[:, x], degree)
        for got, exact in zip(fit["coef"].values[:, x].tolist(), want, strict=True):
            assert abs(mpmath.mpf(got) - exact) <= 1e-10 * abs(exact)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
def test_errors_are_those_of_the_params(cov_type: str) -> None:
    cube, degree = make_cube(), 6
    stats = ("stderr", "cov", "tvalue", "residual", "fitted", "rss", "leverage")
    far = cube.lstsq.solve(design.polynomial(degree), "time", stats=stats, cov_type=cov_type)
    near = cube.assign_coords(time=cube["time"] - 2011.0).lstsq.solve(
        design.polynomial(degree), "time", stats=stats, cov_type=cov_type
    )
    for name in ("residual", "fitted", "rss", "leverage"):
        np.testing.assert_allclose(far[name].values, near[name].values, rtol=1e-7, atol=1e-9)
    # The highest power has one coefficient, wherever time begins
    for name in ("coef", "stderr", "tvalue"):
        np.testing.assert_allclose(far[name].values[-1], near[name].values[-1], rtol=1e-8)
    np.testing.assert_allclose(
        far["stderr"].values ** 2, np.einsum("iix->ix", far["cov"].values), rtol=1e-12
    )


def test_with_other_terms_and_weights() -> None:
    cube = make_cube()
    rng = np.random.default_rng(1)
    weights = xr.DataArray(rng.uniform(0.5, 4.0, cube.shape), cube.coords, cube.dims)
    terms = design.polynomial(3) + design.harmonics(1.0, 2)
    fit = cube.lstsq.solve(terms, "time", weights=weights, stats="rss")
    near = terms.evaluate(cube["time"] - 2011.0).matrix
    for x in range(cube.sizes["x"]):
        there = np.isfinite(cube.values[:, x])
        root = np.sqrt(weights.values[there, x])
        # Harmonics turn with the origin, in the same space
        rows, target = near[there] * root[:, None], cube.values[there, x] * root
        left = target - rows @ np.linalg.lstsq(rows, target, rcond=None)[0]
        np.testing.assert_allclose(fit["rss"].values[x], left @ left, rtol=1e-9)


def test_near_origins_solve_the_powers_themselves() -> None:
    columns = design.polynomial(3).evaluate(make_cube(first=0.0)["time"])
    assert columns.stable is None
    far = design.polynomial(3).evaluate(make_cube()["time"])
    assert far.stable is not None
    back = far.stable.matrix @ np.linalg.inv(far.stable.to_coef)
    assert far.matrix.shape == back.shape


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_validate_agrees(dtype: str) -> None:
    cube = make_cube(40)
    fit = cube.lstsq.solve(
        design.polynomial(5), "time", stats=("stderr", "cov", "rsquared", "residual"), dtype=dtype
    )
    assert fit.lstsq.validate(cube).passed


def test_short_rank_is_said_and_fits_as_well() -> None:
    cube = make_cube(4)
    cube[:, 2] = [1.0, 4.0, 2.0, *[np.nan] * 57]
    fit = cube.lstsq.solve(design.polynomial(5), "time", stats=("rss", "fitted"))
    assert fit["rank"].values[2] == 3
    assert fit["status"].values[2] == 3
    # Three samples, which any three params meet
    np.testing.assert_allclose(fit["fitted"].values[:3, 2], [1.0, 4.0, 2.0], rtol=1e-9)
    assert fit["rss"].values[2] < 1e-18
