"""Interferograms against a reference area: where it is, and the mean of each pair there."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, TypeAlias

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq import arguments, labels
from xr_lstsq.arguments.inputs import read_samples
from xr_lstsq.errors import DtypeError, LabelError

__all__ = ["NODATA", "Area", "area_text", "drop_nodata", "means", "read_area"]

Area: TypeAlias = Mapping[Hashable, Any] | xr.DataArray
"""Coordinates of a reference area, or a map that is True there."""
NODATA = ("_FillValue", "missing_value")
"""Attributes with numbers that mean missing, which are false once a mean is subtracted."""


def drop_nodata(cube: xr.DataArray, nodata: Any) -> xr.DataArray:
    """Return a cube with NaN where it holds a number that means missing.

    Once a mean is subtracted, such a number would pass for a value, and a value for it.

    Parameters
    ----------
    cube : DataArray
        In memory or dask.
    nodata : number, numbers or None
        Beside those that stand in the attrs of the cube.

    Raises
    ------
    ValueError
        For `nodata` that is not a number.
    """
    given = np.atleast_1d(np.asarray(() if nodata is None else nodata))
    if given.size and given.dtype.kind not in "iuf":
        msg = f"nodata={nodata!r} is not a number or a list of numbers. Pass for example nodata=0."
        raise ValueError(msg)
    values = arguments.nodata_values(cube, tuple(given.ravel().tolist()))
    if values:
        cube = cube.where(~cube.isin(values))
    return cube


def read_area(area: Area, cube: xr.DataArray, dim: Hashable) -> xr.DataArray:
    """Return a reference area as a map.

    Parameters
    ----------
    area : mapping or DataArray
        By names of coordinates along the pixels: a slice, which holds every value between its
        ends whichever way the coordinate runs, or a number, for the nearest place of a 1-D
        coordinate. Or a boolean map, matched by its labels.
    cube : DataArray
        The cube.
    dim : hashable
        Its sample dim.

    Returns
    -------
    DataArray of bool
        Pixel dims, or some of them, in the order of the cube; in memory, without coordinates.

    Raises
    ------
    LabelError
        For names, dims or labels that are not those of the cube's pixels.
    DtypeError
        For a map that is not boolean, and a coordinate that does not hold numbers.
    ValueError
        For an area without a pixel.
    """
    pixels = [name for name in cube.dims if name != dim]
    if isinstance(area, xr.DataArray):
        inside = _match_map(area, cube, pixels)
    elif isinstance(area, Mapping) and area:
        inside = xr.DataArray(True)
        for name, wanted in area.items():
            inside = inside & _along(name, wanted, cube, pixels)
    else:
        msg = (
            f"reference_area={area!r} is no area. Pass coordinates, such as "
            "{'y': slice(35.0, 35.1), 'x': slice(4.0, 4.1)}, or a boolean map of the pixels."
        )
        raise ValueError(msg)
    if not bool(inside.any()):
        msg = "reference_area holds no pixel of the cube. Pass a place that the cube covers."
        raise ValueError(msg)
    return inside.transpose(*(name for name in pixels if name in inside.dims))


def _match_map(area: xr.DataArray, cube: xr.DataArray, pixels: list[Hashable]) -> xr.DataArray:
    """Return a boolean map in the order of the cube's pixels."""
    if area.dtype.kind != "b":
        msg = (
            f"reference_area has the dtype {area.dtype}, and a map of an area is bool. Write the "
            "condition, for example reference_area=(coherence.mean('pair') > 0.9)."
        )
        raise DtypeError(msg)
    foreign = [name for name in area.dims if name not in pixels]
    if foreign or not area.dims:
        msg = (
            f"reference_area has the dims {area.dims}, and the pixels of {labels.shown(cube)!r} "
            f"have {tuple(pixels)}. Pass a map with these dims."
        )
        raise LabelError(msg)
    matched = labels.match(area, cube, "reference_area")
    return matched.drop_vars(list(matched.coords)).compute()


def _along(name: Hashable, wanted: Any, cube: xr.DataArray, pixels: list[Hashable]) -> xr.DataArray:
    """Return where one coordinate is as wanted."""
    known = [n for n, coord in cube.coords.items() if coord.dims and set(coord.dims) <= {*pixels}]
    if name not in known:
        msg = (
            f"reference_area names {name!r}, and the coordinates along the pixels of "
            f"{labels.shown(cube)!r} are {known}. Name one of them, or pass a boolean map."
        )
        raise LabelError(msg)
    coord = cube.coords[name]
    if coord.dtype.kind not in "iuf":
        msg = (
            f"reference_area names {name!r}, whose dtype is {coord.dtype}, and an area is found "
            "by numbers. Pass a boolean map."
        )
        raise DtypeError(msg)
    values = coord.to_numpy()
    inside = _between(values, wanted) if isinstance(wanted, slice) else _nearest(coord, wanted)
    return xr.DataArray(inside, dims=coord.dims)


