"""Terms of time, or of any other sample coordinate: polynomials and harmonics."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeAlias

import cftime
import numpy as np
import xarray as xr

from xr_lstsq.design.binding import LabelTerm, as_origin
from xr_lstsq.design.calendars import DAY, NS, UNITS
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.coordinate import Number, SampleAxis, as_number, is_finite
from xr_lstsq.design.powers import stable_powers
from xr_lstsq.design.registry import register
from xr_lstsq.outputs import multiply_units

__all__ = ["Harmonics", "Polynomial", "harmonics", "per", "polynomial"]

Origin: TypeAlias = str | Number | np.datetime64 | datetime.date | cftime.datetime | xr.DataArray
Period: TypeAlias = Number | np.timedelta64 | datetime.timedelta


@register("polynomial")
@dataclass(frozen=True, repr=False)
class Polynomial(LabelTerm):
    """Powers 0 to ``degree`` of the time since the origin; made by `polynomial`."""

    arguments: ClassVar[tuple[str, ...]] = ("degree", *LabelTerm.arguments)

    degree: int

    def __post_init__(self) -> None:
        """Check the arguments and bring them to their one form."""
        super().__post_init__()
        object.__setattr__(self, "degree", as_count("degree", self.degree, 0))

    def columns(self, axis: SampleAxis) -> Columns:
        """Make the columns 1, t, t**2, ...; shape (n, degree + 1)."""
        ticks, unit = self.since_origin(axis)
        powers = range(self.degree + 1)
        # A power of whole numbers is exact, so each entry is rounded once.
        rows = [[ratio(tick, unit, power) for power in powers] for tick in ticks]
        origin = self.origin_name()
        names = ["intercept", "slope", *(f"degree_{power}" for power in powers[2:])]
        long_names = [
            f"value at {origin}",
            f"rate of change at {origin}" if self.degree > 1 else "rate of change",
            *(f"coefficient of degree {power} about {origin}" for power in powers[2:]),
        ]
        matrix = np.array(rows, dtype=np.float64).reshape(len(ticks), len(powers))
        times = [None if tick is None else Fraction(tick, unit) for tick in ticks]
        return Columns(
            matrix=matrix,
            names=tuple(map(self.param_name, names[: len(powers)])),
            units=tuple(per(self.unit, power) for power in powers),
            long_names=tuple(long_names[: len(powers)]),
            levels=tuple(power == 0 for power in powers),
            origins=(str(self.origin),) * len(powers),
            stable=stable_powers(matrix, times),
        )


@register("harmonics")
@dataclass(frozen=True, repr=False)
class Harmonics(LabelTerm):
    """Cosine and sine of ``n`` harmonics of ``period``; made by `harmonics`."""

    arguments: ClassVar[tuple[str, ...]] = ("period", "n", *LabelTerm.arguments)

    period: Number
    n: int = 1

    def __post_init__(self) -> None:
        """Check the arguments and bring them to their one form."""
        super().__post_init__()
        object.__setattr__(self, "n", as_count("n", self.n, 1))
        if not (is_finite(self.period) and self.period > 0):
            raise ValueError(
                f"period={self.period!r} must be a number above 0, counted in unit, or a timedelta."
            )
        object.__setattr__(self, "period", as_number(self.period))

    def columns(self, axis: SampleAxis) -> Columns:
        """Make the columns cos_1, sin_1, cos_2, ...; shape (n, 2 n_harmonics)."""
        ticks, unit = self.since_origin(axis)
        # Of a float the decimal that was typed is meant: a period of 0.1 has 10 to the unit.
        period = Fraction(str(self.period)) * unit
        periods = [(period / k).as_integer_ratio() for k in range(1, self.n + 1)]
        rows = [[x for length in periods for x in _cos_sin(tick, *length)] for tick in ticks]
        names, long_names = [], []
        for k in range(1, self.n + 1):
            length = str(self.period) if k == 1 else f"{self.period}/{k}"
            for function, word in (("cos", "cosine"), ("sin", "sine")):
                names.append(self.param_name(f"{function}_{k}"))
                long_names.append(
                    f"{word} amplitude, period {length} {self.unit}".rstrip()
                    + f", from {self.origin_name()}"
                )
        return Columns(
            matrix=np.array(rows, dtype=np.float64).reshape(len(ticks), 2 * self.n),
            names=tuple(names),
            units=("",) * len(names),
            long_names=tuple(long_names),
            levels=(False,) * len(names),
            origins=(str(self.origin),) * len(names),
        )


def polynomial(
    degree: int, unit: str = "year", origin: Origin | None = None, name: str | None = None
) -> Polynomial:
    r"""Make a polynomial in the time since an origin.

    Parameters
    ----------
    degree : int
        Highest power, 0 or more; the term has degree + 1 params: intercept, slope, degree_2, ...
    unit : {"year", "day", "hour", "minute", "second"}
        Unit of time of the coefficients. A year is 365.25 days, but 365 in a noleap, 366 in an
        all_leap and 360 in a 360_day calendar. Numbers are used as they are, without a unit.
    origin : date, number, "first" or "middle", optional
        Where time is 0: an ISO 8601 text or a date object, read in the calendar of the cube; the
        earliest label, or the midpoint of the earliest and the latest; for numbers a number. The
        default, 2000-01-01 or 0, does not depend on the data, so tiles and grown archives have
        the same coefficients.
    name : str, optional
        First part of the param names: ``"x"`` gives x_intercept.

    Returns
    -------
    Polynomial
        A `Term`.

    Raises
    ------
    ValueError
        An argument that is not as above.

    Notes
    -----
    Columns :math:`t^k`, k = 0 ... degree, of the time t from the origin to each label. The
    coefficients are plain: degree_2 is half the acceleration, and slope the rate at the origin.
    Every entry is the float64 next to the exact value. Where the origin lies so far from the
    samples that these columns would lose digits, the fit is made with Legendre polynomials over the
    span of the samples, in which its rank is judged, and the coefficients are made of theirs. These
    are then many times as large as the values that they add up to, and predictions lose as many
    digits: choose an origin near the samples where predictions matter.

    Examples
    --------
    >>> polynomial(1, origin="2015-06-01")
    polynomial(1, origin=2015-06-01)
    """
    return Polynomial(degree, unit=unit, origin=as_origin(origin), name=name)


def harmonics(
    period: Period,
    n: int = 1,
    unit: str = "year",
    origin: Origin | None = None,
    name: str | None = None,
) -> Harmonics:
    r"""Make the harmonics of a cycle.

    Parameters
    ----------
    period : float or timedelta
        Length of the cycle: a number of ``unit``, or a numpy, pandas or datetime timedelta.
    n : int
        Number of harmonics, 1 or more: the k-th has the period ``period / k``, and the params
        cos_k and sin_k.
    unit : {"year", "day", "hour", "minute", "second"}
        Unit of ``period``; not to be given with a timedelta or for numbers. As in `polynomial`.
    origin : date, number, "first" or "middle", optional
        Where the cosines are 1; default 2000-01-01, or 0 for numbers. As in `polynomial`.
    name : str, optional
        First part of the param names: ``"x"`` gives x_cos_1.

    Returns
    -------
    Harmonics
        A `Term`.

    Raises
    ------
    ValueError
        An argument that is not as above.

    Notes
    -----
    Columns :math:`\cos(2 \pi k t / T)` and :math:`\sin(2 \pi k t / T)`, k = 1 ... n, of the time
    t from the origin and the period T. Whole and quarter cycles are taken off exactly before the
    sine is taken, so columns that vanish on the samples, such as the sine of a cycle of two
    samples, are exactly 0 and count as such in the rank.

    Examples
    --------
    >>> harmonics(np.timedelta64(10, "D"), n=2)
    harmonics(10, 2, unit=day)
    """
    if isinstance(period, np.timedelta64 | datetime.timedelta):
        if unit != "year":
            raise ValueError(f"unit={unit!r} has no use beside the timedelta {period!r}; leave it.")
        period, unit = length_of(period)
    return Harmonics(period, n, unit=unit, origin=as_origin(origin), name=name)


def length_of(period: np.timedelta64 | datetime.timedelta) -> tuple[Number, str]:
    """Return a timedelta as a number of the longest unit of which it is a whole number."""
    if isinstance(period, np.timedelta64):
        unit, count = np.datetime_data(period.dtype)
        ticks_each = {"W": 7 * DAY, "D": DAY, "h": 3600 * NS, "m": 60 * NS, "s": NS}
        ticks_each |= {"ms": 10**6, "us": 10**3, "ns": 1}
        if unit not in ticks_each or np.isnat(period):
            raise ValueError(
                f"period={period!r} has no fixed length. Pass a number with unit='year', or a "
                "timedelta of days or less."
            )
        ticks = int(period.astype(np.int64)) * count * ticks_each[unit]
    else:
        seconds = period.days * 86_400 + period.seconds
        # pandas.Timedelta has nanoseconds beside the fields of datetime.timedelta.
        ticks = seconds * NS + period.microseconds * 1000 + getattr(period, "nanoseconds", 0)
    for unit, length in UNITS.items():
        if length is not None and ticks % length == 0:
            return ticks // length, unit
    return float(Fraction(ticks, NS)), "second"


def as_count(name: str, value: object, least: int) -> int:
    if isinstance(value, bool | np.timedelta64) or not (
        isinstance(value, int | np.integer) and value >= least
    ):
        raise ValueError(f"{name}={value!r} must be a whole number, {least} or more.")
    return int(value)


def per(unit: str, power: int) -> str:
    """Return the UDUNITS text of ``unit`` to the power ``-power``."""
    if power == 0 or not unit:
        return ""
    return multiply_units(unit, "", -power, difference=True)


def ratio(tick: int | None, unit: int, power: int) -> float:
    """Return (tick / unit) ** power, rounded once; NaN where it is missing or overflows."""
    try:
        return math.nan if tick is None else tick**power / unit**power
    except OverflowError:
        return math.nan


def _cos_sin(tick: int | None, cycle: int, divisor: int) -> tuple[float, float]:
    """Return the cosine and sine at ``tick`` of a cycle of ``cycle / divisor`` ticks."""
    if tick is None:
        return math.nan, math.nan
    phase = tick * divisor % cycle
    # The nearest quarter turn is taken off exactly; the rest is at most an eighth.
    quarter = (8 * phase + cycle) // (2 * cycle)
    angle = math.tau * ((4 * phase - quarter * cycle) / (4 * cycle))
    cos, sin = math.cos(angle), math.sin(angle)
    return [(cos, sin), (0.0 - sin, cos), (-cos, 0.0 - sin), (sin, -cos)][quarter % 4]
