"""Dates of a calendar as exact integers: nanoseconds ("ticks") since its day 0.

Python integers neither overflow nor round, so a date in the year 1600, a nanosecond and a
30 February of the 360_day calendar go one way.
"""

from __future__ import annotations

import datetime
import re
from fractions import Fraction

import cftime

__all__ = [
    "CALENDARS",
    "DAY",
    "NS",
    "UNITS",
    "cftime_ticks",
    "date_text",
    "date_ticks",
    "tick_text",
    "unit_ticks",
]

NS = 10**9
DAY = 86_400 * NS

# Days of a year. 365.25 for every calendar with leap years (the Gregorian mean is 365.2425), so
# that the same dates give the same years whether they come as datetime64 or as cftime.
CALENDARS: dict[str, Fraction] = {
    "standard": Fraction(1461, 4),
    "proleptic_gregorian": Fraction(1461, 4),
    "julian": Fraction(1461, 4),
    "noleap": Fraction(365),
    "all_leap": Fraction(366),
    "360_day": Fraction(360),
}

# Ticks of each unit of time; those of a year come from the calendar. No month: it has no length.
UNITS: dict[str, int | None] = {
    "year": None,
    "day": DAY,
    "hour": 3_600 * NS,
    "minute": 60 * NS,
    "second": NS,
}

DATE = re.compile(
    r"(?P<year>[+-]?\d{4,})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?)?)?)?",
    re.ASCII,
)


def unit_ticks(unit: str, calendar: str) -> int:
    """Return how many ticks a key of `UNITS` has in a calendar."""
    ticks = UNITS[unit]
    return int(CALENDARS[calendar] * DAY) if ticks is None else ticks


def cftime_ticks(date: cftime.datetime) -> int:
    """Return the ticks of a cftime date in its own calendar."""
    seconds = (date.hour * 60 + date.minute) * 60 + date.second
    return int(date.toordinal()) * DAY + int(seconds) * NS + int(date.microsecond) * 1000


def date_text(text: str) -> str:
    """Bring an ISO 8601 date to its one form, whatever its calendar.

    Parameters
    ----------
    text : str
        ``YYYY[-MM[-DD[Thh:mm[:ss[.fffffffff]]]]]``, without a time zone.

    Returns
    -------
    str
        The date, then the time of day where it is not midnight.

    Raises
    ------
    ValueError
        The text is no such date.
    """
    match = DATE.fullmatch(text)
    if match is None or len((match["fraction"] or "").rstrip("0")) > 9:
        raise ValueError(
            f"{text!r} is no date. Write it as 2015-06-01 or 2015-06-01T12:00:00, "
            "without a time zone, to the nanosecond at most."
        )
    month, day = int(match["month"] or 1), int(match["day"] or 1)
    hour, minute, second = (int(match[key] or 0) for key in ("hour", "minute", "second"))
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        raise ValueError(f"{text!r} is no date: a month, day or time of day is out of range.")
    ns = ((hour * 60 + minute) * 60 + second) * NS + int(
        (match["fraction"] or "0").ljust(9, "0")[:9]
    )
    return _text(int(match["year"]), month, day, ns)


def date_ticks(text: str, calendar: str) -> int:
    """Return the ticks of a date.

    Parameters
    ----------
    text : str
        As `date_text` returns it.
    calendar : str
        A key of `CALENDARS`.

    Returns
    -------
    int
        Nanoseconds since day 0 of the calendar.

    Raises
    ------
    ValueError
        The calendar has no such date.
    """
    day, _, clock = text.partition("T")
    year, month, day_of_month = day.rsplit("-", 2)
    try:
        date = cftime.datetime(int(year), int(month), int(day_of_month), calendar=calendar)
    except ValueError:
        raise ValueError(f"{text!r} is no date of the calendar {calendar!r}.") from None
    hour, minute, second = (clock or "00:00:00").split(":")
    whole, _, fraction = second.partition(".")
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(whole)
    return cftime_ticks(date) + seconds * NS + int(fraction.ljust(9, "0"))


def tick_text(ticks: int, calendar: str) -> str:
    """Return the date that has these ticks in a calendar; `date_ticks` is its inverse."""
    start = cftime.datetime(2000, 1, 1, calendar=calendar)
    days, ns = divmod(ticks, DAY)
    date = start + datetime.timedelta(days=days - int(start.toordinal()))
    return _text(date.year, date.month, date.day, ns)


def _text(year: int, month: int, day: int, ns: int) -> str:
    """Write a date and the nanoseconds of its day, without the zeros at the end."""
    text = f"{year:0{5 if year < 0 else 4}d}-{month:02d}-{day:02d}"
    if ns == 0:
        return text
    seconds, fraction = divmod(ns, NS)
    text += f"T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:09d}".rstrip("0") if fraction else text
