"""Regions of a Dataset: blocks that are computed a few at a time, and written on their own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise, product
from typing import Any, TypeVar
from uuid import uuid4

import xarray as xr
from dask import threaded
from dask.base import get_scheduler
from dask.blockwise import optimize_blockwise
from dask.highlevelgraph import HighLevelGraph
from dask.optimization import cull
from dask.utils import ensure_dict

from xr_lstsq.formats.windows import Chunks, blocks_at_once

__all__ = ["Block", "Region", "computed", "each", "regions", "write_behind"]

# Regions whose part of the graph is taken out of the whole at a time: few enough that their tasks
# are no burden, enough that taking them out, layer by layer, costs nothing beside the work.
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

    def position(self, dims: Iterable[Hashable]) -> tuple[int, ...]:
        """Return which piece it is along each dim of a variable: the first where that is whole."""
        pieces = dict(zip(self.window, self.index, strict=True))
        return tuple(pieces.get(dim, 0) for dim in dims)

    def place(self, dims: Iterable[Hashable]) -> tuple[slice, ...]:
        """Return the same in positions: a slice for each dim of a variable."""
        return tuple(self.window.get(dim, slice(None)) for dim in dims)


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


def each(
    group: xr.Dataset,
    chunks: Chunks,
    work: Callable[[Region, xr.Dataset], T],
    wanted: Iterable[Region] | None = None,
    *,
    name: str,
    at_once: int,
) -> Iterator[list[tuple[Region, T]]]:
    """Compute regions, do something with each where it is computed, and yield what that returns.

    Parameters
    ----------
    group : xarray.Dataset
        Variables that are cut in the same way, eager or lazy; whatever they share is computed once.
    chunks : dict
        How they are cut.
    work : callable
        ``work(region, block)`` with the variables of a region in memory. It must pickle where
        workers are other processes.
    wanted : iterable of Region, optional
        Which regions are computed. None means all.
    name : str
        What the tasks are called, a verb.
    at_once : int
        Regions of a window: they are submitted together, and the next ones when all are done.
    """
    lazy = [one for one in group.variables.values() if one.chunks is not None]
    graph = HighLevelGraph.merge(*(one.data.dask for one in lazy))
    if lazy:
        # Layers as wholes: other optimisations of dask make all tasks of a graph, in seconds where
        # it has 100,000 chunks
        first = next(regions(chunks))
        graph = optimize_blockwise(graph, [_key(one, first) for one in lazy])
    run = get_scheduler() or threaded.get
    for batch in _batches(regions(chunks) if wanted is None else wanted, GRAPH_REGIONS):
        if not lazy:
            yield [(region, work(region, _cut(group, region))) for region in batch]
            continue
        wanted_keys = {_key(one, region) for region in batch for one in lazy}
        part = ensure_dict(graph.cull(wanted_keys))
        for window in _batches(batch, at_once):
            token = f"{name}-{uuid4().hex}"
            tasks: dict[Any, Any] = {
                (token, *region.index): _task(work, group, region) for region in window
            }
            needed = cull(part | tasks, list(tasks))[0]
            yield list(zip(window, run(needed, list(tasks)), strict=True))


def computed(group: xr.Dataset, chunks: Chunks) -> Iterator[list[Block]]:
    """Yield windows of computed regions; whatever the variables share is computed once.

    Parameters
    ----------
    group : xarray.Dataset
        Variables that are cut in the same way, eager or lazy.
    chunks : dict
        How they are cut.

    Notes
    -----
    A window is half as large as one that is written before the next is computed: there are two
    at a time, see `write_behind`.
    """
    at_once = max(1, blocks_at_once(group, chunks) // 2)
    return each(group, chunks, _itself, name="gather", at_once=at_once)


def _itself(_region: Region, block: xr.Dataset) -> xr.Dataset:
    return block


def _key(variable: xr.Variable, region: Region) -> tuple[str | int, ...]:
    """Return the key of the chunk of a lazy variable that is a region."""
    return (variable.data.name, *region.position(variable.dims))


def _cut(group: xr.Dataset, region: Region) -> xr.Dataset:
    """Return the variables of a region, of a group that is in memory."""
    return group.isel(region.window, missing_dims="ignore")


def _task(
    work: Callable[[Region, xr.Dataset], T], group: xr.Dataset, region: Region
) -> tuple[Any, ...]:
    """Return a task of dask that does the work on a region."""
    eager = [name for name, one in group.variables.items() if one.chunks is None]
    lazy = {name: one for name, one in group.variables.items() if one.chunks is not None}
    frame = {name: one.dims for name, one in lazy.items()}
    values = [_key(one, region) for one in lazy.values()]
    return (_do, _Job(work, region, _cut(group[eager], region), frame), values)


@dataclass(frozen=True, eq=False)
class _Job:
    """What is done with a region, apart from the values of its lazy variables."""

    work: Callable[[Region, xr.Dataset], Any]
    region: Region
    eager: xr.Dataset
    frame: dict[Hashable, tuple[Hashable, ...]]

    def __dask_tokenize__(self) -> str:
        """Return a name without a look at what is inside."""
        return uuid4().hex


def _do(job: _Job, values: list[Any]) -> Any:
    pairs = zip(job.frame.items(), values, strict=True)
    lazy = {name: xr.Variable(dims, one) for (name, dims), one in pairs}
    return job.work(job.region, job.eager.assign(lazy))


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
