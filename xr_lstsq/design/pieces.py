"""The plainest terms: a constant, and rates that change."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import xarray as xr

from xr_lstsq.design.binding import check_name
from xr_lstsq.design.calendars import unit_ticks
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.coordinate import SampleAxis
from xr_lstsq.design.marks import Mark, MarkTerm, as_marks, marks_of
from xr_lstsq.design.registry import register
from xr_lstsq.design.terms import Term
from xr_lstsq.design.time import Origin, per, ratio

__all__ = ["Constant", "Piecewise", "constant", "piecewise"]


@register("constant")
@dataclass(frozen=True, repr=False)
class Constant(Term):
    """One value for all samples; made by `constant`."""

    arguments: ClassVar[tuple[str, ...]] = ("name",)

    name: str | None = None

    def __post_init__(self) -> None:
        """Check the name, by the rule of terms of labels."""
        check_name(self.name)

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
            columns.append([ratio(tick, unit, 1) for tick in late])
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
