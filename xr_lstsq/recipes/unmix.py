"""Abundances of endmembers in every pixel of a spectral cube."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import xarray as xr

from xr_lstsq import arguments, design, fits, labels, pipeline
from xr_lstsq.design.kept import KEPT
from xr_lstsq.errors import LabelError

__all__ = ["unmix"]

METHODS = {"ucls": "unconstrained least squares"}
SPARE = 2
"""How many bands more than endmembers a pixel must have, so that its rmse tells something."""


@arguments.refuse_foreign
def unmix(
    cube: xr.DataArray | xr.Dataset,
    endmembers: xr.DataArray,
    *,
    method: str,
    dim: Hashable | None = None,
    interpolate: bool = False,
    **options: Any,
) -> xr.Dataset:
    """Return how much of each endmember makes up the spectrum of every pixel.

    Parameters
    ----------
    cube : DataArray or Dataset
        Spectra with the dim `dim` and any pixel dims, in memory or dask. A Dataset is unmixed
        variable by variable.
    endmembers : DataArray
        (band, endmember) in any order: the spectrum of each endmember, in the units of the cube.
        Bands are matched by their labels.
    method : {"ucls"}
        ``"ucls"``: unconstrained least squares. Abundances may then be negative and need not sum
        to 1, and both tell of spectra that the endmembers do not explain.
    dim : hashable, optional
        The dim of the bands. None takes the one that cube and endmembers share.
    interpolate : bool
        Interpolate the endmembers linearly to the bands of the cube, instead of matching labels.
    **options
        Further arguments of `xr_lstsq.solve`, such as ``weights``, ``valid``, ``nodata``, ``stats``
        and ``device``. Two are other than there unless told: ``deficient="nan"``, since the
        minimum-norm mix of endmembers that a pixel cannot tell apart means nothing, and
        ``min_obs``, two more than there are endmembers.

    Returns
    -------
    Dataset
        ``abundance`` (endmember, pixel dims), with the labels of `endmembers`; ``rmse`` in the
        units of the cube, ``nobs``, ``rank`` and ``status`` (pixel dims), and the ``stats`` asked
        for; of a Dataset with the prefix ``<variable>_``. Lazy where the cube is.

    Raises
    ------
    ValueError
        For a method that is not known, and as `xr_lstsq.solve`.
    LabelError
        For dims or bands of cube and endmembers that do not fit together.
    TypeError
        When `endmembers` is no DataArray, and for options that `xr_lstsq.solve` does not have.

    Notes
    -----
    Minimises sum_b (y_b - sum_k m_bk a_k)^2 over the bands b of a pixel that count, with the
    spectra m and the abundances a (Keshava and Mustard 2002, doi:10.1109/79.974727).

    Examples
    --------
    >>> import numpy as np, xarray as xr, xr_lstsq
    >>> band = ("band", [450, 550, 650, 850, 1600])
    >>> spectra = xr.DataArray(
    ...     [[0.1, 0.05], [0.1, 0.1], [0.2, 0.05], [0.3, 0.5], [0.4, 0.2]],
    ...     {"band": band, "endmember": ["soil", "leaf"]},
    ...     ("band", "endmember"),
    ... )
    >>> cube = spectra @ xr.DataArray([[0.25, 1.0], [0.75, 0.0]], dims=("endmember", "x"))
    >>> unmix(cube, spectra, method="ucls").abundance.round(6).values
    array([[0.25, 1.  ],
           [0.75, 0.  ]])
    """
    if method not in METHODS:
        known = ", ".join(f"{name!r} ({what})" for name, what in METHODS.items())
        msg = f"method={method!r} is not known. There is {known}."
        raise ValueError(msg)
    if not isinstance(endmembers, xr.DataArray):
        msg = (
            f"endmembers is a {type(endmembers).__name__}. Pass a DataArray with the dims "
            "(band, endmember), and the labels of the cube along the bands."
        )
        raise TypeError(msg)
    if "param_dim" in options:
        raise TypeError("param_dim: unmix takes the dim of the endmembers. Rename that.")
    dim, own = _dims(cube, endmembers, dim)
    stats = options.pop("stats", ())
    stats = (stats,) if isinstance(stats, str) else tuple(stats)
    options.setdefault("min_obs", endmembers.sizes[own] + SPARE)
    options.setdefault("deficient", "nan")
    term = design.endmembers(endmembers, param_dim=own, interpolate=interpolate)
    fit = pipeline.solve(cube, term, dim, stats=("rmse", *stats), param_dim=own, **options)
    return _abundances(fit, cube, endmembers, own, method)


def _dims(
    cube: xr.DataArray | xr.Dataset, spectra: xr.DataArray, dim: Hashable | None
) -> tuple[Hashable, str]:
    """Return the dim of the bands and the dim of the endmembers."""
    shared = [name for name in spectra.dims if name in cube.dims]
    if dim is None and len(shared) == 1:
        dim = shared[0]
    others = [name for name in spectra.dims if name != dim]
    if dim is None or dim not in shared or len(others) != 1:
        found = f"share {shared}" if shared else "share none"
        msg = (
            f"endmembers has the dims {spectra.dims}, and {labels.shown(cube)!r} has "
            f"{tuple(cube.dims)}, which {found}. Endmembers have the dim of the bands of the cube "
            "and one of their own: rename dims, or pass dim= where two are shared."
        )
        raise LabelError(msg)
    return dim, str(others[0])


def _abundances(
    fit: xr.Dataset,
    cube: xr.DataArray | xr.Dataset,
    spectra: xr.DataArray,
    own: str,
    method: str,
) -> xr.Dataset:
    """Return the maps of a fit by endmembers, called what they are here."""
    names = {}
    for name, coef, spec in fits.coefficients(fit):
        prefix = name.removesuffix("coef")
        names[name] = f"{prefix}abundance"
        kept = {
            key: coef.attrs[key] for key in ("units", "ancillary_variables") if key in coef.attrs
        }
        what = f"abundance of each endmember in {spec['variable'] or 'the cube'}"
        fit[name].attrs = {"long_name": what} | kept
    taken = [name for name in names.values() if name in fit.coords]
    if taken:
        msg = f"the cube has coordinates called {taken}, which the answer needs. Rename them."
        raise LabelError(msg)
    told = [n for n in fit.coords if str(n).endswith((labels.PARAM_UNITS, labels.PARAM_ORIGIN))]
    # Data of the terms, and not what the cube has under such a name
    data = [n for n in fit.variables if str(n).startswith(KEPT) and not _is_own(n, cube, names)]
    # Names of params are texts; labels of endmembers stay what they were
    maps = fit.drop_vars([*told, *data, own]).rename(names)
    maps = maps.assign_coords({n: c for n, c in spectra.coords.items() if c.dims == (own,)})
    maps.attrs["unmixing_method"] = f"{method}: {METHODS[method]}"
    return maps


def _is_own(name: Hashable, cube: xr.DataArray | xr.Dataset, names: dict[str, str]) -> bool:
    """Return whether a variable of a fit is made of the cube, or is one of its coordinates."""
    prefixes = {known.removesuffix("coef") for known in names} - {""}
    return name in cube.coords or any(str(name).startswith(prefix) for prefix in prefixes)
