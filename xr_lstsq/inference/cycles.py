"""Amplitude and phase of the harmonics of a fit, and when their sum is largest."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.design.calendars import CALENDARS, DAY, date_ticks, unit_ticks
from xr_lstsq.design.time import Harmonics
from xr_lstsq.errors import LabelError
from xr_lstsq.inference import waves
from xr_lstsq.inference.reading import Model, names_along, read

__all__ = ["amplitude", "phase"]

PLURAL = ("days", "hours", "minutes", "seconds")
"""Units from which readers of files make timedeltas of a time of a cycle."""


def amplitude(fit: xr.Dataset, *, term: str | None = None) -> xr.Dataset:
    """Return the amplitude of each harmonic of a fit: see `.lstsq.amplitude`.

    Examples
    --------
    >>> import xr_lstsq
    >>> time = np.arange("2001-01", "2003-01", dtype="datetime64[M]").astype("datetime64[ns]")
    >>> cube = xr.DataArray(np.tile([3.0, 2, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3], 2), {"time": time})
    >>> fit = cube.lstsq.solve("polynomial(0) + harmonics(1)", stats="cov")
    >>> amplitude(fit).amplitude.round(2).values
    array([1.52])
    """
    parts: dict[str, xr.DataArray] = {}
    for model in read(fit):
        cycle = _harmonics(model, term)
        units = model.units.get(cycle.param_name("cos_1"))
        what = f"amplitude of harmonics of {model.title}, {_cycle_text(cycle)}"
        answers = [_Answer("amplitude", ["harmonic"], what, units, units)]
        parts |= _maps(model, cycle, waves.amplitudes, answers)
    return xr.Dataset(parts, attrs=fit.attrs)


def phase(fit: xr.Dataset, *, term: str | None = None) -> xr.Dataset:
    """Return phases of harmonics, and when the sum of them all is largest: see `.lstsq.phase`.

    Examples
    --------
    >>> import xr_lstsq
    >>> time = np.arange("2001-01", "2003-01", dtype="datetime64[M]").astype("datetime64[ns]")
    >>> cube = xr.DataArray(np.tile([3.0, 2, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3], 2), {"time": time})
    >>> fit = cube.lstsq.solve("polynomial(0) + harmonics(1)")
    >>> phase(fit).peak_day.round(1).item()
    350.8
    """
    parts: dict[str, xr.DataArray] = {}
    for model in read(fit):
        cycle = _harmonics(model, term)
        model.refuse_joined()
        clock = _read_clock(cycle)
        text = _cycle_text(cycle)
        angle = f"phase of harmonics of {model.title}, {text}, from {cycle.origin_name()}"
        peak = f"{clock.text} of the largest value of the sum of harmonics of {model.title}, {text}"
        answers = [
            _Answer("phase", ["harmonic"], angle, "radian", "radian"),
            _Answer(clock.name, [], peak, clock.unit, clock.error_unit),
        ]
        parts |= _maps(model, cycle, functools.partial(_phases, clock=clock), answers)
    return xr.Dataset(parts, attrs=fit.attrs)


def _phases(coef: NDArray[Any], cov: NDArray[Any] | None = None, *, clock: _Clock) -> Any:
    """Return phases (..., n) and the time of the peak (...), then the errors of both if known."""
    if cov is None:
        return waves.phases(coef), clock.read(waves.peaks(coef))
    angle, angle_error = waves.phases(coef, cov)
    peak, peak_error = waves.peaks(coef, cov)
    return angle, clock.read(peak), angle_error, peak_error * (clock.period / math.tau)


@dataclass(frozen=True)
class _Clock:
    """How an angle of a cycle is told as a time: first + (start + turns * period) % period."""

    name: str
    text: str
    period: float
    unit: str
    error_unit: str
    first: float = 0.0
    start: float = 0.0

    def read(self, angle: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the times of angles in [0, 2 pi)."""
        time = (self.start + angle * (self.period / math.tau)) % self.period
        return self.first + time


def _read_clock(cycle: Harmonics) -> _Clock:
    """Return days of the year for a cycle of one year, and times from the origin for others."""
    period = Fraction(str(cycle.period))
    calendar = cycle.calendar
    days = 0 if calendar is None else period * unit_ticks(cycle.unit, calendar) / DAY
    if calendar is not None and days == CALENDARS[calendar]:
        origin = str(cycle.origin)
        begin = f"{origin.partition('T')[0].rsplit('-', 2)[0]}-01-01"
        since = (date_ticks(origin, calendar) - date_ticks(begin, calendar)) / DAY
        return _Clock(
            "peak_day", "day of year", float(days), "day of year", "day", 1.0, float(since)
        )
    unit = (cycle.unit.removesuffix("s") if cycle.unit in PLURAL else cycle.unit) or "1"
    return _Clock("peak_time", f"time from {cycle.origin_name()}", float(period), unit, unit)


