"""Variables as layers of a raster: dtype, tiles, and what is said of each band."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq.formats.cf import add_history
from xr_lstsq.formats.grid import spatial_dims

__all__ = ["Layer", "layers", "refuse_unstorable"]

# Attributes that tell a reader to unpack or blank numbers; what is written here is never packed.
PACKING = ("_FillValue", "missing_value", "scale_factor", "add_offset")
TILE_STEP = 16  # sides of TIFF tiles are multiples of it
TILE = 256
FEW_PIXELS = 64 * 64
MOST_PIXELS = 512 * 512
MOST_BANDS = 65_535
OTHERS = "write netCDF or Zarr, which hold all of a fit"


@dataclass(frozen=True, eq=False)
class Layer:
    """One variable in one file.

    Attributes
    ----------
    dims : tuple of hashable
        Dims of the variable in the order of the file: that of the bands, if any, rows, columns.
    dtype : str
        In the file.
    tile : tuple of int
        Rows and columns of a tile.
    descriptions, units : tuple of str
        Of each band.
    tags : dict of str to str
        Of the file.
    band_tags : list of dict of str to str
        Of each band.
    """

    dims: tuple[Hashable, ...]
    dtype: str
    tile: tuple[int, int]
    descriptions: tuple[str, ...]
    units: tuple[str, ...]
    tags: dict[str, str]
    band_tags: list[dict[str, str]]


def refuse_unstorable(dataset: xr.Dataset) -> None:
    """Raise a ValueError for what GeoTIFF files cannot hold, before anything is computed."""
    for name, index in dataset.xindexes.items():
        if isinstance(index, xr.indexes.PandasMultiIndex):
            msg = f"{name!r} is a MultiIndex, which a GeoTIFF cannot hold."
            call = f"fit.unstack({index.dim!r}) or fit.reset_index({index.dim!r})"
            raise ValueError(f"{msg} Call {call} first.")  # noqa: TRY004 - a value, not a type
    if not dataset.data_vars:
        raise ValueError("the Dataset has no data variables, so there is nothing to write.")
    spatial = spatial_dims(dataset)
    own = {
        name: [dim for dim in variable.dims if dim not in spatial]
        for name, variable in dataset.data_vars.items()
    }
    shapeless = [
        name
        for name, variable in dataset.data_vars.items()
        if not {*spatial} <= {*variable.dims} or len(own[name]) > 1
    ]
    if shapeless:
        name = shapeless[0]
        msg = f"{name!r} has the dims {dataset[name].dims}, and a GeoTIFF holds {spatial} and bands"
        msg += f" along one dim more. Call fit.drop_vars({shapeless}) first"
        if len(own[name]) > 1 and {*spatial} <= {*dataset[name].dims}:
            msg += f", select one label of {own[name][-1]!r}, such as fit.isel({own[name][-1]}=0)"
        raise ValueError(f"{msg}, or {OTHERS}.")
    for name, variable in dataset.data_vars.items():
        drop = f"Drop it with fit.drop_vars({name!r}), or {OTHERS}."
        if not isinstance(name, str) or {*"/\\\0"} & {*name}:
            msg = f"A variable is called {name!r}, and file names are made of these names."
            raise ValueError(f"{msg} Rename it with fit.rename.")
        if variable.dtype.kind not in "fiub" or variable.dtype in (np.float16, np.longdouble):
            msg = f"{name!r} has dtype {variable.dtype}, which a GeoTIFF cannot hold."
            raise ValueError(f"{msg} Convert it, for instance to float64. {drop}")
        bands = math.prod(variable.sizes[dim] for dim in own[name])
        if not variable.size or bands > MOST_BANDS:
            msg = f"{name!r} has the sizes {dict(variable.sizes)}, and a GeoTIFF has at least one"
            raise ValueError(f"{msg} pixel and 1 to {MOST_BANDS} bands. {drop}")
        packing = {*PACKING} & {*variable.attrs}
        if packing:
            msg = f"{name!r} has the packing attribute {sorted(packing)[0]!r}, but its values are"
            raise ValueError(f"{msg} not packed. Delete the attribute; gaps are written as NaN.")


def layers(dataset: xr.Dataset, store: str | None, history: str | None) -> dict[str, Layer]:
    """Return how each variable of a Dataset is laid out in its file.

    Parameters
    ----------
    dataset : Dataset
        All of its data variables have rows and columns.
    store : str or None
        Dtype of floats.
    history : str or None
        New line of the tag ``history``.
    """
    spatial = spatial_dims(dataset)
    shared = dict(dataset.attrs)
    add_history(shared, history)
    found = {}
    for key, array in dataset.data_vars.items():
        dims = (*(dim for dim in array.dims if dim not in spatial), *spatial)
        dtype = array.dtype
        if dtype.kind == "b":
            dtype = np.dtype(np.uint8)
        elif dtype.kind == "f" and store is not None:
            dtype = np.dtype(store)
        name, units = str(key), str(array.attrs.get("units", ""))
        if len(dims) == 3:
            descriptions, band_tags = _bands(array, dims[0])
        else:
            descriptions, band_tags = [name], [{}]
        found[name] = Layer(
            dims,
            dtype.name,
            _tile(array.variable, dims[-2:]),
            tuple(descriptions),
            tuple(tags.get(f"{dims[0]}_units", units) for tags in band_tags),
            {str(k): _text(v) for k, v in {**shared, **array.attrs}.items()},
            band_tags,
        )
    return found


def _bands(array: xr.DataArray, dim: Hashable) -> tuple[list[str], list[dict[str, str]]]:
    """Return the description of each band, and the coordinates along the bands as tags."""
    size = array.sizes[dim]
    along = {str(k): v.values for k, v in array.coords.items() if v.dims == (dim,)}
    tags = [{name: _text(values[i]) for name, values in along.items()} for i in range(size)]
    if dim in along:
        return [own[str(dim)] for own in tags], tags
    # Samples without labels of their own, such as pairs, are known by their dates.
    dates = [name for name, values in along.items() if values.dtype.kind == "M"]
    if dates:
        return ["_".join(own[name] for name in dates) for own in tags], tags
    return [f"{dim}_{i}" for i in range(size)], tags


def _text(value: Any) -> str:
    """Return a value as the text of a tag."""
    if isinstance(value, np.datetime64):
        text = str(np.datetime_as_string(value, "auto"))
        return "" if text == "NaT" else text
    if isinstance(value, (np.ndarray, list, tuple)):
        return " ".join(_text(one) for one in np.asarray(value).ravel())
    return str(value)


def _tile(variable: xr.Variable, dims: Sequence[Hashable]) -> tuple[int, int]:
    """Return rows and columns of a tile: chunks are whole tiles wherever that can be."""
    sides = []
    for dim in dims:
        size = variable.sizes[dim]
        pieces = variable.chunksizes.get(dim, (size,))
        # Edges between chunks; after the last one anything may follow.
        unit = math.gcd(*np.cumsum(pieces)[:-1].tolist())
        most = math.isqrt(MOST_PIXELS)
        fitting = [s for s in range(TILE_STEP, most + 1, TILE_STEP) if unit and unit % s == 0]
        whole = min(TILE, math.ceil(size / TILE_STEP) * TILE_STEP)
        sides.append(max(fitting) if fitting else whole)
    if (
        math.prod(sides) < FEW_PIXELS
        and math.prod(variable.sizes[dim] for dim in dims) > FEW_PIXELS
    ):
        return TILE, TILE
    return sides[0], sides[1]
