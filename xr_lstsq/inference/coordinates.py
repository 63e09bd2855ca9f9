"""Labels of the sample dim as coordinates that terms can read."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import cftime
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.design import Term
from xr_lstsq.design.calendars import date_text, date_ticks, tick_text
from xr_lstsq.design.coordinate import read_axis
from xr_lstsq.errors import LabelError

__all__ = ["as_coordinate", "spread"]

NS_YEARS = (1678, 2261)
"""Whole years that datetime64[ns] can hold."""


def as_coordinate(at: Any, terms: Term, dim: str) -> xr.DataArray:
    """Return labels as the sample coordinate on which terms are evaluated.

    Parameters
    ----------
    at : DataArray, index, array, list, or single label
        Dates of any kind, ISO 8601 texts, or numbers. Of a DataArray the values count, its attrs
        are kept, and so are the other coordinates along its dim, for terms that read those.
    terms : Term
        Bound terms, which say of which calendar a text is.
    dim : str
        The sample dim.

    Returns
    -------
    DataArray, (k,)
        Named `dim`, with itself as coordinate.

    Raises
    ------
    LabelError
        For labels of more than one dim.
    ValueError
        For a text that is no date.
    """
    attrs, encoding, beside = {}, {}, {}
    if isinstance(at, xr.DataArray):
        # Those of a file say how its numbers are stored, chunks and all; only dates need them.
        encoding = {key: at.encoding[key] for key in ("units", "calendar") if key in at.encoding}
        attrs, values = dict(at.attrs), at.to_numpy()
        if at.ndim == 1:
            beside = {
                name: (dim, coord.values, coord.attrs)
                for name, coord in at.coords.items()
                if coord.dims == at.dims and name != dim
            }
    else:
        values = np.asarray(at)
    if values.ndim > 1:
        dims = getattr(at, "dims", values.shape)
        msg = (
            f"at has the dims {dims}. Pass labels along {dim!r}, which are 1-D, or a design matrix "
            f"with the dims of the samples and of the params."
        )
        raise LabelError(msg)
    values = _dates(np.atleast_1d(values), terms)
    variable = xr.Variable((dim,), values, attrs, encoding)
    return xr.DataArray(variable, coords={dim: variable, **beside})[dim]


def spread(span: Sequence[Any], terms: Term, dim: str, count: int) -> xr.DataArray:
    """Return labels at uneven steps between two, so that no cycle can hide between them.

    Parameters
    ----------
    span : sequence of 2
        First and last label, ISO 8601 texts or numbers.
    terms : Term
        Bound terms.
    dim : str
        The sample dim.
    count : int
        How many labels.
    """
    axis = read_axis(as_coordinate(list(span), terms, dim))
    first, last = (tick or 0 for tick in axis.ticks)
    golden = (np.sqrt(5) - 1) / 2
    ticks = [first + int((last - first) * (k * golden % 1)) for k in range(1, count + 1)]
    if axis.calendar is None:
        return as_coordinate([tick / axis.scale for tick in ticks], terms, dim)
    # cftime has no parts of a microsecond
    texts = [tick_text(tick - tick % 1000, axis.calendar) for tick in ticks]
    return as_coordinate(texts, terms, dim)


def _dates(values: NDArray[Any], terms: Term) -> NDArray[Any]:
    """Return dates that stand as texts or Python objects as datetime64, or as cftime."""
    given = [None if _is_missing(value) else value for value in values.tolist()]
    there = [value for value in given if value is not None]
    if values.dtype.kind not in "OUT" or not there:
        return values
    bound = [term for term in terms.terms if getattr(term, "kind", None) is not None]
    kind, calendar = (getattr(bound[0], k) if bound else None for k in ("kind", "calendar"))
    if all(isinstance(value, str) for value in there):
        if kind == "cftime":
            dates = [None if text is None else _cf_date(text, str(calendar)) for text in given]
            return np.array(dates, dtype=object)
        if kind != "datetime64":
            return values
    elif not all(isinstance(value, str | datetime.date) for value in there):
        return values
    texts = [
        "NaT" if value is None else date_text(getattr(value, "isoformat", lambda v=value: v)())
        for value in given
    ]
    years = [int(text.rsplit("-", 2)[0]) for text in texts if text != "NaT"]
    fits_ns = NS_YEARS[0] <= min(years) and max(years) <= NS_YEARS[1]
    return np.array(texts, dtype=f"datetime64[{'ns' if fits_ns else 'us'}]")


def _cf_date(text: str, calendar: str) -> cftime.datetime:
    """Return the date of a calendar that a text says; it must be there in that calendar."""
    text = date_text(text)
    date_ticks(text, calendar)
    day, _, clock = text.partition("T")
    numbers = [int(part) for part in day.rsplit("-", 2)]
    if clock:
        hour, minute, second = clock.split(":")
        seconds, _, fraction = second.partition(".")
        numbers += [int(hour), int(minute), int(seconds), int(fraction.ljust(6, "0")[:6])]
    return cftime.datetime(*numbers, calendar=calendar)


def _is_missing(value: object) -> bool:
    """Return whether a label is None, or NaN or NaT, which alone differ from themselves."""
    return value is None or value != value
