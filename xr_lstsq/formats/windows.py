"""Windows over a Dataset: which of its blocks are computed and written together."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import xarray as xr

__all__ = ["Chunks", "at_most", "at_once", "blocks_at_once", "by_windows", "groups"]

WINDOW_BYTES = 256 * 2**20
SLAB_BYTES = 64 * 2**20
AHEAD = 8
"""Blocks of a window for each thread, where they are small. A thread that is done takes the next
one, and only the end of a window finds threads without work. (dask's scheduler hands tasks out one
by one, to whoever is free, only where there are more than two for each thread.)"""

_LIMITS: ContextVar[tuple[int, int] | None] = ContextVar("limits", default=None)

Chunks = dict[Hashable, tuple[int, ...]]
"""Sizes of the pieces along each dim that is cut."""


def by_windows(dataset: xr.Dataset, kinds: str) -> list[str]:
    """Return the variables that are written by windows: numeric ones that are data or lazy.

    Everything else, such as texts and times, is small and goes at once.

    Parameters
    ----------
    dataset : xarray.Dataset
        What is written.
    kinds : str
        Kinds of dtypes, a letter each, that the format writes so.
    """
    return [
        str(name)
        for name, variable in dataset.variables.items()
        if variable.dtype.kind in kinds
        and (name in dataset.data_vars or variable.chunks is not None)
    ]


def groups(dataset: xr.Dataset, names: Iterable[str]) -> list[tuple[list[str], Chunks]]:
    """Return `names` grouped by how they are cut: equal chunks come from the same tasks.

    Parameters
    ----------
    dataset : xarray.Dataset
        Holds the variables. Those without dask chunks are cut where they are large.
    names : iterable of str
        Variables to group.

    Returns
    -------
    list of (list of str, dict)
        The names of a group, and the dims along which all of them are cut in the same way.
    """
    found: dict[frozenset[tuple[Hashable, tuple[int, ...]]], tuple[list[str], Chunks]] = {}
    for name in names:
        variable = dataset.variables[name]
        pieces = dict(variable.chunksizes) if variable.chunks is not None else _slabs(variable)
        cut = {dim: sizes for dim, sizes in pieces.items() if len(sizes) > 1}
        found.setdefault(frozenset(cut.items()), ([], cut))[0].append(name)
    return list(found.values())


def _slabs(variable: xr.Variable) -> Chunks:
    """Cut a variable without dask chunks along its longest dim into pieces of SLAB_BYTES."""
    if variable.nbytes <= SLAB_BYTES:
        return {}
    dim = max(variable.sizes, key=lambda name: variable.sizes[name])
    length = variable.sizes[dim]
    size = max(1, length * SLAB_BYTES // variable.nbytes)
    full, rest = divmod(length, size)
    return {dim: (size,) * full + ((rest,) if rest else ())}


def at_once() -> int:
    """Return how many blocks a window has that are written, and gone, where they are computed."""
    limits = _LIMITS.get()
    return AHEAD * (os.cpu_count() or 1 if limits is None else limits[1])


def blocks_at_once(group: xr.Dataset, chunks: Chunks) -> int:
    """Return how many blocks one window may hold: enough for all threads, within WINDOW_BYTES.

    `at_most` sets other limits.

    Parameters
    ----------
    group : xarray.Dataset
        The variables that are written together.
    chunks : dict
        How they are cut.
    """
    blocks = math.prod(len(sizes) for sizes in chunks.values())
    nbytes, threads = _LIMITS.get() or (WINDOW_BYTES, os.cpu_count() or 1)
    fitting = nbytes * blocks // max(1, group.nbytes)
    return max(1, min(AHEAD * threads, fitting))


@contextmanager
def at_most(*, nbytes: int | None, threads: int | None) -> Iterator[None]:
    """Set what a window may hold in all writing inside.

    Parameters
    ----------
    nbytes : int, optional
        Bytes of results. None is WINDOW_BYTES.
    threads : int, optional
        Threads that compute; a window has AHEAD blocks for each. None is the number of cores.
    """
    limits = (nbytes or WINDOW_BYTES, threads or os.cpu_count() or 1)
    before = _LIMITS.set(limits)
    try:
        yield
    finally:
        _LIMITS.reset(before)
