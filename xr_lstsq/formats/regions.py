"""Regions of a Dataset: blocks that are computed a few at a time, and written on their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise, product
from typing import Any, TypeVar

import dask.array as da
import xarray as xr
from dask.base import compute_as_if_collection
from dask.highlevelgraph import HighLevelGraph

from xr_lstsq.formats.windows import Chunks, blocks_at_once

__all__ = ["Block", "Region", "computed", "regions", "write_behind"]

# Regions whose part of the graph is taken out of the whole at a time. Taking it out may walk the
# whole graph (0.3 s for 100,000 chunks), walking the part costs little.
GRAPH_REGIONS = 128

T = TypeVar("T")


@dataclass(frozen=True)
class Region:
    """A block of the variables that are cut in the same way.

    Attributes
    ----------
    index : tuple of int
        Which piece it is along each dim that is cut.
    window : dict
        The same in positions: a slice for each of these dims.
    """

    index: tuple[int, ...]
    window: dict[Hashable, slice]


Block = tuple[Region, xr.Dataset]
"""A region and the variables in it, in memory."""


def regions(chunks: Chunks) -> Iterator[Region]:
    """Yield every region, the last dim fastest.

    Parameters
    ----------
    chunks : dict
        Sizes of the pieces along each dim that is cut. Without any there is one region.
    """
    edges = [list(pairwise(accumulate(sizes, initial=0))) for sizes in chunks.values()]
    for index in product(*(range(len(sizes)) for sizes in chunks.values())):
        bounds = (pieces[i] for pieces, i in zip(edges, index, strict=True))
        yield Region(index, {dim: slice(*b) for dim, b in zip(chunks, bounds, strict=True)})


def computed(
    group: xr.Dataset, chunks: Chunks, wanted: Iterable[Region] | None = None
) -> Iterator[list[Block]]:
    """Yield windows of computed regions; whatever the variables share is computed once.

    Parameters
    ----------
    group : xarray.Dataset
        Variables that are cut in the same way, eager or lazy.
    chunks : dict
        How they are cut.
    wanted : iterable of Region, optional
        Which regions are computed. None means all.

    Notes
    -----
    A window is half as large as one that is written before the next is computed: there are two
    at a time, see `write_behind`.
    """
    at_once = max(1, blocks_at_once(group, chunks) // 2)
    is_large = math.prod(map(len, chunks.values())) > GRAPH_REGIONS
    lazy = [one for one in group.variables.values() if one.chunks is not None]
    graph: Any = HighLevelGraph.merge(*(one.data.dask for one in lazy))
    for batch in _batches(regions(chunks) if wanted is None else wanted, GRAPH_REGIONS):
        part = graph
        if is_large and lazy:
            keys = [_key(one, region, chunks) for region in batch for one in lazy]
            part = da.Array.__dask_optimize__(graph, keys)
        for window in _batches(batch, at_once):
            wanted_keys = [[_key(one, region, chunks) for one in lazy] for region in window]
            # By their keys: no tasks to cut, join and rename what is one chunk already
            values = compute_as_if_collection(da.Array, part, wanted_keys) if lazy else wanted_keys
            found = zip(window, values, strict=True)
            yield [(region, _block(group, region, blocks)) for region, blocks in found]


def _key(variable: xr.Variable, region: Region, chunks: Chunks) -> tuple[Hashable, ...]:
    """Return the key of the chunk of a lazy variable that is a region."""
    position = dict(zip(chunks, region.index, strict=True))
    return (variable.data.name, *(position.get(dim, 0) for dim in variable.dims))


def _block(group: xr.Dataset, region: Region, values: Iterable[Any]) -> xr.Dataset:
    """Return the variables of a region, with the values of the lazy ones."""
    left = iter(values)
    block = {}
    for name, variable in group.variables.items():
        if variable.chunks is None:
            cut = {dim: one for dim, one in region.window.items() if dim in variable.dims}
            block[name] = variable.isel(cut)
        else:
            block[name] = xr.Variable(variable.dims, next(left), variable.attrs)
    return xr.Dataset(block)


def write_behind(
    windows: Iterable[list[Block]],
    write: Callable[[list[Block]], None],
    on_block: Callable[[xr.Dataset], None] | None,
) -> None:
    """Write each window in a thread of its own while the next is computed.

    Parameters
    ----------
    windows : iterable of list of (Region, Dataset)
        What is written, in order.
    write : callable
        Writes a window. Windows are written one after the other.
    on_block : callable, optional
        Called with each block once its window is written, in the thread of the caller.
    """

    def finish(written: Future[None], window: list[Block]) -> None:
        written.result()
        if on_block is not None:
            for _, block in window:
                on_block(block)

    with ThreadPoolExecutor(1, thread_name_prefix="xr_lstsq-write") as writer:
        last: tuple[Future[None], list[Block]] | None = None
        for window in windows:
            if last is not None:
                finish(*last)
            last = writer.submit(write, window), window
        if last is not None:
            finish(*last)


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of up to `size` items; itertools.batched of Python 3.12."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
