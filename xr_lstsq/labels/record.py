"""Take the labels off a cube, and put those that stay true back on an answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from xr_lstsq.errors import LabelError

__all__ = [
    "PARAM_ORIGIN",
    "PARAM_UNITS",
    "Labels",
    "data_attrs",
    "grid_mapping",
    "refuse_taken",
    "restore",
    "shown",
    "strip",
]

PARAM_UNITS = "param_units"
"""Name of the coordinate along the params that holds the units of each."""

PARAM_ORIGIN = "param_origin"
"""Name of the coordinate along the params that holds the origin of each: attributes of tiles that
are joined give way to the first's, and values do not."""

DROPPED = frozenset(
    {
        "_FillValue",
        "missing_value",
        "scale_factor",
        "add_offset",
        "dtype",
        "valid_min",
        "valid_max",
        "valid_range",
        "flag_values",
        "flag_masks",
        "flag_meanings",
        "standard_name",
        "cell_methods",
        "grid_mapping",
    }
)
"""Attributes that describe the stored numbers of the cube and would be false for its fit."""


@dataclass(frozen=True)
class Labels:
    """Everything about a DataArray but its values."""

    name: Hashable
    dims: tuple[Hashable, ...]
    coords: xr.Coordinates = field(repr=False)
    attrs: Mapping[Hashable, Any]
    encoding: Mapping[Hashable, Any]


def strip(cube: xr.DataArray) -> tuple[Any, Labels]:
    """Return the values (numpy or dask, not copied) and the labels of a cube."""
    labels = Labels(cube.name, cube.dims, cube.coords, dict(cube.attrs), dict(cube.encoding))
    return cube.data, labels


def restore(
    data: Any,
    labels: Labels,
    dims: tuple[Hashable, ...] | None = None,
    *,
    extra: xr.Coordinates | None = None,
) -> xr.DataArray:
    """Put labels back on an array.

    Parameters
    ----------
    data : array
        Values with the axes `dims`.
    labels : Labels
        From `strip`.
    dims : tuple, optional
        Dims of `data`; None means those of the cube, and then the result is the cube itself.
    extra : xarray.Coordinates, optional
        Coordinates of dims that the cube does not have.

    Returns
    -------
    xarray.DataArray
        With every coordinate of the cube whose dims are all there. Name, attrs and encoding are
        the cube's only when the dims are.
    """
    if dims is None:
        array = xr.DataArray(
            data, coords=labels.coords, dims=labels.dims, name=labels.name, attrs=dict(labels.attrs)
        )
        array.encoding = dict(labels.encoding)
        return array
    gone = [name for name, coord in labels.coords.items() if not set(coord.dims) <= set(dims)]
    # All coordinates of an index go together, and so no index is cut in two.
    kept = labels.coords.to_dataset().drop_vars(gone).coords
    array = xr.DataArray(data, coords=kept, dims=dims)
    return array if extra is None else array.assign_coords(extra)


def grid_mapping(labels: Labels) -> str | None:
    """Return the name of the cube's grid mapping, wherever the reader put it."""
    name = labels.encoding.get("grid_mapping", labels.attrs.get("grid_mapping"))
    if name is None:
        return "spatial_ref" if "spatial_ref" in labels.coords else None
    return str(name)


def data_attrs(labels: Labels) -> dict[Hashable, Any]:
    """Return the cube's attributes that stay true for values of the same quantity."""
    return {key: value for key, value in labels.attrs.items() if key not in DROPPED}


def shown(obj: xr.DataArray | xr.Dataset) -> str:
    """Return what to call a cube in an error."""
    if isinstance(obj, xr.Dataset):
        return "the Dataset"
    return "cube" if obj.name is None else str(obj.name)


def refuse_taken(
    cube: xr.DataArray,
    dim: Hashable,
    names: tuple[str, ...],
    own_dims: Mapping[str, str],
    *,
    keeps_samples: bool,
) -> None:
    """Refuse a cube whose names the fit needs for itself.

    Parameters
    ----------
    cube : DataArray
        The cube.
    dim : hashable
        The sample dim.
    names : tuple of str
        Names of the fit's variables.
    own_dims : mapping of str to str
        Names of the fit's dims that the cube does not have: ``param``, and others by what they are.
    keeps_samples : bool
        Whether the fit keeps the coordinates along `dim` (it does for residuals).

    Raises
    ------
    LabelError
        For a dim of the cube, or a coordinate that the fit keeps, with a name of the fit's.
    """
    param_dim = own_dims["param"]
    if param_dim in cube.dims:
        msg = (
            f"{shown(cube)!r} has a dim called {param_dim!r}, the name of the fit's axis of "
            "params. Pass param_dim='coefficient' (or another name), or rename the dim."
        )
        raise LabelError(msg)
    own = {*names, *own_dims.values(), PARAM_UNITS, PARAM_ORIGIN}
    kept = [n for n, coord in cube.coords.items() if keeps_samples or dim not in coord.dims]
    taken = [n for n in dict.fromkeys((*kept, *cube.dims)) if n in own]
    if taken:
        msg = (
            f"{shown(cube)!r} has coordinates or dims called {taken}, which are names of the "
            f"fit's own variables. Rename them, or leave them out with drop_vars({taken})."
        )
        raise LabelError(msg)
