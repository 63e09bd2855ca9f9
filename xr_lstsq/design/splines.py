"""A term of smooth curves: B-splines."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Self, cast

import numpy as np

from xr_lstsq.design.calendars import tick_text
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.coordinate import SampleAxis, as_number
from xr_lstsq.design.marks import Mark, MarkTerm, as_mark, as_marks, in_order, marks_of
from xr_lstsq.design.registry import register
from xr_lstsq.design.time import Origin, as_count

__all__ = ["Spline", "spline"]


@register("spline")
@dataclass(frozen=True, repr=False)
class Spline(MarkTerm):
    """B-splines but the first; made by `spline`.

    A bound term has its boundary knots in ``first`` and ``last``, and interior knots for ``df``.
    """

    arguments: ClassVar[tuple[str, ...]] = (
        *("knots", "df", "degree", "name", "first", "last", "unit", "kind", "calendar"),
    )

    knots: Mark | None = None
    df: int | None = None
    degree: int = 3
    first: Mark | None = None
    last: Mark | None = None

    def __post_init__(self) -> None:
        """Check the arguments and bring them to their one form."""
        object.__setattr__(self, "degree", as_count("degree", self.degree, 1))
        if self.df is not None:
            object.__setattr__(self, "df", as_count("df", self.df, self.degree))
        if self.knots is not None:
            object.__setattr__(self, "knots", as_marks("knots", self.knots))
        ends = [(name, getattr(self, name)) for name in ("first", "last")]
        for name, end in ends:
            if (end is None) != (self.kind is None):
                found = "has none" if end is None else f"has {end!r}"
                raise ValueError(
                    f"'spline' needs {name} beside kind, where it is bound to labels, and nowhere "
                    f"else; it {found}."
                )
            if end is not None:
                object.__setattr__(self, name, as_mark(name, end))
        if self.kind is None and (self.knots is None) == (self.df is None):
            raise ValueError(
                f"'spline' needs one of knots and df, and has knots={self.knots!r} and "
                f"df={self.df!r}. Pass df={self.degree + 2} for two knots at quantiles of the "
                f"labels, or df={self.degree} for none."
            )
        if self.kind is not None and self.df is not None:
            raise ValueError(f"df={self.df!r} has no use for a bound 'spline'. Leave it out.")
        super().__post_init__()
        for (_, before), (name, mark) in pairwise(self.marks() if self.kind is not None else ()):
            if in_order(mark) <= in_order(before):
                raise ValueError(
                    f"{name}={mark!r} of 'spline' must lie beyond {before!r}: its knots lie "
                    f"between the first and the last label, {self.first!r} and {self.last!r}. "
                    "Pass such knots, or a smaller df."
                )

    def marks(self) -> tuple[tuple[str, Mark], ...]:
        """Return the knots, and those at the boundaries where they are known."""
        inner = () if self.knots is None else marks_of(self.knots)
        marks = [("first", self.first), *(("knots", knot) for knot in inner), ("last", self.last)]
        return tuple((argument, mark) for argument, mark in marks if mark is not None)

    def _bound(self, axis: SampleAxis) -> Self:
        if self.kind is not None:
            return super()._bound(axis)
        self.check_labels(axis)
        valid = sorted(tick for tick in axis.ticks if tick is not None)
        if not valid or valid[0] == valid[-1]:
            raise ValueError(
                f"{self} needs two labels that differ, and {axis.name!r} has {len(set(valid))}. "
                "Pass more samples, or 'constant()'."
            )
        first, last = (_mark(Fraction(tick), axis) for tick in (valid[0], valid[-1]))
        knots: object = self.knots
        if self.df is not None:
            count = self.df - self.degree
            inner = [_mark(_quantile(valid, k, count + 1), axis) for k in range(1, count + 1)]
            if len({first, *inner, last}) < count + 2:
                raise ValueError(
                    f"df={self.df} of 'spline' needs {count} knots at quantiles of the labels, and "
                    f"{axis.name!r} has too few that differ. Pass a smaller df, or knots."
                )
            knots = inner or None
        return replace(
            self,
            knots=cast(Mark, knots),
            df=None,
            first=first,
            last=last,
            unit=axis.unit if axis.kind == "numeric" else self.unit,
            kind=axis.kind,
            calendar=axis.calendar,
        )

    def columns(self, axis: SampleAxis) -> Columns:
        """Make a column a function but the first; shape (n, interior knots + degree)."""
        # Here, since it takes a third of a second and few designs have splines.
        from scipy.interpolate import BSpline

        first, *inner, last = (mark for _, mark in self.marks())
        ticks, scale = axis.since(first)
        span = self.apart(first, last)
        # Parts of the span, so that dates keep their digits.
        parts = [None if tick is None else tick / (span * scale) for tick in ticks]
        inside = np.array([part is not None and 0 <= part <= 1 for part in parts], dtype=bool)
        at = np.array([float(part) for part in parts if part is not None and 0 <= part <= 1])
        steps = [float(self.apart(first, knot) / span) for knot in inner]
        ends = self.degree + 1
        knots = np.array([0.0] * ends + steps + [1.0] * ends)
        rows = np.full((len(parts), len(steps) + self.degree), math.nan)
        if at.size:
            rows[inside] = BSpline.design_matrix(at, knots, self.degree).toarray()[:, 1:]
        count = range(1, rows.shape[1] + 1)
        return self.differences(
            rows.tolist(),
            [f"spline_{k}" for k in count],
            [f"coefficient of B-spline {k} of degree {self.degree}" for k in count],
        )


def spline(
    knots: Origin | Iterable[Origin] | None = None,
    df: int | None = None,
    degree: int = 3,
    name: str | None = None,
) -> Spline:
    r"""Make a smooth curve of B-splines, to stand beside a constant.

    Parameters
    ----------
    knots : date, number, or several, optional
        Interior knots, where pieces meet: as ``knots`` of `piecewise`, between the first and the
        last label. Either these or `df`.
    df : int, optional
        Number of params, ``degree`` or more: ``df - degree`` interior knots at quantiles of the
        labels that are not missing, interpolated linearly.
    degree : int
        Degree of the pieces, 1 or more; at a knot all derivatives below it are continuous.
    name : str, optional
        First part of the param names: ``"x"`` gives x_spline_1.

    Returns
    -------
    Spline
        A `Term` with the params spline_1, spline_2, ... Its boundary knots are the first and the
        last label of the cube and stay with the fit: beyond them a row is NaN, and so is a
        prediction.

    Raises
    ------
    ValueError
        An argument that is not as above; at a fit, a knot that is not between the labels, or fewer
        labels than df needs.

    Notes
    -----
    Columns :math:`B_2(t), B_3(t), \ldots`, the normalised B-splines [1]_ on the knots with both
    boundaries taken degree + 1 times, computed by `scipy.interpolate.BSpline`. They add up to 1
    with the first, :math:`B_1`, which is left out as in R's ``bs`` [2]_: with a constant beside
    them all splines on these knots can be fitted, and the constant is the value at the first label.

    References
    ----------
    .. [1] de Boor, C. (1978). A Practical Guide to Splines. Springer.
       https://doi.org/10.1007/978-1-4612-6333-3
    .. [2] Hastie, T. J. (1992). Generalized additive models. Chapter 7 of Statistical Models in S,
       eds. Chambers, J. M., Hastie, T. J. https://doi.org/10.1201/9780203738535

    Examples
    --------
    >>> spline(["2015-06-01", "2019-01-01"], degree=2)
    spline(knots="2015-06-01, 2019-01-01", degree=2)
    >>> spline(df=6)
    spline(df=6)
    """
    return Spline(cast("Mark | None", knots), df, degree, name=name)


def _quantile(ordered: list[int], part: int, parts: int) -> Fraction:
    """Return the quantile ``part / parts``, between its neighbours in proportion."""
    below, rest = divmod(Fraction((len(ordered) - 1) * part, parts), 1)
    start = ordered[int(below)]
    return start + rest * (ordered[int(below) + 1] - start)


def _mark(tick: Fraction, axis: SampleAxis) -> Mark:
    """Return a tick as a label: a date, rounded down to the nanosecond, or a number."""
    if axis.calendar is None:
        return as_number(tick / axis.scale)
    return tick_text(int(tick // 1), axis.calendar)
