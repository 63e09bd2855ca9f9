"""How the dates of every pixel hang together by its valid pairs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from xr_lstsq.blocks import is_lazy
from xr_lstsq.design.calendars import CALENDARS
from xr_lstsq.errors import ChunkError, DtypeError, LabelError
from xr_lstsq.labels import match, shown
from xr_lstsq.networks.pairs import (
    Dates,
    Network,
    is_usable,
    label,
    read_network,
    refuse_taken,
)

__all__ = ["connectivity"]

Facts = tuple[NDArray[Any], ...]

ATTRS = {
    "n_components": {"long_name": "number of groups of connected dates", "units": "1"},
    "n_gap": {"long_name": "number of intervals of dates that no pair spans", "units": "1"},
    "n_pairs_no_loop": {"long_name": "number of pairs that are in no triplet", "units": "1"},
    "max_connected_years": {
        "long_name": "longest time between the first and the last of connected dates",
        "units": "year",
    },
}
"""The variables of the result."""
DTYPES = (np.int32, np.int32, np.int32, np.float32)

BATCH = 2**18
"""Pairs and dates of as many pixels at a time as stay in the cache of a core, measured."""


def connectivity(
    cube: xr.DataArray,
    reference: Dates = "reference",
    secondary: Dates = "secondary",
    *,
    valid: xr.DataArray | NDArray[Any] | None = None,
    nodata: float | Iterable[float] | None = None,
    dim: Hashable | None = None,
) -> xr.Dataset:
    """Return how the dates of every pixel hang together by the pairs that it has.

    Parameters
    ----------
    cube : DataArray
        n pairs, along one dim, with any pixel dims. Any real dtype, in memory or dask.
    reference, secondary : str or DataArray
        Dates of each pair, datetime64 or cftime of one calendar: the name of a coordinate along
        the dim of the pairs, or a DataArray along it, whose labels are matched. Either may be the
        earlier one.
    valid : DataArray or array, optional
        True where a pair counts; bool, or integers that hold only 0 and 1. Any subset of the
        cube's dims, matched by labels; a plain array is along the pairs or of the cube's shape.
    nodata : number or numbers, optional
        Values of the cube that mean missing, beside the ``_FillValue`` and ``missing_value`` in
        its attrs and all that is not finite.
    dim : hashable, optional
        The dim of the pairs. None takes that of the dates.

    Returns
    -------
    Dataset
        Of the pixel dims, with the cube's coordinates and grid mapping; lazy where the cube or
        `valid` is, one task a chunk. Of the m dates of all pairs of the cube and the valid pairs
        of the pixel:

        ``n_components`` : int32
            Groups of dates that pairs connect; a date without a pair is a group of its own. A
            time series is determined up to one constant where this is 1, and a pixel without a
            pair has m.
        ``n_gap`` : int32
            Intervals between successive dates that no pair spans, 0 to m - 1. Rates of such an
            interval are not determined at all.
        ``n_pairs_no_loop`` : int32
            Pairs that are in no triplet of pairs, so that no closure tells whether they are right.
        ``max_connected_years`` : float32
            Longest time from the first to the last date of a group, in years of its calendar; 0
            without any pair.

    Raises
    ------
    TypeError
        For a cube or dates of another kind.
    DtypeError
        For values that are not real numbers, and for `valid` that holds no flags.
    LabelError
        For dates that are not there, not along one dim, or not of one kind; for a pair of one
        date; for `valid` that does not fit; and for a cube with coordinates named as the result.
    ChunkError
        For a cube that is cut along the pairs.
    ValueError
        For `valid` in memory with other integers than 0 and 1, and for `nodata` that is no number.

    Notes
    -----
    ``n_gap`` and ``n_pairs_no_loop`` are as n_gap and n_ifg_noloop of LiCSBAS [1]_. Its maxTlen is
    measured from gap to gap; ``max_connected_years`` is shorter where groups of dates overlap in
    time, without a gap and without a pair between them. A pair without a date does not count.
    Patterns of gaps that repeat cost once; a pixel with one of its own costs some 10 us for 100
    pairs of 40 dates, on one core.

    References
    ----------
    .. [1] Y. Morishita, M. Lazecky, T. J. Wright, J. R. Weiss, J. R. Elliott, A. Hooper, LiCSBAS:
       an open-source InSAR time series analysis package integrated with the LiCSAR automated
       Sentinel-1 InSAR processor, Remote Sens. 12, 424, 2020, doi:10.3390/rs12030424.

    Examples
    --------
    >>> days = np.array(["2018-01-01", "2018-01-13", "2018-01-25"], "datetime64[ns]")
    >>> pairs = xr.DataArray(
    ...     [[1.0, 1.0], [2.0, np.nan], [3.5, np.nan]],
    ...     dims=("pair", "x"),
    ...     coords={"reference": ("pair", days[[0, 1, 0]]), "secondary": ("pair", days[[1, 2, 2]])},
    ... )
    >>> facts = connectivity(pairs)
    >>> facts.n_components.values, facts.n_gap.values, facts.n_pairs_no_loop.values
    (array([1, 2], dtype=int32), array([0, 1], dtype=int32), array([0, 1], dtype=int32))
    """
    network = read_network(cube, reference, secondary, dim)
    refuse_taken(cube, network.dim, ATTRS)
    _refuse_cut(cube, network.dim)
    usable = is_usable(cube, nodata)
    if valid is not None:
        usable = usable & _read_valid(valid, cube, network.dim)
    if is_lazy(usable.data):
        usable = usable.chunk({network.dim: -1})
    facts = xr.apply_ufunc(
        _find_facts,
        usable,
        input_core_dims=[[network.dim]],
        output_core_dims=[[]] * len(ATTRS),
        kwargs={"network": network, "years": _years(network.dates)},
        dask="parallelized",
        output_dtypes=list(DTYPES),
    )
    return xr.Dataset(
        {
            name: label(fact.data, cube, network.dim, fact.dims, attrs)
            for (name, attrs), fact in zip(ATTRS.items(), facts, strict=True)
        }
    )


def _refuse_cut(cube: xr.DataArray, dim: Hashable) -> None:
    """Refuse a lazy cube that is cut along its pairs."""
    pieces = sum(1 for size in cube.chunksizes.get(dim, (1,)) if size)
    if pieces > 1:
        msg = (
            f"{dim!r} of {shown(cube)!r} is in {pieces} chunks, and a pixel needs all "
            f"{cube.sizes[dim]} pairs in one block. Call {shown(cube)}.chunk({dim}=-1)."
        )
        raise ChunkError(msg)


def _read_valid(valid: Any, cube: xr.DataArray, dim: Hashable) -> xr.Variable:
    """Return flags of valid pairs, with dims of the cube and cut as the cube is."""
    if not isinstance(valid, xr.DataArray):
        array = valid if is_lazy(valid) else np.asarray(valid)
        dims = (dim,) if array.ndim == 1 else cube.dims
        if array.shape != tuple(cube.sizes[name] for name in dims):
            msg = (
                f"valid has the shape {array.shape}, and a plain array needs "
                f"({cube.sizes[dim]},) along {dim!r} or the cube's {cube.shape}. "
                "Pass a DataArray with named dims."
            )
            raise LabelError(msg)
        valid = xr.DataArray(array, dims=dims)
    extra = [name for name in valid.dims if name not in cube.dims]
    if extra:
        msg = f"valid has the dims {extra}, which {shown(cube)!r} does not have ({cube.dims})."
        raise LabelError(f"{msg} Select along them, or rename them.")
    if valid.dtype.kind not in "biu":
        msg = f"valid has the dtype {valid.dtype}, and it holds flags: bool, or integers 0 and 1."
        raise DtypeError(f"{msg} Write the condition, for example valid=(coherence > 0.3).")
    if not is_lazy(valid.data) and valid.dtype.kind != "b":
        found = np.unique(valid.to_numpy())
        if not np.isin(found, (0, 1)).all():
            msg = f"valid holds {found[:8].tolist()}, so it is a layer of classes and not of flags."
            raise ValueError(f"{msg} Name the classes that count: valid.isin([1, 2]).")
    flags = match(valid, cube, "valid").variable.astype(bool)
    if is_lazy(flags.data) and is_lazy(cube.data):
        flags = flags.chunk({name: cube.chunksizes[name] for name in flags.dims})
    return flags


def _years(dates: NDArray[Any]) -> NDArray[np.float64]:
    """Return the years from the first date to each, in the years of their calendar."""
    if not dates.size:
        return np.zeros(0)
    since = (dates - dates[0]).astype("timedelta64[ns]")
    calendar = getattr(dates[0], "calendar", "standard")
    days: NDArray[np.float64] = since / np.timedelta64(1, "D")
    return days / float(CALENDARS[calendar])


def _find_facts(
    usable: NDArray[np.bool_], *, network: Network, years: NDArray[np.float64]
) -> Facts:
    """Return the facts of a block of pixels, whose pairs lie along the last axis."""
    pixels = usable.shape[:-1]
    known = network.first >= 0
    flags = np.ma.filled(usable, False)[..., known]
    first, second = network.first[known], network.second[known]
    if not flags.size:
        none = (years.size, max(years.size - 1, 0), 0, 0.0)
        return tuple(np.full(pixels, x, t) for x, t in zip(none, DTYPES, strict=True))
    # Gaps repeat from pixel to pixel, and the graph of each pattern is looked at once.
    packed = np.packbits(np.ascontiguousarray(flags.reshape(-1, first.size)), axis=1)
    keys, inverse = np.unique(packed.view(f"V{packed.shape[1]}"), return_inverse=True)
    packed = keys.view(np.uint8).reshape(keys.size, -1)
    step = max(1024, BATCH // (first.size + years.size))
    parts = []
    for start in range(0, keys.size, step):
        batch = packed[start : start + step]
        patterns = np.unpackbits(batch, axis=1, count=first.size).astype(bool)
        components, longest = _find_components(patterns, first, second, years)
        gaps = _count_gaps(patterns, first, second, years.size)
        parts.append((components, gaps, _count_no_loop(patterns, first, second), longest))
    return tuple(
        np.concatenate(part).astype(dtype)[inverse].reshape(pixels)
        for part, dtype in zip(zip(*parts, strict=True), DTYPES, strict=True)
    )


def _find_components(
    patterns: NDArray[np.bool_],
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    years: NDArray[np.float64],
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return how many components patterns (b, n) have, and the longest in years; each (b,)."""
    b, m = patterns.shape[0], years.size
    # One graph of all patterns side by side: a date of a pattern is a node.
    pattern, pair = np.nonzero(patterns)
    ends = tuple((pattern * m + place[pair]).astype(np.int32) for place in (first, second))
    graph = csr_array((np.ones(pair.size), ends), shape=(b * m, b * m))
    count, group = connected_components(graph, directed=False)
    # Of values at a repeated index the last one stays.
    nodes, earliest, latest = np.arange(b * m), np.empty(count, int), np.empty(count, int)
    latest[group] = nodes
    earliest[group[::-1]] = nodes[::-1]
    owner = earliest // m
    longest = np.zeros(b)
    np.maximum.at(longest, owner, years[latest % m] - years[earliest % m])
    return np.bincount(owner, minlength=b), longest


