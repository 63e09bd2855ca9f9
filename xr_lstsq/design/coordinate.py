"""Sample coordinates as exact integers: datetime64, cftime of any calendar, and numbers."""

from __future__ import annotations

import datetime
import math
import numbers
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, TypeGuard

import cftime
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.design.calendars import (
    CALENDARS,
    DAY,
    NS,
    cftime_ticks,
    date_ticks,
    tick_text,
)
from xr_lstsq.errors import LabelError

__all__ = [
    "DATETIME64",
    "Number",
    "SampleAxis",
    "as_number",
    "is_finite",
    "read_axis",
]

Number: TypeAlias = int | float

# The calendar in which datetime64 counts, back beyond 1582 too.
DATETIME64 = "proleptic_gregorian"

# Ticks of the resolutions that datetime64 coordinates of xarray have, and of plain days.
RESOLUTIONS = {"D": DAY, "s": NS, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class SampleAxis:
    """The labels of a sample dim as exact integers ("ticks").

    Attributes
    ----------
    name : str
        Name of the coordinate, for messages.
    kind : {"datetime64", "cftime", "numeric"}
        What the labels are.
    calendar : str or None
        A key of `CALENDARS`; None for numbers.
    unit : str
        The coordinate's own units where it is numeric and has any, else ``""``.
    ticks : tuple of int or None, length n
        Nanoseconds since day 0 of the calendar, or numbers times ``scale``; None where the label
        is missing (NaT, NaN, inf).
    scale : int
        Ticks of the number 1; 1 for dates.
    """

    name: str
    kind: str
    calendar: str | None
    unit: str
    ticks: tuple[int | None, ...]
    scale: int = 1

    def origin(self, origin: str | Number | None) -> str | Number:
        """Resolve an origin on these labels.

        Parameters
        ----------
        origin : str, number or None
            "first" is the earliest label, "middle" the midpoint of the earliest and the latest,
            None is 2000-01-01 or, for numbers, 0; anything else is returned as it is.

        Returns
        -------
        str or number
            An ISO 8601 date in the calendar of the labels, or a number. The midpoint of two
            dates is rounded down to the nanosecond.

        Raises
        ------
        ValueError
            "first" or "middle" where no label is valid.
        """
        if origin is None:
            return 0 if self.calendar is None else "2000-01-01"
        if origin not in ("first", "middle"):
            return origin
        valid = [tick for tick in self.ticks if tick is not None]
        if not valid:
            raise ValueError(
                f"origin={origin!r} needs a label, and {self.name!r} has none that is valid. "
                "Pass a date or a number."
            )
        first = min(valid)
        twice = 2 * first if origin == "first" else first + max(valid)
        if self.calendar is not None:
            return tick_text(twice // 2, self.calendar)
        return as_number(Fraction(twice, 2 * self.scale))

    def span(self) -> tuple[str | Number, str | Number] | None:
        """Return the smallest and the largest label, as `origin` returns one; None without any."""
        valid = [tick for tick in self.ticks if tick is not None]
        if not valid:
            return None
        first, last = min(valid), max(valid)
        if self.calendar is not None:
            return tick_text(first, self.calendar), tick_text(last, self.calendar)
        return as_number(Fraction(first, self.scale)), as_number(Fraction(last, self.scale))

    def since(self, origin: str | Number) -> tuple[list[int | None], int]:
        """Measure the labels from an origin, exactly.

        Parameters
        ----------
        origin : str or number
            As the method `origin` returns it.

        Returns
        -------
        ticks : list of int or None, length n
            Ticks since the origin.
        scale : int
            Ticks of the number 1, now such that the origin is a whole tick too; 1 for dates.

        Raises
        ------
        ValueError
            The origin is no date of the calendar.
        """
        if isinstance(origin, str):
            start, scale = date_ticks(origin, str(self.calendar)), 1
        else:
            zero = Fraction(origin)
            scale = math.lcm(self.scale, zero.denominator)
            start = int(zero * scale)
        finer = scale // self.scale
        return [None if tick is None else tick * finer - start for tick in self.ticks], scale


def as_number(value: float | Fraction) -> Number:
    """Return a real number as an int where it is whole (and fits 64 bits), else as a float."""
    if isinstance(value, int | np.integer):
        return int(value)
    whole = int(value) if math.isfinite(value) else 0
    return whole if whole == value and abs(whole) < 2**63 else float(value)


def is_finite(value: object) -> TypeGuard[float]:
    """Say whether a value is a real number within float64: no bool, timedelta, NaN or inf."""
    # bool is an int to Python, and timedelta64 one to numpy.
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def read_axis(coord: xr.DataArray) -> SampleAxis:
    """Read a sample coordinate.

    Parameters
    ----------
    coord : DataArray, shape (n,)
        datetime64 of any resolution, cftime dates of one calendar, or real numbers.

    Returns
    -------
    SampleAxis
        The labels, exactly.

    Raises
    ------
    TypeError
        No DataArray.
    LabelError
        The dim has no coordinate, or one that is not 1-D, or labels of another kind.
    """
    if not isinstance(coord, xr.DataArray):
        raise TypeError(f"a sample coordinate must be a DataArray, not {type(coord).__name__}.")
    if coord.ndim != 1:
        raise LabelError(
            f"a term needs a coordinate of one dim, and {coord.name!r} has the dims {coord.dims}."
        )
    (dim,) = coord.dims
    name = str(dim if coord.name is None else coord.name)
    # Where a dim has no coordinate, cube[dim] makes up 0, 1, 2, ...: no labels to fit against.
    if coord.name == dim and dim not in coord.coords:
        raise LabelError(
            f"the dim {name!r} has no coordinate, and a term needs its labels. Assign dates or "
            f"numbers with cube.assign_coords({name}=...), or pass a design matrix."
        )
    values = coord.to_numpy()
    if values.dtype.kind == "M":
        return _read_datetime64(name, values)
    if values.dtype.kind in "iuf":
        return _read_numbers(name, values, coord.attrs.get("units"))
    if values.dtype.kind == "O":
        return _read_objects(name, values)
    raise _wrong_labels(name, str(values.dtype))


def _wrong_labels(name: str, found: str) -> LabelError:
    remedy = "Convert it with pandas.to_datetime or .astype(float)"
    if found.startswith("timedelta64"):
        remedy = f"Make it numbers first, as in cube[{name!r}] / numpy.timedelta64(1, 'D')"
    return LabelError(
        f"the coordinate {name!r} holds {found}, and a term reads datetime64, cftime dates or "
        f"numbers. {remedy}, or pass a design matrix."
    )


def _read_datetime64(name: str, values: NDArray[Any]) -> SampleAxis:
    unit, count = np.datetime_data(values.dtype)
    each = RESOLUTIONS[unit] * count
    epoch = date_ticks("1970-01-01", DATETIME64)
    labels = zip(values.astype(np.int64).tolist(), np.isnat(values).tolist(), strict=True)
    ticks = tuple(None if missing else label * each + epoch for label, missing in labels)
    return SampleAxis(name, "datetime64", DATETIME64, "", ticks)


def _read_numbers(name: str, values: NDArray[Any], units: object) -> SampleAxis:
    if values.dtype.kind == "f":
        values = values.astype(np.float64)
    ratios = [x.as_integer_ratio() if math.isfinite(x) else None for x in values.tolist()]
    # Denominators of floats are powers of two, so the largest is a multiple of all.
    scale = max((ratio[1] for ratio in ratios if ratio is not None), default=1)
    ticks = tuple(None if r is None else r[0] * (scale // r[1]) for r in ratios)
    # A time that was not decoded, in "days since 2000-01-01", counts days.
    unit = units.split(" since ")[0].strip() if isinstance(units, str) else ""
    return SampleAxis(name, "numeric", None, "" if unit == "1" else unit, ticks, scale)


def _read_objects(name: str, values: NDArray[Any]) -> SampleAxis:
    labels = [None if _is_missing(label) else label for label in values.tolist()]
    dates = [label for label in labels if label is not None]
    strange = [label for label in dates if not isinstance(label, cftime.datetime)]
    if strange:
        raise _wrong_labels(name, f"objects of type {type(strange[0]).__name__}")
    calendars = sorted({date.calendar for date in dates})
    if len(calendars) != 1 or calendars[0] not in CALENDARS:
        found = f"dates of the calendars {calendars}" if calendars else "no valid date"
        raise LabelError(
            f"the coordinate {name!r} holds {found}, and a term needs cftime dates of one of the "
            f"calendars {', '.join(CALENDARS)}. Convert them with cube.convert_calendar, or pass "
            "a design matrix."
        )
    ticks = tuple(None if label is None else cftime_ticks(label) for label in labels)
    return SampleAxis(name, "cftime", calendars[0], "", ticks)


def _is_missing(label: object) -> bool:
    # NaT and NaN are the objects that differ from themselves.
    return label is None or (isinstance(label, float | datetime.datetime) and label != label)
