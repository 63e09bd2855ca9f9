"""Chunks in which a cube of a file is read: one dim whole, the others along the file's chunks."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping

import xarray as xr

from xr_lstsq.errors import ChunkError, LabelError

__all__ = ["plan"]

# Cube (with what is read beside it) in one chunk: large enough that opening and scheduling cost
# nothing beside the work, small enough that a chunk for every thread fits into memory.
CHUNK_BYTES = 64 * 2**20


def plan(
    cube: xr.DataArray,
    dim: Hashable,
    others: Collection[xr.DataArray] = (),
    asked: Mapping[str, int] | None = None,
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
    most = max(1, CHUNK_BYTES // (max(1, cube.sizes[dim]) * sample_bytes))
    stored = cube.encoding.get("chunksizes")
    sizes = {name: cube.sizes[name] for name in pixel_dims}
    if stored is None:
        units = dict.fromkeys(pixel_dims[:-1], 1) | {n: sizes[n] for n in pixel_dims[-1:]}
    else:
        units = {n: min(u, cube.sizes[n]) for n, u in zip(cube.dims, stored, strict=True)}
    block = _grow({name: max(1, units[name]) for name in pixel_dims}, sizes, most)
    return {dim: -1, **block, **{name: size for name, size in asked.items() if name != dim}}


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
