"""Terms of a design: what they promise, and how they join."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

import xarray as xr

from xr_lstsq.design import grammar
from xr_lstsq.design.columns import Columns
from xr_lstsq.errors import LabelError

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
    in_text : bool
        Whether the grammar can say it, as it cannot what holds data or other terms.
    remade : bool
        Whether what was read from JSON makes its columns; else a fit keeps its whole matrix.
    """

    word: ClassVar[str]
    arguments: ClassVar[tuple[str, ...]]
    in_text: ClassVar[bool] = True
    remade: ClassVar[bool] = True

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

    @property
    def variables(self) -> dict[str, xr.DataArray]:
        """Data that the JSON form does not hold, by the names of the variables that keep them."""
        return {}

    def map_data(self, function: Callable[[xr.DataArray, str], xr.DataArray]) -> Term:
        """Return the term with its data changed by a function.

        Parameters
        ----------
        function : callable
            Takes a DataArray and what to call it in an error, and returns a DataArray.
        """
        del function
        return self

    @classmethod
    def from_object(cls, values: Mapping[str, Any], variables: Mapping[str, xr.DataArray]) -> Self:
        """Make the term from the keys of its JSON form and the variables that keep its data.

        Raises
        ------
        ValueError
            An unknown or absent key, or a value that the term refuses.
        """
        del variables
        unknown = [key for key in values if key not in cls.arguments]
        if unknown:
            known = ", ".join(cls.arguments)
            raise ValueError(f"unknown argument {unknown[0]!r}; {cls.word!r} takes {known}.")
        needed = [field.name for field in fields(cls) if field.default is MISSING]
        absent = [name for name in needed if name not in values]
        if absent:
            raise ValueError(f"{cls.word!r} needs its argument {absent[0]!r}.")
        return cls(**values)

    @abstractmethod
    def bind(self, coord: xr.DataArray) -> Term:
        """Resolve everything that depends on the sample coordinate.

        Parameters
        ----------
        coord : DataArray, shape (n,)
            The sample coordinate, with all others that lie along its dim attached.

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

    @property
    def variables(self) -> dict[str, xr.DataArray]:
        """Data of all parts.

        Raises
        ------
        LabelError
            When two parts keep theirs under one name.
        """
        found: dict[str, xr.DataArray] = {}
        for part in self.parts:
            for name, data in part.variables.items():
                if name in found:
                    raise LabelError(
                        f"two terms keep their data as {name!r}. Pass name= to one of them."
                    )
                found[name] = data
        return found

    def map_data(self, function: Callable[[xr.DataArray, str], xr.DataArray]) -> Sum:
        """Change the data of every part; see `Term.map_data`."""
        return Sum(tuple(part.map_data(function) for part in self.parts))

    def bind(self, coord: xr.DataArray) -> Sum:
        """Bind every part; see `Term.bind`."""
        return Sum(tuple(term.bind(coord) for term in self.parts))

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Join the columns of the parts; see `Term.evaluate`."""
        return Columns.join(term.evaluate(coord) for term in self.parts)
