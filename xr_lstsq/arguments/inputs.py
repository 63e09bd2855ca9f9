"""Arguments that belong to a cube: its design, its weights, and which of its samples count."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq import blocks, labels
from xr_lstsq.arguments.options import Options
from xr_lstsq.design import Term
from xr_lstsq.design.matrix import Design, from_array, from_labelled, from_term, sample_coordinate
from xr_lstsq.design.steps import read_steps
from xr_lstsq.errors import DtypeError, LabelError
from xr_lstsq.method import HAC, Method

__all__ = ["Job", "names_used", "read_design", "read_method", "read_samples", "shared_dims"]


@dataclass(frozen=True, eq=False)
class Job:
    """One cube with everything that its fit needs, checked and matched."""

    cube: xr.DataArray
    dim: Hashable
    design: Design
    weights: xr.DataArray | None
    valid: xr.DataArray | None
    method: Method
    options: Options
    prefix: str

    @property
    def lazy(self) -> bool:
        """Whether any of the arrays is a dask array."""
        arrays = (self.cube, self.design.array, self.weights, self.valid)
        return any(blocks.is_lazy(array.data) for array in arrays if array is not None)


def shared_dims(design: Any, param_dim: str) -> tuple[Hashable, ...] | None:
    """Return the dims of a labelled design beside the params, else None."""
    if not isinstance(design, xr.DataArray):
        return None
    return tuple(name for name in design.dims if name != param_dim)


def read_design(design: Any, cube: xr.DataArray, dim: Hashable, param_dim: str) -> Design:
    """Return a design of any kind as a matrix on the cube's samples.

    Parameters
    ----------
    design : Term, DataArray or array
        Terms are evaluated on the sample coordinate, a DataArray is matched by its labels, a plain
        (n, p) array is in the cube's order.
    cube : DataArray
        The cube.
    dim : hashable
        Its sample dim.
    param_dim : str
        Name of the param dim.

    Raises
    ------
    LabelError, ValueError, TypeError
        For a design that does not fit the cube.
    """
    if isinstance(design, Term):
        term = design.map_data(lambda data, what: _with_labels_of(cube, data, what))
        return _in_order(from_term(term, sample_coordinate(cube, dim), dim, param_dim), cube)
    if isinstance(design, xr.Dataset):
        msg = "design is a Dataset. Pass one DataArray with the dims (dim, param)."
        raise TypeError(msg)
    if not isinstance(design, xr.DataArray):
        return from_array(design, cube.sizes[dim], dim, param_dim)
    return _in_order(from_labelled(labels.match(design, cube, "design"), dim, param_dim), cube)


def _with_labels_of(cube: xr.DataArray, data: xr.DataArray, what: str) -> xr.DataArray:
    """Return data of a term, matched with the cube and under its very labels."""
    matched = labels.match(data, cube, what)
    own = {name: cube[name] for name in matched.dims if name in cube.xindexes}
    bare = matched.drop_vars([name for name, c in matched.coords.items() if {*c.dims} & {*own}])
    return bare.assign_coords(own)


def _in_order(design: Design, cube: xr.DataArray) -> Design:
    """Return a design with its pixel dims in the cube's order; it may have no others."""
    dim, param_dim = design.array.dims[:2]
    foreign = [name for name in design.array.dims[2:] if name not in cube.dims]
    if foreign:
        msg = (
            f"design has the dims {foreign}, which {labels.shown(cube)!r} does not have "
            f"({cube.dims}). Select along them, or rename them."
        )
        raise LabelError(msg)
    order = [name for name in cube.dims if name in design.array.dims and name != dim]
    return replace(design, array=design.array.transpose(dim, param_dim, *order))


def read_method(method: Method, cube: xr.DataArray, dim: Hashable) -> Method:
    """Return how statistics are made, with the samples' places in time where that takes them.

    Raises
    ------
    LabelError
        When the samples do not lie along one time axis, and the method needs that.
    """
    if method.needs_time is None:
        return method
    steps = read_steps(cube.coords.get(dim), method.needs_time)
    maxlags = method.maxlags
    if method.cov_type == HAC and maxlags is None:
        # Newey and West 1994, doi:10.2307/2297912
        maxlags = int(4 * (cube.sizes[dim] / 100) ** (2 / 9))
    return replace(method, maxlags=maxlags, position=steps.position, regular=steps.regular)


