"""A design as the solver takes it: a matrix, its params, and the specification that a fit keeps."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq.design.columns import Columns
from xr_lstsq.design.coordinate import Number, read_axis
from xr_lstsq.design.terms import Term
from xr_lstsq.errors import DtypeError, LabelError

__all__ = ["VARIABLE", "Design", "from_array", "from_labelled", "from_term", "refuse_dtype"]

VARIABLE = "design_matrix"
"""Variable of a fit that keeps a design given as a plain or labelled matrix."""


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of a least-squares problem on the samples of a cube.

    Attributes
    ----------
    array : DataArray
        Dims (dim, param dim), then any pixel dims when it differs from pixel to pixel.
    param : xarray.Coordinates
        Coordinates along the param dim.
    units : tuple of str, or None
        UDUNITS factor of each param, to be multiplied with the cube's units; None where the design
        does not tell.
    long_names : tuple of str, or None
        What each param is, where the design tells.
    levels : tuple of bool, or None
        Whether each param is a value of the cube or measures differences, where the design tells.
    specification : dict
        The design as JSON data.
    origins : tuple of str, or None
        The origin from which each param counts; None where the design does not tell.
    span : tuple or None
        Smallest and largest label of the samples, as an ISO 8601 text or a number, where the design
        is made of them.
    stored : bool
        Whether the fit has to keep the matrix, because the specification cannot remake it.
    """

    array: xr.DataArray
    param: xr.Coordinates
    units: tuple[str, ...] | None
    long_names: tuple[str, ...] | None
    levels: tuple[bool, ...] | None
    specification: dict[str, Any]
    origins: tuple[str, ...] | None
    span: tuple[str | Number, str | Number] | None
    stored: bool


def from_term(term: Term, coord: xr.DataArray, dim: Hashable, param_dim: str) -> Design:
    """Evaluate a term on the sample coordinate of a cube.

    Parameters
    ----------
    term : Term
        One term or a sum.
    coord : DataArray
        (n,) the sample coordinate.
    dim, param_dim : hashable
        Dims of the matrix.
    """
    bound = term.bind(coord)
    columns: Columns = bound.evaluate(coord)
    return Design(
        array=xr.DataArray(columns.matrix, dims=(dim, param_dim)),
        param=xr.Coordinates({param_dim: np.array(columns.names)}),
        units=columns.units,
        long_names=columns.long_names,
        levels=columns.levels,
        specification=bound.to_json(),
        origins=columns.origins,
        span=read_axis(_ends(coord)).span(),
        stored=False,
    )


def _ends(coord: xr.DataArray) -> xr.DataArray:
    """Return the smallest and the largest of the labels, or none."""
    there = coord[coord.notnull().values]
    if not there.size:
        return there
    order = [int(find(there.values)) for find in (np.argmin, np.argmax)]
    return there[order]


def from_array(values: Any, n: int, dim: Hashable, param_dim: str) -> Design:
    """Take a plain (n, p) array in the cube's own order; its params are numbered from 0.

    Raises
    ------
    ValueError
        For another number of rows or axes.
    DtypeError
        For values that are not real numbers.
    """
    array = values if hasattr(values, "dask") else np.asarray(values)
    refuse_dtype(array.dtype, "design")
    if array.ndim != 2:
        msg = (
            f"design has the shape {array.shape}, and a plain design needs the two axes "
            f"(samples, params). For one param write design.reshape(-1, 1); for a design per pixel "
            f"pass a DataArray with the dims ({dim!r}, {param_dim!r}, *pixel dims)."
        )
        raise ValueError(msg)
    if array.shape[0] != n:
        msg = (
            f"design has {array.shape[0]} rows, and the cube has {n} samples along {dim!r}. "
            "Pass one row a sample, in the cube's order, or a DataArray with labels to match."
        )
        raise ValueError(msg)
    return _stored(xr.DataArray(array, dims=(dim, param_dim)), param_dim, np.arange(array.shape[1]))


def from_labelled(matrix: xr.DataArray, dim: Hashable, param_dim: str) -> Design:
    """Take a DataArray whose labels have been matched with the cube's.

    Parameters
    ----------
    matrix : DataArray
        Dims `dim` and `param_dim` in any order, and pixel dims when it differs per pixel.
    dim, param_dim : hashable
        Its sample dim and its param dim.

    Raises
    ------
    LabelError
        When one of the two dims is not there.
    DtypeError
        For values that are not real numbers.
    """
    for needed, argument in ((dim, "dim"), (param_dim, "param_dim")):
        if needed not in matrix.dims:
            other = next((d for d in matrix.dims if d not in {dim, param_dim}), needed)
            msg = (
                f"design has the dims {matrix.dims}, and {needed!r} is not among them. "
                f"Pass {argument}={other!r}, or rename the dim of the design."
            )
            raise LabelError(msg)
    refuse_dtype(matrix.dtype, "design")
    labels = (
        matrix.coords[param_dim].values
        if param_dim in matrix.coords
        else np.arange(matrix.sizes[param_dim])
    )
    return _stored(matrix.transpose(dim, param_dim, ...), param_dim, labels)


def _stored(array: xr.DataArray, param_dim: str, labels: Any) -> Design:
    """Return the design of a matrix, which a fit keeps unless it differs per pixel."""
    if array.sizes[param_dim] == 0:
        msg = "design has no params. Pass at least one column."
        raise ValueError(msg)
    if len(set(labels.tolist())) != len(labels):
        msg = f"design has the same param name more than once: {labels.tolist()}. Rename them."
        raise LabelError(msg)
    pixel_dims = [str(name) for name in array.dims[2:]]
    specification: dict[str, Any] = {"term": "matrix"}
    specification |= {"pixel_dims": pixel_dims} if pixel_dims else {"variable": VARIABLE}
    return Design(
        array=array,
        param=xr.Coordinates({param_dim: labels}),
        units=None,
        long_names=None,
        levels=None,
        specification=specification,
        origins=None,
        span=None,
        stored=not pixel_dims,
    )


def refuse_dtype(dtype: np.dtype[Any], argument: str) -> None:
    """Refuse a design, passed as `argument`, that does not hold real numbers."""
    if dtype.kind not in "biuf":
        msg = (
            f"{argument} has the dtype {dtype}, and a design holds real numbers. "
            "Convert it to float."
        )
        raise DtypeError(msg)
