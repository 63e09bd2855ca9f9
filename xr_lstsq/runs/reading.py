"""Variables of files as dask arrays whose chunks name file and place when they cannot be read."""

from __future__ import annotations

import uuid
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from xr_lstsq import clock, outputs
from xr_lstsq.errors import warn
from xr_lstsq.runs.inputs import Inputs

__all__ = ["Readable", "blank", "lazily"]


@dataclass(frozen=True)
class Readable:
    """A variable of a file, read chunk by chunk.

    Attributes
    ----------
    values : dask array
        Its values.
    readable : Variable or None
        True at the pixels that could be read, in chunks; None when a chunk that cannot be read is
        an error.
    """

    values: Any
    readable: xr.Variable | None


def lazily(
    variable: xr.DataArray,
    chunks: tuple[tuple[int, ...], ...],
    inputs: Inputs,
    *,
    dim: Hashable,
    skip: bool,
) -> Readable:
    """Return a variable of an open file as a dask array.

    Parameters
    ----------
    variable : DataArray
        As opened, without dask if the format can.
    chunks : tuple of tuple of int
        Pieces along each dim.
    inputs : Inputs
        The files, for errors.
    dim : hashable
        Sample dim, which is whole.
    skip : bool
        Whether a chunk that cannot be read is zeros, which `blank` takes out of the fit again,
        instead of an error.
    """
    source = _Source(variable.variable, str(variable.name), inputs, skip)
    # Not the same for the same file: on a cluster, results of an earlier run must not be found
    token = f"read-{variable.name}-{uuid.uuid4().hex}"
    meta = np.empty((0,) * variable.ndim, dtype=object if skip else variable.dtype)
    read = da.from_array(
        source, chunks=chunks, name=token, asarray=False, fancy=False, meta=meta, inline_array=True
    )
    if not skip:
        return Readable(read, None)
    values = da.map_blocks(
        _values,
        read,
        token=f"values-{variable.name}",
        dtype=variable.dtype,
        meta=np.empty((0,) * variable.ndim, variable.dtype),
    )
    rest = [name for name in variable.dims if name != dim]
    flags = da.blockwise(
        _flags,
        rest,
        read,
        variable.dims,
        token=f"flag-{variable.name}",
        axes=tuple(place for place, name in enumerate(variable.dims) if name == dim),
        concatenate=False,
        dtype=bool,
        meta=np.empty((0,) * len(rest), bool),
    )
    return Readable(values, xr.Variable(rest, flags))


def blank(fit: xr.Dataset, readable: list[xr.Variable]) -> xr.Dataset:
    """Return a lazy fit with status failed, and NaN or 0, at the pixels that could not be read.

    Parameters
    ----------
    fit : Dataset
        Lazy, with ``status``.
    readable : list of Variable
        Flags of all that was read; a pixel needs each.
    """
    failed = outputs.STATUS["failed"]
    needed = {dim for flags in readable for dim in flags.dims}
    changed = {}
    for name, variable in fit.data_vars.items():
        if variable.chunks is None or not needed <= set(variable.dims):
            continue
        lost = failed if name == "status" else np.nan if variable.dtype.kind == "f" else 0
        values = da.blockwise(
            _blanked,
            variable.dims,
            *(variable.data, variable.dims),
            *(one for flags in readable for one in (flags.data, flags.dims)),
            token=f"blank-{name}",
            axes=[tuple(map(variable.dims.index, flags.dims)) for flags in readable],
            lost=variable.dtype.type(lost),
            dtype=variable.dtype,
            meta=variable.data._meta,
            align_arrays=False,
        )
        changed[name] = variable.copy(data=values)
    return fit.assign(changed)


@dataclass(frozen=True, eq=False)
class _Block:
    """A chunk that was read, or zeros in its place."""

    values: Any
    readable: bool


@dataclass(frozen=True, eq=False)
class _Source:
    """What dask reads chunks from."""

    variable: xr.Variable
    name: str
    inputs: Inputs
    skip: bool

    def __dask_tokenize__(self) -> str:
        """Return a name without a look at the values: all of them would be read."""
        return uuid.uuid4().hex

    @property
    def shape(self) -> tuple[int, ...]:
        return self.variable.shape

    @property
    def ndim(self) -> int:
        return self.variable.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.variable.dtype
        return found

    def __getitem__(self, key: Any) -> Any:
        with clock.stage("read"):
            here = self.variable[key]
            try:
                # Of formats that open files with dask alone; others know no scheduler
                values = here.compute(scheduler="sync").to_numpy()
            except MemoryError:
                raise
            except Exception as error:
                # A file that is gone, or not there for a worker, is no damaged chunk
                if not self.skip or self._lost():
                    raise OSError(self._message(key, error)) from error
                warn(f"{self._place(key)} cannot be read ({error}); its pixels get status failed.")
                return _Block(np.zeros(here.shape, here.dtype), readable=False)
        return _Block(values, readable=True) if self.skip else values

    def _lost(self) -> bool:
        """Tell whether files are not there (any more)."""
        try:
            return bool(self.inputs.missing())
        except FileNotFoundError:
            return True

    def _place(self, key: Any) -> str:
        """Return the variable, file and chunk that were to be read."""
        cut = [
            f"{dim} {one.start}:{one.stop}"
            for dim, one, size in zip(self.variable.dims, key, self.shape, strict=False)
            if isinstance(one, slice) and (one.start or 0, one.stop) != (0, size)
        ]
        return f"{self.name!r} of '{self.inputs}' at {', '.join(cut) or 'its only chunk'}"

    def _message(self, key: Any, error: Exception) -> str:
        if self._lost():
            return (
                f"Reading {self._place(key)} failed: the file is not there (any more). On a "
                "cluster every worker must see it under this name."
            )
        return (
            f"Reading {self._place(key)} failed ({error}); the file is damaged there, or its disk "
            "failed. Restore the file, or pass skip_unreadable=True "
            "(--skip-unreadable in the shell), which gives these pixels the status failed."
        )


def _values(block: _Block) -> Any:
    return block.values


def _flags(block: Any, axes: tuple[int, ...]) -> Any:
    while isinstance(block, list):  # that dask makes of the axis that is left out
        (block,) = block
    shape = [size for place, size in enumerate(block.values.shape) if place not in axes]
    return np.full(shape, block.readable)


def _blanked(values: Any, *readable: Any, axes: list[tuple[int, ...]], lost: Any) -> Any:
    for flags, places in zip(readable, axes, strict=True):
        shape = [size if axis in places else 1 for axis, size in enumerate(values.shape)]
        values = np.where(flags.transpose(np.argsort(places)).reshape(shape), values, lost)
    return values
