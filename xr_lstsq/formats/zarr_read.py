"""Zarr stores, of version 2 and 3, opened lazily."""

from __future__ import annotations

import base64
import os
import struct
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dask.base
import numpy as np
import xarray as xr

from xr_lstsq.formats.cf import above, inherit
from xr_lstsq.formats.target import reason

__all__ = ["files", "need_zarr", "open"]


def need_zarr() -> None:
    """Raise an ImportError when zarr, which only these stores need, is not installed."""
    if find_spec("zarr") is None:
        msg = 'Zarr stores need the package zarr. Install it: pip install "xr_lstsq[zarr]".'
        raise ImportError(msg)


def files(path: str | os.PathLike[str]) -> list[Path]:
    """Return what is read: the directory of the store; anything but one is a TypeError."""
    if not isinstance(path, str | os.PathLike):
        msg = f"{len(path)} Zarr stores were given, and one is read."
        raise TypeError(msg + " Give one, or join them first with xarray.combine_by_coords.")
    return [Path(path)]


def open(
    path: str | os.PathLike[str],
    *,
    chunks: Mapping[Any, int] | None = None,
    group: str | None = None,
) -> xr.Dataset:
    """Open a Zarr store lazily, with packing, fill values and times decoded.

    Parameters
    ----------
    path : str or path-like
        Directory of the store.
    chunks : mapping of dim to int, optional
        Sizes of the dask chunks; dims that are not named follow the storage. None gives lazy
        arrays without dask.
    group : str, optional
        Group of the store, such as ``"science/grids"``; it has the coordinates of those above it.

    Returns
    -------
    xarray.Dataset
        Grid mapping and bounds are coordinates. Packed integers become floats, in float64 where
        the packing numbers are float64; times that datetime64 cannot hold become cftime.

    Raises
    ------
    FileNotFoundError
        When there is no such directory.
    OSError
        When it cannot be read as a Zarr group.
    ImportError
        When zarr is not installed.

    Notes
    -----
    What is missing is said by the attributes ``_FillValue`` and ``missing_value``. The fill value
    of the storage is what a chunk that was never written holds, and is no mask: in most stores
    it is 0, and zeros are data. In version 2 one that is not 0 is a mask all the same, since
    there xarray and GDAL keep ``_FillValue`` nowhere else.
    """
    need_zarr()
    file = Path(path)
    if not file.exists():
        msg = f"'{file}' does not exist. Check the name; it is looked for from '{Path.cwd()}'."
        raise FileNotFoundError(msg)
    if not file.is_dir():
        msg = f"'{file}' is a file, and a Zarr store is a directory."
        raise NotADirectoryError(msg)
    opened = [_open_group(Path(file, one or "")) for one in (group, *above(group))]
    decoded = inherit(opened[0], opened[1:])
    return decoded if chunks is None else _chunked(decoded, file, chunks)


def _open_group(file: Path) -> xr.Dataset:
    try:
        store = xr.backends.ZarrStore.open_group(file, mode="r", consolidated=False)
        arrays = {name: store.members[name] for name in store.array_keys()}
        fills = {name: _fill_value(array) for name, array in arrays.items()}
        for array in arrays.values():
            # Only in memory: xarray reads none but those that it has written itself.
            array.metadata.attributes.pop("_FillValue", None)
        raw = xr.open_dataset(store, chunks=None, decode_cf=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = (
            f"'{file}' is not a readable Zarr group ({reason(error)}). A group has a zarr.json, or "
            "a .zgroup in version 2; give the directory that holds it and the arrays."
        )
        raise OSError(msg) from error
    texts = [name for name, v in raw.variables.items() if v.dtype.kind in "TO" and v.ndim < 2]
    for name, variable in raw.variables.items():
        variable.attrs.pop("_FillValue", None)  # that of the storage, in version 2
        if fills[str(name)] is not None:
            variable.attrs["_FillValue"] = fills[str(name)]
        # Where chunks.py finds how a file of any format is stored.
        variable.encoding["chunksizes"] = variable.encoding["chunks"]
        variable.encoding["source"] = str(file.absolute())
    with warnings.catch_warnings():
        # cftime is what the rest of the package reads where datetime64[ns] ends.
        warnings.filterwarnings("ignore", "Unable to decode time axis", xr.SerializationWarning)
        decoded = xr.decode_cf(raw, decode_coords="coordinates")
    return decoded.assign_coords(
        {name: _of_one_width(decoded.variables[name]) for name in texts if name in decoded.coords}
    )


def _fill_value(array: Any) -> Any:
    """Return the value that stands for missing ones in an array of zarr, or None."""
    kind = array.dtype.kind
    given = array.attrs.get("_FillValue")
    if given is None:
        fill = array.fill_value
        is_mask = array.metadata.zarr_format == 2 and kind in "fiu" and fill is not None
        return fill if is_mask and fill != 0 else None
    if kind == "f" and isinstance(given, str):
        try:
            return array.dtype.type(given)  # "NaN", for which JSON has no number
        except ValueError:
            return array.dtype.type(struct.unpack("<d", base64.b64decode(given))[0])
    return given


def _of_one_width(texts: xr.Variable) -> xr.Variable:
    """Return texts in memory, as numpy has them before it knew texts of any width."""
    values = np.array(texts.to_numpy().tolist(), dtype=str).reshape(texts.shape)
    return xr.Variable(texts.dims, values, texts.attrs)


def _chunked(dataset: xr.Dataset, file: Path, chunks: Mapping[Any, int]) -> xr.Dataset:
    """Return a Dataset with dask arrays for what is in the store and no index."""
    token = dask.base.tokenize(str(file.absolute()), file.stat().st_mtime_ns, dict(chunks))
    lazy = {}
    for name, variable in dataset.variables.items():
        if variable.ndim and name not in dataset.xindexes and variable.dtype.kind not in "U":
            stored = variable.encoding.get("preferred_chunks", {})
            sizes = {dim: chunks.get(dim, stored.get(dim, -1)) for dim in variable.dims}
            # Inline, since dask walks its whole graph again and again for an array apart.
            lazy[name] = variable.chunk(sizes, name=f"read-{name}-{token}", inline_array=True)
    coords = {name: variable for name, variable in lazy.items() if name in dataset.coords}
    data = {name: variable for name, variable in lazy.items() if name in dataset.data_vars}
    return dataset.assign(data).assign_coords(coords)
