"""The trend of every pixel, with its error and test."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq import pipeline
from xr_lstsq.design import Term, harmonics, polynomial
from xr_lstsq.inference.reading import read
from xr_lstsq.recipes.maps import read_maps

__all__ = ["make_terms", "trend"]

TESTS = {"stderr": "stderr", "pvalue": "pvalue", "conf_int": "conf_int"}
"""Statistics of the slope, and what they are called in the answer."""


def trend(
    cube: xr.DataArray | xr.Dataset,
    *,
    unit: str = "year",
    degree: int = 1,
    seasons: int = 0,
    dim: Hashable | None = None,
    level: float = 0.95,
    **options: Any,
) -> xr.Dataset:
    """Return the linear trend of every pixel, with its error, test and interval.

    Parameters
    ----------
    cube : DataArray or Dataset
        As in `xr_lstsq.solve`.
    unit : {"year", "day", "hour", "minute", "second"}
        Unit of time of the slope; leave it for a sample coordinate of numbers, whose own counts.
    degree : int
        Of the polynomial, 1 or more. From 2 on the slope is that at 2000-01-01 (0 for numbers).
    seasons : int
        Harmonics of a cycle of one year (of 1, for numbers) that are fitted beside it.
    dim : hashable, optional
        The sample dim, as in `xr_lstsq.solve`.
    level : float
        Of the interval.
    **options
        The other arguments of `xr_lstsq.solve`, but ``design`` and ``stats``: data, weights, valid,
        nodata, min_obs (default: params + 2), deficient (default ``"nan"``), rcond, cov_type,
        maxlags, absolute_sigma, noise, dtype, device, max_memory, rechunk, param_dim.

    Returns
    -------
    Dataset
        ``slope`` with ``stderr``, two-sided ``pvalue`` and ``conf_int`` (bound first), and
        ``intercept``, the value at 2000-01-01; higher degrees as ``degree_2`` and so on;
        ``rsquared`` of the whole model, ``nobs`` and ``status``; with autocorrelated noise also
        ``rho`` and ``n_eff``. All on the pixel dims, with the prefix ``<variable>_`` of a Dataset;
        lazy where the cube is.

    Raises
    ------
    ValueError
        For a degree or a number of seasons that is not allowed, and as `xr_lstsq.solve`.
    TypeError
        For options that `xr_lstsq.solve` does not have.

    Notes
    -----
    Ordinary least squares, its test as in ``scipy.stats.linregress``, on the samples that a pixel
    has. Time series of the field are often autocorrelated, and the test is then too bold: pass
    ``noise="ar1"`` or a ``cov_type``.

    Examples
    --------
    >>> import xr_lstsq
    >>> time = np.arange("2001", "2007", dtype="datetime64[Y]").astype("datetime64[ns]")
    >>> cube = xr.DataArray([1.0, 2, 4, np.nan, 5, 7], {"time": time}, attrs={"units": "mm"})
    >>> found = trend(cube)
    >>> found.slope.round(2).item(), found.slope.attrs["units"], found.nobs.item()
    (1.13, 'mm year-1', 5)
    """
    terms, p = make_terms(degree, seasons, unit)
    if degree < 1:
        raise ValueError(f"degree={degree!r} has no slope. Pass 1 or more.")
    options = {"min_obs": p + 2, "deficient": "nan", **options}
    fit = pipeline.solve(
        cube,
        terms,
        dim,
        stats=(*TESTS, "rsquared"),
        level=level,
        **options,
    )
    params = ["slope", "intercept", *(f"degree_{power}" for power in range(2, degree + 1))]
    parts: dict[str, xr.DataArray] = {}
    for model in read(fit):
        parts |= read_maps(model, dict(zip(params, params, strict=True)), {"slope": TESTS})
    return xr.Dataset(parts, attrs=fit.attrs)


def make_terms(degree: int, seasons: int, unit: str = "year") -> tuple[Term, int]:
    """Return a polynomial with harmonics of a year beside it, and the number of params.

    Raises
    ------
    ValueError
        For numbers that are not whole, or below 0.
    """
    if isinstance(seasons, bool) or not isinstance(seasons, int | np.integer) or seasons < 0:
        raise ValueError(
            f"seasons={seasons!r} is not a whole number from 0. Pass how many harmonics of a year."
        )
    terms: Term = polynomial(degree, unit=unit)
    if seasons:
        terms = terms + harmonics(1, int(seasons))
    return terms, degree + 1 + 2 * int(seasons)
