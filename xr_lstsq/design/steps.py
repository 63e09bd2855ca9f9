"""The sample axis in steps of time, for methods that ask how far apart in time samples are."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import cftime
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.design.calendars import CALENDARS, DAY, NS, tick_text
from xr_lstsq.design.coordinate import SampleAxis, as_number, read_axis
from xr_lstsq.errors import LabelError

__all__ = ["Steps", "read_steps"]

Floats = NDArray[np.float64]

ALIKE = 1.25
"""Multiple of the smallest spacing up to which spacings are one step: months have 28 to 31 days."""
JITTER = 0.1
"""Part of a step by which the spacings of a regular axis may differ from whole steps."""
FEWEST = 0.1
"""Part of the spacings of a regular axis that are one step: dates scattered over years are whole
days apart, yet a day is not their step."""
ROUNDING = 1e-9
"""Part of a step by which counts of months may be rounded."""
SHORTEST_MONTH = 27 * DAY
"""Spacing in ticks from which dates may be whole months apart."""
SHOWN = 3
"""Labels that a message shows."""

# No month and no year: they have no length.
TICKS = {"day": DAY, "hour": 3_600 * NS, "minute": 60 * NS, "second": NS}

# Units of time in which numbers may stand, each with other words for it; plurals are read too.
UNIT_WORDS = (
    "year yr yrs a,month,week,day d,hour hr hrs h,minute min mins,second sec secs s,"
    "millisecond msec ms,microsecond us,nanosecond ns"
)
UNIT_OF = {
    word: unit
    for unit, *others in map(str.split, UNIT_WORDS.split(","))
    for word in (unit, unit + "s", *others)
}
# Names of coordinates whose numbers are taken for time where they have no units.
TIME_NAMES = ("time", "year", "years", "date", "day", "t")


@dataclass(frozen=True, eq=False)
class Steps:
    """The samples along an axis of time.

    Attributes
    ----------
    position : array of float64, (n,)
        Time of each sample in steps since the earliest, in the order of the samples: whole numbers
        on a regular axis, else elapsed time over the median spacing.
    regular : bool
        Whether all spacings are whole steps, to a tenth of one, and a tenth of them one step. Steps
        without a sample are allowed.
    step : str
        How long a step is, for messages: ``"1 day"``. Empty where there are no two samples.
    """

    position: Floats
    regular: bool
    step: str


def read_steps(coord: xr.DataArray | None, what: str) -> Steps:
    """Return the samples along an axis of time in steps.

    A step is the mean of the spacings that are at most 25 % longer than the smallest. Dates that
    are months apart are counted by the calendar where that fits better than elapsed time does: the
    one month from 1 February to 1 March is 8 % shorter than the mean one.

    Parameters
    ----------
    coord : DataArray, (n,), or None
        Coordinate of the sample dim, in any order: datetime64, cftime dates of one calendar, or
        numbers that are time by their attrs (``units`` such as ``"years"`` or
        ``"days since 2000-01-01"``, ``standard_name="time"``, ``axis="T"``) or, without units, by
        their name: time, year, years, date, day, t.
    what : str
        The argument that needs time, as it was typed, for messages: ``"cov_type='HAC'"``.

    Returns
    -------
    Steps
        The samples in steps.

    Raises
    ------
    LabelError
        There is no coordinate, or it is no axis of time, or some labels are missing, or stand in
        it more than once.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> months = np.array(["2019-12", "2020-02", "2020-03", "2020-06"], "datetime64[ns]")
    >>> cube = xr.DataArray(np.zeros(4), {"time": months}, ["time"])
    >>> read_steps(cube["time"], "cov_type='HAC'")
    Steps(position=array([0., 2., 3., 6.]), regular=True, step='1 month')
    """
    # Where a dim has no coordinate, cube[dim] makes up 0, 1, 2, ...
    if coord is None or (coord.dims == (coord.name,) and coord.name not in coord.coords):
        name = "time" if coord is None else coord.name
        raise LabelError(
            f"{what} needs the time of each sample, and the sample dim has no coordinate. "
            f"Assign dates with cube.assign_coords({name}=dates)."
        )
    if coord.size == 0:
        return Steps(np.zeros(0), True, "")
    unit = _unit(coord, what)
    axis = read_axis(coord)
    ticks = _each_once(axis, what)
    order = np.array(sorted(range(len(ticks)), key=ticks.__getitem__))
    if order.size == 1:
        return Steps(np.zeros(1), True, "")
    # Whole numbers up to their differences, so that nothing is rounded before it is small.
    ticks.sort()
    elapsed = np.array([(tick - ticks[0]) / axis.scale for tick in ticks])
    spacings = np.array([(b - a) / axis.scale for a, b in pairwise(ticks)])
    step, counts, error = _count(spacings)
    months = 0.0
    if axis.calendar is not None and spacings.min() >= SHORTEST_MONTH:
        for by_calendar in _months(coord.to_numpy()[order]):
            length, found, left = _count(np.diff(by_calendar), whole=True)
            if left <= error + ROUNDING:
                months, counts, error = length, found, left
    regular = error <= JITTER and bool((counts == 1).mean() >= FEWEST)
    if regular:
        ahead = np.concatenate([[0.0], np.cumsum(counts)])
    else:
        step, months = float(np.median(spacings)), 0.0
        ahead = elapsed / step
    position = np.empty(order.size)
    position[order] = ahead
    return Steps(position, regular, _length(step, unit, months))


def _count(spacings: Floats, *, whole: bool = False) -> tuple[float, Floats, float]:
    """Return the step, the steps of each spacing, and the largest error of these in steps.

    Each spacing is rounded by itself: their sum would drift away from whole steps.

    With `whole` the step is a whole number, of months.
    """
    step = float(spacings[spacings <= ALIKE * spacings.min()].mean())
    if whole:
        step = max(float(np.rint(step)), 1.0)
    counts = np.rint(spacings / step)
    return step, counts, float(abs(spacings / step - counts).max() if counts.min() >= 1 else 1.0)


def _months(dates: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return dates in months of the calendar, so that those a month apart differ by 1.

    Once by the part of its month that is over at a date, which suits the middle and the end of
    months, and once with months of 31 days, which suits the same day of each.
    """
    if dates.dtype.kind == "M":
        month = dates.astype("datetime64[M]")
        first, after = (m.astype("datetime64[us]") for m in (month, month + 1))
        day = np.timedelta64(1, "D")
        count, days, length = month.astype(np.int64), (dates - first) / day, (after - first) / day
    else:
        # A calendar without a year 0 goes from -1 to 1.
        years = np.array([d.year + (d.year < 0 and not d.has_year_zero) for d in dates])
        count = 12 * years + np.array([d.month for d in dates])
        clock = [((d.hour * 60 + d.minute) * 60 + d.second) / 86_400 for d in dates]
        days = np.array([d.day - 1 for d in dates]) + np.array(clock)
        length = np.array([d.daysinmonth for d in dates])
    return count + days / length, count + days / 31


