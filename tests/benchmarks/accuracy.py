"""Correct digits on the NIST sets: ``python -m tests.benchmarks.accuracy``."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import xarray as xr
from numpy.typing import NDArray

import xr_lstsq
from tests.benchmarks import page
from tests.test_nist import SETS, design_of, digits, exact_of, with_means

Floats = NDArray[np.float64]
Fit = Callable[[Floats, Floats], Floats]


def numpy_lstsq(design: Floats, y: Floats) -> Floats:
    return np.linalg.lstsq(design, y, rcond=None)[0]


def scipy_lstsq(design: Floats, y: Floats) -> Floats:
    """Return the answer on columns of unit norm, no singular value cut off."""
    norms = np.linalg.norm(design, axis=0)
    return scipy.linalg.lstsq(design / norms, y, cond=0.0)[0] / norms


def statsmodels_ols(design: Floats, y: Floats) -> Floats:
    from statsmodels.regression.linear_model import OLS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it takes some of the sets for rank deficient
        return np.asarray(OLS(y, design).fit().params)


def alone(design: Floats, y: Floats) -> Floats:
    return xr_lstsq.solve(xr.DataArray(y, dims="row"), design, "row", device="cpu")["coef"].values


def gappy(design: Floats, y: Floats) -> Floats:
    """Return the answer in a cube whose design has as many rows again, missing at this pixel."""
    rng = np.random.default_rng(3)
    cube = y.std() * rng.normal(size=(2 * len(y), 12)) + y.mean()
    cube[rng.random(cube.shape) < 0.2] = np.nan
    cube[:, 5] = np.concatenate([y, np.full(len(y), np.nan)])
    array = xr.DataArray(cube, dims=("row", "pixel"))
    fit = xr_lstsq.solve(array, with_means(design), "row", device="cpu")
    return fit["coef"].values[:, 5]


WAYS: dict[str, Fit] = {
    "numpy.linalg.lstsq": numpy_lstsq,
    "scipy.linalg.lstsq, unit columns": scipy_lstsq,
    "statsmodels OLS": statsmodels_ols,
    "xr_lstsq, alone": alone,
    "xr_lstsq, gappy": gappy,
}


def section() -> str:
    """Return the table of digits."""
    return page.table(["set", *WAYS], [[name, *cells(data)] for name, data in SETS.items()])


def cells(data: dict[str, Any]) -> list[str]:
    """Return the digits of every way on one set."""
    design, y, exact = design_of(data), np.array(data["y"], dtype=np.float64), exact_of(data)
    found = []
    for name, fit in WAYS.items():
        if name.startswith("statsmodels") and importlib.util.find_spec("statsmodels") is None:
            found.append("not installed")
        else:
            found.append(f"{max(0.0, digits(fit(design, y), exact)):.1f}")
    return found


def main() -> None:
    """Print the table, and write it into the page where that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.accuracy", description=__doc__
    )
    parser.add_argument(
        "--write", action="store_true", help=f"into docs/reference/{page.PAGE.name}"
    )
    told = section()
    options = parser.parse_args()
    sys.stdout.write(told + "\n")
    if options.write:
        page.write_section("accuracy", told)


if __name__ == "__main__":
    main()
