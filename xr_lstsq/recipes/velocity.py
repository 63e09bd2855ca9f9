"""Velocities from the time series of a network of pairs."""

from __future__ import annotations

from typing import Literal, TypeAlias

import xarray as xr

from xr_lstsq import design, pipeline
from xr_lstsq.inference.products import weigh
from xr_lstsq.inference.reading import Model, read
from xr_lstsq.inference.timeseries import (
    DATE,
    Undetermined,
    check_undetermined,
    date_matrix,
    series_of,
)
from xr_lstsq.outputs import multiply_units

__all__ = ["ErrorOf", "check_error", "rates", "velocity"]

ErrorOf: TypeAlias = Literal["fit", "propagated"]
LINE = design.polynomial(1)
"""The line whose slope a velocity is, in years."""


def velocity(
    fit: xr.Dataset, error: ErrorOf = "fit", undetermined: Undetermined = "nan"
) -> xr.Dataset:
    """Return the velocity of a fit by a network of pairs, with its error.

    Parameters
    ----------
    fit : Dataset
        A fit with `xr_lstsq.design.network` among its terms.
    error : {"fit", "propagated"}
        ``"fit"``: the error of the line, by how far dates lie off it; this holds what the ground
        does beside a line. ``"propagated"``: that of the pairs alone, by the covariance of the fit,
        which needs ``stats="cov"``; NaN where not all dates are determined.
    undetermined : {"nan", "min_norm"}
        As for ``.lstsq.timeseries``: the line goes through the dates that have a value.

    Returns
    -------
    Dataset
        ``velocity`` and ``stderr`` (pixel dims), per year, with the prefix of a Dataset fit. NaN
        where fewer than two dates have a value; ``stderr`` from the line also with two. Lazy where
        the fit is.

    Raises
    ------
    ValueError, LabelError
        As ``.lstsq.timeseries``, and without the covariance that is asked for.

    Notes
    -----
    Slope and standard error of least squares with a constant, on values without weights; errors at
    successive dates are taken to be independent, which those of one network are not. Propagated:
    the slope is c x of the params x, with c the slope's row of the pseudo-inverse of the line times
    what makes values at the dates of params; its variance is c C c', as in ``.lstsq.contrast``.

    Examples
    --------
    >>> import numpy as np, xarray as xr, xr_lstsq
    >>> from xr_lstsq import design
    >>> dates = np.array(["2020-01-01", "2020-01-13", "2020-01-25"], dtype="datetime64[ns]")
    >>> pairs = {"reference": ("pair", dates[[0, 0, 1]]), "secondary": ("pair", dates[[1, 2, 2]])}
    >>> cube = xr.DataArray([[1.0], [3.0], [2.0]], pairs, ("pair", "x"))
    >>> found = velocity(cube.lstsq.solve(design.network(), "pair"))
    >>> found.velocity.round(3).values, found.stderr.round(3).values
    (array([45.656]), array([8.787]))
    """
    check_error(error)
    check_undetermined(undetermined)
    found: dict[str, xr.DataArray] = {}
    for model in read(fit):
        model.refuse_taken((model.prefix + "velocity", model.prefix + "stderr"))
        maps = rates(model, series_of(model, undetermined), error)
        found |= {
            model.prefix + name: array
            for name, array in zip(("velocity", "stderr"), maps, strict=True)
        }
    return xr.Dataset(found, attrs=fit.attrs)


def check_error(error: str) -> None:
    """Refuse a choice of errors that is not known.

    Raises
    ------
    ValueError
        With those that are.
    """
    if error not in ("fit", "propagated"):
        msg = f"error={error!r} is not known. Choose from 'fit', 'propagated'."
        raise ValueError(msg)


def rates(model: Model, series: xr.DataArray, error: ErrorOf) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the slope per year of a line through a time series, and its standard error.

    Parameters
    ----------
    model : Model
        What was fitted.
    series : DataArray
        (date, pixel dims) its time series.
    error : {"fit", "propagated"}
        Whether the error is that of the line or comes from the covariance of the fit.

    Returns
    -------
    velocity, stderr : DataArray
        (pixel dims), in the dtype of the series.

    Raises
    ------
    ValueError
        For ``error="propagated"`` without the covariance.
    """
    if error == "propagated":
        (cov,) = model.need(("cov",), "error='propagated'")
    line = pipeline.solve(
        series,
        LINE,
        DATE,
        stats="stderr",
        deficient="nan",
        dtype=str(series.dtype),
        param_dim=model.param_dim,
    ).sel({model.param_dim: "slope"}, drop=True)
    stderr = line["stderr"] if error == "fit" else _propagate(model, cov)
    units = series.attrs.get("units")
    told = {} if units is None else {"units": multiply_units(str(units), "year-1", difference=True)}
    since = f"{series.attrs['long_name']}"
    return (
        model.finish(line["coef"], {"long_name": f"velocity of {since}"} | told),
        model.finish(stderr, {"long_name": f"standard error of velocity of {since}"} | told),
    )


def _propagate(model: Model, cov: xr.DataArray) -> xr.DataArray:
    """Return the standard error of the slope by the covariance of the params, (pixel dims).

    A slope is c x for the params x, with c the same wherever all dates are determined; elsewhere
    it is NaN.
    """
    _, matrix = date_matrix(model)
    time = LINE.evaluate(matrix[DATE]).matrix[:, 1]
    centred = time - time.mean()
    row = (centred / (centred @ centred)) @ matrix.values
    first, second = model.param_dim, f"{model.param_dim}_2"
    factors = xr.DataArray(row, dims=first)
    variance = weigh(cov, [first, second], factors, factors.rename({first: second}))
    (rank,) = model.need(("rank",), "error='propagated'")
    root: xr.DataArray = variance.clip(min=0).where(rank == len(model.names)) ** 0.5
    return root
