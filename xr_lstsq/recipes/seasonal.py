"""The seasonal cycle of every pixel: how large, and when."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import xarray as xr

from xr_lstsq import design, pipeline
from xr_lstsq.design.time import Period
from xr_lstsq.inference.cycles import amplitude, phase
from xr_lstsq.inference.reading import read
from xr_lstsq.recipes.maps import read_maps, refuse_idle

__all__ = ["seasonal"]


def seasonal(
    cube: xr.DataArray | xr.Dataset,
    *,
    n: int = 2,
    period: Period = 1,
    unit: str = "year",
    trend: bool = True,
    dim: Hashable | None = None,
    **options: Any,
) -> xr.Dataset:
    """Return amplitude, phase and time of the maximum of a cycle, for every pixel.

    Parameters
    ----------
    cube : DataArray or Dataset
        As in `xr_lstsq.solve`.
    n : int
        Number of harmonics, 1 or more.
    period : float or timedelta
        Length of the cycle, as in `xr_lstsq.design.harmonics`.
    unit : {"year", "day", "hour", "minute", "second"}
        Unit of `period`; not to be given with a timedelta or for a coordinate of numbers.
    trend : bool
        Whether a linear trend is fitted beside the cycle, or a mean alone.
    dim : hashable, optional
        The sample dim, as in `xr_lstsq.solve`.
    **options
        The other arguments of `xr_lstsq.solve`, but ``design``, ``stats`` and ``level``: data,
        weights, valid, nodata, min_obs (default: params + 2), deficient (default ``"nan"``), rcond,
        cov_type, maxlags, absolute_sigma, noise, dtype, device, max_memory, rechunk, param_dim.

    Returns
    -------
    Dataset
        ``amplitude`` and ``phase`` (harmonic, pixel dims), and ``peak_day``, or ``peak_time`` where
        the cycle is not of one year, each with its error as ``<name>_stderr``: see the methods
        amplitude and phase of a fit. ``mean``, the value without the cycle at the middle of the
        time from the first to the last sample of the cube, and with `trend` ``slope``, per year
        (per 1 for numbers), both with their errors. ``rsquared``, ``resid_std``, ``nobs`` and
        ``status``; with autocorrelated noise also ``rho`` and ``n_eff``. With the prefix
        ``<variable>_`` of a Dataset; lazy where the cube is.

    Raises
    ------
    ValueError
        For arguments that are not as above, and as `xr_lstsq.solve`.
    TypeError
        For options that `xr_lstsq.solve` does not have, or that change nothing here.

    Examples
    --------
    >>> import numpy as np, xr_lstsq
    >>> time = np.arange("2001-01", "2005-01", dtype="datetime64[M]").astype("datetime64[ns]")
    >>> cube = xr.DataArray(np.tile([3.0, 2, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3], 4), {"time": time})
    >>> found = seasonal(cube)
    >>> found.amplitude.round(1).values, found.peak_day.round().item()
    (array([1.5, 0.6]), 351.0)
    """
    refuse_idle("seasonal", options, ("level",))
    if not isinstance(trend, bool):
        raise TypeError(f"trend={trend!r} is neither True nor False. Pass one of them.")
    cycle = design.harmonics(period, n, unit=unit)
    # From the middle, where the mean is told best; that is the same in all tiles of a cube.
    terms = design.polynomial(int(trend), origin="middle") + cycle
    options = {"min_obs": 1 + trend + 2 * cycle.n + 2, "deficient": "nan", **options}
    fit = pipeline.solve(
        cube,
        terms,
        dim,
        stats=("stderr", "cov", "rsquared", "resid_std"),
        **options,
    )
    params = {"intercept": "mean"} | ({"slope": "slope"} if trend else {})
    tested = {param: {"stderr": f"{name}_stderr"} for param, name in params.items()}
    parts: dict[str, xr.DataArray] = {}
    for model in read(fit):
        parts |= read_maps(model, params, tested)
    return xr.Dataset(
        {**amplitude(fit).data_vars, **phase(fit).data_vars, **parts}, attrs=fit.attrs
    )