def _between(values: NDArray[Any], wanted: slice) -> NDArray[np.bool_]:
    """Return which values lie between the ends of a slice, ends included."""
    low, high = (
        None if end is None else _number(end, wanted) for end in (wanted.start, wanted.stop)
    )
    if wanted.step is not None:
        raise ValueError(f"reference_area has {wanted!r}. Pass a slice without a step.")
    if low is not None and high is not None:
        low, high = min(low, high), max(low, high)
    inside: NDArray[np.bool_] = np.isfinite(values)
    inside &= True if low is None else values >= low
    inside &= True if high is None else values <= high
    return inside


def _nearest(coord: xr.DataArray, wanted: Any) -> NDArray[np.bool_]:
    """Return the place along a 1-D coordinate that is nearest to a number, and not far off."""
    if coord.ndim != 1:
        msg = (
            f"reference_area has {wanted!r} for {coord.name!r}, which has the dims {coord.dims}. "
            "Pass slices, or a boolean map."
        )
        raise LabelError(msg)
    values = coord.to_numpy().astype(np.float64)
    off = np.abs(values - _number(wanted, wanted))
    place = int(np.argmin(off))
    spacing = float(np.abs(np.diff(values)).max()) if values.size > 1 else np.inf
    if not off[place] <= spacing:
        msg = (
            f"reference_area has {wanted!r} for {coord.name!r}, which runs from {values.min():g} "
            f"to {values.max():g}. Pass a place that the cube covers."
        )
        raise LabelError(msg)
    inside: NDArray[np.bool_] = np.arange(values.size) == place
    return inside


def _number(value: Any, wanted: Any) -> float:
    """Return one real number, which may come as an array without dims."""
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "iuf" or not np.isfinite(array):
        msg = f"reference_area has {wanted!r}, and an area is found by numbers or slices of them."
        raise ValueError(msg)
    return float(array)


def means(
    cube: xr.DataArray, inside: xr.DataArray, dim: Hashable, *, weights: Any, valid: Any
) -> xr.DataArray:
    """Return the mean of each sample over an area, NaN where none of its values counts there.

    Parameters
    ----------
    cube : DataArray
        Without numbers that mean missing; of a lazy one only the area is read, at once.
    inside : DataArray of bool
        From `read_area`.
    dim : hashable
        The sample dim.
    weights, valid : DataArray, array or None
        As `xr_lstsq.solve` takes them; they say which values count, and the mean is a plain one.

    Returns
    -------
    DataArray of float64, (n,)
        In memory, without coordinates.

    Raises
    ------
    LabelError, DtypeError, ValueError
        As `xr_lstsq.solve`, for `weights` or `valid` that do not fit the cube.
    """
    weights = read_samples(weights, cube, dim, "weights")
    valid = read_samples(valid, cube, dim, "valid")
    places = {name: np.flatnonzero(inside.any(_others(inside, name))) for name in inside.dims}
    box = {name: slice(int(at[0]), int(at[-1]) + 1) for name, at in places.items()}
    values = _cut(cube, box).astype(np.float64)
    counts = (abs(values) < np.inf) & inside.isel(box)
    if weights is not None:
        own = _cut(weights, box)
        counts = counts & (own > 0) & (own < np.inf)
    if valid is not None:
        counts = counts & (_cut(valid, box) != 0)
    pixels = [name for name in cube.dims if name != dim]
    sums = {"total": values.where(counts, 0.0).sum(pixels), "number": counts.sum(pixels)}
    found = xr.Dataset(sums).compute()
    mean: xr.DataArray = found["total"] / found["number"].where(found["number"] > 0)
    return mean


def _cut(array: xr.DataArray, box: Mapping[Hashable, slice]) -> xr.DataArray:
    """Return part of an array, without labels: they have been matched."""
    bare = array.drop_vars(list(array.coords))
    return bare.isel({name: places for name, places in box.items() if name in bare.dims})


def _others(array: xr.DataArray, dim: Hashable) -> list[Hashable]:
    """Return all dims of an array but one."""
    return [name for name in array.dims if name != dim]


def area_text(area: Area) -> str:
    """Return what to remember of a reference area as text."""
    if isinstance(area, xr.DataArray):
        return "a map" if area.name is None else str(area.name)
    parts = []
    for name, wanted in area.items():
        ends = [wanted.start, wanted.stop] if isinstance(wanted, slice) else [wanted]
        parts.append(f"{name}={'..'.join('' if e is None else f'{float(e):g}' for e in ends)}")
    return ", ".join(parts)
