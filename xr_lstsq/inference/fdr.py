"""False discovery rate: which p-values of a map are significant when all of them are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq import blocks
from xr_lstsq.errors import DtypeError
from xr_lstsq.labels import grid_mapping, strip

__all__ = ["fdr"]

Steps = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Largest p-value of each step, rising, and the adjusted p-value that all of the step share."""


def fdr(pvalue: xr.DataArray, alpha: float = 0.05, *, adjusted: bool = False) -> xr.DataArray:
    """Return where a map of p-values is significant, with the share of false discoveries bounded.

    Among thousands of pixels without any trend one in twenty has p < 0.05. Here the threshold is
    that of Benjamini and Hochberg: of the pixels that come out True, a share of at most `alpha` is
    expected to be false discoveries.

    Parameters
    ----------
    pvalue : DataArray
        p-values of one family of tests, of any dims, float32 or float64, in memory or dask. All
        of its values are taken together, so select one param first:
        ``fit.pvalue.sel(param="slope")``. NaN is no test: it does not count in the family.
    alpha : float
        False discovery rate to allow, above 0 and below 1.
    adjusted : bool
        Return adjusted p-values: the smallest `alpha` with which each would come out True.

    Returns
    -------
    DataArray
        bool, False where `pvalue` is NaN; or float64, NaN where it is. Dims, coordinates, name and
        grid mapping are those of `pvalue`. Of a lazy map it is lazy and has the same chunks; one
        task takes the whole map, 8 bytes a value, to find the threshold.

    Raises
    ------
    TypeError
        For anything but a DataArray.
    DtypeError
        For values that are not floats.
    ValueError
        For `alpha` outside (0, 1), and for values outside [0, 1]; of a lazy map those are found,
        and the error is raised, when it is computed.

    Notes
    -----
    With the m finite p-values sorted, the adjusted one of p_(i) is the smallest m p_(k) / k over
    k >= i, at most 1; True is where that is at most `alpha` [1]_. All is computed in float64. The
    bound holds for tests that are independent or positively dependent. Neighbours in a field of
    meteorological data are dependent, and the procedure is then conservative: Wilks [2]_ suggests
    ``alpha = 2 * alpha_global`` for a moderate or strong spatial correlation, where `alpha_global`
    is the wanted level of the test that no pixel has an effect.

    References
    ----------
    .. [1] Y. Benjamini and Y. Hochberg, Controlling the false discovery rate: a practical and
       powerful approach to multiple testing, J. R. Stat. Soc. B 57, 289-300, 1995,
       doi:10.1111/j.2517-6161.1995.tb02031.x.
    .. [2] D. S. Wilks, "The stippling shows statistically significant grid points", Bull. Am.
       Meteorol. Soc. 97, 2263-2273, 2016, doi:10.1175/BAMS-D-15-00267.1.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from xr_lstsq.inference.fdr import fdr
    >>> p = xr.DataArray([0.001, 0.02, 0.04, 0.6, np.nan], dims="x", name="pvalue")
    >>> fdr(p).values
    array([ True,  True, False, False, False])
    >>> fdr(p, adjusted=True).round(4).values
    array([0.004 , 0.04  , 0.0533, 0.6   ,    nan])
    """
    alpha = _check(pvalue, alpha)
    data = pvalue.data
    steps = blocks.once(_find_steps, data, lazy=blocks.is_lazy(data))
    if not blocks.is_lazy(data):
        holder = np.empty((), dtype=object)
        holder[()] = steps
        steps = holder
    result: xr.DataArray = xr.apply_ufunc(
        _adjust if adjusted else _reject,
        pvalue,
        xr.Variable((), steps),
        kwargs={} if adjusted else {"alpha": alpha},
        dask="parallelized",
        output_dtypes=[np.float64 if adjusted else np.bool_],
    )
    result.name = pvalue.name
    what = pvalue.attrs.get("long_name", "p-value")
    result.attrs = {
        "long_name": f"{what}, adjusted for the false discovery rate"
        if adjusted
        else f"{what} significant at a false discovery rate of {alpha:g}"
    }
    if adjusted:
        result.attrs["units"] = "1"
    mapping = grid_mapping(strip(pvalue)[1])
    if mapping is not None and mapping in pvalue.coords:
        result.encoding["grid_mapping"] = mapping
    return result


def _check(pvalue: Any, alpha: Any) -> float:
    """Refuse what is no map of p-values, or no rate; return the rate."""
    if not isinstance(pvalue, xr.DataArray):
        msg = (
            f"pvalue is a {type(pvalue).__name__}. Pass a DataArray of one family of p-values, "
            'such as fit.pvalue.sel(param="slope").'
        )
        raise TypeError(msg)
    if pvalue.dtype.kind != "f":
        msg = (
            f"pvalue has the dtype {pvalue.dtype}, and p-values are floats. Pass the p-values "
            "themselves, not where they are small."
        )
        raise DtypeError(msg)
    number = isinstance(alpha, int | float | np.integer | np.floating)
    if isinstance(alpha, bool) or not number or not 0 < alpha < 1:
        msg = f"alpha={alpha!r} is not between 0 and 1. Pass a rate such as alpha=0.05."
        raise ValueError(msg)
    return float(alpha)


def _find_steps(pvalue: Any) -> Steps:
    """Return the adjusted p-value as a step function of the p-value, found on a whole map."""
    values = np.asarray(pvalue, dtype=np.float64).ravel()
    values = np.sort(values[~np.isnan(values)])
    if values.size and not (values[0] >= 0 and values[-1] <= 1):
        outside = values[(values < 0) | (values > 1)]
        msg = (
            f"pvalue has {outside.size} values outside [0, 1], such as {outside[0]:g}. Pass "
            "p-values, such as fit.pvalue, not a test statistic."
        )
        raise ValueError(msg)
    levels = values * (values.size / np.arange(1, values.size + 1))
    levels = np.minimum(np.minimum.accumulate(levels[::-1])[::-1], 1.0)
    # Where the level rises after a value, a step ends with that value.
    ends = np.append(levels[1:] > levels[:-1], True)[: levels.size]
    return values[ends], levels[ends]


def _adjust(pvalue: Any, steps: Any) -> NDArray[np.float64]:
    """Return the adjusted p-values of a chunk."""
    values = np.asarray(pvalue, dtype=np.float64)
    ends, levels = _given(steps)
    found = np.append(levels, np.nan)[np.searchsorted(ends, values)]
    return np.where(np.isnan(values), np.nan, found)


def _reject(pvalue: Any, steps: Any, *, alpha: float) -> NDArray[np.bool_]:
    """Return which p-values of a chunk are significant."""
    ends, levels = _given(steps)
    threshold = ends[levels <= alpha].max(initial=-1.0)
    small: NDArray[np.bool_] = np.asarray(pvalue, dtype=np.float64) <= threshold
    return small


def _given(steps: Any) -> Steps:
    """Return the steps out of the array without axes in which they may travel."""
    pair: Steps = steps.item() if isinstance(steps, np.ndarray) else steps
    return pair
