"""Arguments that hold for every cube of a fit: values out of a known set, numbers, sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
import xarray as xr

from xr_lstsq import blocks, outputs
from xr_lstsq.method import COV_TYPES, HAC, Method, check_level

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

    outputs: tuple[outputs.Output, ...]
    method: Method
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
    cov_type: str,
    maxlags: int | None,
    absolute_sigma: bool,
    noise: str | None,
    level: float,
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
        ("cov_type", cov_type, COV_TYPES),
        ("noise", noise, (None, "ar1")),
        ("dtype", dtype, ("float64", "float32")),
    ):
        if value not in known:
            msg = f"{name}={value!r} is not known. Choose from {', '.join(map(repr, known))}."
            raise ValueError(msg)
    method = _read_method(cov_type, maxlags, absolute_sigma, noise, level)
    rows = outputs.select(stats, autocorrelated=method.autocorrelated, real_dof=method.real_dof)
    _refuse_f_test(rows, method)
    return Options(
        outputs=rows,
        method=method,
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


def _read_method(
    cov_type: str, maxlags: Any, absolute_sigma: Any, noise: str | None, level: Any
) -> Method:
    """Return how statistics are made; arguments that go against each other are refused."""
    if not isinstance(absolute_sigma, bool | np.bool_):
        msg = f"absolute_sigma={absolute_sigma!r} is neither True nor False. Pass one of them."
        raise TypeError(msg)
    if maxlags is not None:
        if cov_type != HAC:
            msg = (
                f"maxlags={maxlags!r} is for cov_type='HAC', and cov_type is {cov_type!r}. Drop it."
            )
            raise ValueError(msg)
        if isinstance(maxlags, bool) or not isinstance(maxlags, int | np.integer) or maxlags < 0:
            msg = f"maxlags={maxlags!r} is not a whole number from 0. Pass steps of time."
            raise ValueError(msg)
    if cov_type != "nonrobust":
        other = "absolute_sigma=True" if absolute_sigma else f"noise={noise!r}"
        if absolute_sigma or noise is not None:
            msg = (
                f"cov_type={cov_type!r} makes errors from the residuals, and {other} from what is "
                "known of the noise. Drop one of the two."
            )
            raise ValueError(msg)
    return Method(
        cov_type=cov_type,
        maxlags=None if maxlags is None else int(maxlags),
        absolute_sigma=bool(absolute_sigma),
        noise=noise,
        level=check_level(level),
    )


def _refuse_f_test(rows: tuple[outputs.Output, ...], method: Method) -> None:
    """Refuse the F test of a whole model where its errors are not those of equal noise."""
    asked = [row.name for row in rows if row.name in ("fvalue", "f_pvalue")]
    if asked and (method.cov_type != "nonrobust" or method.absolute_sigma):
        other = "absolute_sigma=True" if method.absolute_sigma else f"cov_type={method.cov_type!r}"
        msg = (
            f"stats has {asked}, the F test of samples of equal, unknown variance, which {other} "
            "denies. Drop one of the two."
        )
        raise ValueError(msg)


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