def names_used(cubes: xr.Dataset, samples: dict[str, Any]) -> dict[str, str]:
    """Return which of the arguments are names of variables of a Dataset.

    Raises
    ------
    LabelError
        For a name that the Dataset does not have.
    """
    used = {argument: value for argument, value in samples.items() if isinstance(value, str)}
    for argument, name in used.items():
        if name not in cubes:
            msg = (
                f"{argument}={name!r} is not a variable of the Dataset, which has "
                f"{list(cubes.data_vars)}. Pass one of these, or a DataArray."
            )
            raise LabelError(msg)
    return used


def read_samples(
    value: Any, cube: xr.DataArray, dim: Hashable, argument: str
) -> xr.DataArray | None:
    """Return weights or flags of valid samples as a DataArray that fits the cube.

    Parameters
    ----------
    value : DataArray, array, or None
        Any subset of the cube's dims; a plain array is along `dim` or of the cube's shape.
    cube : DataArray
        The cube.
    dim : hashable
        Its sample dim.
    argument : {"weights", "valid"}
        Which of the two.

    Returns
    -------
    DataArray
        With dims in the cube's order, labels matched; or None.
    """
    if value is None:
        return None
    if isinstance(value, str):
        msg = (
            f"{argument}={value!r} names a variable, and {labels.shown(cube)!r} is a DataArray. "
            f"Pass the DataArray itself, or call .lstsq.solve on the Dataset with data=."
        )
        raise LabelError(msg)
    if not isinstance(value, xr.DataArray):
        array = value if blocks.is_lazy(value) else np.asarray(value)
        if array.ndim == 1 and array.shape[0] == cube.sizes[dim]:
            value = xr.DataArray(array, dims=(dim,))
        elif array.shape == cube.shape:
            value = xr.DataArray(array, dims=cube.dims)
        else:
            msg = (
                f"{argument} has the shape {array.shape}, and a plain array needs "
                f"({cube.sizes[dim]},) along {dim!r} or the cube's {cube.shape}. "
                "Pass a DataArray with named dims."
            )
            raise LabelError(msg)
    extra = [name for name in value.dims if name not in cube.dims]
    if extra:
        msg = (
            f"{argument} has the dims {extra}, which {labels.shown(cube)!r} does not have "
            f"({cube.dims}). Select along them, or rename them."
        )
        raise LabelError(msg)
    _CHECKS[argument](value)
    matched = labels.match(value, cube, argument)
    return matched.transpose(*(name for name in cube.dims if name in matched.dims))


def _check_weights(weights: xr.DataArray) -> None:
    """Refuse weights that are not real numbers, or negative ones where they are in memory."""
    if weights.dtype.kind not in "iuf":
        hint = " Pass flags of samples that count as valid=." if weights.dtype.kind == "b" else ""
        msg = f"weights has the dtype {weights.dtype}, and weights are real numbers.{hint}"
        raise DtypeError(msg)
    if blocks.is_lazy(weights.data):
        return
    negative = weights.values[weights.values < 0]
    if negative.size:
        msg = (
            f"weights has {negative.size} values below 0, the smallest {negative.min():g}. "
            "Weights are inverse variances and cannot be negative; use 0 to leave a sample out."
        )
        raise ValueError(msg)


def _check_valid(valid: xr.DataArray) -> None:
    """Refuse anything but flags: a layer of classes would silently keep the wrong samples."""
    if valid.dtype.kind not in "biu":
        msg = (
            f"valid has the dtype {valid.dtype}, and it holds flags: bool, or the integers 0 and "
            "1. Write the condition, for example valid=(cloud < 0.2)."
        )
        raise DtypeError(msg)
    if valid.dtype.kind == "b" or blocks.is_lazy(valid.data) or not valid.size:
        return
    found = np.unique(valid.values)
    if not np.isin(found, (0, 1)).all():
        some = ", ".join(map(str, found[:8].tolist()))
        name = "SCL" if valid.name is None else valid.name
        msg = (
            f"valid holds the values {some}, so it is a layer of classes and not of flags. "
            f"Name the classes that count: write ds.{name}.isin([4, 5, 7])."
        )
        raise ValueError(msg)


_CHECKS = {"weights": _check_weights, "valid": _check_valid}
