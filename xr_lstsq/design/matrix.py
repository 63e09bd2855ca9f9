"""A design as the solver takes it: a matrix, its params, and the specification that a fit keeps."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq.design.columns import COLUMN, Columns
from xr_lstsq.design.coordinate import Number, read_axis
from xr_lstsq.design.kept import keep
from xr_lstsq.design.separable import inseparable
from xr_lstsq.design.terms import Term
from xr_lstsq.errors import DtypeError, LabelError

__all__ = [
    "VARIABLE",
    "Design",
    "from_array",
    "from_labelled",
    "from_term",
    "refuse_dtype",
    "sample_coordinate",
]

VARIABLE = "design_matrix"
"""Variable of a fit that keeps a design given as a plain or labelled matrix."""


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of a least-squares problem on the samples of a cube.

    Attributes
    ----------
    array : DataArray
        Dims (dim, param dim), then any pixel dims when it differs from pixel to pixel; what is
        solved with.
    param : xarray.Coordinates
        Coordinates along the param dim.
    specification : dict
        The design as JSON data.
    variables : dict of str to DataArray
        What a fit has to keep of it, because the specification cannot remake it.
    columns : Columns, optional
        What the terms gave; None for a matrix, which does not tell.
    span : tuple or None
        Smallest and largest label of the samples, as an ISO 8601 text or a number, where the design
        is made of them.
    inseparable : tuple of str
        Params that the samples cannot tell apart even without gaps.
    """

    array: xr.DataArray
    param: xr.Coordinates
    specification: dict[str, Any]
    variables: dict[str, xr.DataArray] = field(default_factory=dict)
    columns: Columns | None = None
    span: tuple[str | Number, str | Number] | None = None
    inseparable: tuple[str, ...] = ()

    @property
    def rules(self) -> dict[str, Any]:
        """What the terms ask of the solver beside their columns."""
        if self.columns is None:
            return {}
        stable = self.columns.stable
        return {
            "to_coef": None if stable is None else stable.to_coef,
            "required": self.columns.required,
            "constraint": self.columns.constraint,
        }


def from_term(term: Term, coord: xr.DataArray, dim: Hashable, param_dim: str) -> Design:
    """Evaluate a term on the sample coordinate of a cube.

    Parameters
    ----------
    term : Term
        One term or a sum.
    coord : DataArray
        (n,) the sample coordinate, with the others along its dim.
    dim, param_dim : hashable
        Dims of the matrix.
    """
    bound = term.bind(coord)
    columns: Columns = bound.evaluate(coord)
    matrix = columns.matrix if columns.stable is None else columns.stable.matrix
    if isinstance(matrix, xr.DataArray):
        along = [name for name, c in matrix.coords.items() if {dim, COLUMN} & {*c.dims}]
        array = matrix.drop_vars(along).rename({COLUMN: param_dim})
    else:
        array = xr.DataArray(matrix, dims=(dim, param_dim))
    names = np.array(columns.names)
    variables = {name: keep(data) for name, data in bound.variables.items()}
    if not (array.ndim > 2 or all(part.remade for part in bound.terms)):
        plain = xr.DataArray(columns.matrix, dims=(dim, param_dim))
        variables[VARIABLE] = _bare(plain, param_dim, names)
    return Design(
        array=array,
        param=xr.Coordinates({param_dim: names}),
        specification=bound.to_json(),
        variables=variables,
        columns=columns,
        span=_span(coord),
        inseparable=() if isinstance(matrix, xr.DataArray) else inseparable(matrix, columns.names),
    )


def _span(coord: xr.DataArray) -> tuple[str | Number, str | Number] | None:
    """Return the smallest and the largest label; None where labels have no order in time."""
    if coord.name == coord.dims[0] and coord.name not in coord.coords:
        return None
    there = coord[coord.notnull().values]
    if not there.size or there.dtype.kind not in "MiufO":
        return None
    try:
        order = [int(find(there.values)) for find in (np.argmin, np.argmax)]
        return read_axis(there[order]).span()
    except (LabelError, TypeError):
        return None


def sample_coordinate(cube: xr.DataArray, dim: Hashable) -> xr.DataArray:
    """Return the sample coordinate with all others along its dim, for the terms to read.

    Where the dim has none of its own the positions stand in, without a coordinate, so that terms
    which need labels refuse them.
    """
    coordinate: xr.DataArray = cube.coords[dim] if dim in cube.coords else cube[dim]
    along = {name: coord for name, coord in cube.coords.items() if coord.dims == (dim,)}
    return coordinate.assign_coords(along)


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
        specification=specification,
        # Without coordinates along the samples, which only residuals and fitted values carry
        variables={} if pixel_dims else {VARIABLE: _bare(array, param_dim, labels)},
    )


def _bare(array: xr.DataArray, param_dim: str, labels: Any) -> xr.DataArray:
    """Return a matrix with the names of its params alone."""
    return xr.DataArray(
        array.data, {param_dim: labels}, array.dims, attrs={"long_name": "design matrix"}
    )


def refuse_dtype(dtype: np.dtype[Any], argument: str) -> None:
    """Refuse a design, passed as `argument`, that does not hold real numbers."""
    if dtype.kind not in "biuf":
        msg = (
            f"{argument} has the dtype {dtype}, and a design holds real numbers. "
            "Convert it to float."
        )
        raise DtypeError(msg)
