"""Arguments that hold for every cube of a fit: values out of a known set, numbers, sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
import xarray as xr

from xr_lstsq import blocks, outputs

__all__ = ["Options", "nodata_values", "read_options", "refuse_foreign"]

P = ParamSpec("P")
R = TypeVar("R")

FOREIGN = {
    "w": "weights=w**2 (weights multiply the squared residual, so they are inverse variances)",
    "sigma": "weights=1/sigma**2",
    "mask": "valid=mask where True means that the sample counts, or valid=~mask where True hides",
    "skipna": "nothing: missing samples are always left out, pixel by pixel",
    "deg": "the design xr_lstsq.design.polynomial(deg)",
}
"""Keywords of other libraries, and what to type here instead."""


@dataclass(frozen=True)
class Options:
    """The arguments of a fit that hold for all of its cubes, checked."""

    outputs: tuple[str, ...]
    nodata: tuple[float, ...]
    min_obs: int
    deficient: str
    rcond: float | None
    dtype: str
    device: str
    max_bytes: int | None
    rechunk: bool
    param_dim: str


def refuse_foreign(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function answer keywords of other libraries with the sentence to type here."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name in FOREIGN:
                msg = f"{name}= is not an argument here. Pass {FOREIGN[name]}."
                raise TypeError(msg)
        return function(*args, **kwargs)

    return checked


def read_options(
    *,
    stats: str | Iterable[str],
    nodata: Any,
    min_obs: int,
    deficient: str,
    rcond: float | None,
    dtype: str,
    device: str,
    max_memory: int | str | None,
    rechunk: bool,
    param_dim: str,
) -> Options:
    """Check every argument that does not depend on the cube.

    Raises
    ------
    ValueError
        For a value that is not allowed, with those that are.
    """
    if isinstance(min_obs, bool) or not isinstance(min_obs, int | np.integer) or min_obs < 1:
        msg = f"min_obs={min_obs!r} is not a whole number from 1. Pass the fewest samples to fit."
        raise ValueError(msg)
    if rcond is not None and not 0 <= float(rcond) < 1:
        msg = f"rcond={rcond!r} is not in [0, 1). Pass a share of the largest singular value."
        raise ValueError(msg)
    for name, value, known in (
        ("deficient", deficient, ("min_norm", "nan")),
        ("dtype", dtype, ("float64", "float32")),
    ):
        if str(value) not in known:
            msg = f"{name}={value!r} is not known. Choose from {', '.join(map(repr, known))}."
            raise ValueError(msg)
    return Options(
        outputs=outputs.select(stats),
        nodata=_read_nodata(nodata),
        min_obs=int(min_obs),
        deficient=deficient,
        rcond=None if rcond is None else float(rcond),
        dtype=str(dtype),
        device=str(device),
        max_bytes=None if max_memory is None else blocks.parse_size(max_memory),
        rechunk=rechunk,
        param_dim=param_dim,
    )


def nodata_values(cube: xr.DataArray, given: tuple[float, ...]) -> tuple[float, ...]:
    """Return the numbers that mean missing in a cube, as its own dtype stores them.

    Those that the caller names, and the ``_FillValue`` and ``missing_value`` that stand in the
    attrs (a reader that did not decode leaves them there). A number that the dtype cannot hold
    cannot stand in the cube, and is left out.
    """
    found = list(given)
    for key in ("_FillValue", "missing_value"):
        values = np.atleast_1d(np.asarray(cube.attrs.get(key, ())))
        if values.dtype.kind in "iuf":
            found += values.tolist()
    stored = []
    for value in found:
        if np.isnan(value):
            continue
        if cube.dtype.kind in "iu":
            limits = np.iinfo(cube.dtype)
            if value != int(value) or not limits.min <= value <= limits.max:
                continue
        with np.errstate(over="ignore"):
            stored.append(float(np.asarray(value).astype(cube.dtype)))
    return tuple(dict.fromkeys(stored))


def _read_nodata(nodata: Any) -> tuple[float, ...]:
    """Return nodata as plain numbers."""
    if nodata is None:
        return ()
    values = np.atleast_1d(np.asarray(nodata))
    if values.dtype.kind not in "iuf":
        msg = f"nodata={nodata!r} is not a number or a list of numbers. Pass for example nodata=0."
        raise ValueError(msg)
    return tuple(values.ravel().tolist())
