"""The columns that a design gives on a sample coordinate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.errors import LabelError

__all__ = ["COLUMN", "Columns", "Stable"]

Floats = NDArray[np.float64]
COLUMN = "a column of the design"
"""Dim of the columns of a matrix that differs from pixel to pixel."""


@dataclass(frozen=True, eq=False)
class Stable:
    """The same columns in a basis that keeps its digits, where powers of time do not.

    Attributes
    ----------
    matrix : ndarray of float64, shape (n, p)
        The columns of that basis.
    to_coef : ndarray of float64, shape (p, p)
        What turns its coefficients into those of the params.
    """

    matrix: Floats
    to_coef: Floats


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns that a design gives on a sample coordinate, and what they are called.

    Attributes
    ----------
    matrix : ndarray of float64, shape (n, p), or DataArray
        One row a sample, one column a param. A row of a missing label is NaN. A DataArray where it
        differs from pixel to pixel, with the dims (sample dim, `COLUMN`, pixel dims).
    names : tuple of str, length p
        Param names.
    units : tuple of str or None, length p
        UDUNITS factors which, times the cube's units, are the units of the coefficients:
        ``""`` for an intercept, ``"year-1"`` for a slope per year; None where they are not known.
    long_names : tuple of str, length p
        What each coefficient is, such as ``"value at 2000-01-01"``.
    levels : tuple of bool, length p
        True where a coefficient is a value of the cube, False where it measures differences of
        values: an intercept of degC stays degC, an amplitude is K.
    origins : tuple of str, length p
        The origin from which each counts; ``""`` where there is none.
    stable : Stable, optional
        The columns in a basis to be solved in, where theirs would lose digits.
    required : (ndarray of bool, shape (k, n), int), optional
        Groups of samples, and how many of each group a pixel must have to be solved.
    constraint : ndarray of float64, shape (k, p), optional
        Rows, times the root of their weight, that ought to give 0. A pixel of short rank is solved
        with them beside its own; they count in nothing else.
    """

    matrix: Floats | xr.DataArray
    names: tuple[str, ...]
    units: tuple[str | None, ...]
    long_names: tuple[str, ...]
    levels: tuple[bool, ...]
    origins: tuple[str, ...]
    stable: Stable | None = None
    required: tuple[NDArray[np.bool_], int] | None = None
    constraint: Floats | None = None

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
        ValueError
            Two terms have groups of samples that a pixel must have.
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
        required = [part.required for part in parts if part.required is not None]
        if len(required) > 1:
            raise ValueError("a design has one network at most, and this one has two. Drop one.")
        return cls(
            matrix=_beside([part.matrix for part in parts]),
            names=names,
            units=tuple(unit for part in parts for unit in part.units),
            long_names=tuple(text for part in parts for text in part.long_names),
            levels=tuple(level for part in parts for level in part.levels),
            origins=tuple(origin for part in parts for origin in part.origins),
            stable=_stable(parts),
            required=required[0] if required else None,
            constraint=_constraint(parts),
        )


def _beside(matrices: Sequence[Floats | xr.DataArray]) -> Floats | xr.DataArray:
    """Put matrices side by side: one for all pixels, unless one of them has pixels."""
    labelled = [matrix for matrix in matrices if isinstance(matrix, xr.DataArray)]
    if not labelled:
        return np.concatenate([np.asarray(matrix) for matrix in matrices], axis=1)
    dim = labelled[0].dims[0]
    # Rows are in order already, so that only pixels have labels to agree in
    bare = [matrix.drop_vars([dim, COLUMN], errors="ignore") for matrix in labelled]
    rest = iter(bare)
    whole = [
        next(rest) if isinstance(one, xr.DataArray) else xr.DataArray(one, dims=(dim, COLUMN))
        for one in matrices
    ]
    whole = list(xr.broadcast(*xr.align(*whole, join="exact", exclude=[COLUMN]), exclude=[COLUMN]))
    joined: xr.DataArray = xr.concat(whole, dim=COLUMN, coords="minimal", compat="override")
    return joined.transpose(dim, COLUMN, ...)


def _stable(parts: Sequence[Columns]) -> Stable | None:
    """Return the columns in the bases of those terms that have one; None where no term has."""
    if all(part.stable is None for part in parts):
        return None
    matrix = _beside([part.matrix if part.stable is None else part.stable.matrix for part in parts])
    if isinstance(matrix, xr.DataArray):
        return None
    to_coef = np.zeros((matrix.shape[1], matrix.shape[1]))
    start = 0
    for part in parts:
        own = slice(start, start + len(part.names))
        to_coef[own, own] = np.eye(len(part.names)) if part.stable is None else part.stable.to_coef
        start = own.stop
    return Stable(matrix, to_coef)


def _constraint(parts: Sequence[Columns]) -> Floats | None:
    """Return the constraints of all terms, each 0 at the params of the others."""
    if all(part.constraint is None for part in parts):
        return None
    total = sum(len(part.names) for part in parts)
    rows = []
    start = 0
    for part in parts:
        if part.constraint is not None:
            own = np.zeros((part.constraint.shape[0], total))
            own[:, start : start + len(part.names)] = part.constraint
            rows.append(own)
        start += len(part.names)
    return np.concatenate(rows)