def _harmonics(model: Model, name: str | None) -> Harmonics:
    """Return the harmonics of a name, or the only ones."""
    terms = model.terms
    found = [] if terms is None else [t for t in terms.terms if isinstance(t, Harmonics)]
    if not found:
        what = "a matrix" if terms is None else f"{terms}, without harmonics"
        msg = (
            f"amplitude and phase are those of harmonics, and the design of {model.title} is "
            f'{what}. Solve with a design such as "polynomial(1) + harmonics(1, 2)".'
        )
        raise ValueError(msg)
    chosen = [one for one in found if name is None or (one.name or "") == name]
    if len(chosen) != 1:
        known = " or ".join(f"term={one.name or ''!r} for {one}" for one in found)
        msg = (
            f"term={name!r} names {len(chosen) or 'none'} of the harmonics of {model.title}. "
            f"Pass {known}."
        )
        raise ValueError(msg)
    return chosen[0]


def _coefficients(model: Model, cycle: Harmonics) -> list[xr.DataArray]:
    """Return cos_1, sin_1, cos_2, ... along the params, and their covariance if there is one."""
    first, second = model.param_dim, f"{model.param_dim}_2"
    pairs = [(word, k + 1) for k in range(cycle.n) for word in ("cos", "sin")]
    wanted = [cycle.param_name(f"{word}_{k}") for word, k in pairs]
    cov = model.get("cov")
    known = [model.coef] if cov is None else [model.coef, cov]
    places = {}
    for array, dim in zip(known, (first, second), strict=False):
        names = names_along(array, dim)
        absent = [name for name in wanted if name not in names]
        if absent:
            msg = (
                f"{array.name!r} has the params {names} along {dim!r}, and {cycle} needs {absent} "
                "too. Use the fit as it was before selecting params."
            )
            raise LabelError(msg)
        places[dim] = [names.index(name) for name in wanted]
    chosen = [array.isel(places, missing_dims="ignore") for array in known]
    # Labels are put back at the end; a covariance may lack some.
    bare = [array.drop_vars(list(array.coords)) for array in chosen]
    return [
        one if one.chunks is None else one.chunk({dim: -1 for dim in places if dim in one.dims})
        for one in bare
    ]


@dataclass(frozen=True)
class _Answer:
    """A result: its name and dims before those of pixels, what it is, its units and its error's."""

    name: str
    dims: list[str]
    text: str
    units: str | None
    error_units: str | None

    def attrs(self) -> dict[str, str]:
        """Return the CF attributes."""
        units = {} if self.units is None else {"units": self.units}
        return {"long_name": self.text, **units}

    def error(self) -> _Answer:
        """Return the result that is the error of this one."""
        text = f"standard error of the {self.text}"
        return replace(self, name=f"{self.name}_stderr", text=text, units=self.error_units)


def _maps(
    model: Model, cycle: Harmonics, function: Callable[..., Any], answers: list[_Answer]
) -> dict[str, xr.DataArray]:
    """Return what a function makes of coefficients and covariance, labelled; lazy as the fit is."""
    known = _coefficients(model, cycle)
    if len(known) > 1:
        answers = [*answers, *(one.error() for one in answers)]
    names = [model.prefix + one.name for one in answers]
    model.refuse_taken(("harmonic", *names))
    axes = [[model.param_dim], [model.param_dim, f"{model.param_dim}_2"]][: len(known)]
    arrays = xr.apply_ufunc(
        function,
        *known,
        input_core_dims=axes,
        output_core_dims=[one.dims for one in answers],
        keep_attrs=False,
        dask="parallelized",
        output_dtypes=[np.float64] * len(answers),
        dask_gufunc_kwargs={"output_sizes": {"harmonic": cycle.n}},
    )
    number = np.arange(1, cycle.n + 1)
    harmonic = xr.DataArray(number, dims="harmonic", attrs={"long_name": "number of the harmonic"})
    found = {}
    for name, answer, array in zip(
        names, answers, arrays if isinstance(arrays, tuple) else (arrays,), strict=True
    ):
        one = model.finish(array.transpose(*answer.dims, ...), answer.attrs())
        found[name] = one.assign_coords(dict.fromkeys(answer.dims, harmonic))
        if f"{name}_stderr" in names:
            found[name].attrs["ancillary_variables"] = f"{name}_stderr"
    return found


def _cycle_text(cycle: Harmonics) -> str:
    """Write the period, with the unit where it has one."""
    return f"period {cycle.period} {cycle.unit}".rstrip()
