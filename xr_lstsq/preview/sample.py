"""Take a few pixels of a job that stand for all of them."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq.arguments import Job

__all__ = ["few_pixels", "pixel_chunks"]

MOST_PIXELS = 4096
"""Pixels of a sample: enough for shares to about 1 %, and solved in an instant."""
MOST_WORK = 2**31
"""Work on a sample, in numbers of the small systems: a few seconds at most."""
FEWEST_PIXELS = 64
"""Pixels of a sample, however much work they are."""
MOST_CHUNKS = 3
"""Chunks of a lazy cube that are read for it."""
PIXEL = "a pixel of the sample"
"""Dim that takes the place of all pixel dims."""

Place = Mapping[Hashable, Any]


def few_pixels(job: Job) -> Job:
    """Return a job of a few pixels of a job, with the dims (dim, pixel).

    In memory they are drawn at random, and are the same in every call. Of lazy arrays they are a
    contiguous piece from the middle of each of a few chunks that lie evenly over the cube, so that
    little is read. A job in memory that has no more pixels is returned as it is.
    """
    dims = tuple(name for name in job.cube.dims if name != job.dim)
    shape = tuple(job.cube.sizes[name] for name in dims)
    n, p = job.cube.sizes[job.dim], job.design.array.sizes[job.options.param_dim]
    most = min(MOST_PIXELS, max(FEWEST_PIXELS, MOST_WORK // max(1, n * p**2)))
    if not dims or not (job.lazy or math.prod(shape) > most):
        return job
    if job.lazy:
        places = _pieces(pixel_chunks(job), most)
    else:
        drawn = sorted(random.Random(0).sample(range(math.prod(shape)), most))
        at = np.unravel_index(drawn, shape)
        places = [{name: xr.Variable(PIXEL, i) for name, i in zip(dims, at, strict=True)}]

    def take(array: xr.DataArray) -> xr.DataArray:
        return _take(array, dims, places).transpose(job.dim, ..., PIXEL, missing_dims="ignore")

    return replace(
        job,
        cube=take(job.cube),
        design=replace(job.design, array=take(job.design.array)),
        weights=None if job.weights is None else take(job.weights),
        valid=None if job.valid is None else take(job.valid),
    )


def pixel_chunks(job: Job) -> dict[Hashable, tuple[int, ...]]:
    """Return the sizes of the chunks in which a job is solved, for each of its pixel dims."""
    # The first that is lazy decides, as in `blocks.run`
    arrays = (job.cube, job.design.array, job.weights, job.valid)
    found: dict[Hashable, tuple[int, ...]] = {}
    for name in job.cube.dims:
        if name == job.dim:
            continue
        cuts = [a.chunksizes[name] for a in arrays if a is not None and name in a.chunksizes]
        sizes = cuts[0] if cuts else (job.cube.sizes[name],)
        found[name] = tuple(size for size in sizes if size)
    return found


def _pieces(chunks: Mapping[Hashable, tuple[int, ...]], most: int) -> list[Place]:
    """Return a contiguous piece from the middle of each of a few chunks that lie evenly."""
    counts = tuple(map(len, chunks.values()))
    total = math.prod(counts)
    number = min(MOST_CHUNKS, total)
    pieces: list[Place] = []
    for k in range(number):
        chunk = np.unravel_index((2 * k + 1) * total // (2 * number), counts)
        whole = [sizes[i] for sizes, i in zip(chunks.values(), chunk, strict=True)]
        size = list(whole)
        while math.prod(size) > most // number:
            longest = size.index(max(size))
            size[longest] = -(-size[longest] // 2)
        piece = {}
        for axis, (name, sizes) in enumerate(chunks.items()):
            start = sum(sizes[: chunk[axis]]) + (whole[axis] - size[axis]) // 2
            piece[name] = slice(start, start + size[axis])
        pieces.append(piece)
    return pieces


def _take(array: xr.DataArray, dims: tuple[Hashable, ...], places: list[Place]) -> xr.DataArray:
    """Return an array at these places, with one dim of pixels if it has any of theirs."""
    own = [name for name in dims if name in array.dims]
    if not own:
        return array
    bare = array.drop_vars(list(array.coords))
    parts = []
    for place in places:
        part = bare.isel({name: place[name] for name in own})
        if PIXEL not in part.dims:
            wide = {n: place[n].stop - place[n].start for n in dims if n not in own}
            part = part.expand_dims(wide).stack({PIXEL: dims}, create_index=False)
        parts.append(part)
    taken: xr.DataArray = xr.concat(parts, PIXEL) if len(parts) > 1 else parts[0]
    taken.attrs = array.attrs  # those of the cube say which values mean missing
    return taken
