"""Terms of events at known dates: steps, ramps and decays."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import expm1, log1p, nan
from typing import Any, ClassVar, Self, cast

import numpy as np
import xarray as xr

from xr_lstsq.design.calendars import UNITS
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.coordinate import SampleAxis, is_finite
from xr_lstsq.design.marks import Mark, MarkTerm, as_list, as_mark, as_marks, in_order, marks_of
from xr_lstsq.design.registry import register
from xr_lstsq.design.time import Origin, Period, length_of

__all__ = ["Decay", "Ramp", "Step", "decay", "ramp", "step"]

# What the curves of a decay are called in long names.
CURVES = {"exp": "exponential", "log": "logarithmic"}


@register("step")
@dataclass(frozen=True, repr=False)
class Step(MarkTerm):
    """0 before a date and 1 from it on; made by `step`."""

    arguments: ClassVar[tuple[str, ...]] = ("at", "name", "unit", "kind", "calendar")

    at: Mark

    def __post_init__(self) -> None:
        """Check the arguments and bring them to their one form."""
        object.__setattr__(self, "at", as_mark("at", self.at))
        super().__post_init__()

    def marks(self) -> tuple[tuple[str, Mark], ...]:
        """Return the date."""
        return (("at", self.at),)

    def columns(self, axis: SampleAxis) -> Columns:
        """Make the column 0 or 1; shape (n, 1)."""
        ticks, _ = axis.since(self.at)
        rows = [(nan if tick is None else float(tick >= 0),) for tick in ticks]
        return self.differences(
            rows, [f"step_{self.in_name(self.at)}"], [f"offset at {self.spell(self.at)}"]
        )


@register("ramp")
@dataclass(frozen=True, repr=False)
class Ramp(MarkTerm):
    """0 before a date, 1 after a later one, and a line between; made by `ramp`."""

    arguments: ClassVar[tuple[str, ...]] = ("start", "end", "name", "unit", "kind", "calendar")

    start: Mark
    end: Mark

    def __post_init__(self) -> None:
        """Check the arguments and bring them to their one form."""
        for argument in ("start", "end"):
            object.__setattr__(self, argument, as_mark(argument, getattr(self, argument)))
        super().__post_init__()
        if in_order(self.end) <= in_order(self.start):
            raise ValueError(f"end={self.end!r} must come after start={self.start!r}.")

    def marks(self) -> tuple[tuple[str, Mark], ...]:
        """Return both dates."""
        return (("start", self.start), ("end", self.end))

    def columns(self, axis: SampleAxis) -> Columns:
        """Make the column from 0 to 1; shape (n, 1)."""
        ticks, scale = axis.since(self.start)
        length = self.apart(self.start, self.end) * scale
        rows = [(nan if tick is None else _ramp(tick / length),) for tick in ticks]
        return self.differences(
            rows,
            [f"ramp_{self.in_name(self.start)}"],
            [f"change from {self.start} to {self.spell(self.end)}"],
        )


@register("decay")
@dataclass(frozen=True, repr=False)
class Decay(MarkTerm):
    """What begins at a date and slows down; made by `decay`, which calls ``curve`` its kind."""

    arguments: ClassVar[tuple[str, ...]] = (
        *("at", "tau", "curve", "unit", "name", "kind", "calendar"),
    )
    has_unit: ClassVar[bool] = True

    at: Mark
    tau: Mark
    curve: str = "exp"

    def __post_init__(self) -> None:
        """Check the arguments and bring them to their one form."""
        object.__setattr__(self, "at", as_mark("at", self.at))
        taus = as_list(self.tau)
        if not all(is_finite(tau) and tau > 0 for tau in taus):
            raise ValueError(
                f"tau={self.tau!r} must be numbers above 0, counted in unit, or timedeltas."
            )
        object.__setattr__(self, "tau", as_marks("tau", taus))
        if not (isinstance(self.curve, str) and self.curve in CURVES):
            raise ValueError(f"kind={self.curve!r} of 'decay' must be 'exp' or 'log'.")
        super().__post_init__()

    @classmethod
    def from_object(cls, values: Mapping[str, Any], variables: Mapping[str, xr.DataArray]) -> Self:
        """Read the curve from ``kind`` too, which is its name in Python."""
        kind = values.get("kind")
        if isinstance(kind, str) and kind in CURVES and "curve" not in values:
            values = {k: v for k, v in values.items() if k != "kind"} | {"curve": kind}
        return super().from_object(values, variables)

    def marks(self) -> tuple[tuple[str, Mark], ...]:
        """Return the date."""
        return (("at", self.at),)

    def columns(self, axis: SampleAxis) -> Columns:
        """Make a column for each tau; shape (n, number of tau)."""
        ticks, unit = self.since_origin(axis)
        taus = marks_of(self.tau)
        # Of a float the decimal that was typed is meant, as in the period of harmonics.
        lengths = [Fraction(str(tau)) * unit for tau in taus]
        # The units of numbers may hold what is no part of a name.
        of_name = "" if self.kind == "numeric" else self.unit
        start, begun = self.in_name(self.at), f"{CURVES[self.curve]} decay from"
        return self.differences(
            [[_decay(tick, length, self.curve) for length in lengths] for tick in ticks],
            [f"{self.curve}_{start}_{self.in_name(tau)}{of_name}" for tau in taus],
            [f"{begun} {self.spell(self.at)}, tau {tau} {self.unit}".rstrip() for tau in taus],
        )


def step(at: Origin, name: str | None = None) -> Step:
    r"""Make an offset at a known date, such as an earthquake or a change of instrument.

    Parameters
    ----------
    at : date or number
        First label of the new level: an ISO 8601 text or a date object, read in the calendar of
        the cube; for numbers a number.
    name : str, optional
        First part of the param name: ``"x"`` gives x_step_2023-02-06.

    Returns
    -------
    Step
        A `Term` of the one param step_2023-02-06. Add one for each event.

    Raises
    ------
    ValueError
        An argument that is not as above.

    Notes
    -----
    Column :math:`H(t - t_0)`: 0 before the date, 1 at the date and after it.

    Examples
    --------
    >>> step("2023-02-06") + step("2024-01-01")
    step(at=2023-02-06) + step(at=2024-01-01)
    """
    return Step(cast(Mark, at), name=name)


def ramp(start: Origin, end: Origin, name: str | None = None) -> Ramp:
    r"""Make a change that goes on from one date to another, such as a slow slip.

    Parameters
    ----------
    start, end : date or number
        First and last label of the change, as ``at`` of `step`; `end` comes after `start`.
    name : str, optional
        First part of the param name: ``"x"`` gives x_ramp_2023-02-06.

    Returns
    -------
    Ramp
        A `Term` of the one param ramp_2023-02-06, the whole change in units of the cube.

    Raises
    ------
    ValueError
        An argument that is not as above.

    Notes
    -----
    Column :math:`\min(\max((t - t_0) / (t_1 - t_0), 0), 1)`, each entry the float64 next to it.

    Examples
    --------
    >>> ramp("2023-02-06", "2023-08-01")
    ramp(start=2023-02-06, end=2023-08-01)
    """
    return Ramp(cast(Mark, start), cast(Mark, end), name=name)


def decay(
    at: Origin,
    tau: Period | Iterable[Period],
    kind: str = "exp",
    unit: str = "year",
    name: str | None = None,
) -> Decay:
    r"""Make what begins at a date and slows down, such as the motion after an earthquake.

    Parameters
    ----------
    at : date or number
        Where it begins, as ``at`` of `step`.
    tau : float, timedelta, or several
        Decay time: a number of ``unit``, or a numpy, pandas or datetime timedelta. Each has a
        column of its own.
    kind : {"exp", "log"}
        Curve: one that comes to rest, or one that goes on ever more slowly. A text and the JSON of
        a term have it under the name ``curve``, since ``kind`` is that of the labels there.
    unit : {"year", "day", "hour", "minute", "second"}
        Unit of ``tau``; not to be given with timedeltas or for numbers. As in `polynomial`.
    name : str, optional
        First part of the param names: ``"x"`` gives x_exp_2023-02-06_30day.

    Returns
    -------
    Decay
        A `Term` with a param a tau, exp_2023-02-06_30day or log_2023-02-06_30day: of an
        exponential the whole change, of a logarithm the change by the time
        :math:`(e - 1) \tau`; both in units of the cube.

    Raises
    ------
    ValueError
        An argument that is not as above, or a tau twice.

    Notes
    -----
    Columns :math:`H(t - t_0) (1 - e^{-(t - t_0) / \tau})` and
    :math:`H(t - t_0) \log(1 + (t - t_0) / \tau)`. Afterslip follows the logarithm [1]_, relaxation
    the exponential [2]_.

    References
    ----------
    .. [1] Marone, C. J., Scholz, C. H., Bilham, R. (1991). On the mechanics of earthquake
       afterslip. J. Geophys. Res. 96, 8441-8452. https://doi.org/10.1029/91JB00275
    .. [2] Bevis, M., Brown, A. (2014). Trajectory models and reference frames for crustal motion
       geodesy. J. Geodesy 88, 283-311. https://doi.org/10.1007/s00190-013-0685-5

    Examples
    --------
    >>> decay("2023-02-06", [30, 300], kind="log", unit="day")
    decay(at=2023-02-06, tau="30, 300", curve=log, unit=day)
    """
    values = as_list(tau)
    durations = [v for v in values if isinstance(v, np.timedelta64 | datetime.timedelta)]
    if durations:
        if unit != "year" or len(durations) < len(values):
            raise ValueError(
                f"tau={tau!r} has timedeltas, beside which neither numbers nor unit={unit!r} have "
                "a use. Pass timedeltas alone."
            )
        values, unit = _lengths(durations)
    return Decay(cast(Mark, at), cast(Mark, values), curve=kind, unit=unit, name=name)


def _lengths(durations: list[np.timedelta64 | datetime.timedelta]) -> tuple[list[Any], str]:
    """Return timedeltas as numbers of the longest unit of which all are whole numbers."""
    try:
        pairs = [length_of(duration) for duration in durations]
    except ValueError as error:
        raise ValueError(str(error).replace("period=", "tau=")) from None
    order = list(UNITS)
    shortest = max((unit for _, unit in pairs), key=order.index)
    ticks = {unit: length or 0 for unit, length in UNITS.items()}
    return [number * (ticks[unit] // ticks[shortest]) for number, unit in pairs], shortest


def _ramp(part: Fraction) -> float:
    return 0.0 if part <= 0 else 1.0 if part >= 1 else float(part)


def _decay(tick: int | None, tau: Fraction, curve: str) -> float:
    """Return the curve ``tick`` after its start; NaN where that is missing or overflows."""
    if tick is None:
        return nan
    try:
        elapsed = float(max(tick, 0) / tau)
    except OverflowError:
        return nan
    return -expm1(-elapsed) if curve == "exp" else log1p(elapsed)
