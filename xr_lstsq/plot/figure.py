"""Whole pictures of a fit; matplotlib is imported when one is drawn."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from xr_lstsq import fits
from xr_lstsq.formats import target
from xr_lstsq.plot.maps import draw_map, draw_scale_bar, mark, robust_limits
from xr_lstsq.plot.series import draw_series, quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["overview", "require_matplotlib", "save"]


def require_matplotlib() -> None:
    """Raise an ImportError that says what to install when matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError as error:
        msg = 'Pictures need matplotlib. Install it: pip install "xr_lstsq[plot]"'
        raise ImportError(msg) from error


def overview(
    fit: xr.Dataset,
    cube: xr.DataArray,
    *,
    valid: xr.DataArray | None = None,
    pixel: Mapping[Hashable, int] | None = None,
) -> Figure:
    """Draw annual amplitude, slope and nobs as maps, and the series of one pixel with its fit.

    Parameters
    ----------
    fit : Dataset
        Fit of `cube` with the params slope, cos_1 and sin_1, and two pixel dims.
    cube : DataArray, (n, y, x)
        The cube, with dates along its sample dim. Read only for the pixel shown.
    valid : DataArray, optional
        1 where a sample counted. Samples that did not are drawn hollow.
    pixel : mapping of dim to int, optional
        Position of the pixel whose series is shown. None takes the pixel with the median
        annual amplitude among those with at least the median number of samples.

    Returns
    -------
    matplotlib.figure.Figure
        To be saved by `save`, or shown in a notebook.
    """
    require_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    coef = fit["coef"].load()
    amplitude = xr.apply_ufunc(np.hypot, coef.sel(param="cos_1"), coef.sel(param="sin_1"))
    slope, nobs = coef.sel(param="slope"), fit["nobs"].load()
    if pixel is None:
        pixel = _typical_pixel(amplitude, nobs)
    label = quantity(cube)
    layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08)
    figure = Figure(figsize=(13.0, 8.8), dpi=150, layout=layout)
    grid = figure.add_gridspec(2, 3, height_ratios=[1.15, 1.0])
    maps = [figure.add_subplot(grid[0, column]) for column in range(3)]
    most = max(map(abs, robust_limits(slope)))
    counts = (float(nobs.min()) - 0.5, float(nobs.max()) + 0.5)
    draw_map(maps[0], amplitude, f"Annual amplitude ({label})", "viridis", robust_limits(amplitude))
    draw_map(maps[1], slope, f"Slope ({label} per year)", "BrBG", (-most, most))
    draw_map(maps[2], nobs, "Samples that count (nobs)", "cividis", counts)
    for axes in maps:
        mark(axes, nobs, pixel)
    for axes in maps[1:]:
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)
    draw_scale_bar(maps[0], amplitude)
    draw_series(figure.add_subplot(grid[1, :]), fit, cube, valid, pixel)
    figure.suptitle(_headline(fit, cube))
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a PNG; an incomplete file never has the name asked for.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : str or path-like
        File to write; one of that name is replaced.

    Raises
    ------
    WriteError
        A file that cannot be written; nothing of it is left.
    """
    whole = target.resolve(path)
    with target.partial_file(whole) as partial, target.disk_errors(whole):
        figure.savefig(partial, format="png")


def _headline(fit: xr.Dataset, cube: xr.DataArray) -> str:
    """Return what was fitted, on which dates and by which params."""
    dim = fits.coefficients(fit)[0][2]["dim"]
    first, last = np.datetime_as_string(cube[dim].to_numpy()[[0, -1]], unit="D")
    params = ", ".join(map(str, fit["param"].to_numpy()))
    what = cube.attrs.get("long_name", cube.name)
    return f"{what}: {cube.sizes[dim]} dates, {first} to {last}, fitted by {params}"


def _typical_pixel(amplitude: xr.DataArray, nobs: xr.DataArray) -> dict[Hashable, int]:
    """Return a pixel with the median amplitude among the better observed ones."""
    well = amplitude.where(nobs >= nobs.median())
    distance = abs(well - well.median()).fillna(np.inf)
    flat = int(distance.to_numpy().argmin())
    place = np.unravel_index(flat, distance.shape)
    return {dim: int(index) for dim, index in zip(distance.dims, place, strict=True)}
