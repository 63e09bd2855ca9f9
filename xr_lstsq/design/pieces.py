"""Terms that name labels themselves, and the plainest of them: a constant, rates that change."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
import xarray as xr

from xr_lstsq.design.binding import LabelTerm, _describe, as_origin
from xr_lstsq.design.calendars import date_ticks, unit_ticks
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.coordinate import Number, SampleAxis
from xr_lstsq.design.registry import register
from xr_lstsq.design.terms import Term
from xr_lstsq.design.time import Origin, _ratio, per

__all__ = ["Constant", "MarkTerm", "Piecewise", "constant", "piecewise"]

Mark: TypeAlias = str | Number
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, kw_only=True, repr=False)
class MarkTerm(LabelTerm):
    """A term that names labels ("marks"), as a step names its date; the base of all that do.

    It counts from its first mark, which stands in ``origin`` and is no argument. ``unit`` is one
    only where `has_unit` is True; else it is the units of the numbers to which the term is bound.
    """

    has_unit: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the arguments, after a subclass has brought its marks to their one form."""
        marks = [mark for _, mark in self.marks()]
        if len({isinstance(mark, str) for mark in marks}) > 1:
            raise ValueError(f"{self.word!r} has dates and numbers, {marks}. Pass one kind.")
        object.__setattr__(self, "origin", marks[0] if marks else None)
        super().__post_init__()
        if self.unit != "year" and self.kind != "numeric" and not self.has_unit:
            raise ValueError(f"unit={self.unit!r} has no use for {self.word!r}; leave it out.")

    @abstractmethod
    def marks(self) -> tuple[tuple[str, Mark], ...]:
        """Return the labels that the term names, each after the argument that holds it."""

    def to_json(self) -> dict[str, Any]:
        """Return the term as plain JSON data, with a unit only where it has one."""
        data = super().to_json()
        if not (self.has_unit or self.kind == "numeric"):
            del data["unit"]
        return data

    def _check_binding(self) -> None:
        self._check_marks(self.kind, f"kind={self.kind!r}")
        super()._check_binding()
        for _, mark in self.marks():
            if isinstance(mark, str):
                date_ticks(mark, str(self.calendar))

    def _bound(self, axis: SampleAxis) -> Self:
        if self.kind is None:
            self.check_labels(axis)
        return super()._bound(axis)

    def check_labels(self, axis: SampleAxis) -> None:
        """Refuse dates for a coordinate of numbers, and numbers for one of dates."""
        found = _describe(axis.kind, axis.calendar)
        self._check_marks(axis.kind, f"{axis.name!r}, which holds {found}")

    def _check_marks(self, kind: str | None, what: str) -> None:
        for argument, mark in self.marks():
            if isinstance(mark, str) == (kind == "numeric"):
                needed = "a number" if isinstance(mark, str) else f"a date: {argument}=2015-06-01"
                raise ValueError(
                    f"{argument}={mark!r} of {self.word!r} does not suit {what}. Pass {needed}."
                )

    def apart(self, start: Mark, end: Mark) -> Fraction:
        """Return how far apart two marks of a bound term are: in nanoseconds, or as a number."""
        first, last = (
            Fraction(date_ticks(mark, str(self.calendar)) if isinstance(mark, str) else mark)
            for mark in (start, end)
        )
        return last - first

    def spell(self, mark: Mark) -> str:
        """Write a mark for a long name, with its units where it has any."""
        return f"{mark} {self.unit}".rstrip() if self.kind == "numeric" else str(mark)

    def in_name(self, mark: Mark) -> str:
        """Write a mark for a param name, which has letters, digits and ``_-.`` only."""
        return str(mark).replace(":", "").replace("+", "")

    def differences(
        self, rows: Sequence[Sequence[float]], names: Sequence[str], long_names: Sequence[str],
        unit: str = "",
    ) -> Columns:  # fmt: skip
        """Make columns whose coefficients are differences of values, and have no origin."""
        return Columns(
            matrix=np.array(rows, dtype=np.float64).reshape(len(rows), len(names)),
            names=tuple(map(self.param_name, names)),
            units=(unit,) * len(names),
            long_names=tuple(long_names),
            levels=(False,) * len(names),
            origins=("",) * len(names),
        )