def _count_gaps(
    patterns: NDArray[np.bool_], first: NDArray[np.intp], second: NDArray[np.intp], m: int
) -> NDArray[np.intp]:
    """Return how many of the m - 1 intervals no pair of a pattern spans, (b,)."""
    at = np.arange(m - 1)
    spans = (first[:, None] <= at) & (at < second[:, None])
    spanned = patterns.astype(np.float32) @ spans.astype(np.float32)
    gaps: NDArray[np.intp] = np.count_nonzero(spanned == 0, axis=1)
    return gaps


def _count_no_loop(
    patterns: NDArray[np.bool_], first: NDArray[np.intp], second: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return how many pairs of a pattern are in no triplet, (b,)."""
    m = int(second.max()) + 1
    # The neighbours of every date as bits: (m, words, b). A pair is in a triplet where its two
    # dates have a neighbour in common.
    flags = np.ascontiguousarray(patterns.T).astype(np.uint64)
    near = np.zeros((m, -(-m // 64), patterns.shape[0]), dtype=np.uint64)
    ends = list(zip(first.tolist(), second.tolist(), strict=True))
    for flag, (a, b) in zip(flags, ends, strict=True):
        near[a, b // 64] |= flag << np.uint64(b % 64)
        near[b, a // 64] |= flag << np.uint64(a % 64)
    count = np.zeros(patterns.shape[0], dtype=np.intp)
    for flag, (a, b) in zip(flags, ends, strict=True):
        count += (flag > 0) & ~(near[a] & near[b]).any(axis=0)
    return count
