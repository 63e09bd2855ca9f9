"""Chunks in which a cube of a file is read: one dim whole, the others along the file's chunks."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping

import xarray as xr

from xr_lstsq.errors import ChunkError, LabelError

__all__ = ["plan", "stored_chunks", "times_read"]

# Cube (with what is read beside it) in one chunk: large enough that opening and scheduling cost
# nothing beside the work, small enough that a chunk for every thread fits into memory.
CHUNK_BYTES = 64 * 2**20
# A storage chunk is never cut below this, since whoever reads a piece of it must unpack all of it.
WHOLE = 4


def plan(
    cube: xr.DataArray,
    dim: Hashable,
    others: Collection[xr.DataArray] = (),
    asked: Mapping[str, int] | None = None,
    *,
    most_bytes: int | None = None,
    limit_bytes: int | None = None,
) -> dict[Hashable, int]:
    """Return the chunk sizes in which a cube of a file is read.

    Parameters
    ----------
    cube : DataArray
        The cube as opened, with ``encoding["chunksizes"]`` where it is stored in chunks.
    dim : hashable
        Sample dim; it stays whole.
    others : collection of DataArray
        Weights and the like, which are read with it.
    asked : mapping of str to int, optional
        Sizes the user wants. They go before anything planned.
    most_bytes : int, optional
        Size of a chunk that is aimed at. None is CHUNK_BYTES.
    limit_bytes : int, optional
        Up to which size storage chunks stay whole. None is WHOLE times CHUNK_BYTES.

    Returns
    -------
    dict
        Size for each dim of the cube, -1 for the sample dim.

    Raises
    ------
    LabelError
        When `asked` names a dim that the cube does not have.
    ChunkError
        When `asked` cuts the sample dim, or has a size below 1.
    """
    asked = dict(asked or {})
    for name, size in asked.items():
        if name not in cube.dims:
            msg = f"chunks names {name!r}, and {cube.name!r} has the dims {tuple(cube.dims)}."
            raise LabelError(msg + " Name pixel dims, such as chunks={'y': 256, 'x': 256}.")
        if name == dim and size not in (-1, cube.sizes[dim]):
            msg = f"chunks cuts {name!r} into pieces of {size}, and a pixel needs all its samples."
            raise ChunkError(msg + f" Leave {name!r} out of chunks.")
        if size < 1 and size != -1:
            msg = f"chunks has {size} for {name!r}. Sizes are numbers of pixels, 1 or more."
            raise ChunkError(msg)
    pixel_dims = [name for name in cube.dims if name != dim]
    sample_bytes = sum(array.dtype.itemsize for array in (cube, *others))
    pixel_bytes = max(1, cube.sizes[dim]) * sample_bytes
    most = max(1, (CHUNK_BYTES if most_bytes is None else most_bytes) // pixel_bytes)
    limit = (WHOLE * CHUNK_BYTES if limit_bytes is None else limit_bytes) // pixel_bytes
    stored = stored_chunks(cube)
    sizes = {name: cube.sizes[name] for name in pixel_dims}
    if stored is None:
        units = dict.fromkeys(pixel_dims[:-1], 1) | {n: sizes[n] for n in pixel_dims[-1:]}
    else:
        units = {name: max(1, stored[name]) for name in pixel_dims}
        if most < math.prod(units.values()) <= limit:
            most = math.prod(units.values())
    block = _grow(units, sizes, most)
    return {dim: -1, **block, **{name: size for name, size in asked.items() if name != dim}}


def stored_chunks(cube: xr.DataArray) -> dict[Hashable, int] | None:
    """Return the sizes of the storage chunks of a variable; None where it is stored in one piece.

    Parameters
    ----------
    cube : DataArray
        As opened: netCDF tells ``encoding["chunksizes"]``, Zarr ``encoding["chunks"]``, others
        ``encoding["preferred_chunks"]``.
    """
    encoding = cube.encoding
    sizes = encoding.get("chunksizes") or encoding.get("chunks")
    if sizes and len(sizes) == cube.ndim:
        found = dict(zip(cube.dims, map(int, sizes), strict=True))
    else:
        preferred = encoding.get("preferred_chunks") or {}
        if not set(cube.dims) <= set(preferred) or not all(
            isinstance(preferred[name], int) for name in cube.dims
        ):
            return None
        found = {name: int(preferred[name]) for name in cube.dims}
    return {name: min(size, cube.sizes[name]) for name, size in found.items()}


def times_read(cube: xr.DataArray, dim: Hashable, sizes: Mapping[Hashable, int]) -> float:
    """Return how often each byte of a variable is read from its file when it is read in chunks.

    Parameters
    ----------
    cube : DataArray
        As opened.
    dim : hashable
        Sample dim.
    sizes : mapping of hashable to int
        Sizes of the chunks, as `plan` returns them.

    Returns
    -------
    float
        1 where storage chunks are never cut.
    """
    stored = stored_chunks(cube)
    if stored is None:
        return 1.0
    often = 1.0
    for name in cube.dims:
        length, unit = cube.sizes[name], stored[name]
        size = length if sizes[name] == -1 else sizes[name]
        if name == dim or not length or not unit:
            continue
        reads = sum(
            -(-min(start + size, length) // unit) - start // unit
            for start in range(0, length, size)
        )
        often *= reads / -(-length // unit)
    return often


def _grow(
    block: dict[Hashable, int], sizes: Mapping[Hashable, int], most: int
) -> dict[Hashable, int]:
    """Grow a storage chunk to about `most` pixels, last dim first, or cut it where it is larger."""
    units = dict(block)
    for name in block:
        while math.prod(block.values()) > most and block[name] > 1:
            block[name] = math.ceil(block[name] / 2)
    if block != units:
        return block
    for name in reversed(units):
        fitting = max(1, most // math.prod(block.values()))
        needed = max(1, math.ceil(sizes[name] / units[name]))
        # Equal pieces, so that no sliver is left at the end.
        block[name] *= math.ceil(needed / math.ceil(needed / fitting))
        if block[name] < sizes[name]:
            break
    return {name: min(size, max(1, sizes[name])) for name, size in block.items()}
