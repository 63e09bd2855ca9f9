"""The 11 linear-regression sets of NIST StRD, against the exact answer for a float64 design.

`digits` is the log relative error of the worst coefficient: how many of its digits are right.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import xarray as xr

import xr_lstsq

DATA = Path(__file__).parent / "data" / "nist"
SETS = {path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))}
CAP = 15.0  # what float64 can show

# Digits that must be right: alone, and with as many rows again that are missing. They may be
# raised, never lowered. Besides, every set has to be nearly as good as LAPACK on unit-norm columns.
AT_LEAST = {
    "Filip": (10.5, 10.5),
    "Longley": (12.5, 12.5),
    "Wampler3": (10.0, 10.0),
    "Wampler4": (9.5, 9.5),
    "Wampler5": (8.3, 8.3),
}


def entry(term: str, row: dict[str, float]) -> float:
    """Return one entry of the design, rounded once."""
    if term == "1":
        return 1.0
    name, _, power = term.partition("**")
    return float(Fraction(row[name]) ** int(power or 1))


def design_of(data: dict[str, Any]) -> np.ndarray:
    rows = [{name: float(v[i]) for name, v in data["x"].items()} for i in range(data["n"])]
    return np.array([[entry(term, row) for term in data["terms"]] for row in rows])


def exact_of(data: dict[str, Any]) -> np.ndarray:
    return np.array([float(beta) for beta in data["exact"]["float64_design"]["beta"]])


def digits(coef: np.ndarray, exact: np.ndarray) -> float:
    """Return the log relative error of the worst coefficient, at most 15."""
    error = np.max(np.abs(coef - exact) / np.abs(exact))
    return CAP if error == 0 else min(CAP, -math.log10(error))


def lapack_digits(data: dict[str, Any]) -> float:
    design, y = design_of(data), np.array(data["y"], dtype=np.float64)
    norms = np.linalg.norm(design, axis=0)
    return digits(scipy.linalg.lstsq(design / norms, y, cond=0.0)[0] / norms, exact_of(data))


def at_least(name: str, which: int) -> float:
    """Return the digits that are asked for; LAPACK's own vary a little with its build."""
    lapack = lapack_digits(SETS[name])
    return max(AT_LEAST.get(name, (0.0, 0.0))[which], lapack - 0.5, min(13.0, lapack - 0.3))


def with_means(design: np.ndarray) -> np.ndarray:
    """Return the rows and, below them, the mean of each with the next one."""
    return np.concatenate([design, (design + np.roll(design, -1, axis=0)) / 2])


@pytest.mark.parametrize("name", SETS)
def test_a_set_alone_has_the_digits_of_good_float64_software(name: str) -> None:
    data = SETS[name]
    y = xr.DataArray(np.array(data["y"], dtype=np.float64), dims="row")
    fit = xr_lstsq.solve(y, design_of(data), "row", stats=("rss", "dof"), device="cpu")
    assert int(fit["rank"]) == data["p"]
    assert int(fit["dof"]) == data["certified"]["df"]
    reached = digits(fit["coef"].values, exact_of(data))
    assert reached >= at_least(name, 0), f"{reached:.1f} digits"


@pytest.mark.parametrize("name", ["Longley", "NoInt1", "Wampler5"])
def test_integer_samples_have_the_same_digits(name: str) -> None:
    data = SETS[name]
    y = xr.DataArray(np.array(data["y"], dtype=np.int64), dims="row")
    fit = xr_lstsq.solve(y, design_of(data), "row", device="cpu")
    assert digits(fit["coef"].values, exact_of(data)) >= at_least(name, 0)


@pytest.mark.parametrize("name", SETS)
def test_a_set_with_as_many_rows_again_that_are_missing_keeps_its_digits(name: str) -> None:
    data = SETS[name]
    n = data["n"]
    rng = np.random.default_rng(3)
    y = np.array(data["y"], dtype=np.float64)
    # The set at two of the pixels of a cube; the others have values in the rows added here.
    cube = y.std() * rng.normal(size=(2 * n, 3, 4)) + y.mean()
    cube[rng.random(cube.shape) < 0.2] = np.nan
    cube[:n, 1, 2] = cube[:n, 2, 3] = y
    cube[n:, 1, 2] = cube[n:, 2, 3] = np.nan
    fit = xr_lstsq.solve(
        xr.DataArray(cube, dims=("row", "y", "x")), with_means(design_of(data)), "row", device="cpu"
    )
    for pixel in ({"y": 1, "x": 2}, {"y": 2, "x": 3}):
        alone = fit.isel(pixel)
        assert int(alone["nobs"]) == n
        assert int(alone["rank"]) == data["p"]
        reached = digits(alone["coef"].values, exact_of(data))
        assert reached >= at_least(name, 1), f"{reached:.1f} digits"


@pytest.mark.parametrize("name", SETS)
def test_rss_and_its_root_have_ten_digits_where_the_data_hold_noise(name: str) -> None:
    data = SETS[name]
    want = float(data["exact"]["float64_design"]["rss"])
    y = xr.DataArray(np.array(data["y"], dtype=np.float64), dims="row")
    fit = xr_lstsq.solve(y, design_of(data), "row", stats=("rss", "rmse"), device="cpu")
    size = float((y**2).sum())
    if want > 1e-20 * size:
        np.testing.assert_allclose(fit["rss"], want, rtol=1e-10)
        np.testing.assert_allclose(fit["rmse"], math.sqrt(want / data["n"]), rtol=1e-10)
    else:  # an exact fit: what is left is rounding
        assert float(fit["rss"]) <= 1e-20 * size


# Digits of certified standard deviations: of the estimates, and of the residuals.
ERROR_DIGITS = {"Filip": 7.0}


@pytest.mark.parametrize("gappy", [False, True], ids=["alone", "with rows that are missing"])
@pytest.mark.parametrize("name", SETS)
def test_standard_deviations_have_nine_certified_digits(name: str, gappy: bool) -> None:
    data = SETS[name]
    certified, y, rows = data["certified"], np.array(data["y"], dtype=np.float64), design_of(data)
    if gappy:
        y = np.concatenate([y, np.full(data["n"], np.nan)])
        rows = with_means(rows)
    cube = xr.DataArray(y, dims="row")
    stats = ("stderr", "resid_std", "rsquared", "fvalue")
    fit = xr_lstsq.solve(cube, rows, "row", stats=stats, device="cpu")
    if certified["residual_sd"] == 0:  # an exact fit: what is left is rounding
        size = float(np.sqrt((cube**2).sum()))
        assert float(fit["resid_std"]) <= 1e-10 * size
        assert float(fit["rsquared"]) == pytest.approx(1, abs=1e-12)
        return
    least = ERROR_DIGITS.get(name, 9.0)
    for got, want in (
        (fit["stderr"].values, np.array(certified["sd_beta"], dtype=np.float64)),
        (fit["resid_std"].values, np.array(certified["residual_sd"])),
        (fit["rsquared"].values, np.array(certified["r_squared"])),
        (fit["fvalue"].values, np.array(certified["f_statistic"])),
    ):
        assert digits(got, want) >= least
