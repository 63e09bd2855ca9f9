"""What stands in a Zarr store before its regions: metadata, coordinates and small values."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq.errors import ChunkError
from xr_lstsq.formats.cf import CONVENTIONS, PACKING, add_history, attributes, auxiliary, links
from xr_lstsq.formats.windows import SLAB_BYTES, Chunks, by_windows, groups

__all__ = ["MARKS", "Plan", "create", "default_format", "layout", "plan", "refuse_unstorable"]

MARKS = ("zarr.json", ".zgroup", ".zarray")
"""Files by which a directory is known as a store."""

KINDS = "fiubc"
"""Kinds of dtypes that are written by regions."""

Plan = list[tuple[list[str], Chunks]]
"""The variables that are written by regions, grouped by how they are cut."""


def default_format() -> int:
    """Return the version of the format in which zarr writes: ``default_zarr_format``."""
    import zarr

    return int(zarr.config.get("default_zarr_format"))


def plan(dataset: xr.Dataset) -> Plan:
    """Return the variables that are written by regions: numeric ones that are data or lazy."""
    return groups(dataset, by_windows(dataset, KINDS))


def refuse_unstorable(dataset: xr.Dataset) -> None:
    """Raise for what a Zarr store cannot hold, before anything is computed.

    Raises
    ------
    ValueError
        For a MultiIndex, and for names, types and attributes without a place in Zarr.
    ChunkError
        For dask chunks of which no storage chunks can be made: two regions would share one.
    """
    multi = {
        str(index.dim)
        for index in dataset.xindexes.values()
        if isinstance(index, xr.indexes.PandasMultiIndex)
    }
    if multi:
        msg = f"{' and '.join(sorted(map(repr, multi)))} is a MultiIndex, which Zarr cannot hold."
        raise ValueError(msg + f" Call fit.reset_index({sorted(multi)}) first.")
    for name, variable in dataset.variables.items():
        if not isinstance(name, str) or not name.strip(".") or {*"/ "} & {*name}:
            msg = f"A variable is called {name!r}; Zarr and CF need names without blanks and "
            raise ValueError(msg + "slashes. Rename it with fit.rename.")
        if variable.dtype.kind in "SV" or variable.dtype.char in "gG":
            msg = f"{name!r} has dtype {variable.dtype}, which Zarr cannot hold."
            raise ValueError(msg + " Convert it, for instance to float64 or str, or drop it.")
        _refuse_attributes(repr(name), variable.attrs)
    _refuse_attributes("the dataset", dataset.attrs)
    for names, chunks in plan(dataset):
        for dim, (first, *others) in chunks.items():
            if {first, *others[:-1]} != {first} or not 0 < others[-1] <= first:
                msg = (
                    f"{names[0]!r} is cut unevenly along {dim!r} ({_shortened((first, *others))}), "
                    "and the chunks of a Zarr store have one size. Cut the cube evenly before the "
                    f"fit: cube.chunk({{{dim!r}: {max(first, *others)}}})."
                )
                raise ChunkError(msg)


def create(
    dataset: xr.Dataset, root: Path, parts: Plan, store: str | None, history: str | None
) -> None:
    """Make a store with all but the values that are written by regions.

    Parameters
    ----------
    dataset : xarray.Dataset
        What the store will hold.
    root : Path
        Directory of the store; it does not exist.
    parts : list
        Its variables that are written by regions.
    store : {"float32", "float64"}, optional
        Type of float data variables; None keeps their own.
    history : str, optional
        New line of the ``history`` attribute.
    """
    import zarr

    version = default_format()
    by_regions = [name for names, _ in parts for name in names]
    # As data variables they get no `coordinates` attribute from xarray, which sees only part of
    # the store here; cf.py does that.
    # In memory, since xarray warns of lazy texts.
    small = dataset.drop_vars(by_regions).reset_coords().compute()
    for name, variable in small.variables.items():
        # Inherited units or types of times may be too coarse for the times at hand.
        variable.encoding = {}
        variable.attrs = {**variable.attrs, **links(dataset.variables[name], dataset)}
        if variable.dtype.kind == "f":
            variable.encoding["_FillValue"] = None
    for name in [name for name, v in small.variables.items() if v.dtype.kind == "U"]:
        # Texts of one width have no place in the specification of Zarr 3.
        small[name] = small[name].astype(object)
    small.attrs["Conventions"] = CONVENTIONS
    add_history(small.attrs, history)
    small.encoding = {}
    small.to_zarr(root, mode="w-", consolidated=False, zarr_format=version)
    group = zarr.open_group(root, mode="r+", use_consolidated=False)
    listed: set[str] = set()
    for names, chunks in parts:
        for name in names:
            attrs = _create_array(group, dataset, name, chunks, store)
            listed.update(attrs.get("coordinates", "").split())
    # A coordinate that no variable names is listed where xarray looks for it.
    missing = [name for name in auxiliary(dataset) if name not in listed]
    if missing:
        group.attrs["coordinates"] = " ".join(missing)


def _create_array(
    group: Any, dataset: xr.Dataset, name: str, chunks: Chunks, store: str | None
) -> dict[str, Any]:
    """Declare a numeric variable with its dims, chunks, fill value and attributes."""
    variable = dataset.variables[name]
    is_data_float = variable.dtype.kind == "f" and name in dataset.data_vars
    dtype = np.dtype(store) if is_data_float and store is not None else variable.dtype
    attrs = {key: _plain(value) for key, value in attributes(dataset, name).items()}
    if dtype.kind == "b":
        attrs.pop("dtype", None)  # what netCDF needs; Zarr has booleans
    is_old = group.metadata.zarr_format == 2
    fill = np.nan if dtype.kind in "fc" else None if is_old else dtype.type(0)
    if is_old:
        # The fill value of the storage is _FillValue: none, where zeros are data.
        attrs["_ARRAY_DIMENSIONS"] = list(variable.dims)
    elif is_data_float:
        attrs["_FillValue"] = base64.b64encode(struct.pack("<d", np.nan)).decode()  # as xarray does
    group.create_array(
        name,
        shape=variable.shape,
        chunks=_storage_chunks(variable, chunks),
        dtype=dtype.newbyteorder("="),
        fill_value=fill,
        attributes=attrs,
        dimension_names=None if is_old else variable.dims,
    )
    return attrs


def _storage_chunks(variable: xr.Variable, chunks: Chunks) -> tuple[int, ...]:
    """Return the shape of the storage chunks: that of a region, so that no two share one."""
    return tuple(max(1, chunks.get(dim, (size,))[0]) for dim, size in variable.sizes.items())


def layout(dataset: xr.Dataset, parts: Plan, store: str | None) -> dict[str, Any]:
    """Return what decides on the contents of a store besides the values of lazy variables.

    Parameters
    ----------
    dataset, parts, store
        As in `create`.

    Returns
    -------
    dict
        JSON data, with a digest in place of the values of what is in memory and not large.
    """
    chunks = {name: pieces for names, pieces in parts for name in names}
    found = {}
    for name, variable in dataset.variables.items():
        found[str(name)] = {
            "dims": [str(dim) for dim in variable.dims],
            "shape": list(variable.shape),
            "chunks": list(_storage_chunks(variable, chunks.get(str(name), {}))),
            "dtype": str(variable.dtype),
            "attrs": {str(key): _plain(value) for key, value in variable.attrs.items()},
            "is_coordinate": name in dataset.coords,
        }
        if variable.chunks is None and variable.nbytes <= SLAB_BYTES:
            found[str(name)]["values"] = _digest(variable.to_numpy())
    return {
        "zarr_format": default_format(),
        "store": store,
        "attrs": {str(key): _plain(value) for key, value in dataset.attrs.items()},
        "variables": found,
    }


def _digest(values: np.ndarray[Any, Any]) -> str:
    is_plain = values.dtype.kind in KINDS + "mM"
    content = np.ascontiguousarray(values).tobytes() if is_plain else str(values.tolist()).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _refuse_attributes(owner: str, attrs: Mapping[Hashable, Any]) -> None:
    """Raise a ValueError for attributes that JSON cannot hold, or that change how values read."""
    for key, value in attrs.items():
        try:
            json.dumps(_plain(value), allow_nan=False)
            known = isinstance(key, str)
        except (TypeError, ValueError):
            known = False
        if not known:
            msg = f"Attribute {key!r} of {owner} is {value!r}, which Zarr (JSON) cannot hold."
            raise ValueError(msg + " Use text, finite numbers or lists of them, or delete it.")
        if key in PACKING:
            msg = f"{owner} has the packing attribute {key!r}, but its values are not packed."
            raise ValueError(msg + " Delete the attribute; gaps are written as NaN.")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: lists and numbers of Python for those of numpy."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _shortened(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes[:4])) + (", ..." if len(sizes) > 4 else "")
