"""Maps of a variable of a fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["axis_of", "draw_map", "draw_scale_bar", "mark", "robust_limits"]

MISSING_COLOUR = "#d9d9d9"


def draw_map(
    axes: Axes, values: xr.DataArray, title: str, colours: str, limits: tuple[float, float]
) -> None:
    """Draw one map with its colour bar, which has arrows where pixels lie beyond its limits."""
    from matplotlib import colormaps
    from matplotlib.ticker import MaxNLocator

    rows, columns = values.dims
    (x, x_label), (y, y_label) = axis_of(values, columns), axis_of(values, rows)
    data = np.ma.masked_invalid(values.to_numpy().astype(np.float64))
    steps = int(limits[1] - limits[0]) if values.dtype.kind in "iu" else 0
    image = axes.pcolormesh(
        x.to_numpy(),
        y.to_numpy(),
        data,
        shading="nearest",
        # Counts get one colour each where the eye can tell that many apart.
        cmap=colormaps[colours]
        .resampled(steps if 0 < steps <= 16 else 256)
        .with_extremes(bad=MISSING_COLOUR),
        vmin=limits[0],
        vmax=limits[1],
        rasterized=True,
    )
    beyond = (bool(np.any(data < limits[0])), bool(np.any(data > limits[1])))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get(
        beyond, "neither"
    )
    # Beside the map and of its height, which a bar of the figure's layout would not be.
    side = axes.inset_axes((1.03, 0.0, 0.045, 1.0))
    axes.figure.colorbar(image, cax=side, extend=extend)
    side.yaxis.set_major_locator(MaxNLocator(8, integer=bool(steps)))
    axes.set(title=title, xlabel=x_label, ylabel=y_label, aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
    axes.ticklabel_format(useOffset=False)


def mark(axes: Axes, values: xr.DataArray, pixel: Mapping[Hashable, int]) -> None:
    """Ring the pixel whose series is shown."""
    rows, columns = values.dims
    x = float(axis_of(values, columns)[0][pixel[columns]])
    y = float(axis_of(values, rows)[0][pixel[rows]])
    for width, colour in ((3.4, "white"), (1.6, "black")):
        axes.plot(x, y, "o", markersize=11, fillstyle="none", color=colour, markeredgewidth=width)


def draw_scale_bar(axes: Axes, values: xr.DataArray) -> None:
    """Draw a bar of a round length, about a fifth of a map in kilometres."""
    label = axis_of(values, values.dims[1])[1]
    if not label.endswith("(km)"):
        return
    left, right = axes.get_xlim()
    wanted = (right - left) / 4 * (1 + 1e-9)  # a quarter of 80 m is 20 m, in rounded numbers too
    power = 10.0 ** np.floor(np.log10(wanted))
    length = power * max(step for step in (1, 2, 5) if step * power <= wanted)
    bottom, top = axes.get_ylim()
    x = left + 0.05 * (right - left)
    y = bottom + 0.06 * (top - bottom)
    text = f"{length * 1000:.0f} m" if length < 1 else f"{length:.0f} km"
    for width, colour in ((6.0, "white"), (3.0, "black")):
        axes.plot([x, x + length], [y, y], color=colour, linewidth=width, solid_capstyle="butt")
    axes.text(
        x + length / 2,
        y + 0.02 * (top - bottom),
        text,
        ha="center",
        va="bottom",
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5},
    )


def robust_limits(values: xr.DataArray) -> tuple[float, float]:
    """Return colour limits that a few extreme pixels cannot stretch: the 2nd, 98th percentile."""
    finite = values.to_numpy()[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = np.percentile(finite, [2, 98])
    return float(low), float(high) if high > low else float(low) + 1.0


def axis_of(values: xr.DataArray, dim: Hashable) -> tuple[xr.DataArray, str]:
    """Return the coordinate of a map axis and its label; metres are shown as kilometres."""
    coord = values[dim]
    units = str(coord.attrs.get("units", ""))
    # Many projected files leave the units of x and y to the grid mapping.
    grid = values.coords["spatial_ref"].attrs if "spatial_ref" in values.coords else {}
    projected = grid.get("grid_mapping_name", "latitude_longitude") != "latitude_longitude"
    if units in ("m", "metre", "meter", "metres", "meters") or (projected and not units):
        direction = {"x": "Easting", "y": "Northing"}.get(str(dim), str(dim))
        return coord / 1000, f"{direction} (km)"
    return coord, f"{dim} ({units})" if units else str(dim)
