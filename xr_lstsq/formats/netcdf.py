"""netCDF files: open a cube lazily, write a Dataset window by window with bounded memory."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, cast

import netCDF4
import numpy as np
import xarray as xr

# HDF5 and netCDF-C are not thread-safe: a reader thread of an interrupted computation may still be
# inside them while this module closes its file, so both sides hold the lock that xarray holds.
from xarray.backends.netCDF4_ import NETCDF4_PYTHON_LOCK

from xr_lstsq import clock
from xr_lstsq.formats.cf import (
    CONVENTIONS,
    PACKING,
    add_history,
    attributes,
    auxiliary,
    dated,
    links,
)
from xr_lstsq.formats.netcdf_read import files, open
from xr_lstsq.formats.regions import Block, computed, write_behind
from xr_lstsq.formats.target import (
    disk_errors,
    partial_file,
    refuse_sources,
    refuse_type,
    resolve,
    sources_of,
)
from xr_lstsq.formats.windows import by_windows, groups

__all__ = ["check_target", "files", "open", "write"]

STORAGE_BYTES = 2**20
# Of zlib; counts and flags shrink to little at any level.
INTEGER_LEVEL = 1
# Of each variable: storage chunks are written whole, so keeping many of them helps nobody.
CACHE_BYTES = 4 * 2**20
KINDS = "fiub"
"""Kinds of dtypes that are written by windows."""


def check_target(path: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]]) -> Path:
    """Return the absolute path of a file to write, or say why it cannot be written there.

    Parameters
    ----------
    path : str or path-like
        The target.
    sources : iterable of str or path-like
        Files that are read, which the target may not be.

    Raises
    ------
    WriteError
        When its directory is missing, or it is a directory.
    ValueError
        When it is one of `sources`.
    """
    target = resolve(path)
    refuse_sources(target, sources)
    return target


def write(
    dataset: xr.Dataset,
    path: str | os.PathLike[str],
    *,
    sources: Iterable[str | os.PathLike[str]] = (),
    store: Literal["float32", "float64"] | None = None,
    history: str | None = None,
    on_block: Callable[[xr.Dataset], None] | None = None,
    complevel: int = 0,
) -> list[Path]:
    """Write a Dataset to a netCDF-4 file, window by window, and rename it when it is whole.

    Parameters
    ----------
    dataset : xarray.Dataset
        Eager or lazy. Lazy variables that are cut into the same chunks are computed together, a
        few chunks at a time, so whatever they share is computed once.
    path : str or path-like
        Target. An existing file is replaced, at the very end and in one step.
    sources : iterable of str or path-like
        Files from which `dataset` is computed; the target may not be one of them. Files named in
        ``encoding["source"]`` of the dataset and its variables are refused as well.
    store : {"float32", "float64"}, optional
        Type of float data variables in the file; None keeps their own.
    history : str, optional
        Program and arguments, for a new line of the ``history`` attribute.
    on_block : callable, optional
        Called with each computed block (a Dataset without coordinates) once it is written.
    complevel : int
        Level of zlib for floats, 0 (none) to 9.

    Returns
    -------
    list of Path
        The file.

    Raises
    ------
    WriteError
        When the target cannot be created, or the disk takes no more. The message has the free
        bytes of the disk.
    ValueError
        When the target is the source, or the dataset holds what netCDF cannot.

    Notes
    -----
    Writes to ``.NAME.XXXXXXXX.partial`` beside the target. It is removed when anything fails; a
    job that is killed outright leaves it behind, and the target as it was. Memory is that of the
    blocks of one window (at most 256 MiB, but at least one block) besides what computing them
    takes. Floats get a NaN fill value. They are stored as they are unless `complevel` says else:
    noise in the last digits leaves zlib little, at many times what writing takes. Integers
    are compressed. The encoding that variables bring along is dropped except grid mapping and
    bounds.
    """
    refuse_type(store)
    if complevel not in range(10):
        raise ValueError(f"complevel={complevel!r} is no level of zlib. Use 0 (none) to 9.")
    target = check_target(path, [*sources, *sources_of(dataset)])
    _refuse_unstorable(dataset)
    with partial_file(target) as partial:
        with disk_errors(target):
            _write_small_variables(dataset, partial, history)
        with _opened(partial, target) as file:
            with disk_errors(target), NETCDF4_PYTHON_LOCK:
                for name in by_windows(dataset, KINDS):
                    _create_variable(file, dataset, name, store, complevel)
                _set_global_coordinates(file, dataset)
            for names, chunks in groups(dataset, by_windows(dataset, KINDS)):
                group = xr.Dataset({name: dataset.variables[name] for name in names})
                write = functools.partial(_write_window, file, target)
                write_behind(computed(group, chunks), write, on_block)
    return [Path(path)]


def _refuse_unstorable(dataset: xr.Dataset) -> None:
    """Raise for what netCDF cannot hold, before anything is computed."""
    multi = [
        name
        for name, index in dataset.xindexes.items()
        if isinstance(index, xr.indexes.PandasMultiIndex)
    ]
    for name, variable in dataset.variables.items():
        if not isinstance(name, str) or "/" in name or " " in name:
            msg = f"A variable is called {name!r}; netCDF needs names without blanks and slashes."
            raise ValueError(msg + " Rename it with fit.rename.")
        if name in multi:
            msg = f"{name!r} is a MultiIndex, which netCDF cannot hold."
            raise ValueError(msg + f" Call fit.reset_index({name!r}) first.")
        if variable.dtype.kind in "cV" or variable.dtype in (np.float16, np.longdouble):
            msg = f"{name!r} has dtype {variable.dtype}, which netCDF cannot hold."
            raise ValueError(msg + " Convert it, for instance to float64, or drop it.")
    owners = {"the dataset": dataset.attrs} | {
        repr(name): variable.attrs for name, variable in dataset.variables.items()
    }
    for owner, attrs in owners.items():
        for key, value in attrs.items():
            array = np.asarray(value)
            if array.dtype.kind not in "SUfiu" or array.ndim > 1:
                msg = f"Attribute {key!r} of {owner} is {value!r}, which netCDF cannot hold."
                raise ValueError(msg + " Use text, numbers or a list of them, or delete it.")
            if key in PACKING:
                msg = f"{owner} has the packing attribute {key!r}, but its values are not packed."
                raise ValueError(msg + " Delete the attribute; gaps are written as NaN.")


@contextmanager
def _opened(partial: Path, target: Path) -> Iterator[netCDF4.Dataset]:
    with disk_errors(target), NETCDF4_PYTHON_LOCK:
        file = netCDF4.Dataset(partial, "a")
    try:
        yield file
    except BaseException:
        # On a full disk closing fails too; the first error is the one to tell.
        with suppress(OSError, RuntimeError), NETCDF4_PYTHON_LOCK:
            file.close()
        raise
    with disk_errors(target), NETCDF4_PYTHON_LOCK:
        file.close()


def _write_small_variables(dataset: xr.Dataset, partial: Path, history: str | None) -> None:
    """Write the attributes of the dataset, its eager coordinates, strings and times."""
    # As data variables they get no `coordinates` attribute from xarray, which sees only part of
    # the file here; cf.py does that.
    small = dataset.drop_vars(by_windows(dataset, KINDS)).reset_coords().copy()
    for variable in small.variables.values():
        # Inherited units or types of times may be too coarse for the times at hand.
        variable.encoding = links(variable, dataset)
        if variable.dtype.kind == "f":
            variable.encoding["_FillValue"] = None
    small.attrs["Conventions"] = CONVENTIONS
    add_history(small.attrs, dated(history))
    small.encoding = {}
    small.to_netcdf(partial, mode="w", engine="netcdf4", format="NETCDF4")


def _create_variable(
    file: netCDF4.Dataset, dataset: xr.Dataset, name: str, store: str | None, complevel: int
) -> None:
    """Declare a numeric variable with its dims, filters, fill value and attributes."""
    variable = dataset.variables[name]
    for dim, size in variable.sizes.items():
        if dim not in file.dimensions:
            file.createDimension(str(dim), size)
    dtype = np.dtype("i1") if variable.dtype.kind == "b" else variable.dtype
    is_data_float = dtype.kind == "f" and name in dataset.data_vars
    if is_data_float and store is not None:
        dtype = np.dtype(store)
    level = complevel if dtype.kind == "f" else max(complevel, INTEGER_LEVEL)
    stored = file.createVariable(
        name,
        f"{dtype.kind}{dtype.itemsize}",
        tuple(map(str, variable.dims)),
        zlib=level > 0,
        complevel=cast("Any", level),
        shuffle=level > 0,
        chunksizes=_storage_chunks(variable, dtype.itemsize) or None,
        chunk_cache=CACHE_BYTES,
        fill_value=np.nan if is_data_float else None,
    )
    stored.set_auto_maskandscale(False)
    stored.setncatts(attributes(dataset, name))


def _storage_chunks(variable: xr.Variable, itemsize: int) -> tuple[int, ...]:
    """Return the shape of a storage chunk: the pixels of a dask chunk, and few layers of them."""
    chunks = variable.chunks or tuple((size,) for size in variable.shape)
    sizes = [max(1, *pieces) for pieces in chunks]
    for axis, size in enumerate(sizes):
        rest = math.prod(sizes[axis + 1 :]) * itemsize
        pieces = math.ceil(size / max(1, STORAGE_BYTES // rest))
        sizes[axis] = math.ceil(size / pieces)
    return tuple(sizes)


def _set_global_coordinates(file: netCDF4.Dataset, dataset: xr.Dataset) -> None:
    """List coordinates that no variable names in the attribute where xarray looks for them."""
    listed = {
        name
        for variable in file.variables.values()
        for name in getattr(variable, "coordinates", "").split()
    }
    missing = [name for name in auxiliary(dataset) if name not in listed]
    if missing:
        file.setncattr("coordinates", " ".join(missing))


def _write_window(file: netCDF4.Dataset, target: Path, window: list[Block]) -> None:
    """Write the blocks of a window."""
    with clock.stage("write"), disk_errors(target):
        for region, block in window:
            for name, variable in block.variables.items():
                if variable.size == 0:
                    continue
                stored = file.variables[str(name)]
                place = region.place(variable.dims)
                values = variable.to_numpy().astype(stored.dtype, copy=False)
                # Only so long, that those who read the next chunks wait no longer than they must
                with NETCDF4_PYTHON_LOCK:
                    stored[place or ...] = values
