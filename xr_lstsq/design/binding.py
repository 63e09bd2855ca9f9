"""Terms that read the labels of a sample coordinate, and what they are bound to."""

from __future__ import annotations

import datetime
import re
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import cftime
import numpy as np
import xarray as xr

from xr_lstsq.design.calendars import (
    CALENDARS,
    UNITS,
    cftime_ticks,
    date_text,
    date_ticks,
    tick_text,
    unit_ticks,
)
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.coordinate import (
    DATETIME64,
    Number,
    SampleAxis,
    as_number,
    is_finite,
    read_axis,
)
from xr_lstsq.design.terms import Term

__all__ = ["LabelTerm", "as_origin", "check_name", "describe"]

# The kinds of coordinate to which a term can be bound, and the calendars that go with each.
KINDS: dict[str, tuple[str | None, ...]] = {
    "datetime64": (DATETIME64,),
    "cftime": tuple(CALENDARS),
    "numeric": (None,),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelTerm(Term):
    """A term that reads labels in a unit and from an origin; the base of all terms of time.

    ``kind`` and ``calendar`` say what labels a term is bound to, and are None while it is
    unbound. Bound to numbers, ``unit`` is the units of that coordinate.
    """

    arguments: ClassVar[tuple[str, ...]] = ("unit", "origin", "name", "kind", "calendar")

    unit: str = "year"
    origin: str | Number | None = None
    name: str | None = None
    kind: str | None = None
    calendar: str | None = None

    def __post_init__(self) -> None:
        """Check the arguments, which may come from a file, and bring them to their one form."""
        object.__setattr__(self, "origin", as_origin(self.origin))
        unit: object = self.unit
        check_name(self.name)
        if not (isinstance(unit, str) and (unit in UNITS or self.kind == "numeric")):
            raise ValueError(f"unknown unit {unit!r}; known units are {', '.join(UNITS)}.")
        if self.kind is not None or self.calendar is not None:
            self._check_binding()

    def _check_binding(self) -> None:
        if not (isinstance(self.kind, str) and self.kind in KINDS):
            raise ValueError(f"unknown kind {self.kind!r}; known kinds are {', '.join(KINDS)}.")
        if self.calendar not in KINDS[self.kind]:
            raise ValueError(
                f"calendar={self.calendar!r} does not go with kind={self.kind!r}, which has "
                f"{', '.join(map(str, KINDS[self.kind]))}."
            )
        needed: type | tuple[type, ...] = (int, float) if self.kind == "numeric" else str
        if not isinstance(self.origin, needed) or self.origin in ("first", "middle"):
            raise ValueError(
                f"origin={self.origin!r} does not go with kind={self.kind!r}, which needs "
                f"a {'number' if self.kind == 'numeric' else 'date'}."
            )
        if isinstance(self.origin, str):
            date_ticks(self.origin, str(self.calendar))

    def bind(self, coord: xr.DataArray) -> Self:
        """Resolve origin, unit and calendar on a coordinate; see `Term.bind`."""
        return self._bound(read_axis(coord))

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Make the columns on a coordinate; see `Term.evaluate`."""
        axis = read_axis(coord)
        return self._bound(axis).columns(axis)

    def _bound(self, axis: SampleAxis) -> Self:
        if self.kind is not None:
            self._check_axis(axis)
            return self
        is_numeric = axis.kind == "numeric"
        if is_numeric and self.unit != "year":
            raise ValueError(
                f"unit={self.unit!r} of {self} does not suit {axis.name!r}, which holds numbers: "
                "they are used as they are. Leave unit out, or make the coordinate dates."
            )
        origin = axis.origin(self.origin)
        if isinstance(origin, str) == is_numeric:
            needed = "a number" if is_numeric else "a date, as in origin=2015-06-01"
            raise ValueError(
                f"origin={origin!r} of {self} does not suit {axis.name!r}, which holds "
                f"{describe(axis.kind, axis.calendar)}. Pass {needed}, 'first' or 'middle'."
            )
        unit = axis.unit if is_numeric else self.unit
        return replace(self, unit=unit, origin=origin, kind=axis.kind, calendar=axis.calendar)

    def _check_axis(self, axis: SampleAxis) -> None:
        if (self.kind, self.calendar) != (axis.kind, axis.calendar):
            raise ValueError(
                f"{self} is bound to {describe(str(self.kind), self.calendar)}, and {axis.name!r} "
                f"holds {describe(axis.kind, axis.calendar)}. Convert the coordinate, with "
                "cube.convert_calendar(..., use_cftime=...) for dates."
            )
        # Where one of the two does not say its units, they are taken to be the same.
        if self.kind == "numeric" and axis.unit and self.unit and axis.unit != self.unit:
            raise ValueError(
                f"{self} is bound to numbers in {self.unit!r}, and {axis.name!r} is in "
                f"{axis.unit!r}. Convert the coordinate and set its attrs['units']."
            )

    def since_origin(self, axis: SampleAxis) -> tuple[list[int | None], int]:
        """Return the ticks since the origin, and the ticks of one unit."""
        ticks, scale = axis.since(self.origin if self.origin is not None else 0)
        return ticks, scale if self.calendar is None else unit_ticks(self.unit, self.calendar)

    def origin_name(self) -> str:
        """Write the origin for a long name, with its units where it has any."""
        return f"{self.origin} {self.unit}".rstrip() if self.kind == "numeric" else str(self.origin)

    def param_name(self, name: str) -> str:
        """Put the prefix, if there is one, before a param name."""
        return name if self.name is None else f"{self.name}_{name}"

    @abstractmethod
    def columns(self, axis: SampleAxis) -> Columns:
        """Make the columns of a bound term on the labels it is bound to."""


def check_name(name: object) -> None:
    """Refuse what cannot begin the name of a param.

    Raises
    ------
    ValueError
        For other characters than letters, digits and underscores.
    """
    if name is not None and not (isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_]+", name)):
        raise ValueError(
            f"name={name!r} must be letters, digits and underscores: it begins the param names, "
            "and those become names of variables."
        )


def as_origin(value: object) -> str | Number | None:
    """Bring an origin to its one form: a number, an ISO 8601 text, or one of the two words."""
    if isinstance(value, np.ndarray | xr.DataArray) and value.ndim == 0:
        value = np.asarray(value)[()]
    if value is None:
        return None
    if is_finite(value):
        return as_number(value)
    if isinstance(value, cftime.datetime) and value.calendar in CALENDARS:
        return tick_text(cftime_ticks(value), value.calendar)
    if isinstance(value, str | np.datetime64):
        text = str(value)
        return text if text in ("first", "middle") else date_text(text)
    if isinstance(value, datetime.date):
        return date_text(value.isoformat())
    raise ValueError(f"origin={value!r} must be a date, a finite number, 'first' or 'middle'.")


def describe(kind: str, calendar: str | None) -> str:
    """Say for a message of what kind labels are."""
    return "numbers" if kind == "numeric" else f"{kind} dates of the calendar {calendar!r}"
