"""Displacement time series and velocities from a network of interferograms."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq import arguments, labels, pipeline
from xr_lstsq.design.network import Constraint, Unknown, network
from xr_lstsq.errors import LabelError, warn
from xr_lstsq.inference.reading import read
from xr_lstsq.inference.timeseries import Undetermined, check_undetermined, series_of
from xr_lstsq.recipes.displacement import in_metres, is_phase, orient, read_wavelength
from xr_lstsq.recipes.maps import refuse_idle
from xr_lstsq.recipes.referencing import NODATA, Area, area_text, drop_nodata, means, read_area
from xr_lstsq.recipes.velocity import ErrorOf, check_error, rates

__all__ = ["sbas"]

VARIABLES = ("timeseries", "velocity", "velocity_stderr", "temporal_coherence", "pair_rmse", "date")
"""Names of the answer beside those of a fit."""
OF_FIT = ("temporal_coherence", "nobs", "rank", "status")
"""Variables of the fit that are handed on."""
OWN = ("stats", "deficient", "data", "noise")
"""Arguments of solve that the recipe sets itself."""
OF_ERRORS = ("cov_type", "maxlags", "absolute_sigma")
"""Arguments of solve that propagated errors alone depend on."""


@arguments.refuse_foreign
def sbas(
    cube: xr.DataArray,
    *,
    reference: Hashable | xr.DataArray | Any = "reference",
    secondary: Hashable | xr.DataArray | Any = "secondary",
    wavelength: float | None = None,
    phase_sign: int = 1,
    reference_area: Area | None = None,
    weights: xr.DataArray | Any | None = None,
    valid: xr.DataArray | Any | None = None,
    nodata: float | Any | None = None,
    unknown: Unknown = "velocity",
    reference_date: Any = None,
    min_redundancy: int = 1,
    constraint: Constraint | None = None,
    undetermined: Undetermined = "nan",
    error: ErrorOf = "fit",
    dim: Hashable | None = None,
    **options: Any,
) -> xr.Dataset:
    """Return the displacement at every date, and its velocity, from unwrapped interferograms.

    The small-baseline method (Berardino et al. 2002, doi:10.1109/TGRS.2002.803792), with each
    pixel's own pairs.

    Parameters
    ----------
    cube : DataArray
        Unwrapped phase of each pair in radians, with the dim of the pairs and any pixel dims, in
        memory or dask; phase(secondary) - phase(reference). Without ``units`` in its attrs it is
        taken for radians. With units of another kind, such as those of offsets in metres, it is
        inverted as it is, without a temporal coherence.
    reference, secondary : hashable or dates
        Names of the coordinates along the pairs with the first and the second date, or the dates.
    wavelength : float, optional
        In metres. Displacement is then -wavelength / (4 pi) times phase, in metres, positive
        towards the sensor. None leaves everything in the units of the cube.
    phase_sign : {1, -1}
        -1 for pairs of phase(reference) - phase(secondary).
    reference_area : mapping or DataArray, optional
        Where the ground is taken to be at rest: coordinates such as
        ``{"y": slice(35.0, 35.1), "x": slice(4.0, 4.1)}`` (all between the ends) or
        ``{"lat": 35.1, "lon": 4.2}`` (the nearest place), or a boolean map of the pixels. The mean
        there, over the values that count, is subtracted from each pair; a pair without one counts
        as missing, with a warning. The means of a lazy cube are computed at once.
    weights, valid, nodata
        As for `xr_lstsq.solve`. `nodata` is left out before the mean is subtracted.
    unknown, reference_date, min_redundancy, constraint
        As for `xr_lstsq.design.network`.
    undetermined : {"nan", "min_norm"}
        As for ``.lstsq.timeseries``: what stands at dates that a pixel's pairs do not determine.
    error : {"fit", "propagated"}
        As for ``.lstsq.velocity``: what velocity_stderr is made of.
    dim : hashable, optional
        The dim of the pairs. None takes that of the coordinate `reference`.
    **options
        Further arguments of `xr_lstsq.solve`, such as ``rcond``, ``dtype`` and ``device``.

    Returns
    -------
    Dataset
        ``timeseries`` (date, pixel dims), 0 at the reference date; ``velocity`` and
        ``velocity_stderr`` (pixel dims), per year; ``temporal_coherence`` (pixel dims), over the
        pairs that count; ``pair_rmse`` (pair), of each pair's residuals over all pixels, which
        tells bad interferograms, in the units of the time series; ``nobs``, ``rank`` and
        ``status``. attrs hold what was chosen. Lazy where the cube is: compute it as a whole.

    Raises
    ------
    LabelError
        For names, dims and labels that do not fit together.
    ValueError
        For a cube in other units than radians beside a wavelength, and as `xr_lstsq.solve`.
    TypeError
        When the cube is no DataArray, and for arguments that the recipe sets itself.

    Examples
    --------
    >>> import numpy as np, xarray as xr, xr_lstsq
    >>> dates = np.array(["2020-01-01", "2020-01-13", "2020-01-25"], dtype="datetime64[ns]")
    >>> pairs = {"reference": ("pair", dates[[0, 0, 1]]), "secondary": ("pair", dates[[1, 2, 2]])}
    >>> phase = xr.DataArray([[1.0], [3.0], [2.0]], pairs, ("pair", "x"), attrs={"units": "rad"})
    >>> sbas(phase).timeseries.round(6).values
    array([[0.],
           [1.],
           [3.]])
    >>> sbas(phase, wavelength=0.0555).timeseries.isel(x=0).round(6).values
    array([ 0.      , -0.004417, -0.01325 ])
    """
    check_undetermined(undetermined)
    check_error(error)
    refuse_idle("sbas", options, ("level", *(OF_ERRORS if error == "fit" else ())))
    dim = _check(cube, reference, dim, options)
    in_radians = is_phase(cube, wavelength)
    wavelength = None if wavelength is None else read_wavelength(wavelength)
    phase = orient(drop_nodata(cube, nodata), phase_sign)
    for name in (reference, secondary):
        if isinstance(name, str) and name in phase.coords and phase.coords[name].chunks is not None:
            # Few, read at once, and not again by each that needs them
            phase = phase.assign_coords({name: phase.coords[name].compute()})
    if reference_area is not None:
        inside = read_area(reference_area, phase, dim)
        mean = means(phase, inside, dim, weights=weights, valid=valid)
        _warn(mean, phase, dim, reference, secondary)
        phase = phase.astype(np.float64) - mean
    phase = _with_attrs_of(phase, cube, in_radians)
    term = network(
        reference=reference,
        secondary=secondary,
        unknown=unknown,
        reference_date=reference_date,
        min_redundancy=min_redundancy,
        constraint=constraint,
    )
    stats = ["residual", *(["temporal_coherence"] if in_radians else [])]
    stats += ["cov"] if error == "propagated" else []
    fit = pipeline.solve(
        phase, term, dim, weights=weights, valid=valid, deficient="min_norm", stats=stats, **options
    )
    own = _maps(fit, dim, undetermined, error)
    own = own if wavelength is None else in_metres(own, wavelength)
    kept = [name for name in OF_FIT if name in fit.data_vars]
    maps = xr.Dataset(own | {name: fit[name] for name in kept})
    chosen = {
        "method": "small-baseline subsets",
        "wavelength": wavelength,
        "phase_sign": phase_sign,
        "reference_area": None if reference_area is None else area_text(reference_area),
        "reference_date": maps["timeseries"].attrs["reference_date"],
        "unknown": unknown,
        "min_redundancy": min_redundancy,
        "constraint": constraint,
        "undetermined": undetermined,
        "error": error,
        "weights": _name(weights),
        "valid": _name(valid),
        "nodata": None if nodata is None else np.atleast_1d(nodata).tolist(),
    }
    return maps.assign_attrs({f"sbas_{k}": v for k, v in chosen.items() if v is not None})


def _check(
    cube: xr.DataArray, reference: Any, dim: Hashable | None, options: dict[str, Any]
) -> Hashable:
    """Return the dim of the pairs; refuse what the recipe cannot take."""
    if not isinstance(cube, xr.DataArray):
        msg = (
            f"cube is a {type(cube).__name__}, and sbas inverts one stack of pairs. "
            "Pass the DataArray of the unwrapped phase."
        )
        raise TypeError(msg)
    set_here = [name for name in OWN if name in options]
    if set_here:
        msg = f"{', '.join(set_here)}: sbas sets that itself. Drop it, or solve with a network."
        raise TypeError(msg)
    taken = [name for name in VARIABLES if name in cube.coords or name in cube.dims]
    if taken:
        msg = (
            f"{labels.shown(cube)!r} has coordinates or dims called {taken}, which are names of "
            "the answer. Rename them."
        )
        raise LabelError(msg)
    labels.refuse_dtype([cube])
    found = cube.coords.get(reference) if isinstance(reference, str) else reference
    if isinstance(reference, str) and found is None:
        along = [n for n, c in cube.coords.items() if c.ndim == 1]
        msg = (
            f"{labels.shown(cube)!r} has no coordinate {reference!r} with the first date of each "
            f"pair; its coordinates of one dim are {along}. Pass reference= and secondary=."
        )
        raise LabelError(msg)
    own = found.dims[0] if isinstance(found, xr.DataArray) and found.ndim == 1 else None
    if dim is not None and own is not None and dim != own:
        msg = f"dim={dim!r}, and the first dates lie along {own!r}. Drop dim=."
        raise LabelError(msg)
    return labels.find_dim(cube, own if dim is None else dim, None)


def _with_attrs_of(phase: xr.DataArray, cube: xr.DataArray, in_radians: bool) -> xr.DataArray:
    """Return phase with what arithmetic has dropped, but for numbers that mean missing."""
    phase = phase.copy(deep=False)
    phase.attrs = {key: value for key, value in cube.attrs.items() if key not in NODATA}
    if in_radians:
        phase.attrs["units"] = "radian"
    phase.encoding = {key: cube.encoding[key] for key in ("grid_mapping",) if key in cube.encoding}
    return phase


def _warn(
    mean: xr.DataArray, cube: xr.DataArray, dim: Hashable, reference: Any, secondary: Any
) -> None:
    """Name the pairs that have no value in the reference area."""
    lost = np.flatnonzero(np.isnan(mean.values))
    if not lost.size:
        return
    ends = [
        np.asarray(cube.coords[dates] if isinstance(dates, str) else dates)
        for dates in (reference, secondary)
    ]
    # The day is enough to tell a pair, of datetime64 and of cftime
    names = ["_".join(str(end[k])[:10] for end in ends) for k in lost]
    msg = (
        f"{len(names)} of {cube.sizes[dim]} pairs have no value in reference_area, and count as "
        f"missing everywhere: {', '.join(names)}."
    )
    warn(msg)


def _maps(
    fit: xr.Dataset, dim: Hashable, undetermined: Undetermined, error: ErrorOf
) -> dict[str, xr.DataArray]:
    """Return what is made of a fit, in the units of its cube."""
    (model,) = read(fit)
    series = series_of(model, undetermined)
    speed, stderr = rates(model, series, error)
    square = fit["residual"].astype(np.float64) ** 2
    pixels = [name for name in square.dims if name != dim]
    number = square.notnull().sum(pixels)
    # The root of a mean, without the warning of numpy for a pair that no pixel has
    rmse = (square.sum(pixels) / number.where(number > 0)) ** 0.5
    rmse.attrs = {"long_name": "root mean square of the residuals of a pair"}
    if "units" in fit["residual"].attrs:
        rmse.attrs["units"] = fit["residual"].attrs["units"]
    return {
        "timeseries": series,
        "velocity": speed,
        "velocity_stderr": stderr,
        "pair_rmse": rmse,
    }


def _name(samples: Any) -> str | None:
    """Return what to remember of weights or flags."""
    if samples is None:
        return None
    name = getattr(samples, "name", None)
    return "given" if name is None else str(name)
