"""The series of one pixel with its gaps and its fitted curve."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from xr_lstsq import design, fits
from xr_lstsq.plot.maps import axis_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curve", "draw_series", "quantity"]

# Colours that stay apart for colour-blind readers and in print.
FIT_COLOUR = "#b2182b"
VALID_COLOUR = "#1b3a57"
LEFT_OUT_COLOUR = "#9a9a9a"
GAP_COLOUR = "#e9e4d8"
# A stretch without samples that is longer than this is shaded.
LONG_GAP = np.timedelta64(40, "D")
CURVE_POINTS = 1000


def curve(fit: xr.Dataset, at: xr.DataArray, pixel: Mapping[Hashable, int]) -> xr.DataArray:
    """Evaluate the model of one pixel at any coordinates of the sample dim.

    Parameters
    ----------
    fit : Dataset
        Fit by terms of one variable, from `xr_lstsq.solve` or read from a file.
    at : DataArray, (n,)
        Labels along the sample dim, such as dates, with themselves as coordinate.
    pixel : mapping of dim to int
        Position of the pixel.

    Returns
    -------
    DataArray, (n,)
        float64. NaN where the pixel has no coefficients.

    Raises
    ------
    ValueError
        When the fit was not made by terms.
    """
    _, coef, specification = fits.coefficients(fit)[0]
    terms = design.from_json(specification["terms"])
    columns = terms.evaluate(at)
    coef = coef.isel(pixel).sel({specification["param_dim"]: list(columns.names)})
    return at.copy(data=columns.matrix @ coef.to_numpy().astype(np.float64))


def draw_series(
    axes: Axes,
    fit: xr.Dataset,
    cube: xr.DataArray,
    valid: xr.DataArray | None,
    pixel: Mapping[Hashable, int],
) -> None:
    """Draw the samples of a pixel, those that are left out, its long gaps and the fitted curve."""
    dim = fits.coefficients(fit)[0][2]["dim"]
    values = cube.isel(pixel).to_numpy().astype(np.float64)
    times = cube[dim].to_numpy()
    counts = np.isfinite(values)
    if valid is not None:
        counts &= valid.isel(pixel).to_numpy().astype(bool)
    left_out = np.isfinite(values) & ~counts
    note = f"no sample for over {LONG_GAP.astype(int)} days"
    for start, stop in pairwise(np.concatenate([times[:1], times[counts], times[-1:]])):
        if stop - start > LONG_GAP:
            axes.axvspan(start, stop, color=GAP_COLOUR, linewidth=0, zorder=0, label=note)
            note = ""
    steps = times[0] + (times[-1] - times[0]) * np.linspace(0, 1, CURVE_POINTS)
    fine = xr.DataArray(steps, coords={dim: steps}, dims=dim, name=dim)
    axes.plot(fine, curve(fit, fine, pixel), color=FIT_COLOUR, linewidth=2, label="fitted curve")
    for chosen, label, colour, inside in (
        (left_out, "left out, not valid", LEFT_OUT_COLOUR, "none"),
        (counts, "samples that count", VALID_COLOUR, VALID_COLOUR),
    ):
        text = f"{label} ({np.count_nonzero(chosen)})"
        axes.plot(times[chosen], values[chosen], "o", ms=5, color=colour, mfc=inside, label=text)
    axes.set_title(f"Ringed pixel: {_place(fit['nobs'], pixel)}", loc="left", fontsize="medium")
    axes.set(ylabel=quantity(cube))
    axes.margins(x=0.01)
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False, fontsize="small"
    )


def quantity(cube: xr.DataArray) -> str:
    """Return what to write on an axis: the variable and its units, where it has any."""
    name, units = str(cube.name), str(cube.attrs.get("units", "1"))
    # An index such as ndvi is written in capitals; longer names are words.
    name = name.upper() if len(name) <= 4 else name
    return name if units == "1" else f"{name}, {units}"


def _place(values: xr.DataArray, pixel: Mapping[Hashable, int]) -> str:
    """Return where a pixel is, x before y."""
    words = []
    for dim in reversed(values.dims):
        coord, label = axis_of(values, dim)
        number, unit = float(coord[pixel[dim]]), " km" if label.endswith("(km)") else ""
        words.append(f"{label.split(' (')[0].lower()} {number:.{2 if unit else 4}f}{unit}")
    return ", ".join(words)