def _length(step: float, unit: str | None, months: float) -> str:
    """Write a step of months where that is not 0, else of a unit of numbers, or of ticks."""
    if months:
        step, unit = (months / 12, "year") if months % 12 == 0 else (months, "month")
    elif unit is None:
        # 0.99: dates of a day apart need not be a day apart to the second.
        unit = next((u for u in ("day", "hour", "minute") if step >= 0.99 * TICKS[u]), "second")
        step /= TICKS[unit]
    shown = f"{step:.3g}"
    return f"{shown} {unit}{'' if shown == '1' else 's'}" if unit else shown


def _each_once(axis: SampleAxis, what: str) -> list[int]:
    """Return the ticks of labels of which none is missing and none stands there twice."""
    name = axis.name
    ticks = [tick for tick in axis.ticks if tick is not None]
    missing = len(axis.ticks) - len(ticks)
    if missing:
        there = f"{'numpy.isfinite' if axis.calendar is None else 'pandas.notnull'}(cube.{name})"
        raise LabelError(
            f"{what} needs the time of each sample, and {missing} of {len(axis.ticks)} labels of "
            f"{name!r} are missing. Drop those with cube.isel({name}={there})."
        )
    twice = sorted(tick for tick, times in Counter(ticks).items() if times > 1)
    if twice:
        shown = ", ".join(_text(axis, tick) for tick in twice[:SHOWN])
        more = f" and {len(twice) - SHOWN} more labels" if len(twice) > SHOWN else ""
        raise LabelError(
            f"{what} needs samples that are apart in time, and {name!r} has more than one at "
            f"{shown}{more}. Average them with cube.groupby({name!r}).mean(), or select one with "
            f"cube.drop_duplicates({name!r})."
        )
    return ticks


