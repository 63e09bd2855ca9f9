"""Sums over the params of a fit, for all pixels together."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq import blocks

__all__ = ["weigh"]


def weigh(values: xr.DataArray, over: Sequence[Hashable], *factors: xr.DataArray) -> xr.DataArray:
    """Return the sum of values times all factors over some dims.

    Parameters
    ----------
    values : DataArray
        (*over, pixel dims) in any order; in memory or dask.
    over : sequence of hashable
        Dims to sum over.
    *factors : DataArray
        Each with one dim of `over` or more, in the order of `values` there; at most one other
        dim, the same in all, and pixel dims where they differ from pixel to pixel.

    Returns
    -------
    DataArray
        float64, (other dim, pixel dims) in any order, with the chunks of `values`.
    """
    pixels = set(values.dims) - set(over)
    if any(pixels & set(factor.dims) or blocks.is_lazy(factor.data) for factor in factors):
        dots: xr.DataArray = xr.dot(*factors, values, dim=list(over))
        return dots.astype(np.float64, copy=False)
    # A matrix for all pixels: one product of matrices, many times as fast as a sum over two dims
    joined: xr.DataArray = functools.reduce(lambda left, right: left * right, factors)
    other = [dim for dim in joined.dims if dim not in over]
    matrix = joined.transpose(*other, *over).to_numpy().astype(np.float64, copy=False)
    if values.chunks is not None:
        values = values.chunk(dict.fromkeys(over, -1))
    summed: xr.DataArray = xr.apply_ufunc(
        _multiply,
        values,
        input_core_dims=[list(over)],
        output_core_dims=[other],
        kwargs={"matrix": matrix, "axes": len(over)},
        keep_attrs=False,
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": {dim: joined.sizes[dim] for dim in other}},
    )
    return summed


def _multiply(values: NDArray[Any], matrix: NDArray[np.float64], axes: int) -> NDArray[Any]:
    """Multiply (*pixels, *over) values with a (*other, *over) matrix: (*pixels, *other)."""
    pixels, over = values.shape[: values.ndim - axes], values.shape[values.ndim - axes :]
    other = matrix.shape[: matrix.ndim - axes]
    # As they lie in memory: a fit has its params first, and so this copies nothing
    first = np.moveaxis(values, range(-axes, 0), range(axes))
    flat = first.reshape(math.prod(over), math.prod(pixels)).astype(np.float64, copy=False)
    product = matrix.reshape(math.prod(other), math.prod(over)) @ flat
    return np.moveaxis(product.reshape((*other, *pixels)), range(len(other)), range(-len(other), 0))
