"""Coordinates along the samples as the table that a formula reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import cftime
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.design.time import polynomial
from xr_lstsq.errors import LabelError

__all__ = ["offer", "table"]

YEARS = "years"
"""What a table calls the years since 2000-01-01."""


def offer(coord: xr.DataArray) -> dict[str, xr.DataArray]:
    """Return what a formula can name.

    Parameters
    ----------
    coord : DataArray, shape (n,)
        The sample coordinate, with the others along its dim.

    Returns
    -------
    dict of str to DataArray
        The coordinates along the dim; and under ``years`` the sample coordinate, where it holds
        dates and no coordinate is called so.
    """
    offered = {str(name): one for name, one in coord.coords.items() if one.dims == coord.dims}
    if coord.name in coord.coords and _holds_dates(coord):
        offered.setdefault(YEARS, coord)
    return offered


def table(
    offered: Mapping[str, xr.DataArray], names: Iterable[str], count: int
) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """Return the values of coordinates.

    Parameters
    ----------
    offered : mapping of str to DataArray
        As `offer` returns it.
    names : iterable of str
        Names in it. Only these are read.
    count : int
        Number n of samples.

    Returns
    -------
    values : DataFrame, shape (n, number of names)
        In the order of their names, float64, bool or texts. Dates called ``years`` are the years
        since 2000-01-01, as ``polynomial(1)`` counts them.
    there : ndarray of bool, shape (n,)
        The samples at which none of them is missing or infinite.

    Raises
    ------
    LabelError
        A coordinate holds dates or other things that are neither numbers nor texts.
    """
    columns = {}
    there = np.ones(count, dtype=bool)
    for name in sorted(names):
        columns[name], own = _column(name, offered[name])
        there &= own
    return pd.DataFrame(columns, index=range(count)), there


def _column(name: str, coord: xr.DataArray) -> tuple[pd.Series, NDArray[np.bool_]]:
    """Return a coordinate as numbers, truth values or texts, and where it is there."""
    if name == YEARS and _holds_dates(coord):
        years = np.asarray(polynomial(1).evaluate(coord).matrix)[:, 1]
        return pd.Series(years), np.isfinite(years)
    values = coord.to_numpy()
    kind = values.dtype.kind
    if kind == "b":
        return pd.Series(values), np.ones(values.shape, dtype=bool)
    if kind in "iuf":
        # Powers of integers would overflow without a word; those beyond 2**53 can only be labels
        numbers = values.astype(np.float64)
        exact = kind == "f" or all(map(int.__eq__, map(int, numbers), values.tolist()))
        return pd.Series(numbers if exact else values), np.isfinite(numbers)
    there = ~np.asarray(pd.isna(values), dtype=bool)
    if kind in "OTU" and all(isinstance(text, str) for text in values[there].tolist()):
        return pd.Series(values, dtype=object), there
    remedy = "Convert it with .astype(float) or .astype(str)"
    if _holds_dates(coord):
        remedy = "Write years for those of the samples, or make it texts with .dt.strftime"
    raise LabelError(
        f"the coordinate {name!r} holds {coord.dtype}, and a formula takes numbers, truth values "
        f"or texts. {remedy}."
    )


def _holds_dates(coord: xr.DataArray) -> bool:
    if coord.dtype.kind == "O":
        return any(isinstance(label, cftime.datetime) for label in coord.to_numpy())
    return coord.dtype.kind == "M"