def _text(axis: SampleAxis, tick: int) -> str:
    """Write a label."""
    if axis.calendar is None:
        return str(as_number(Fraction(tick, axis.scale)))
    return tick_text(tick, axis.calendar)


def _unit(coord: xr.DataArray, what: str) -> str | None:
    """Return the unit of numbers that are time, "" where they have none, and None for dates.

    Raises
    ------
    LabelError
        The labels are neither dates nor time.
    """
    name, there, values = coord.name, f"cube[{coord.name!r}]", coord.to_numpy()
    kind, labels = values.dtype.kind, values.tolist()
    if kind == "M" or (kind == "O" and _of_one_calendar(labels)):
        return None
    unit = _unit_of_numbers(coord) if kind in "iuf" else None
    if unit is not None and not (unit in ("", "day", "year") and _spell_dates(values)):
        return unit
    types = ", ".join(sorted({type(label).__name__ for label in labels}))
    found, dates, more = f"labels of type {types}", "dates", ""
    if unit is not None:
        found = "dates spelled as numbers"
        dates = f"pandas.to_datetime({there}.astype(int).astype(str))"
    elif kind in "iuf":
        found = "numbers that do not say that they are time"
        more = f', or say that they are with {there}.attrs["units"] = "years"'
    elif kind == "m":
        found, dates = "durations", f'numpy.datetime64("2000-01-01") + {there}'
    elif isinstance(labels[0], pd.Interval):
        dates = f"cube.indexes[{name!r}].mid"
    elif isinstance(labels[0], cftime.datetime):
        found, dates = "dates of several calendars, or of none", "dates of one calendar"
    elif isinstance(labels[0], tuple):
        levels = [name, *coord.to_index().names]
        found = f"a MultiIndex of {levels[1:]}"
        more = f", after cube = cube.drop_vars({levels})"
    elif kind in "OSTU":
        dates = f"pandas.to_datetime({there})"
    shown = ", ".join(map(str, values[:SHOWN])) + (", ..." if len(labels) > SHOWN else "")
    raise LabelError(
        f"{what} needs samples along one axis of time, and {name!r} holds {found} ({shown}). "
        f"Assign dates with cube.assign_coords({name}={dates}){more}."
    )


def _of_one_calendar(labels: list[Any]) -> bool:
    """Return whether Python objects are cftime dates of one calendar, but for missing ones."""
    there = [label for label in labels if not (label is None or label != label)]
    calendars = {getattr(label, "calendar", None) for label in there}
    return len(calendars) == 1 and calendars <= CALENDARS.keys()


def _unit_of_numbers(coord: xr.DataArray) -> str | None:
    """Return the unit of numbers, "" where it is not known, and None where they are no time."""
    units = coord.attrs.get("units", "")
    own = UNIT_OF.get(_word(re.split(r"\s+since\s", str(units))[0]))
    if own is not None:
        return own
    named = units in ("", "1") and _word(coord.name) in TIME_NAMES
    if named or coord.attrs.get("standard_name") == "time" or coord.attrs.get("axis") == "T":
        return UNIT_OF.get(_word(coord.name), "")
    return None


def _word(text: object) -> str:
    """Return a word in small letters; symbols stay, as D, H and S are no units of time."""
    word = re.sub(r"^(decimal|fractional)[ _]", "", str(text).strip())
    return word if len(word) < 3 else word.casefold()


def _spell_dates(values: NDArray[Any]) -> bool:
    """Return whether all numbers can be read as YYYYMMDD, which are no steps of time."""
    if not ((values > 10_000_000) & (values < 30_000_000)).all():
        return False
    month, day = values // 100 % 100, values % 100
    return bool((np.isin(month, np.arange(1, 13)) & np.isin(day, np.arange(1, 32))).all())
