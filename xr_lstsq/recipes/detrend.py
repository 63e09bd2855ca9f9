"""A cube without the trend, and the seasons, of each of its pixels."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq import labels, pipeline
from xr_lstsq.inference.reading import Model, read
from xr_lstsq.recipes.maps import refuse_idle
from xr_lstsq.recipes.trend import make_terms

__all__ = ["detrend"]

IDLE = ("cov_type", "maxlags", "absolute_sigma", "level")
"""Options that are about errors, of which a detrended cube has none."""
OF_VALUES = ("standard_name", "cell_methods")
"""Attributes of a cube that stay true while its values keep their level."""


def detrend(
    cube: xr.DataArray | xr.Dataset,
    *,
    degree: int = 1,
    seasons: int = 0,
    keep_mean: bool = True,
    dim: Hashable | None = None,
    **options: Any,
) -> xr.DataArray | xr.Dataset:
    """Return a cube without the trend of each pixel, and without its seasons.

    Parameters
    ----------
    cube : DataArray or Dataset
        As in `xr_lstsq.solve`.
    degree : int
        Of the polynomial that is taken off, 0 or more.
    seasons : int
        Harmonics of a cycle of one year (of 1, for numbers) that are taken off with it.
    keep_mean : bool
        True leaves each pixel its mean over the samples that count, unweighted; False leaves plain
        residuals.
    dim : hashable, optional
        The sample dim, as in `xr_lstsq.solve`.
    **options
        Those arguments of `xr_lstsq.solve` that act on coefficients: data, weights, valid, nodata,
        min_obs (default: params + 2), deficient (default ``"nan"``), rcond, noise, dtype, device,
        max_memory, rechunk, param_dim.

    Returns
    -------
    DataArray or Dataset
        With name, dims, coordinates and chunks of the cube, and its attributes but for those of
        stored numbers; float64, or the `dtype`. NaN where a sample does not count, and in pixels
        that were not solved. Of a Dataset its fitted variables. Lazy where the cube is.

    Raises
    ------
    ValueError
        For a degree or a number of seasons that is not allowed, and as `xr_lstsq.solve`.
    TypeError
        For options that `xr_lstsq.solve` does not have, or that change nothing here.

    Notes
    -----
    y - (f - mean of f) with the fit f of a pixel, its mean over the samples that count; y - f with
    ``keep_mean=False``. So weights change what is taken off, and never the mean. With offset units
    (degC) plain residuals are differences (K).

    Examples
    --------
    >>> import xr_lstsq
    >>> time = np.arange("2001", "2007", dtype="datetime64[Y]").astype("datetime64[ns]")
    >>> cube = xr.DataArray([1.0, 2, 4, np.nan, 5, 7], {"time": time})
    >>> detrend(cube).round(1).values
    array([3.7, 3.6, 4.5, nan, 3.2, 4.1])
    """
    refuse_idle("detrend", options, IDLE)
    if not isinstance(keep_mean, bool):
        raise TypeError(f"keep_mean={keep_mean!r} is neither True nor False. Pass one of them.")
    terms, p = make_terms(degree, seasons)
    options = {"min_obs": p + 2, "deficient": "nan", **options}
    fit = pipeline.solve(
        cube,
        terms,
        dim,
        stats="residual",
        **options,
    )
    if isinstance(cube, xr.DataArray):
        (model,) = read(fit)
        return _detrended(model, cube, keep_mean=keep_mean)
    fitted = {f"{name}_": name for name in cube.data_vars}
    names = [(model, fitted[model.prefix]) for model in read(fit)]
    parts = {name: _detrended(model, cube[name], keep_mean=keep_mean) for model, name in names}
    return xr.Dataset(parts, attrs=fit.attrs)


def _detrended(model: Model, cube: xr.DataArray, *, keep_mean: bool) -> xr.DataArray:
    """Return the residuals of a cube, with the mean of the fit added where asked for."""
    (residual,) = model.need(("residual",), "detrend")
    residual = residual.rename(cube.name)
    if not keep_mean:
        return residual
    # Variables, which match by dims alone: labels are those of the cube already.
    dim = str(model.spec["dim"])
    left = residual.variable
    level = (cube.variable.astype(np.float64) - left).mean(dim, skipna=True)
    values = (left + level).astype(left.dtype, copy=False).transpose(*left.dims)
    kept = residual.copy(data=values.data)
    kept.attrs = labels.data_attrs(labels.strip(cube)[1])
    kept.attrs |= {key: cube.attrs[key] for key in OF_VALUES if key in cube.attrs}
    return kept
