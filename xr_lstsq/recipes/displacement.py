"""Phase of interferograms as displacement towards the sensor."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from xr_lstsq import labels
from xr_lstsq.labels.choice import RADIANS

__all__ = ["in_metres", "is_phase", "orient", "read_wavelength"]


def read_wavelength(wavelength: float) -> float:
    """Return a wavelength as a number.

    Raises
    ------
    ValueError
        When it is not a positive number.
    """
    value = np.asarray(wavelength)
    if value.ndim or value.dtype.kind not in "iuf" or not 0 < float(value) < math.inf:
        msg = f"wavelength={wavelength!r} is not a length. Pass metres, such as 0.0555 for C-band."
        raise ValueError(msg)
    return float(value)


def is_phase(cube: xr.DataArray, wavelength: float | None) -> bool:
    """Return whether a cube is phase in radians, as one without units is taken to be.

    Raises
    ------
    ValueError
        For another one with a wavelength.
    """
    units = cube.attrs.get("units")
    known = units is None or str(units).strip() in RADIANS
    if wavelength is not None and not known:
        msg = (
            f"wavelength turns radians into metres, and {labels.shown(cube)!r} is in {units!r}. "
            "Drop it, or convert the cube and set its attrs['units'] = 'radian'."
        )
        raise ValueError(msg)
    return known


def orient(cube: xr.DataArray, phase_sign: int) -> xr.DataArray:
    """Return pairs as secondary minus reference.

    Raises
    ------
    ValueError
        For a sign that is neither 1 nor -1.
    """
    if phase_sign not in (1, -1):
        msg = (
            f"phase_sign={phase_sign!r} is neither 1, for pairs of phase(secondary) - "
            "phase(reference), nor -1, for the opposite. Pass one of them."
        )
        raise ValueError(msg)
    if phase_sign == 1:
        return cube
    # Not as integers: those without a sign would wrap around
    real = cube if cube.dtype.kind == "f" else cube.astype(np.float64)
    return (-real).assign_attrs(cube.attrs)


def in_metres(maps: dict[str, xr.DataArray], wavelength: float) -> dict[str, xr.DataArray]:
    """Return maps of phase as displacement.

    Parameters
    ----------
    maps : dict of str to DataArray
        ``timeseries``, ``velocity``, ``velocity_stderr`` and ``pair_rmse``, in radians.
    wavelength : float
        In metres.

    Notes
    -----
    d = -wavelength / (4 pi) phase: the way of the wave to the ground and back grows by 2 d where
    the ground moves away by d, and phase with it, so displacement is positive towards the sensor
    (Bürgmann, Rosen and Fielding 2000, doi:10.1146/annurev.earth.28.1.169).
    """
    factor = -wavelength / (4 * math.pi)
    since = maps["timeseries"].attrs["reference_date"]
    told = {
        "timeseries": (factor, "m", f"displacement since {since}"),
        "velocity": (factor, "m year-1", f"velocity of displacement since {since}"),
        "velocity_stderr": (abs(factor), "m year-1", "standard error of velocity"),
        "pair_rmse": (abs(factor), "m", maps["pair_rmse"].attrs["long_name"]),
    }
    found = {}
    for name, (scale, units, what) in told.items():
        # Plus 0: no -0 at the reference date
        found[name] = maps[name] * scale + 0.0
        found[name].attrs = maps[name].attrs | {"units": units, "long_name": what}
        found[name].encoding = dict(maps[name].encoding)
    return found
