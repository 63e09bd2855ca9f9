"""Terms that name labels themselves, as a step names its date: what they share."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np

from xr_lstsq.design.binding import LabelTerm, as_origin, describe
from xr_lstsq.design.calendars import date_ticks
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.coordinate import Number, SampleAxis

__all__ = ["Mark", "MarkTerm", "as_list", "as_mark", "as_marks", "in_order", "marks_of"]

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
        found = describe(axis.kind, axis.calendar)
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
