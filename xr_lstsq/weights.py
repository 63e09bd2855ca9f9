"""Weights of samples, as inverse variances: from coherence, or from standard deviations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import betainc, poch

from xr_lstsq import blocks
from xr_lstsq.errors import DtypeError
from xr_lstsq.labels import grid_mapping, strip
from xr_lstsq.outputs import multiply_units

__all__ = ["from_coherence", "from_sigma"]

Floats = NDArray[np.float64]
Samples = TypeVar("Samples", NDArray[Any], xr.DataArray)

KINDS = {
    "variance": {"long_name": "inverse variance of phase", "units": "rad-2"},
    "fisher": {"long_name": "Fisher information of phase", "units": "rad-2"},
    "coherence": {"long_name": "coherence as weight", "units": "1"},
}
"""What the weights of each kind are."""
CEILING = 0.999
"""Coherence counts as at most this: a weight of 1 has no bound."""
SLACK = 1e-6
"""How far outside [0, 1] a coherence may lie by rounding."""

# Both were doubled until the table was the same to 1e-8 for any number of looks up to 1e6.
KNOTS, PANELS = 1025, 24


def from_coherence(
    coherence: Samples, looks: float | None = None, kind: str = "variance"
) -> Samples:
    r"""Return weights of interferometric phases from their coherence.

    Parameters
    ----------
    coherence : DataArray or array
        Coherence :math:`\gamma` of each sample, 0 to 1, any shape, integers or floats, in memory
        or dask. Above 0.999 it counts as 0.999.
    looks : float, optional
        Number L of independent looks of each phase, above 0, whole or not. Needed for "variance"
        and "fisher", refused for "coherence".
    kind : {"variance", "fisher", "coherence"}
        ``"variance"``: one over the variance of the phase for its coherence and looks.
        ``"fisher"``: the Fisher information of the phase, to which the first tends for many looks;
        it is 0 at coherence 0. ``"coherence"``: the coherence itself, a relative weight.

    Returns
    -------
    DataArray or array
        Weights for ``solve(weights=)``, of the kind and shape of `coherence`; float32 where that
        is float32, else float64. A DataArray keeps its dims, coordinates and grid mapping, has no
        name, is lazy where `coherence` is, and is in rad-2 (of "coherence": 1). NaN stays NaN for
        "variance" and has the weight 0 for the others; either is a missing sample to a fit.

    Raises
    ------
    TypeError
        For anything but a DataArray or an array of numpy.
    DtypeError
        For values that are not real numbers.
    ValueError
        For another `kind`, for `looks` that is missing, of no use or not above 0, and for
        coherence outside [0, 1] by more than 1e-6 in memory. Where it is lazy such a sample has
        the weight of NaN.

    Notes
    -----
    The phase :math:`\phi`, about its mean, of L looks of a circular Gaussian signal has with
    :math:`\beta = \gamma \cos \phi` the density [1]_ [2]_

    .. math::
        p(\phi) = \frac{(1 - \gamma^2)^L}{2 \pi} \left(
        \frac{\sqrt{\pi}\, \Gamma(L + 1/2)}{\Gamma(L)} \frac{\beta}{(1 - \beta^2)^{L + 1/2}}
        + {}_2F_1(L, 1; \tfrac12; \beta^2) \right)

    and "variance" is one over :math:`\int_{-\pi}^{\pi} \phi^2 p(\phi)\, d\phi`. At coherence 0
    the phase is uniform and the weight :math:`3 / \pi^2`. The integral is taken at 1025 values of
    coherence and interpolated, with a relative error below 1e-8 for up to 1e6 looks. "fisher" is
    :math:`2 L \gamma^2 / (1 - \gamma^2)`, the inverse of the Cramer-Rao bound [3]_.

    References
    ----------
    .. [1] J.-S. Lee, K. W. Hoppel, S. A. Mango, A. R. Miller, Intensity and phase statistics of
       multilook polarimetric and interferometric SAR imagery, IEEE Trans. Geosci. Remote Sens. 32,
       1017-1028, 1994, doi:10.1109/36.312890.
    .. [2] R. J. A. Tough, D. Blacknell, S. Quegan, A statistical description of polarimetric and
       interferometric synthetic aperture radar data, Proc. R. Soc. Lond. A 449, 567-589, 1995.
    .. [3] M. S. Seymour, I. G. Cumming, Maximum likelihood estimation for SAR interferometry,
       Proc. IGARSS '94, 1994.

    Examples
    --------
    >>> from_coherence(np.array([0.0, 0.3, 0.9]), looks=10).round(3)
    array([ 0.304,  1.235, 75.574])
    >>> from_coherence(np.array([0.0, 0.3, 0.9]), looks=10, kind="fisher").round(3)
    array([ 0.   ,  1.978, 85.263])
    """
    _check_kind(kind, looks)
    values = _in_memory(coherence, "coherence")
    outside = values[(values < -SLACK) | (values > 1 + SLACK)]
    if outside.size:
        msg = (
            f"coherence has {outside.size} values outside [0, 1], such as {outside.flat[0]:g}. "
            "Divide by the full scale (coherence / 255), or leave them out with .where()."
        )
        raise ValueError(msg)
    if looks is None:
        return _apply(_clip, coherence, {"fill": 0.0}, KINDS[kind])
    if kind == "fisher":
        return _apply(_fisher, coherence, {"looks": float(looks)}, KINDS[kind])
    known = {"looks": float(looks), "table": _tabulate(float(looks))}
    return _apply(_precision, coherence, known, KINDS[kind])


def from_sigma(sigma: Samples) -> Samples:
    """Return weights from standard deviations: 1 / sigma**2.

    Parameters
    ----------
    sigma : DataArray or array
        Standard deviation of each sample, above 0, any shape, integers or floats, in memory or
        dask.

    Returns
    -------
    DataArray or array
        Inverse variances for ``solve(weights=)``, of the kind and shape of `sigma`; float32 where
        that is float32, else float64. NaN stays NaN and infinity has the weight 0: such samples
        are missing to a fit. A DataArray keeps its dims, coordinates and grid mapping, has no
        name, is lazy where `sigma` is, and is in the units of `sigma` to the power of -2.

    Raises
    ------
    TypeError
        For anything but a DataArray or an array of numpy.
    DtypeError
        For values that are not real numbers.
    ValueError
        For values of 0 or below in memory. Where they are lazy their weight is NaN.

    Examples
    --------
    >>> from_sigma(np.array([0.5, 1.0, 4.0]))
    array([4.    , 1.    , 0.0625])
    """
    values = _in_memory(sigma, "sigma")
    bad = values[values <= 0]
    if bad.size:
        msg = (
            f"sigma has {bad.size} values of 0 or below, the smallest {bad.min():g}. Standard "
            "deviations are above 0; leave such samples out with .where(sigma > 0)."
        )
        raise ValueError(msg)
    attrs = {"long_name": "inverse variance"}
    units = sigma.attrs.get("units") if isinstance(sigma, xr.DataArray) else None
    if units is not None:
        attrs["units"] = multiply_units(str(units), "", -2, difference=True)
    return _apply(_inverse_square, sigma, {}, attrs)


def _check_kind(kind: str, looks: Any) -> None:
    """Refuse another kind, and a number of looks that does not go with it."""
    if kind not in KINDS:
        msg = f"unknown kind {kind!r}; known kinds are {', '.join(KINDS)}."
        raise ValueError(msg)
    if kind == "coherence":
        if looks is not None:
            msg = f"looks={looks!r} has no use beside kind='coherence'; leave it out."
            raise ValueError(msg)
        return
    number = isinstance(looks, int | float | np.integer | np.floating)
    if isinstance(looks, bool) or not number or not (looks > 0 and math.isfinite(looks)):
        msg = f"looks={looks!r} of kind={kind!r} must be a number above 0, such as looks=20."
        raise ValueError(msg)


def _in_memory(samples: Any, argument: str) -> NDArray[Any]:
    """Refuse what is no array of real numbers; return its values, and none of a lazy one."""
    if not isinstance(samples, np.ndarray | xr.DataArray):
        found = type(samples).__name__
        msg = f"{argument} is a {found}. Pass a DataArray, or numpy.asarray({argument})."
        raise TypeError(msg)
    if samples.dtype.kind not in "iuf":
        remedy = "Pass abs() of it" if samples.dtype.kind == "c" else "Call .astype(float) on it"
        msg = f"{argument} has the dtype {samples.dtype}, and it holds real numbers. {remedy}."
        raise DtypeError(msg)
    if isinstance(samples, xr.DataArray):
        return np.empty(0) if blocks.is_lazy(samples.data) else samples.to_numpy()
    return np.asarray(np.ma.compressed(samples))


def _apply(
    function: Callable[..., Floats], samples: Samples, known: dict[str, Any], attrs: dict[str, str]
) -> Samples:
    """Call a function of float64 on the samples, chunk by chunk, and put labels on."""
    dtype = np.dtype(np.float32 if samples.dtype.str[1:] == "f4" else np.float64)
    known = {"function": function, "dtype": dtype, **known}
    if not isinstance(samples, xr.DataArray):
        return _block(samples, **known)
    weights: xr.DataArray = xr.apply_ufunc(
        _block, samples, kwargs=known, dask="parallelized", output_dtypes=[dtype]
    )
    weights.name, weights.attrs = None, dict(attrs)
    mapping = grid_mapping(strip(samples)[1])
    if mapping is not None and mapping in weights.coords:
        weights.encoding["grid_mapping"] = mapping
    return weights


def _block(
    values: NDArray[Any], *, function: Callable[..., Floats], dtype: np.dtype[Any], **known: Any
) -> NDArray[Any]:
    # Weights beyond float32 become infinite, which is a missing sample as any other.
    with np.errstate(over="ignore"):
        return function(np.ma.filled(values.astype(np.float64), np.nan), **known).astype(dtype)


def _clip(coherence: Floats, *, fill: float) -> Floats:
    """Return coherence within [0, `CEILING`], and `fill` where it is NaN or none at all."""
    within = (coherence >= -SLACK) & (coherence <= 1 + SLACK)
    return np.where(within, np.clip(coherence, 0.0, CEILING), fill)


def _fisher(coherence: Floats, *, looks: float) -> Floats:
    return 2 * looks * _odds(_clip(coherence, fill=0.0))


def _precision(coherence: Floats, *, looks: float, table: CubicSpline) -> Floats:
    place = _place(_clip(coherence, fill=np.nan), looks)
    weights: Floats = np.exp(-table(place))
    return weights


def _inverse_square(sigma: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.where(sigma > 0, sigma, np.nan) ** -2.0


def _odds(coherence: Floats) -> Floats:
    return coherence**2 / ((1 - coherence) * (1 + coherence))


def _place(coherence: Floats, looks: float) -> Floats:
    """Return where coherence stands along the table.

    The variance of many looks depends on ``looks * odds`` alone, and falls as one over it where
    that is large: on this axis its logarithm is smooth for every number of looks.
    """
    place: Floats = np.arcsinh(np.sqrt(looks * _odds(coherence)))
    return place


def _tabulate(looks: float) -> CubicSpline:
    """Return the logarithm of the variance of the phase, by `_place`."""
    places = np.linspace(0.0, _place(np.array(CEILING), looks), KNOTS)
    odds = np.sinh(places) ** 2 / looks
    # Panels halve towards the peak at 0, however sharp it is.
    edges = np.append(0.0, np.pi * 2.0 ** np.arange(1 - PANELS, 1))
    nodes, shares = leggauss(16)
    half = np.diff(edges)[:, None] / 2
    phase = (edges[:-1, None] + half * (1 + nodes)).ravel()
    shares = (half * shares).ravel() * 2  # both signs of the phase
    variance = (phase**2 * _density(phase, odds[:, None], looks)) @ shares
    return CubicSpline(places, np.log(variance))


def _density(phase: Floats, odds: Floats, looks: float) -> Floats:
    """Return the density of the phase of a coherence with ``odds = g**2 / (1 - g**2)``.

    The hypergeometric function of `from_coherence` is written as an incomplete beta function:
    all terms are then of one sign where the density is large, and nothing overflows.
    """
    sine = odds * np.sin(phase) ** 2
    if looks < 1:
        # That function needs more than half a look; the contiguous relation leads down to fewer.
        more = looks * (1 + sine) * _density(phase, odds, looks + 1)
        fewer: Floats = (more + (1 + odds) ** -looks / (4 * np.pi)) / (looks + 0.5)
        return fewer
    beta = np.sqrt(odds / (1 + odds)) * np.cos(phase)
    rest = (1 + sine) / (1 + odds)  # 1 - beta**2, without its cancellation
    tail = betainc(looks - 0.5, 0.5, rest)
    bell = np.sqrt(np.pi) * poch(looks, 0.5) * np.abs(beta) * np.exp(-looks * np.log1p(sine))
    sides = np.where(beta > 0, 2 - tail, -tail) * bell / np.sqrt(rest)
    base = np.exp(-looks * np.log1p(odds)) / rest
    density: Floats = (base + sides) / (2 * np.pi)
    return density
