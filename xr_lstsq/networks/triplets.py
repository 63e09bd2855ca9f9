"""Closure of triplets: three pairs of three dates, which add up to 0 unless one is wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from itertools import product

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.networks.pairs import (
    Dates,
    Network,
    is_usable,
    label,
    read_network,
    refuse_taken,
)

__all__ = ["closure"]


def closure(
    cube: xr.DataArray,
    reference: Dates = "reference",
    secondary: Dates = "secondary",
    dim: Hashable | None = None,
) -> xr.DataArray:
    """Return what every triplet of pairs adds up to: 0, unless one of the three is wrong.

    Parameters
    ----------
    cube : DataArray
        n pairs, along one dim, with any pixel dims: values at `secondary` minus values at
        `reference`, such as unwrapped phases or displacements. Any real dtype, in memory or dask.
    reference, secondary : str or DataArray
        Dates of each pair, datetime64 or cftime of one calendar: the name of a coordinate along
        the dim of the pairs, or a DataArray along it, whose labels are matched. Either may be the
        earlier one.
    dim : hashable, optional
        The dim of the pairs. None takes that of the dates.

    Returns
    -------
    DataArray, shape (triplet, *pixel dims)
        For all dates a < b < c of which three pairs ab, bc and ac are in the cube: ab + bc - ac,
        where a pair whose reference is the later date counts with its sign turned. Where there are
        several pairs of the same dates, each combination is a triplet; where there is no triplet,
        the size is 0. Triplets are in the order of their dates, which are the coordinates
        ``first``, ``second`` and ``third``. The dtype is that of the cube, float64 for integers;
        units, coordinates and grid mapping are the cube's. NaN where one of the three is missing:
        not finite, or the ``_FillValue`` or ``missing_value`` in the cube's attrs. Lazy where the
        cube is, also where that is cut along the pairs.

    Raises
    ------
    TypeError
        For a cube or dates of another kind.
    DtypeError
        For values that are not real numbers.
    LabelError
        For dates that are not there, not along one dim, or not of one kind; for a pair of one
        date; and for a cube with dims or coordinates of pixels that the result has too.

    Notes
    -----
    An unwrapping error of one pair shows as a multiple of 2 pi in the triplets that have it, and
    in no other [1]_. Nothing is wrapped here: of wrapped phases take
    ``numpy.angle(numpy.exp(1j * closure(cube)))``. A pair without a date is in no triplet.

    References
    ----------
    .. [1] Z. Yunjun, H. Fattahi, F. Amelung, Small baseline InSAR time series analysis: unwrapping
       error correction and noise reduction, Comput. Geosci. 133, 104331, 2019,
       doi:10.1016/j.cageo.2019.104331.

    Examples
    --------
    >>> days = np.array(["2018-01-01", "2018-01-13", "2018-01-25"], "datetime64[ns]")
    >>> pairs = xr.DataArray(
    ...     [1.0, 2.0, 3.5],
    ...     dims="pair",
    ...     coords={"reference": ("pair", days[[0, 1, 0]]), "secondary": ("pair", days[[1, 2, 2]])},
    ... )
    >>> closure(pairs).values
    array([-0.5])
    """
    network = read_network(cube, reference, secondary, dim)
    names = ("first", "second", "third")
    refuse_taken(cube, network.dim, ("triplet", *names))
    usable = is_usable(cube)
    pairs = find_triplets(network)
    dtype = cube.dtype if cube.dtype.kind == "f" else np.dtype(np.float64)
    sign = xr.Variable((network.dim,), network.sign.astype(dtype))
    values = (cube.variable.astype(dtype) * sign).where(usable, dtype.type(np.nan))
    pixels = tuple(name for name in cube.dims if name != network.dim)
    values = values.transpose(network.dim, *pixels)
    ab, bc, ac = (values.isel({network.dim: xr.Variable(("triplet",), k)}) for k in pairs.T)
    units = {"units": cube.attrs["units"]} if "units" in cube.attrs else {}
    attrs = {"long_name": "triplet closure", **units}
    array = label((ab + bc - ac).data, cube, network.dim, ("triplet", *pixels), attrs)
    array.name = "closure"
    # The three dates of a triplet: two of its first pair, and the later one of its second.
    places = (network.first[pairs[:, 0]], network.second[pairs[:, 0]], network.second[pairs[:, 1]])
    return array.assign_coords(
        {
            name: ("triplet", network.dates[place], {"long_name": f"{name} date of the triplet"})
            for name, place in zip(names, places, strict=True)
        }
    )


def find_triplets(network: Network) -> NDArray[np.intp]:
    """Return the positions of the pairs ab, bc and ac of every triplet, shape (triplets, 3)."""
    pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
    later: dict[int, set[int]] = defaultdict(set)
    for k, (a, b) in enumerate(zip(network.first.tolist(), network.second.tolist(), strict=True)):
        if a >= 0:
            pairs[a, b].append(k)
            later[a].add(b)
    found = [
        three
        for a, b in sorted(pairs)
        for c in sorted(later[a] & later.get(b, set()))
        for three in product(pairs[a, b], pairs[b, c], pairs[a, c])
    ]
    return np.array(found, dtype=np.intp).reshape(len(found), 3)
