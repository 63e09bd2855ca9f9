"""Stacks of bands as lazy variables: any window of any samples, read when it is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import groupby
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from xr_lstsq.formats import bands as rasters
from xr_lstsq.formats.bands import Band, Header

__all__ = ["StackArray", "variable"]

# Rows of a TIFF tile are a multiple of this: chunks of whole tiles are written without a detour.
TILE_ROWS = 16
MOST_ROWS = 512


class StackArray(BackendArray):
    """Bands of one grid, one a sample, as an array (samples, rows, columns) that is read lazily.

    It holds no open file, so that it goes to any thread, process or machine that sees the files.

    Parameters
    ----------
    bands : sequence of Band or None
        Band of each sample; None is NaN throughout.
    shape : tuple of int
        Rows and columns.
    """

    def __init__(self, bands: Sequence[Band | None], shape: tuple[int, int]) -> None:
        self.bands = tuple(bands)
        self.shape = (len(self.bands), *shape)
        dtypes = [band.decoded for band in self.bands if band is not None]
        gap = [] if None not in self.bands else [np.dtype(np.float32)]
        self.dtype = reduce(np.promote_types, [*dtypes, *gap])

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        """Return what xarray asks for, read now."""
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER, self._read
        )

    def _read(self, key: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        """Read the smallest window that has all that is asked for, and select from it."""
        picked = [np.arange(size)[own] for own, size in zip(key, self.shape, strict=True)]
        samples, *pixels = (np.atleast_1d(one) for one in picked)
        spans = [slice(int(one.min()), int(one.max()) + 1) for one in pixels if one.size]
        if len(spans) < len(pixels):
            return np.empty([one.size for one in picked if one.ndim], self.dtype)
        window = self._window(samples, *spans)
        for axis, (one, span) in enumerate(zip(pixels, spans, strict=True), start=1):
            if len(one) != window.shape[axis] or (np.diff(one) != 1).any():
                window = window.take(one - span.start, axis)
        return window.reshape([one.size for one in picked if one.ndim])

    def _window(
        self, samples: np.ndarray[Any, Any], rows: slice, columns: slice
    ) -> np.ndarray[Any, Any]:
        shape = (len(samples), rows.stop - rows.start, columns.stop - columns.start)
        out = np.empty(shape, self.dtype)
        wanted = enumerate(self.bands[int(sample)] for sample in samples)
        for path, run in groupby(wanted, lambda item: item[1] and item[1].path):
            places, bands = zip(*run, strict=True)
            block = out[places[0] : places[-1] + 1]
            if path is None:
                block[:] = np.nan
            else:
                rasters.read(bands, rows, columns, block)
        return out


def variable(
    bands: Sequence[Band | None], header: Header, dims: Sequence[str], source: str
) -> xr.Variable:
    """Return a lazy variable of bands.

    Parameters
    ----------
    bands : sequence of Band or None
        Band of each sample, None where there is none.
    header : Header
        Of one of their files, for the grid and the blocks that are stored together.
    dims : sequence of str
        Dims of samples, rows and columns, or the last two for a map.
    source : str
        What the files were found by, for the encoding.
    """
    shape = (header.grid.height, header.grid.width)
    data: Any = indexing.LazilyIndexedArray(StackArray(bands, shape))
    whole = xr.Variable(("sample", "y", "x"), data)
    found = whole[0] if len(dims) == 2 else whole
    found.dims = tuple(dims)
    real = [band for band in bands if band is not None]
    attrs = {
        "long_name": {band.description for band in real} if dims[0] != "band" else set(),
        "units": {band.units for band in real},
    }
    found.attrs = {key: one for key, own in attrs.items() if len(own) == 1 and (one := own.pop())}
    found.encoding = {
        "chunksizes": (*(1,) * (len(dims) - 2), *_stored_together(header, shape)),
        "grid_mapping": "spatial_ref",
        "source": source,
    }
    return found


def _stored_together(header: Header, shape: tuple[int, int]) -> tuple[int, int]:
    """Return the block of a file; of strips, enough that chunks of them are rows of tiles."""
    rows, columns = header.block
    if columns >= shape[1] and rows < shape[0]:
        several = math.lcm(rows, TILE_ROWS)
        rows = several if several <= MOST_ROWS else rows
    return min(rows, shape[0]), min(columns, shape[1])