@register("constant")
@dataclass(frozen=True, repr=False)
class Constant(Term):
    """One value for all samples; made by `constant`."""

    arguments: ClassVar[tuple[str, ...]] = ("name",)

    name: str | None = None

    def __post_init__(self) -> None:
        """Check the name, by the rule of terms of labels."""
        Piecewise(0, name=self.name)

    def bind(self, coord: xr.DataArray) -> Constant:
        """Return the term as it is: it reads no labels."""
        del coord
        return self

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Make the column of ones; see `Term.evaluate`."""
        there = coord.notnull().to_numpy()
        if coord.dtype.kind == "f":
            there = np.isfinite(coord.to_numpy())
        return Columns(
            matrix=np.where(there, 1.0, math.nan)[:, None],
            names=("intercept" if self.name is None else f"{self.name}_intercept",),
            units=("",),
            long_names=("value",),
            levels=(True,),
            origins=("",),
        )


@register("piecewise")
@dataclass(frozen=True, repr=False)
class Piecewise(MarkTerm):
    """Time since each of some knots, 0 before it; made by `piecewise`."""

    arguments: ClassVar[tuple[str, ...]] = ("knots", "unit", "name", "kind", "calendar")
    has_unit: ClassVar[bool] = True

    knots: Mark

    def __post_init__(self) -> None:
        """Check the arguments and bring them to their one form."""
        object.__setattr__(self, "knots", as_marks("knots", self.knots))
        super().__post_init__()

    def marks(self) -> tuple[tuple[str, Mark], ...]:
        """Return the knots."""
        return tuple(("knots", knot) for knot in marks_of(self.knots))

    def columns(self, axis: SampleAxis) -> Columns:
        """Make a column a knot; shape (n, number of knots)."""
        knots = marks_of(self.knots)
        columns = []
        for knot in knots:
            ticks, scale = axis.since(knot)
            unit = scale if self.calendar is None else unit_ticks(self.unit, self.calendar)
            late = (None if tick is None else max(tick, 0) for tick in ticks)
            columns.append([_ratio(tick, unit, 1) for tick in late])
        return self.differences(
            list(zip(*columns, strict=True)),
            [f"rate_change_{self.in_name(knot)}" for knot in knots],
            [f"change of rate at {self.spell(knot)}" for knot in knots],
            per(self.unit, 1),
        )


def constant(name: str | None = None) -> Constant:
    """Make a constant: the mean of a pixel, or what stands beside terms that have no level.

    Parameters
    ----------
    name : str, optional
        First part of the param name: ``"x"`` gives x_intercept.

    Returns
    -------
    Constant
        A `Term` of the one param intercept, whose column is 1, and NaN where a label is missing.
        It needs no labels: a sample dim without a coordinate will do.

    Raises
    ------
    ValueError
        A name that is more than letters, digits and underscores.

    Examples
    --------
    >>> constant(name="mean")
    constant(name=mean)
    """
    return Constant(name)


def piecewise(
    knots: Origin | Iterable[Origin], unit: str = "year", name: str | None = None
) -> Piecewise:
    r"""Make a line of several pieces, the rate of which changes at known dates.

    Parameters
    ----------
    knots : date, number, or several
        Where the rate changes: ISO 8601 texts or date objects, read in the calendar of the cube;
        for numbers numbers. A text may hold several, with commas.
    unit : {"year", "day", "hour", "minute", "second"}
        Unit of time of the coefficients, as in `polynomial`. Numbers are used as they are.
    name : str, optional
        First part of the param names: ``"x"`` gives x_rate_change_2015-06-01.

    Returns
    -------
    Piecewise
        A `Term` with a param a knot, rate_change_2015-06-01: by how much the rate is larger after
        the knot than before. Put it beside ``polynomial(1)``, which has the first rate.

    Raises
    ------
    ValueError
        An argument that is not as above, or a knot twice.

    Notes
    -----
    Columns :math:`\max(t - t_k, 0)`, continuous in t, each entry the float64 next to it.

    Examples
    --------
    >>> piecewise(["2015-06-01", "2011-03"])
    piecewise(knots="2011-03-01, 2015-06-01")
    """
    return Piecewise(cast(Mark, knots), unit=unit, name=name)


def as_mark(argument: str, value: object) -> Mark:
    """Bring a label that a term names to its one form: an ISO 8601 text or a number."""
    mark = None
    try:
        mark = as_origin(value)
    except ValueError as error:
        # What says nothing of origins is wrong with a date, and says so.
        if not str(error).startswith("origin="):
            raise ValueError(f"{argument}: {error}") from None
    if mark is None or mark in ("first", "middle"):
        raise ValueError(f"{argument}={value!r} must be a date, as in 2015-06-01, or a number.")
    return mark


def as_marks(argument: str, value: object) -> Mark:
    """Bring one or more marks to their one form: in order, joined by commas if there are two."""
    marks = [as_mark(argument, one) for one in as_list(value)]
    if not marks or len(set(marks)) < len(marks):
        found = "has a value twice" if marks else "is empty"
        raise ValueError(f"{argument}={value!r} {found}. Pass one or more, each once.")
    marks.sort(key=in_order)
    return marks[0] if len(marks) == 1 else ", ".join(map(str, marks))


def as_list(value: object) -> list[object]:
    """Return one value or several, of which a text has those that its commas separate."""
    if isinstance(value, str) and "," in value:
        return [_read(part.strip()) for part in value.split(",")]
    return [value] if np.ndim(cast(Any, value)) == 0 else list(cast(Iterable[object], value))


def marks_of(text: Mark) -> tuple[Mark, ...]:
    """Return the marks that `as_marks` has brought to their one form."""
    return tuple(map(_read, text.split(", "))) if isinstance(text, str) else (text,)


def in_order(mark: Mark) -> tuple[Any, ...]:
    """Return a key that sorts numbers, or dates of any calendar."""
    if not isinstance(mark, str):
        return (mark,)
    day, _, clock = mark.partition("T")
    return (*map(int, day.rsplit("-", 2)), clock)


def _read(text: str) -> Mark:
    # As in the grammar, digits alone are a number and no year.
    if not NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)
