"""Choose the sample dim of a cube, and the variables of a Dataset that are cubes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import xarray as xr

from xr_lstsq.errors import DtypeError, LabelError
from xr_lstsq.labels.record import shown

__all__ = ["Chosen", "choose", "find_dim", "refuse_but_radians", "refuse_dtype"]


def find_dim(
    cube: xr.DataArray | xr.Dataset, dim: Hashable | None, shared: tuple[Hashable, ...] | None
) -> Hashable:
    """Return the sample dim.

    Parameters
    ----------
    cube : DataArray or Dataset
        The cube.
    dim : hashable, optional
        The dim as the caller gave it.
    shared : tuple, optional
        Dims of a labelled design apart from the params; None for a design without dims.

    Raises
    ------
    LabelError
        When `dim` is not one of the cube's, or is not given and cannot be told.
    """
    dims = tuple(cube.dims)
    if dim is not None:
        if dim not in dims:
            msg = (
                f"{dim!r} is not a dim of {shown(cube)!r}, which has {dims}. "
                f"Pass dim={_guess(cube)!r}, or rename the dim."
            )
            raise LabelError(msg)
        return dim
    if shared is not None:
        found = [name for name in shared if name in dims]
        if len(shared) == 1 and len(found) == 1:
            return found[0]
        msg = (
            f"design has the dims {shared} beside the params, and {shown(cube)!r} has {dims}, so "
            f"the sample dim cannot be told. Pass dim={_guess(cube)!r}."
        )
        raise LabelError(msg)
    times = [name for name in dims if _is_time(cube, name)]
    if len(times) == 1:
        return times[0]
    found_text = f"{len(times)} of them hold dates" if times else "none of them holds dates"
    msg = (
        f"dim is not given, {shown(cube)!r} has {dims}, and {found_text}. "
        f"Pass dim={_guess(cube)!r}."
    )
    raise LabelError(msg)


@dataclass(frozen=True)
class Chosen:
    """The variables of a Dataset that are fitted, and why the others are not."""

    fitted: tuple[Hashable, ...]
    left_out: dict[Hashable, str]


def choose(
    cubes: xr.Dataset, dim: Hashable, data: Iterable[Hashable] | None, used: Iterable[Hashable]
) -> Chosen:
    """Choose the variables of a Dataset to fit.

    Parameters
    ----------
    cubes : Dataset
        The Dataset.
    dim : hashable
        The sample dim.
    data : iterable of hashable, optional
        Names to fit; None means every real numeric variable that has `dim`, apart from bounds,
        flags and those in `used`.
    used : iterable of hashable
        Names of the variables that are weights or flags of valid samples.

    Raises
    ------
    LabelError
        When a name in `data` is not a variable with `dim`, or nothing is left to fit. All bad
        names are reported at once.
    DtypeError
        When a name in `data` does not hold real numbers.
    """
    used = set(used)
    if data is None:
        left_out = {
            name: why
            for name, cube in cubes.data_vars.items()
            if (why := _why_not(cubes, cube, dim, used)) is not None
        }
        fitted = tuple(name for name in cubes.data_vars if name not in left_out)
        if not fitted:
            found = "; ".join(f"{name}: {why}" for name, why in left_out.items()) or "none"
            msg = (
                f"the Dataset has no real numeric variable along {dim!r} to fit ({found}). "
                "Pass data= to name one, or select a DataArray."
            )
            raise LabelError(msg)
        return Chosen(fitted, left_out)
    names = (data,) if isinstance(data, str) else tuple(data)
    absent = [name for name in names if name not in cubes.data_vars]
    if absent or not names:
        msg = (
            f"data has {absent or 'no names'}, and the Dataset has the variables "
            f"{list(cubes.data_vars)}. Pass names out of these."
        )
        raise LabelError(msg)
    without = [name for name in names if dim not in cubes[name].dims]
    if without:
        msg = f"data has {without}, which are not along {dim!r}. Pass variables that have it."
        raise LabelError(msg)
    refuse_dtype([cubes[name] for name in names])
    return Chosen(names, {})


def refuse_dtype(cubes: Iterable[xr.DataArray]) -> None:
    """Refuse cubes that do not hold real numbers; all of them in one error.

    Raises
    ------
    DtypeError
        With what to type for each.
    """
    remedies = {
        "c": "Fit .real and .imag apart, or the phase with xarray.ufuncs.angle",
        "b": "Convert it with .astype(float)",
        "O": "Convert it with .astype(float)",
        "m": "Divide it by a unit, for example by numpy.timedelta64(1, 'D')",
    }
    bad = [
        f"{shown(cube)!r} has the dtype {cube.dtype}, and a least-squares fit needs real "
        f"numbers. {remedies.get(cube.dtype.kind, 'Convert it to float')}."
        for cube in cubes
        if cube.dtype.kind not in "iuf"
    ]
    if bad:
        raise DtypeError(" ".join(bad))


RADIANS = ("radian", "radians", "rad")


def refuse_but_radians(cube: xr.DataArray) -> None:
    """Refuse a cube that does not say that it holds phases in radians.

    Raises
    ------
    ValueError
        With what to type.
    """
    units = cube.attrs.get("units")
    if str(units).strip() not in RADIANS:
        msg = (
            f"temporal_coherence is made of phases in radians, and {shown(cube)!r} has the units "
            f"{units!r}. Convert it, and set its attrs['units'] = 'radians'."
        )
        raise ValueError(msg)


def _why_not(
    cubes: xr.Dataset, cube: xr.DataArray, dim: Hashable, used: set[Hashable]
) -> str | None:
    """Return why a variable is not fitted when none is named, or None."""
    if cube.name in used:
        return "named in weights or valid"
    if dim not in cube.dims:
        return f"not along {dim!r}"
    if cube.dtype.kind not in "iuf":
        return f"dtype {cube.dtype}"
    if {"flag_values", "flag_masks"} & set(cube.attrs):
        return "holds flags"
    if any(
        cube.name in (var.attrs.get("bounds"), var.encoding.get("bounds"))
        for var in cubes.variables.values()
    ):
        return "holds bounds"
    return None


def _is_time(cube: xr.DataArray | xr.Dataset, dim: Hashable) -> bool:
    """Return whether the coordinate of a dim holds datetime64 or cftime dates."""
    if dim not in cube.coords:
        return False
    coord = cube.coords[dim]
    if coord.dtype.kind == "M":
        return True
    return coord.dtype == object and coord.size > 0 and hasattr(coord.values[0], "calendar")


def _guess(cube: xr.DataArray | xr.Dataset) -> Hashable:
    """Return the dim that a user most likely means, for the line to type in an error."""
    times = [dim for dim in cube.dims if _is_time(cube, dim)]
    return (times or [*cube.dims, "time"])[0]
