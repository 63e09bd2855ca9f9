"""Terms of a design: what they promise, and how they join."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import xarray as xr

from xr_lstsq.design import grammar
from xr_lstsq.design.columns import Columns

__all__ = ["Sum", "Term"]


@dataclass(frozen=True, repr=False)
class Term(ABC):
    """A part of a design that makes its columns from the sample coordinate.

    Terms are values: frozen, hashable, equal when they say the same. ``+`` joins them. The text
    of a term is the grammar that `parse` reads, and `to_json` is what `from_json` reads.

    Attributes
    ----------
    word : str
        Name of the term in the grammar and in JSON, set by `register`.
    arguments : tuple of str
        Names of its arguments in positional order; each is an attribute of the term.
    """

    word: ClassVar[str]
    arguments: ClassVar[tuple[str, ...]]

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms joined here, in order; a single term holds itself."""
        return (self,)

    def __add__(self, other: Term) -> Sum:
        """Join two designs; the columns of ``other`` come last."""
        if not isinstance(other, Term):
            return NotImplemented
        return Sum(self.terms + other.terms)

    def __repr__(self) -> str:
        """Write the term in the grammar of the terms."""
        default = {field.name: field.default for field in fields(self)}
        positional: list[grammar.Value] = []
        named: list[tuple[str, grammar.Value]] = []
        for name in self.arguments:
            value = getattr(self, name)
            if value == default[name] and default[name] is not MISSING:
                continue
            # Only numbers are clear without their name, and only while none was left out.
            if len(positional) == self.arguments.index(name) and not isinstance(value, str):
                positional.append(value)
            else:
                named.append((name, value))
        return grammar.write(self.word, positional, named)

    def to_json(self) -> dict[str, Any]:
        """Return the term as plain JSON data; arguments that are None are left out.

        Returns
        -------
        dict
            Key ``"term"`` and one key an argument.
        """
        values = {name: getattr(self, name) for name in self.arguments}
        return {"term": self.word} | {k: v for k, v in values.items() if v is not None}

    @abstractmethod
    def bind(self, coord: xr.DataArray) -> Term:
        """Resolve everything that depends on the sample coordinate.

        Parameters
        ----------
        coord : DataArray, shape (n,)
            The sample coordinate.

        Returns
        -------
        Term
            A term whose JSON holds the origin, the kind of coordinate and the calendar. A bound
            term comes back as it is.

        Raises
        ------
        LabelError
            The coordinate is missing or of a kind that no term can read.
        ValueError
            The arguments do not suit the coordinate, or the term is bound to another kind of
            coordinate or another calendar.
        """

    @abstractmethod
    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Make the columns of the design, binding the term first if it is unbound.

        Parameters
        ----------
        coord : DataArray, shape (n,)
            The sample coordinate. A row depends on its own label only (but for the origins
            "first" and "middle" of an unbound term), so overlapping coordinates have equal rows.

        Returns
        -------
        Columns
            With a matrix of shape (n, p). The row of a missing label (NaT, NaN) is NaN.

        Raises
        ------
        LabelError
            As `bind`, and where two columns have the same name.
        ValueError
            As `bind`.
        """


@dataclass(frozen=True, repr=False)
class Sum(Term):
    """Two or more terms side by side; sums inside are flattened."""

    parts: tuple[Term, ...]

    def __post_init__(self) -> None:
        """Flatten the parts."""
        flat = tuple(term for part in self.parts for term in part.terms)
        if len(flat) < 2:
            raise ValueError(f"a sum needs two terms or more, and has {len(flat)}.")
        object.__setattr__(self, "parts", flat)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms joined here, in order."""
        return self.parts

    def __repr__(self) -> str:
        """Write the sum in the grammar of the terms."""
        return " + ".join(map(repr, self.parts))

    def to_json(self) -> dict[str, Any]:
        """Return ``{"term": "sum", "terms": [...]}``."""
        return {"term": "sum", "terms": [term.to_json() for term in self.parts]}

    def bind(self, coord: xr.DataArray) -> Sum:
        """Bind every part; see `Term.bind`."""
        return Sum(tuple(term.bind(coord) for term in self.parts))

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Join the columns of the parts; see `Term.evaluate`."""
        return Columns.join(term.evaluate(coord) for term in self.parts)
