"""Terms whose samples have two dates, such as interferograms: where the dates come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import xarray as xr

from xr_lstsq.design import grammar
from xr_lstsq.design.binding import KINDS
from xr_lstsq.design.calendars import CALENDARS, date_ticks
from xr_lstsq.design.coordinate import DATETIME64
from xr_lstsq.design.dates import (
    MISSING,
    SIDES,
    Dates,
    read_coordinate,
    read_dates,
    sample_labels,
)
from xr_lstsq.design.terms import Term
from xr_lstsq.errors import LabelError

__all__ = ["Ends", "PairTerm"]

Side: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Ends:
    """The two dates of each of n samples.

    Attributes
    ----------
    reference, secondary : tuple of str, length n
        ISO 8601 texts, `MISSING` where there is no date.
    kind : {"datetime64", "cftime"}
        What the dates were, or are taken for where they were texts.
    calendar : str
        A key of `CALENDARS`.
    """

    reference: tuple[str, ...]
    secondary: tuple[str, ...]
    kind: str
    calendar: str

    def dates(self) -> tuple[str, ...]:
        """Return every date of the samples that have both, once, from early to late."""
        both = zip(self.reference, self.secondary, strict=True)
        found = {text for pair in both if MISSING not in pair for text in pair}
        return tuple(sorted(found, key=lambda text: date_ticks(text, self.calendar)))


@dataclass(frozen=True, kw_only=True, repr=False)
class PairTerm(Term):
    """A term whose samples have two dates; its dates are those of coordinates or its own.

    ``reference`` and ``secondary`` are names of coordinates, or tuples of ISO texts, one a sample;
    ``samples`` are the labels of the samples that such texts are for. ``kind`` is None while the
    term is unbound.
    """

    reference: Side = "reference"
    secondary: Side = "secondary"
    samples: tuple[str, ...] | None = None
    kind: str | None = None
    calendar: str | None = None

    def __post_init__(self) -> None:
        """Check the arguments, which may come from a file, and bring them to their one form."""
        for side in SIDES:
            object.__setattr__(self, side, _as_side(getattr(self, side), side))
        object.__setattr__(self, "samples", _as_samples(self.samples))
        own = [value for value in (self.reference, self.secondary) if not isinstance(value, str)]
        counts = {len(value) for value in (*own, self.samples) if value is not None}
        if len(counts) > 1 or (self.samples is not None and not own):
            raise ValueError(
                "reference, secondary and samples do not have one length, "
                f"but {', '.join(map(str, sorted(counts)))}. Pass two dates for each sample."
            )
        if self.kind not in (None, "datetime64", "cftime"):
            raise ValueError(f"kind={self.kind!r} must be 'datetime64' or 'cftime'.")
        known = (*CALENDARS, None) if self.kind is None else KINDS[self.kind]
        if self.calendar not in known:
            raise ValueError(
                f"calendar={self.calendar!r} does not go with kind={self.kind!r}, which has "
                f"{', '.join(map(str, known))}."
            )

    def __repr__(self) -> str:
        """Write the term in the grammar of the terms, with the names of all arguments."""
        default = {field.name: field.default for field in fields(self)}
        values = [(name, getattr(self, name)) for name in self.arguments]
        told = [(name, _as_text(name, value)) for name, value in values if value != default[name]]
        return grammar.write(self.word, [], told)

    def to_json(self) -> dict[str, Any]:
        """Return the term as plain JSON data; see `Term.to_json`."""
        data = super().to_json()
        return {key: list(v) if isinstance(v, tuple) else v for key, v in data.items()}

    def ends(self, coord: xr.DataArray) -> Ends:
        """Read the two dates of each sample.

        Parameters
        ----------
        coord : DataArray, shape (n,)
            The sample coordinate, with all others that lie along its dim attached.

        Returns
        -------
        Ends
            The dates in the order of the samples.

        Raises
        ------
        LabelError
            A coordinate is not there or holds no dates, the dates are of two kinds, a sample has
            one date twice, or dates that the term holds are not those of the samples.
        ValueError
            The term is bound to another kind of dates or another calendar.
        """
        first, second = (self._side(coord, side) for side in SIDES)
        for number, (one, other) in enumerate(zip(first[0], second[0], strict=True)):
            if one == other != MISSING:
                raise LabelError(
                    f"sample {number} along {coord.dims[0]!r} is a pair of {one} with itself, and "
                    "a pair needs two dates. Leave it out of the cube."
                )
        kinds = {kind for kind in (first[1], second[1]) if kind is not None}
        calendars = {calendar for calendar in (first[2], second[2]) if calendar is not None}
        if len(kinds) > 1 or len(calendars) > 1:
            raise LabelError(
                f"reference and secondary of {self.word!r} are dates of several kinds, "
                f"{', '.join(sorted(map(str, kinds | calendars)))}. Convert one of them, so that "
                "both are datetime64 or cftime dates of one calendar."
            )
        calendar = next(iter(calendars), None) or DATETIME64
        kind = next(iter(kinds), None) or ("datetime64" if calendar == DATETIME64 else "cftime")
        if self.kind is not None and (self.kind, self.calendar) != (kind, calendar):
            raise ValueError(
                f"{self.word!r} is bound to {self.kind} dates of the calendar {self.calendar!r}, "
                f"and these are {kind} dates of {calendar!r}. Convert the coordinates."
            )
        return Ends(first[0], second[0], kind, calendar)

    def bound_to(self, coord: xr.DataArray, ends: Ends) -> dict[str, Any]:
        """Return the arguments bound to samples; dates that a coordinate has go by its name.

        Parameters
        ----------
        coord : DataArray, shape (n,)
            As `ends` takes it.
        ends : Ends
            What `ends` gave on it.
        """
        sides = {side: getattr(self, side) for side in SIDES}
        for side, value in sides.items():
            if not isinstance(value, str):
                sides[side] = _name_of(coord, getattr(ends, side), side, ends)
        own = any(not isinstance(value, str) for value in sides.values())
        samples = sample_labels(coord) if own else None
        return sides | {"samples": samples, "kind": ends.kind, "calendar": ends.calendar}

    def _side(self, coord: xr.DataArray, side: str) -> Dates:
        """Return one date of each sample, from the coordinate of its name or its own."""
        value: Side = getattr(self, side)
        if isinstance(value, str):
            return read_coordinate(coord, value, side)
        mine, theirs = self.samples, sample_labels(coord)
        attach = f"cube.assign_coords({side}=({coord.dims[0]!r}, dates))"
        if mine is None or theirs is None or mine == theirs:
            if len(value) != coord.size:
                raise LabelError(
                    f"{side} of {self.word!r} has {len(value)} dates, and {coord.dims[0]!r} has "
                    f"{coord.size} samples. Pass one date a sample, or attach them: {attach}."
                )
            return value, self.kind, self.calendar
        place = dict(zip(mine, value, strict=True))
        absent = [label for label in theirs if label not in place]
        if absent or len(place) < len(mine):
            found = f"none for {absent[0]!r}" if absent else "several for one label"
            raise LabelError(
                f"{side} of {self.word!r} has dates by the labels of {coord.dims[0]!r}, and "
                f"{found}. Pass dates with the labels of the cube, or attach them: {attach}."
            )
        return tuple(place[label] for label in theirs), self.kind, self.calendar


def _name_of(coord: xr.DataArray, texts: tuple[str, ...], side: str, ends: Ends) -> Side:
    """Return the name of the coordinate that holds these dates, or the dates where none does."""
    others = [name for name, other in coord.coords.items() if other.dims == coord.dims]
    for name in sorted(map(str, others), key=lambda name: (name != side, name)):
        if name in coord.coords and coord.coords[name].dtype.kind in "MOUT":
            try:
                dates, kind, calendar = read_coordinate(coord, name, side)
            except LabelError:
                continue
            told = (kind or ends.kind, calendar or ends.calendar)
            if dates == texts and told == (ends.kind, ends.calendar):
                return name
    return texts


def _as_side(value: object, side: str) -> Side:
    """Bring one side to its one form: a name, or ISO texts, which stand joined in a text."""
    if isinstance(value, str):
        if "," not in value:
            return value
        try:
            return read_dates([text for text in value.split(",") if text], side)[0]
        except LabelError:
            return value
    if not isinstance(value, Sequence) or not value:
        raise ValueError(f"{side}={value!r} must be the name of a coordinate, or dates.")
    return read_dates(value, side)[0]


def _as_samples(value: object) -> tuple[str, ...] | None:
    """Bring labels of samples to their one form; in a text they stand as JSON."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = ()
    if found is None:
        return None
    if not (isinstance(found, Sequence) and found and all(isinstance(x, str) for x in found)):
        raise ValueError(f"samples={value!r} must be the labels of samples, as a list of texts.")
    return tuple(found)


def _as_text(name: str, value: Any) -> grammar.Value:
    """Return an argument as a value of the grammar, which has no lists."""
    if not isinstance(value, tuple):
        plain: grammar.Value = value
        return plain
    if name == "samples":
        return json.dumps(value)
    # With a comma even where there is one, which tells dates from the name of a coordinate
    return ",".join(value) if len(value) > 1 else f"{value[0]},"
