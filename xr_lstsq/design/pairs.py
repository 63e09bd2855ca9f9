"""Terms of time as their differences over pairs of dates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.design.columns import Columns, Stable
from xr_lstsq.design.dates import DatesLike, as_labels, given
from xr_lstsq.design.ends import PairTerm
from xr_lstsq.design.registry import from_json, register
from xr_lstsq.design.terms import Term

__all__ = ["Pairs", "pairs"]


@register("pairs")
@dataclass(frozen=True, kw_only=True, repr=False)
class Pairs(PairTerm):
    """Terms of time as their differences over pairs of dates; made by `pairs`."""

    arguments: ClassVar[tuple[str, ...]] = (
        *("reference", "secondary", "samples", "kind", "calendar"),
    )
    in_text: ClassVar[bool] = False

    model: Term

    def __post_init__(self) -> None:
        """Check the arguments, which may come from a file, and bring them to their one form."""
        super().__post_init__()
        model: object = self.model
        if not isinstance(model, Term) or any(
            isinstance(part, PairTerm) or part.variables for part in model.terms
        ):
            raise ValueError(
                f"pairs takes terms of time, such as polynomial(1) + harmonics(1), not {model!r}."
            )

    def __repr__(self) -> str:
        """Write the term as it is typed in Python; the grammar has no terms within terms."""
        rest = super().__repr__().removeprefix("pairs(")
        return f"pairs({self.model!r}{'' if rest == ')' else ', '}{rest}"

    def to_json(self) -> dict[str, Any]:
        """Return the term as plain JSON data, with those inside under ``"terms"``."""
        return super().to_json() | {"terms": self.model.to_json()}

    @classmethod
    def from_object(cls, values: Mapping[str, Any], variables: Mapping[str, xr.DataArray]) -> Self:
        """Make the term from its JSON form; see `Term.from_object`."""
        inside = values.get("terms")
        rest = {key: value for key, value in values.items() if key != "terms"}
        unknown = [key for key in rest if key not in cls.arguments]
        if inside is None or unknown:
            raise ValueError(f"'pairs' needs 'terms' and takes {', '.join(cls.arguments)}.")
        return cls(model=from_json(inside, variables), **rest)

    def bind(self, coord: xr.DataArray) -> Self:
        """Bind the terms on all dates of all pairs together; see `Term.bind`.

        Raises
        ------
        LabelError
            As `PairTerm.ends`, and as the terms inside.
        ValueError
            As the terms inside, and where the term is bound to another kind of dates.
        """
        ends = self.ends(coord)
        if self.kind is not None:
            return self
        every = as_labels(ends.reference + ends.secondary, ends.kind, ends.calendar)
        return replace(self, **self.bound_to(coord, ends), model=self.model.bind(every))

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Make the columns of the terms at the secondary minus at the reference dates.

        Raises
        ------
        LabelError
            As `bind`.
        ValueError
            As `bind`, and where nothing is left of the terms.
        """
        bound = self.bind(coord)
        ends = bound.ends(coord)
        # At once, since a stable basis is that of the dates it is made on
        both = as_labels(ends.reference + ends.secondary, ends.kind, ends.calendar)
        columns = bound.model.evaluate(both)
        # What is added to every value of the cube is gone from their differences
        kept = [number for number, level in enumerate(columns.levels) if not level]
        if not kept:
            raise ValueError(f"nothing is left of {self}: pairs do not know what is constant.")
        return Columns(
            matrix=_difference(columns.matrix)[:, kept],
            names=tuple(columns.names[k] for k in kept),
            units=tuple(columns.units[k] for k in kept),
            long_names=tuple(columns.long_names[k] for k in kept),
            levels=(False,) * len(kept),
            origins=tuple(columns.origins[k] for k in kept),
            stable=None if columns.stable is None else _stable(columns.stable, kept),
        )


def pairs(
    terms: Term, reference: DatesLike = "reference", secondary: DatesLike = "secondary"
) -> Pairs:
    """Make terms of time fit pairs of dates, as the differences of their values.

    Parameters
    ----------
    terms : Term
        One term of time or a sum, such as ``polynomial(1) + harmonics(1)``.
    reference, secondary : str, DataArray or array, shape (n,)
        The two dates of each sample, as in `network`.

    Returns
    -------
    Pairs
        A `Term`. Names, units and origins of the params are those of ``terms``, without what is
        added to all values, such as an intercept, of which pairs know nothing. An origin "first"
        or "middle" is that of all dates of all pairs. It holds other terms, so it has no text for
        the shell.

    Raises
    ------
    LabelError
        As `network`.
    ValueError
        What is no term of time: data, or another term of pairs.

    Notes
    -----
    Columns f(secondary) - f(reference) of every column f of the terms, each value of f rounded
    once. So ``polynomial(1)`` gives the rate of a stack of interferograms, in one param [1]_.

    References
    ----------
    .. [1] D. T. Sandwell, E. J. Price, 1998. Phase gradient approach to stacking interferograms.
       JGR 103. https://doi.org/10.1029/1998JB900008

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from xr_lstsq.design import polynomial
    >>> pairs(polynomial(2))
    pairs(polynomial(2))
    >>> dates = np.array(["2018-01-01", "2018-07-02", "2018-12-31"], "datetime64[s]")
    >>> coord = xr.DataArray([0, 1], dims="pair").assign_coords(
    ...     reference=("pair", dates[:2]), secondary=("pair", dates[1:])
    ... )
    >>> columns = pairs(polynomial(1, unit="day")).evaluate(coord)
    >>> columns.names, columns.matrix.tolist()
    (('slope',), [[182.0], [182.0]])
    """
    return Pairs(model=terms, **given(reference, secondary))


def _difference(values: object) -> NDArray[np.float64]:
    """Return the rows of the secondary dates, which come last, minus those of the reference."""
    rows = np.asarray(values, dtype=np.float64)
    half = len(rows) // 2
    return rows[half:] - rows[:half]


def _stable(stable: Stable, kept: list[int]) -> Stable | None:
    """Return the stable basis of differences; None where what is left has none of its own."""
    to_coef = stable.to_coef[kept]
    used = to_coef.any(axis=0)
    if used.sum() != len(kept):
        return None
    return Stable(_difference(stable.matrix)[:, used], to_coef[:, used])
