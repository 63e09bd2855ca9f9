"""The columns that a design gives on a sample coordinate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xr_lstsq.errors import LabelError

__all__ = ["Columns"]


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns that a design gives on a sample coordinate, and what they are called.

    Attributes
    ----------
    matrix : ndarray of float64, shape (n, p)
        One row a sample, one column a param. A row of a missing label is NaN.
    names : tuple of str, length p
        Param names.
    units : tuple of str, length p
        UDUNITS factors which, times the cube's units, are the units of the coefficients:
        ``""`` for an intercept, ``"year-1"`` for a slope per year.
    long_names : tuple of str, length p
        What each coefficient is, such as ``"value at 2000-01-01"``.
    levels : tuple of bool, length p
        True where a coefficient is a value of the cube, False where it measures differences of
        values: an intercept of degC stays degC, an amplitude is K.
    origins : tuple of str, length p
        The origin from which each counts; ``""`` where there is none.
    """

    matrix: NDArray[np.float64]
    names: tuple[str, ...]
    units: tuple[str, ...]
    long_names: tuple[str, ...]
    levels: tuple[bool, ...]
    origins: tuple[str, ...]

    @classmethod
    def join(cls, parts: Iterable[Columns]) -> Columns:
        """Put the columns of several terms side by side.

        Parameters
        ----------
        parts : iterable of Columns
            One or more, of the same n samples.

        Returns
        -------
        Columns
            All columns, in the order given.

        Raises
        ------
        LabelError
            Two columns have the same name.
        """
        parts = list(parts)
        names = tuple(name for part in parts for name in part.names)
        equal = sorted({name for name in names if names.count(name) > 1})
        if equal:
            raise LabelError(
                f"two terms give the same param names {', '.join(map(repr, equal))}, and each "
                "param needs its own. Pass name= to one of the terms: name='second' makes it "
                f"'second_{equal[0]}'."
            )
        return cls(
            matrix=np.concatenate([part.matrix for part in parts], axis=1),
            names=names,
            units=tuple(unit for part in parts for unit in part.units),
            long_names=tuple(text for part in parts for text in part.long_names),
            levels=tuple(level for part in parts for level in part.levels),
            origins=tuple(origin for part in parts for origin in part.origins),
        )
