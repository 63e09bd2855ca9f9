"""Cubes in files: which variable is fitted, and in which chunks it is read."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import xarray as xr

from xr_lstsq.arguments import shared_dims
from xr_lstsq.blocks import scheduler_name
from xr_lstsq.errors import ChunkError, LabelError, warn
from xr_lstsq.formats import chunks as file_chunks
from xr_lstsq.formats import netcdf
from xr_lstsq.labels import choose, find_dim
from xr_lstsq.runs import reading
from xr_lstsq.runs.inputs import Inputs

__all__ = [
    "Room",
    "Source",
    "open_cube",
    "read_errors",
    "refuse_processes",
    "sample_path",
    "warn_of_storage",
]

TOO_OFTEN = 2.0
"""How often a file may be read before a user is told that it is stored badly for this."""
STORED_BYTES = 4 * 2**20
"""A good size of storage chunks, in numbers."""


@dataclass(frozen=True)
class Room:
    """The memory that chunks may take.

    Attributes
    ----------
    most_bytes, limit_bytes : int
        Size of a chunk when as many are in flight as there are threads, and when it is one.
    pixel_bytes : int
        What a pixel takes beside its samples, as bytes of a chunk.
    """

    most_bytes: int
    limit_bytes: int
    pixel_bytes: int = 0


@dataclass(frozen=True, eq=False)
class Source:
    """A cube in an open file.

    Attributes
    ----------
    dataset : Dataset
        The file, in chunks.
    var : str
        Variable to fit.
    dim : hashable
        Sample dim.
    names : dict of str to str
        Which variables are ``weights`` and ``valid``, as far as they are given.
    readable : list of Variable
        Flags of what could be read, of each variable that may have chunks that cannot.
    """

    dataset: xr.Dataset
    var: str
    dim: Hashable
    names: dict[str, str]
    readable: list[xr.Variable]

    @property
    def cube(self) -> xr.DataArray:
        """The variable to fit."""
        return self.dataset[self.var]

    @property
    def chunk_bytes(self) -> int:
        """Size of the largest chunk of the cube, with what is read beside it."""
        sizes = self.cube.chunksizes
        return sum(
            math.prod(max(sizes[name], default=0) for name in one.dims if name in sizes)
            * one.dtype.itemsize
            for one in (self.cube, *self.samples().values())
        )

    @property
    def chunk_pixels(self) -> int:
        """Pixels of the largest chunk."""
        sizes = self.cube.chunksizes.items()
        return math.prod(max(pieces, default=0) for name, pieces in sizes if name != self.dim)

    def samples(self) -> dict[str, Any]:
        """Return the variables that are ``weights`` and ``valid``."""
        return {argument: self.dataset[name] for argument, name in self.names.items()}


def sample_path() -> Path:
    """Return the path of the sample cube that the package ships.

    Returns
    -------
    Path
        netCDF: ``ndvi`` and ``valid`` with the dims time (68 dates of 2015 to 2017), y (101) and
        x (100); Sentinel-2, Slovenia. Source and licence stand beside it.

    Examples
    --------
    >>> sample_path().name
    's2_slovenia_ndvi.nc'
    """
    return Path(str(resources.files("xr_lstsq") / "data" / "s2_slovenia_ndvi.nc"))


@contextmanager
def open_cube(
    inputs: Inputs,
    design: Any,
    *,
    var: str | None,
    dim: Hashable | None,
    weights: str | None,
    valid: str | None,
    chunks: Mapping[str, int] | None,
    param_dim: str,
    room: Room | None = None,
    skip: bool = False,
) -> Iterator[Source]:
    """Open the cube of a file, with all samples of a pixel in one chunk.

    Parameters
    ----------
    inputs : Inputs
        The files.
    design : str, Term, DataArray or array
        As in `xr_lstsq.solve`; a labelled one may say which dim is that of the samples.
    var, dim, weights, valid, chunks : optional
        As in `solve_file`.
    param_dim : str
        Name of the param dim.
    room : Room, optional
        Memory that chunks may take.
    skip : bool
        Whether chunks that cannot be read are flagged, and no error.

    Raises
    ------
    LabelError, ChunkError
        For names that the file does not have, and chunks that do not fit.
    FileNotFoundError, OSError
        A file that cannot be read.
    """
    with inputs.open() as probe:
        beside = shared_dims(design, param_dim)
        var, names = _variables(probe, var, dim, beside, weights=weights, valid=valid)
        dim = find_dim(probe[var], dim, beside)
        others = [probe[name] for name in names.values()]
        plan = _plan(probe[var], dim, others, chunks, room)
        with inputs.open(plan) as opened:
            pixels = {name for name in plan if name != dim}
            flags: list[xr.Variable] = []
            lazy: dict[str, xr.DataArray] = {}
            for name in dict.fromkeys((var, *names.values())):
                one = opened[name]
                if name != var and not pixels.intersection(one.dims):
                    continue
                read = reading.lazily(probe[name], one.chunks or (), inputs, dim=dim, skip=skip)
                lazy[name] = one.copy(data=read.values)
                flags += [] if read.readable is None else [read.readable]
            coords = {name: one for name, one in lazy.items() if name in opened.coords}
            data = {name: one for name, one in lazy.items() if name not in coords}
            yield Source(opened.assign(data).assign_coords(coords), var, dim, names, flags)


def _plan(
    cube: xr.DataArray,
    dim: Hashable,
    others: list[xr.DataArray],
    chunks: Mapping[str, int] | None,
    room: Room | None,
) -> dict[Hashable, int]:
    """Return the chunk sizes, and refuse those asked for that do not fit."""
    if room is None:
        return file_chunks.plan(cube, dim, others, chunks)
    samples = max(1, cube.sizes[dim]) * sum(one.dtype.itemsize for one in (cube, *others))
    share = samples / (samples + room.pixel_bytes)
    most, limit = (max(1, int(size * share)) for size in (room.most_bytes, room.limit_bytes))
    plan = file_chunks.plan(cube, dim, others, chunks, most_bytes=most, limit_bytes=limit)
    pixels = math.prod(
        cube.sizes[name] if size == -1 else min(size, cube.sizes[name])
        for name, size in plan.items()
        if name != dim
    )
    if pixels * samples > limit:
        found = (
            f"Chunks of {pixels:,} pixels, {pixels * samples / 1e6:,.0f} MB"
            if chunks
            else f"A single pixel takes {samples / 1e6:,.0f} MB, which"
        )
        msg = f"{found} do not fit into the memory allowed: a chunk may have {limit / 1e6:,.0f} MB."
        raise ChunkError(msg + " Leave chunks to the run, or allow more by max_memory.")
    return plan


def warn_of_storage(found: Source, inputs: Inputs) -> None:
    """Say once that a file is stored so that it must be read again and again, and what helps."""
    cube, dim = found.cube, found.dim
    plan = {name: max(pieces, default=0) for name, pieces in cube.chunksizes.items()}
    often = file_chunks.times_read(cube, dim, plan)
    # A small file stays in caches
    if often < TOO_OFTEN or cube.nbytes <= file_chunks.WHOLE * file_chunks.CHUNK_BYTES:
        return
    stored = file_chunks.stored_chunks(cube) or {}
    good = file_chunks.plan(
        cube.drop_encoding(), dim, most_bytes=STORED_BYTES, limit_bytes=STORED_BYTES
    )
    side = max(1, math.isqrt(math.prod(size for size in good.values() if size > 0)))
    wanted = {
        name: cube.sizes[name] if name == dim else min(side, cube.sizes[name]) for name in cube.dims
    }
    if inputs.format.module is netcdf:
        text = ",".join(f"{name}/{size}" for name, size in wanted.items())
        remedy = f"nccopy -c {text} '{inputs}' rechunked.nc"
    else:
        text = ", ".join(f"{name!r}: {size}" for name, size in wanted.items())
        remedy = f"rechunk it with dask or rechunker to {{{text}}}"
    warn(
        f"'{inputs}' is stored in chunks of {_shown(stored)}, and a pixel needs all its samples at "
        f"once: each of them is read up to {often:,.0f} times, in chunks of {_shown(plan)}. "
        f"Store it once more in small areas with all samples: {remedy}."
    )


def _shown(sizes: Mapping[Hashable, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sizes.items())


def refuse_processes() -> None:
    """Refuse the scheduler under which files are neither read nor written in bounded memory."""
    if scheduler_name() == "processes":
        msg = (
            "dask's process scheduler is in force, which would copy every chunk between processes "
            "to write it. Call dask.config.set(scheduler='threads'), or start a "
            "distributed.Client."
        )
        raise ValueError(msg)


@contextmanager
def read_errors(source: object) -> Iterator[None]:
    """Turn what netCDF4 raises for a damaged file, a RuntimeError, into an OSError with a name."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("NetCDF:"):
            raise
        msg = f"Reading '{source}' failed part-way ({error}); the file is damaged."
        raise OSError(msg) from error


def _variables(
    dataset: xr.Dataset,
    var: str | None,
    dim: Hashable | None,
    beside: tuple[Hashable, ...] | None,
    **named: str | None,
) -> tuple[str, dict[str, str]]:
    """Return the variable to fit and those named in arguments, all of which must be there."""
    names = {argument: name for argument, name in named.items() if name is not None}
    for argument, name in {"var": var, **names}.items():
        if name is not None and name not in dataset.variables:
            known = ", ".join(map(str, dataset.variables))
            msg = f"{argument}={name!r} is not a variable of the file, which has {known}."
            raise LabelError(msg)
    if var is None:
        chosen = choose(dataset, find_dim(dataset, dim, beside), None, names.values())
        cubes = [str(name) for name in chosen.fitted if dataset[name].ndim > 1]
        if len(cubes) != 1:
            listed = ", ".join(cubes) or "none"
            msg = f"The file has {len(cubes)} variables that can be fitted ({listed})."
            raise LabelError(msg + " Say which one: var='NAME', or --var NAME in the shell.")
        var = cubes[0]
    return var, names
