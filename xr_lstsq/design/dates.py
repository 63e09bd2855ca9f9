"""Dates as users and coordinates have them, and as the ISO 8601 texts that terms of pairs keep."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, TypeAlias

import cftime
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.design.calendars import DAY, date_text, date_ticks, tick_text
from xr_lstsq.design.coordinate import DATETIME64, RESOLUTIONS, read_axis
from xr_lstsq.errors import LabelError

__all__ = [
    "MISSING",
    "SIDES",
    "Dates",
    "DatesLike",
    "as_date",
    "as_labels",
    "given",
    "read_coordinate",
    "read_dates",
    "sample_labels",
]

DatesLike: TypeAlias = str | Sequence[Any] | NDArray[Any] | pd.Index | xr.DataArray
Dates: TypeAlias = tuple[tuple[str, ...], str | None, str | None]
"""ISO texts, and their kind and calendar; None where texts or Python's dates do not tell."""

MISSING = "NaT"
"""How a missing date stands among ISO texts."""
SIDES = ("reference", "secondary")
"""Arguments with the two dates of a pair."""


def read_dates(values: Any, what: str) -> Dates:
    """Read dates of any kind.

    Parameters
    ----------
    values : array, shape (n,)
        datetime64, cftime dates of one calendar, Python's dates, or ISO 8601 texts, of which
        ``20180321`` is one; None, NaN, NaT and ``""`` are missing.
    what : str
        What they are, for messages.

    Returns
    -------
    texts : tuple of str, length n
        ISO 8601 texts as `date_text` writes them, `MISSING` where there is no date.
    kind : {"datetime64", "cftime"} or None
        None for texts, and for Python's dates.
    calendar : str or None
        A key of `CALENDARS`; None for texts.

    Raises
    ------
    LabelError
        Not 1-D, or no dates, or cftime dates of several calendars.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise LabelError(f"{what} has {array.ndim} dims, and holds one date a sample: it needs 1.")
    if array.dtype.kind == "M":
        # Numpy has days, months and years too, and xarray has not
        known = np.datetime_data(array.dtype)[0] in RESOLUTIONS
        array = array if known else array.astype("datetime64[s]")
    elif array.dtype.kind not in "OUST":
        raise _no_dates(what, str(array.dtype))
    elif not any(isinstance(value, cftime.datetime) for value in array.tolist()):
        return _read_texts(array, what)
    axis = read_axis(xr.DataArray(array, dims="sample", name=what))
    calendar = str(axis.calendar)
    # Of few dates there are many pairs
    text = {tick: MISSING if tick is None else tick_text(tick, calendar) for tick in {*axis.ticks}}
    return tuple(text[tick] for tick in axis.ticks), axis.kind, calendar


def read_coordinate(coord: xr.DataArray, name: str, argument: str) -> Dates:
    """Read the dates of a coordinate that lies along the sample dim.

    Parameters
    ----------
    coord : DataArray, shape (n,)
        The sample coordinate, with all others that lie along its dim attached.
    name : str
        Name of the one with the dates.
    argument : str
        The argument that named it, for messages.

    Raises
    ------
    LabelError
        There is none of that name, or it holds no dates.
    """
    (dim,) = coord.dims
    if name not in coord.coords or coord.coords[name].dims != coord.dims:
        along = [str(one) for one, other in coord.coords.items() if other.dims == coord.dims]
        raise LabelError(
            f"{argument}={name!r} is no coordinate along {dim!r}, which has "
            f"{', '.join(map(repr, along)) or 'none'}. Attach the dates with "
            f"cube.assign_coords({argument}=({dim!r}, dates)), or pass them as {argument}=."
        )
    return read_dates(coord.coords[name].to_numpy(), f"the coordinate {name!r}")


def given(reference: DatesLike, secondary: DatesLike) -> dict[str, Any]:
    """Return the arguments of a term of pairs from what a user gives.

    Parameters
    ----------
    reference, secondary : str, DataArray or array
        Names of coordinates, or dates.

    Returns
    -------
    dict
        ``reference``, ``secondary``, ``samples`` and ``calendar`` of a `PairTerm`.

    Raises
    ------
    LabelError
        Not 1-D, no dates, of two calendars, or with different labels.
    """
    values = dict(zip(SIDES, (reference, secondary), strict=True))
    sides: dict[str, Any] = dict(values)
    calendars: set[str] = set()
    labels: set[tuple[str, ...] | None] = set()
    for side, value in values.items():
        if isinstance(value, str):
            continue
        sides[side], _, calendar = read_dates(value, side)
        calendars |= set() if calendar is None else {calendar}
        labels.add(sample_labels(value) if isinstance(value, xr.DataArray) else None)
    if len(calendars) > 1:
        raise LabelError(
            f"reference and secondary are dates of the calendars {', '.join(sorted(calendars))}. "
            "Convert one of them."
        )
    if len(labels) > 1:
        raise LabelError(
            "reference and secondary have different labels of their samples. Give both the same, "
            "as secondary.reindex_like(reference) does, or pass both as plain arrays."
        )
    own = {"samples": next(iter(labels), None), "calendar": next(iter(calendars), None)}
    return sides | own


def as_date(value: object, argument: str) -> str | None:
    """Bring one date of any kind to its ISO 8601 text; None stays.

    Raises
    ------
    ValueError
        No date, or a missing one.
    """
    if value is None:
        return None
    single = np.asarray(value)
    try:
        texts = read_dates(np.atleast_1d(single), argument)[0] if single.ndim == 0 else ()
    except LabelError:
        texts = ()
    if not texts or texts == (MISSING,):
        raise ValueError(f"{argument}={value!r} must be a date, as in {argument}=2015-06-01.")
    return texts[0]


def as_labels(texts: Sequence[str], kind: str, calendar: str) -> xr.DataArray:
    """Make dates of a kind of their ISO texts, as a coordinate that terms of time can read.

    Parameters
    ----------
    texts : sequence of str, length n
        As `read_dates` returns them.
    kind : {"datetime64", "cftime"}
        What to make of them: datetime64 in the coarsest resolution that holds them all.
    calendar : str
        A key of `CALENDARS`.

    Returns
    -------
    DataArray, shape (n,)
        Named ``"date"``, with itself as coordinate.
    """
    ticks = [None if text == MISSING else date_ticks(text, calendar) for text in texts]
    values: NDArray[Any]
    if kind == "cftime":
        values = np.array([_cf_date(tick, calendar) for tick in ticks], dtype=object)
    else:
        zero = date_ticks("1970-01-01", DATETIME64)
        since = [None if tick is None else tick - zero for tick in ticks]
        unit = next(
            unit
            for unit in ("s", "ms", "us", "ns")
            if all(tick is None or tick % RESOLUTIONS[unit] == 0 for tick in since)
        )
        missing = np.iinfo(np.int64).min
        counts = [missing if tick is None else tick // RESOLUTIONS[unit] for tick in since]
        values = np.array(counts, dtype=np.int64).view(f"datetime64[{unit}]")
    variable = xr.Variable(("date",), values)
    return xr.DataArray(variable, coords={"date": variable}, name="date")


def sample_labels(array: xr.DataArray) -> tuple[str, ...] | None:
    """Return the labels of the samples of a 1-D array as texts; None where its dim has none."""
    (dim,) = array.dims
    if dim not in array.coords:
        return None
    # An index writes times in one way, whatever their resolution
    return tuple(map(str, pd.Index(array.coords[dim].values)))


def _read_texts(array: NDArray[Any], what: str) -> Dates:
    """Read ISO texts, and Python's dates."""
    texts = []
    for value in array.tolist():
        text = value.decode() if isinstance(value, bytes) else value
        if isinstance(text, datetime.date) and not _is_missing(text):
            text = text.isoformat()
        elif isinstance(text, np.datetime64):
            text = MISSING if np.isnat(text) else str(text)
        if _is_missing(text) or text in ("", MISSING):
            texts.append(MISSING)
        elif isinstance(text, str):
            texts.append(_iso(text, what))
        else:
            raise _no_dates(what, f"objects such as {value!r}")
    return tuple(texts), None, None


def _no_dates(what: str, found: str) -> LabelError:
    return LabelError(
        f"{what} holds {found}, and a pair needs dates: datetime64, cftime dates of one calendar, "
        "or texts such as 2018-03-21. Convert it, with pandas.to_datetime or xarray.decode_cf."
    )


def _iso(text: str, what: str) -> str:
    """Return a date in its one form; interferograms are often named by eight digits."""
    if len(text) == 8 and text.isdigit():
        text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    try:
        return date_text(text)
    except ValueError as error:
        raise LabelError(f"{what}: {error}") from None


def _is_missing(value: object) -> bool:
    # NaT and NaN are the objects that differ from themselves
    return value is None or value is pd.NaT or (isinstance(value, float) and value != value)


def _cf_date(tick: int | None, calendar: str) -> cftime.datetime | None:
    """Return the cftime date of a tick, to the microsecond that it can hold."""
    if tick is None:
        return None
    start = cftime.datetime(2000, 1, 1, calendar=calendar)
    days, ns = divmod(tick, DAY)
    return start + datetime.timedelta(days=days - int(start.toordinal()), microseconds=ns // 1000)
