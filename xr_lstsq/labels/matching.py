"""Match the labels of what comes with a cube to the cube's own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from xr_lstsq.errors import LabelError
from xr_lstsq.labels.record import shown

__all__ = ["match"]

SAME_LABEL = 0.05
"""Numbers closer than this share of the smallest spacing are one label (a float32 round trip)."""


def match(operand: xr.DataArray, cube: xr.DataArray, argument: str) -> xr.DataArray:
    """Bring design, weights or valid samples into the order of the cube's labels.

    Parameters
    ----------
    operand : DataArray
        Any dims; those that the cube has too are matched, others are left alone.
    cube : DataArray
        The cube, whose labels rule.
    argument : str
        Name of the argument, for errors.

    Returns
    -------
    DataArray
        The operand itself where its index equals the cube's (duplicates too), or has no index, or
        differs by no more than rounding; reordered where it has the same unique labels.

    Raises
    ------
    LabelError
        For sizes or labels that differ.
    """
    for dim in operand.dims:
        if dim not in cube.dims:
            continue
        mine, theirs = _index(operand, dim), _index(cube, dim)
        if mine is None or theirs is None:
            if operand.sizes[dim] != cube.sizes[dim]:
                msg = (
                    f"{argument} has {operand.sizes[dim]} values along {dim!r}, and "
                    f"{shown(cube)!r} has {cube.sizes[dim]}. Without labels on both sides the "
                    f"sizes must be equal: select the same samples, or assign coordinates."
                )
                raise LabelError(msg)
            continue
        if mine.equals(theirs):
            continue
        order = _reordering(mine, theirs)
        if order is not None:
            operand = operand.isel({dim: order})
        elif not _same_numbers(mine, theirs):
            raise LabelError(_difference(mine, theirs, argument, dim, cube))
    return operand


def _index(obj: xr.DataArray, dim: Hashable) -> pd.Index[Any] | None:
    """Return the index of a dim, or None."""
    index = obj.xindexes.get(dim)
    if index is None:
        return None
    try:
        return index.to_pandas_index()
    except TypeError:  # an index of another kind, such as one of intervals or of a raster
        return pd.Index(obj[dim].values)


def _reordering(mine: pd.Index[Any], theirs: pd.Index[Any]) -> Any | None:
    """Return the positions that bring `mine` into the order of `theirs`, if the sets are equal."""
    if len(mine) != len(theirs) or not (mine.is_unique and theirs.is_unique):
        return None
    order = mine.get_indexer(theirs)
    return None if (order < 0).any() else order


def _same_numbers(mine: pd.Index[Any], theirs: pd.Index[Any]) -> bool:
    """Return whether two indexes hold the same numbers in the same order, up to rounding."""
    gap = _largest_gap(mine, theirs)
    if gap is None:
        return False
    values = np.unique(theirs.to_numpy(dtype=np.float64))
    if values.size > 1:
        return gap <= SAME_LABEL * float(np.diff(values).min())
    return gap <= 4 * float(np.finfo(np.float32).eps) * float(np.abs(values).max(initial=0))


def _largest_gap(mine: pd.Index[Any], theirs: pd.Index[Any]) -> float | None:
    """Return the largest difference of two numeric indexes of equal size, else None."""
    if len(mine) != len(theirs) or not len(mine):
        return None
    if not (_is_numeric(mine) and _is_numeric(theirs)):
        return None
    gaps = np.abs(mine.to_numpy(dtype=np.float64) - theirs.to_numpy(dtype=np.float64))
    return float(gaps.max())


def _is_numeric(index: pd.Index[Any]) -> bool:
    """Return whether an index holds real numbers."""
    return isinstance(index.dtype, np.dtype) and index.dtype.kind in "iuf"


def _difference(
    mine: pd.Index[Any], theirs: pd.Index[Any], argument: str, dim: Hashable, cube: xr.DataArray
) -> str:
    """Say how two indexes differ and what to type."""
    if len(mine) != len(theirs):
        found = f"{len(mine)} labels along {dim!r} where {shown(cube)!r} has {len(theirs)}"
    elif (gap := _largest_gap(mine, theirs)) is not None:
        found = f"other labels along {dim!r} than {shown(cube)!r}: they differ by up to {gap:g}"
    elif mine.dtype == theirs.dtype and mine.dtype.kind == "M":
        gap_time = np.abs(mine.to_numpy() - theirs.to_numpy()).max()
        found = (
            f"other labels along {dim!r} than {shown(cube)!r}: they differ by up to "
            f"{pd.Timedelta(gap_time)}"
        )
    else:
        absent = theirs.difference(mine, sort=False)
        example = f", for example {absent[0]!r}" if len(absent) else ""
        found = (
            f"other labels along {dim!r} ({mine.dtype}) than {shown(cube)!r} ({theirs.dtype}): "
            f"{len(absent)} of the cube's are not in it{example}"
        )
    return (
        f"{argument} has {found}. Give it the cube's labels, for example "
        f"{argument} = {argument}.reindex_like({shown(cube)}[{dim!r}], method='nearest')."
    )
