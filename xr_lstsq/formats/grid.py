"""The grid of a raster: its transform and CRS, as coordinates and back from them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

if TYPE_CHECKING:
    from affine import Affine
    from rasterio.crs import CRS

__all__ = ["MAPPING", "Grid", "coordinates", "difference", "find", "spatial_dims"]

MAPPING = "spatial_ref"
"""Name of the coordinate that holds CRS and transform."""
ALIGNED = 1e-3
"""Pixels by which the grids of a stack may differ."""
EVEN = 0.01
"""Pixels by which coordinates may differ from those of evenly spaced pixels."""

_DIMS = (("y", "x"), ("latitude", "longitude"), ("lat", "lon"))
_STANDARD_NAMES = (
    ("projection_y_coordinate", "projection_x_coordinate"),
    ("latitude", "longitude"),
)
# Along y and x of a rotated grid, which has no coordinates that could tell a part from the whole.
_COUNTS = ("row", "column")


@dataclass(frozen=True, eq=False)
class Grid:
    """Pixels on the ground.

    Attributes
    ----------
    transform : Affine
        From column and row, counted from the outer corner of the first pixel, to x and y.
    crs : CRS or None
        Coordinate reference system.
    height, width : int
        Rows and columns.
    """

    transform: Affine
    crs: CRS | None
    height: int
    width: int

    @property
    def is_rotated(self) -> bool:
        """Whether x changes along a column, or y along a row."""
        return bool(self.transform.b or self.transform.d)


def difference(grid: Grid, first: Grid) -> str | None:
    """Say how a grid differs from the first of a stack, None where the two are aligned.

    Parameters
    ----------
    grid, first : Grid
        Grids; aligned ones have one shape and CRS, and no corner of a pixel is off by `ALIGNED`.
    """
    shapes = [(one.height, one.width) for one in (grid, first)]
    if shapes[0] != shapes[1]:
        return "{} by {} pixels instead of {} by {}".format(*shapes[0], *shapes[1])
    if grid.crs != first.crs:
        names = ["no CRS" if one.crs is None else one.crs.to_string() for one in (grid, first)]
        return f"{names[0]} instead of {names[1]}"
    corners = np.array([(0, 0, 1), (grid.width, 0, 1), (0, grid.height, 1), (*shapes[0][::-1], 1)])
    there = np.linalg.solve(_matrix(first.transform), _matrix(grid.transform) @ corners.T)
    off = float(np.abs(there - corners.T).max())
    return f"pixels that are off by {off:.3g} pixels" if off >= ALIGNED else None


def coordinates(grid: Grid) -> xr.Coordinates:
    """Return the coordinates of a grid along ``y`` and ``x``, and `MAPPING`.

    Parameters
    ----------
    grid : Grid
        A rotated grid has no x and y of a column or row; it gets ``row`` and ``column``, which
        tell a part of it from the whole.
    """
    import rioxarray  # noqa: F401 - registers .rio

    rows, columns = np.arange(grid.height), np.arange(grid.width)
    found: xr.Dataset = xr.Dataset()
    if grid.is_rotated:
        for name, dim, counts in zip(_COUNTS, ("y", "x"), (rows, columns), strict=True):
            found.coords[name] = (dim, counts, {"long_name": f"{name} of the file, from 0"})
    else:
        place = grid.transform
        found = found.assign_coords(
            y=place.f + place.e * (rows + 0.5), x=place.c + place.a * (columns + 0.5)
        )
    if grid.crs is not None:
        found = found.rio.write_crs(grid.crs, grid_mapping_name=MAPPING)
        if not grid.is_rotated:
            found = found.rio.write_coordinate_system()
    found = found.rio.write_transform(grid.transform, grid_mapping_name=MAPPING)
    return found.coords


def spatial_dims(dataset: xr.Dataset) -> tuple[Hashable, Hashable]:
    """Return the dims of rows and columns, by their names or what CF says of their coordinates.

    Raises
    ------
    ValueError
        When there are none.
    """
    for dims in _DIMS:
        if {*dims} <= {*dataset.dims}:
            return dims
    attrs = {dim: dataset.coords[dim].attrs for dim in dataset.dims if dim in dataset.coords}
    for names in _STANDARD_NAMES:
        found = [
            [dim for dim, own in attrs.items() if own.get("standard_name") == name]
            or [dim for dim, own in attrs.items() if own.get("axis") == axis]
            for name, axis in zip(names, "YX", strict=True)
        ]
        if all(len(dims) == 1 for dims in found):
            return found[0][0], found[1][0]
    msg = f"the dims {tuple(map(str, dataset.dims))} are no rows and columns of a raster."
    raise ValueError(msg + " Call fit.rename(NAME='y', OTHER='x') first, or write netCDF or Zarr.")


def find(dataset: xr.Dataset) -> Grid:
    """Return the grid of a Dataset.

    Parameters
    ----------
    dataset : Dataset
        With a ``GeoTransform`` at its grid mapping, evenly spaced coordinates, or both. Where they
        do not agree, as in a part of a raster, coordinates count.

    Raises
    ------
    ValueError
        When it has neither, or its coordinates are not evenly spaced.
    """
    import rioxarray  # noqa: F401 - registers .rio

    y_dim, x_dim = spatial_dims(dataset)
    first = next(v for v in dataset.data_vars.values() if {y_dim, x_dim} <= {*v.dims})
    crs = first.rio.crs
    height, width = dataset.sizes[y_dim], dataset.sizes[x_dim]
    known = _stored(first)
    # Of a dim without coordinates xarray makes up labels, so it is asked which ones there are.
    labels = [dataset.coords[dim] for dim in (y_dim, x_dim) if dim in dataset.coords]
    if len(labels) < 2 or any(one.dtype.kind not in "iuf" for one in labels):
        transform = _counted(dataset, known, (y_dim, x_dim))
    else:
        ys, xs = (one.to_numpy().astype(np.float64) for one in labels)
        transform = _labelled(ys, xs, known, (y_dim, x_dim))
    return Grid(transform, crs, height, width)


def _stored(variable: xr.DataArray) -> Affine | None:
    """Return the transform at the grid mapping of a variable, None without one."""
    from affine import Affine

    name = variable.rio.grid_mapping
    text = variable.coords[name].attrs.get("GeoTransform") if name in variable.coords else None
    if text is None:
        return None
    # Other programs write it without the sixth number, which is then that of a square pixel.
    numbers = [float(word) for word in str(text).split()]
    return Affine.from_gdal(*numbers) if len(numbers) == 6 else None


def _counted(dataset: xr.Dataset, known: Affine | None, dims: tuple[Hashable, Hashable]) -> Affine:
    """Return the transform of what may be a part of a raster without x and y."""
    if known is None:
        msg = f"the Dataset has neither coordinates along {dims[0]!r} and {dims[1]!r} nor a"
        msg += " GeoTransform, so its place on the ground is not known. Assign coordinates, call"
        raise ValueError(f"{msg} fit.rio.write_transform(transform), or write netCDF or Zarr.")
    counts = [
        dataset.coords[name].to_numpy() if name in dataset.coords else np.arange(dataset.sizes[dim])
        for name, dim in zip(_COUNTS, dims, strict=True)
    ]
    transform = _part(known, counts[0], counts[1])
    if transform is None:
        msg = "'row' and 'column' are not evenly spaced, so no transform gives the pixels a place."
        raise ValueError(msg + " Select evenly spaced rows and columns, or write netCDF or Zarr.")
    return transform


def _labelled(
    ys: np.ndarray[Any, Any],
    xs: np.ndarray[Any, Any],
    known: Affine | None,
    dims: tuple[Hashable, Hashable],
) -> Affine:
    """Return the transform of coordinates of pixel centres."""
    if known is not None and (known.b or known.d):
        msg = f"the GeoTransform is rotated, and {dims[0]!r} and {dims[1]!r} are coordinates, which"
        msg += " a rotated grid has not. Call fit.drop_vars"
        raise ValueError(f"{msg}({[*map(str, dims)]}) to keep the rotation.")
    if known is not None:
        found = _part(known, (ys - known.f) / known.e - 0.5, (xs - known.c) / known.a - 0.5)
        if found is not None:
            return found
    return _from_labels(ys, xs, dims)


def _part(
    known: Affine, rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]
) -> Affine | None:
    """Return the transform of some rows and columns of a raster, None where they are between."""
    from affine import Affine

    steps = []
    for counts in (columns, rows):
        start = round(float(counts[0]))
        step = round(float(counts[1] - counts[0])) if len(counts) > 1 else 1
        even = start + step * np.arange(len(counts))
        if not step or np.abs(counts - even).max() > EVEN:
            return None
        steps.append((start, step))
    if steps == [(0, 1), (0, 1)]:
        return known
    (column, right), (row, down) = steps
    # The centre of the first pixel stays where it is, whatever the size of the new pixels.
    left, top = column + 0.5 - right / 2, row + 0.5 - down / 2
    whole = _matrix(known) @ np.array([[right, 0, left], [0, down, top], [0, 0, 1]])
    return Affine(*whole[:2].ravel().tolist())


def _matrix(transform: Affine) -> np.ndarray[Any, Any]:
    return np.array(transform, dtype=np.float64).reshape(3, 3)


def _from_labels(
    ys: np.ndarray[Any, Any], xs: np.ndarray[Any, Any], dims: tuple[Hashable, Hashable]
) -> Affine:
    """Return the transform of evenly spaced coordinates of pixel centres."""
    from affine import Affine

    steps = []
    for dim, values in zip(dims, (ys, xs), strict=True):
        if len(values) < 2:
            msg = f"{dim!r} has {len(values)} pixel, so the size of pixels is not known."
            raise ValueError(msg + " Call fit.rio.write_transform(transform) first.")
        step = (values[-1] - values[0]) / (len(values) - 1)
        off = np.abs(values - values[0] - step * np.arange(len(values))).max()
        if not abs(step) > 0 or not off <= EVEN * abs(step):
            msg = f"{dim!r} is not evenly spaced: its values are off by up to {off:.3g}."
            raise ValueError(msg + " A GeoTIFF needs even spacing; write netCDF or Zarr.")
        steps.append(float(step))
    down, right = steps
    return Affine(right, 0.0, float(xs[0]) - right / 2, 0.0, down, float(ys[0]) - down / 2)
