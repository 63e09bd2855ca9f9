"""Attributes by which the variables of a CF file name each other."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from datetime import UTC, datetime
from typing import Any

import xarray as xr

__all__ = [
    "CONVENTIONS",
    "PACKING",
    "above",
    "add_history",
    "attributes",
    "auxiliary",
    "dated",
    "inherit",
    "links",
]

CONVENTIONS = "CF-1.11"

# Attributes that tell a reader to unpack or blank numbers; what is written here is never packed.
PACKING = ("_FillValue", "missing_value", "scale_factor", "add_offset")

# Kept in encoding by xarray; each names other variables of the same file.
LINKS = ("grid_mapping", "bounds")


def dated(history: str | None) -> str | None:
    """Return what a program was asked for as a line of ``history``: after the time, in UTC."""
    return history if history is None else f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {history}"


def add_history(attrs: MutableMapping[Any, Any], line: str | None) -> None:
    """Add a line to the ``history`` of attributes, after those that are there; None adds none."""
    if line is not None:
        attrs["history"] = "\n".join(filter(None, (attrs.get("history"), line)))


def above(group: str | None) -> list[str | None]:
    """Return the groups that hold a group, from the inside out; None is the file itself."""
    if group is None:
        return []
    parts = group.strip("/").split("/")
    return [*("/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)), None]


def inherit(dataset: xr.Dataset, above: Iterable[xr.Dataset]) -> xr.Dataset:
    """Return a group with what it has from the groups above it, the nearest first.

    Parameters
    ----------
    dataset : xarray.Dataset
        The group, decoded but for its links: with ``decode_coords="coordinates"``.
    above : iterable of xarray.Dataset
        Those that hold it, from the inside out.

    Returns
    -------
    xarray.Dataset
        With the coordinates of the groups above, and what its variables name as grid mapping or
        bounds as coordinates.
    """
    for parent in above:
        named = {
            word.removesuffix(":")
            for variable in dataset.variables.values()
            for key in LINKS
            for word in str(variable.attrs.get(key, "")).split()
        }
        dataset = dataset.assign_coords(
            {
                name: one
                for name, one in parent.variables.items()
                if (name in parent.coords or name in named)
                and name not in dataset.variables
                and {*one.dims} <= {*dataset.dims}
            }
        )
    return xr.decode_cf(
        dataset,
        concat_characters=False,
        mask_and_scale=False,
        decode_times=False,
        decode_coords="all",
    )


def links(variable: xr.Variable, dataset: xr.Dataset) -> dict[str, str]:
    """Return the links of a variable's encoding whose targets are in `dataset`.

    Parameters
    ----------
    variable : xarray.Variable
        A variable of `dataset`.
    dataset : xarray.Dataset
        What goes into the file. A link to anything else would dangle and is left out.
    """
    found = {}
    for key in LINKS:
        text = str(variable.encoding.get(key, ""))
        if text and {*text.replace(":", " ").split()} <= {*map(str, dataset.variables)}:
            found[key] = text
    return found


def auxiliary(dataset: xr.Dataset) -> list[str]:
    """Return the coordinates that CF lists in `coordinates`: no index, grid mapping or bounds."""
    linked = set()
    for variable in dataset.variables.values():
        for text in links(variable, dataset).values():
            # In "crs: lat lon" the grid mapping is what stands before the colon.
            words = text.split()
            linked |= {word.removesuffix(":") for word in words if word.endswith(":")} or {*words}
    return sorted({str(name) for name in dataset.coords} - {str(d) for d in dataset.dims} - linked)


def attributes(dataset: xr.Dataset, name: str) -> dict[str, Any]:
    """Return the attributes of a variable in the file, with those that name other variables.

    Parameters
    ----------
    dataset : xarray.Dataset
        What goes into the file.
    name : str
        One of its variables.
    """
    variable = dataset.variables[name]
    attrs = {**variable.attrs, **links(variable, dataset)}
    if variable.dtype.kind == "b":
        attrs["dtype"] = "bool"  # how xarray marks booleans in netCDF
    if name in dataset.data_vars:
        covered = [c for c in auxiliary(dataset) if {*dataset[c].dims} <= {*variable.dims}]
        if covered:
            attrs["coordinates"] = " ".join(covered)
    return attrs
