"""The pairs of a cube: which dates each is of, and which of its values count."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.errors import DtypeError, LabelError
from xr_lstsq.labels import grid_mapping, match, restore, shown, strip

__all__ = ["Dates", "Network", "is_usable", "label", "read_network", "refuse_taken"]

Dates = str | xr.DataArray
"""Name of a coordinate that holds one date a pair, or these dates."""


@dataclass(frozen=True, eq=False)
class Network:
    """The pairs of a cube as positions in the dates that they are of.

    Attributes
    ----------
    dim : hashable
        The dim of the cube along which its n pairs lie.
    dates : datetime64 or object array, shape (m,)
        Every date of a pair once, in order.
    first, second : int array, shape (n,)
        Positions of the earlier and the later date of each pair; -1 for both where one is missing.
    sign : int array, shape (n,)
        -1 for a pair whose reference is the later date, else 1.
    """

    dim: Hashable
    dates: NDArray[Any]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    sign: NDArray[np.int8]


def read_network(cube: Any, reference: Dates, secondary: Dates, dim: Hashable | None) -> Network:
    """Read the pairs of a cube.

    Parameters
    ----------
    cube : DataArray
        Pairs with any pixel dims.
    reference, secondary : str or DataArray
        Dates of the pairs, datetime64 or cftime.
    dim : hashable, optional
        The dim of the pairs; None takes that of the dates.

    Raises
    ------
    TypeError, DtypeError
        For a cube that is no DataArray of real numbers.
    LabelError
        For dates that are not there, not along one dim, or not of one kind and calendar, and for a
        pair of one date.
    """
    if not isinstance(cube, xr.DataArray):
        hint = " Select one of its variables." if isinstance(cube, xr.Dataset) else ""
        msg = f"cube is a {type(cube).__name__}, and pairs come as a DataArray.{hint}"
        raise TypeError(msg)
    if cube.dtype.kind not in "iuf":
        hint = "numpy.angle of it" if cube.dtype.kind == "c" else "real numbers"
        msg = f"{shown(cube)!r} has the dtype {cube.dtype}, and pairs are real. Pass {hint}."
        raise DtypeError(msg)
    if dim is not None and dim not in cube.dims:
        msg = f"{dim!r} is not a dim of {shown(cube)!r}, which has {cube.dims}. Pass one of these."
        raise LabelError(msg)
    start = _read_dates(cube, reference, "reference", dim)
    end = _read_dates(cube, secondary, "secondary", dim)
    if start.dims != end.dims:
        msg = f"reference lies along {start.dims[0]!r} and secondary along {end.dims[0]!r}."
        raise LabelError(f"{msg} Pass dates of the same samples.")
    kinds = {_kind(start), _kind(end)} - {None}
    if len(kinds) > 1:
        msg = (
            f"reference and secondary hold {' and '.join(sorted(map(str, kinds)))} dates, which do "
            "not compare. Convert one of them, for example with convert_calendar."
        )
        raise LabelError(msg)
    known = ~(start.isnull() | end.isnull()).to_numpy()
    ends = np.stack([start.to_numpy()[known], end.to_numpy()[known]])
    dates, places = np.unique(ends, return_inverse=True)
    place = np.full((2, known.size), -1, dtype=np.intp)
    place[:, known] = places.reshape(ends.shape)
    same = np.flatnonzero(known & (place[0] == place[1]))
    if same.size:
        msg = (
            f"{same.size} pairs have one date for reference and secondary, such as number "
            f"{same[0]}, {dates[place[0, same[0]]]}. Leave them out with isel."
        )
        raise LabelError(msg)
    sign = np.where(place[0] > place[1], -1, 1).astype(np.int8)
    return Network(start.dims[0], dates, place.min(axis=0), place.max(axis=0), sign)


def is_usable(cube: xr.DataArray, nodata: float | Iterable[float] | None = None) -> xr.Variable:
    """Return where values count: finite, and not one of `nodata` or of those in the attrs."""
    values = cube.variable
    usable: xr.Variable = xr.ufuncs.isfinite(values)
    given = np.atleast_1d(np.asarray(() if nodata is None else nodata))
    if given.dtype.kind not in "iuf":
        msg = f"nodata={nodata!r} is not a number or a list of numbers. Pass for example nodata=0."
        raise ValueError(msg)
    named = [np.atleast_1d(cube.attrs.get(key, ())) for key in ("_FillValue", "missing_value")]
    for number in {
        x for some in (given, *named) if some.dtype.kind in "iuf" for x in some.tolist()
    }:
        # As the cube stores it; a number that its dtype cannot hold stands nowhere in it.
        with np.errstate(over="ignore", invalid="ignore"):
            stored = np.asarray(number).astype(cube.dtype)
        if cube.dtype.kind == "f" or stored == number:
            usable = usable & (values != stored)
    return usable


def label(
    data: Any, cube: xr.DataArray, dim: Hashable, dims: tuple[Hashable, ...], attrs: dict[str, str]
) -> xr.DataArray:
    """Put the labels of a cube on values with its pixel dims, and none of its pairs along `dim`."""
    labels = strip(cube.drop_vars([n for n, coord in cube.coords.items() if dim in coord.dims]))[1]
    array = restore(data, labels, dims)
    array.attrs = dict(attrs)
    mapping = grid_mapping(labels)
    if mapping is not None and mapping in array.coords:
        array.encoding["grid_mapping"] = mapping
    return array


def refuse_taken(cube: xr.DataArray, dim: Hashable, names: Iterable[str]) -> None:
    """Refuse a cube that gives a pixel dim, or a coordinate of pixels, a name of the result."""
    kept = [name for name, coord in cube.coords.items() if dim not in coord.dims]
    taken = [name for name in names if name in kept or (name in cube.dims and name != dim)]
    if taken:
        msg = f"{shown(cube)!r} has dims or coordinates called {taken}, as the result has."
        raise LabelError(f"{msg} Rename them, or leave them out with drop_vars({taken}).")


def _read_dates(
    cube: xr.DataArray, dates: Dates, argument: str, dim: Hashable | None
) -> xr.DataArray:
    """Return one date a pair, along the dim of the pairs."""
    name = f"{argument}={dates!r}" if isinstance(dates, str) else argument
    if isinstance(dates, str):
        if dates not in cube.coords:
            msg = (
                f"{name} is not a coordinate of {shown(cube)!r}, which has "
                f"{list(cube.coords)}. Pass {argument}= a name out of these, or a DataArray."
            )
            raise LabelError(msg)
        found = cube.coords[dates]
    elif isinstance(dates, xr.DataArray):
        found = dates
    else:
        msg = f"{argument} is a {type(dates).__name__}. Pass a coordinate's name, or a DataArray."
        raise TypeError(msg)
    if found.ndim != 1 or found.dims[0] not in cube.dims or dim not in (None, found.dims[0]):
        along = f"{dim!r}" if dim is not None else f"one dim of {shown(cube)!r}"
        msg = f"{name} has the dims {found.dims}, and one date a pair along {along} is needed."
        raise LabelError(f"{msg} Pass a coordinate that has it.")
    found = found.compute()  # once: of a lazy cube they may be lazy too
    if _kind(found) == "other":
        msg = f"{name} has the dtype {found.dtype}, and pairs are of datetime64 or cftime dates."
        raise LabelError(f"{msg} Convert it with pandas.to_datetime.")
    return match(found, cube, argument)


def _kind(dates: xr.DataArray) -> str | None:
    """Return what dates are: datetime64, a calendar of cftime, "other"; None where all miss."""
    if dates.dtype.kind == "M":
        return "datetime64"
    present = dates.to_numpy()[dates.notnull().to_numpy()]
    if dates.dtype.kind != "O" or not all(hasattr(date, "calendar") for date in present):
        return "other"
    calendars = sorted({str(date.calendar) for date in present})
    return f"cftime {' and '.join(calendars)}" if calendars else None
