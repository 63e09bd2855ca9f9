"""Estimates and tests of linear combinations of the params of a fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.inference.combination import Combination, read_combination
from xr_lstsq.inference.distributions import quantile, two_sided
from xr_lstsq.inference.products import weigh
from xr_lstsq.inference.reading import Model, ask_for, names_along, read
from xr_lstsq.method import check_level
from xr_lstsq.outputs import BOUNDS, multiply_units

__all__ = ["contrast"]

RESULTS = ("estimate", "stderr", "tvalue", "pvalue", "conf_int")


def contrast(
    fit: xr.Dataset, combination: Mapping[Hashable, float] | str, level: float = 0.95
) -> xr.Dataset:
    """Return a linear combination of params with its test: see `.lstsq.contrast`."""
    level = check_level(level)
    parts: dict[str, xr.DataArray] = {}
    for model in read(fit):
        model.refuse_taken((*(model.prefix + name for name in RESULTS), "bound"))
        parts |= _test(model, read_combination(model, combination), level)
    return xr.Dataset(parts, attrs=fit.attrs)


def _test(model: Model, chosen: Combination, level: float) -> dict[str, xr.DataArray]:
    """Return the estimate of a combination in each pixel, and its test against 0."""
    dof = model.dof()
    estimate = _sum(model, model.coef, chosen.factors)
    known = [estimate, _standard_error(model, chosen.factors), *([] if dof is None else [dof])]
    stderr, tvalue, pvalue, conf_int = xr.apply_ufunc(
        _statistics,
        *known,
        output_core_dims=[[], [], [], ["bound"]],
        kwargs={"level": level},
        keep_attrs=False,
        dask="parallelized",
        output_dtypes=[np.float64] * 4,
        dask_gufunc_kwargs={"output_sizes": {"bound": len(BOUNDS)}},
    )
    conf_int = conf_int.transpose("bound", ...).assign_coords(bound=list(BOUNDS))
    arrays = (estimate, stderr, tvalue, pvalue, conf_int)
    attrs = _attrs(model, chosen, level)
    return {
        model.prefix + name: model.finish(array, attrs[name])
        for name, array in zip(RESULTS, arrays, strict=True)
    }


def _sum(model: Model, values: xr.DataArray, factors: Mapping[Any, float]) -> xr.DataArray:
    """Return the sum of factors times values over the params that have a factor."""
    return _over(values, factors, [(model.param_dim, model.names)])


def _over(
    values: xr.DataArray, factors: Mapping[Any, float], axes: list[tuple[str, list[Any]]]
) -> xr.DataArray:
    """Return the sum of values times the factors along each of the axes, given with its labels."""
    chosen = values.isel({dim: [names.index(name) for name in factors] for dim, names in axes})
    weights = [xr.DataArray(list(factors.values()), dims=dim) for dim, _ in axes]
    return weigh(chosen, [dim for dim, _ in axes], *weights)


def _standard_error(model: Model, factors: Mapping[Any, float]) -> xr.DataArray:
    """Return the root of c C c', with c the factors and C the covariance of the params."""
    stderr, cov = model.get("stderr"), model.get("cov")
    if len(factors) == 1 and stderr is not None:
        return _sum(model, stderr, {name: abs(factor) for name, factor in factors.items()})
    second = f"{model.param_dim}_2"
    names = [] if cov is None else names_along(cov, second)
    if cov is None or not set(factors) <= set(names):
        more = f", or stats={ask_for(['stderr'])} for one param" if len(factors) == 1 else ""
        msg = (
            f"a combination of {', '.join(map(repr, factors))} needs their covariances, "
            f"{model.prefix + 'cov'!r}, which the fit does not have. "
            f"Solve with stats={ask_for(['cov'])}{more}."
        )
        raise ValueError(msg)
    variance = _over(cov, factors, [(model.param_dim, model.names), (second, names)])
    root: xr.DataArray = xr.ufuncs.sqrt(variance.clip(min=0))
    return root


def _statistics(
    estimate: NDArray[Any], stderr: NDArray[Any], dof: Any = None, *, level: float
) -> tuple[NDArray[Any], ...]:
    """Return standard error, t, its p-value and the two ends of the interval (..., 2)."""
    # Without noise, t is 0 / 0 or x / 0: NaN and infinity are the answers.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if dof is not None:
            stderr = np.where(dof > 0, stderr, np.nan)
        tvalue = estimate / stderr
        half = quantile(dof, level) * stderr
        ends = np.stack([estimate - half, estimate + half], axis=-1)
        return stderr, tvalue, two_sided(tvalue, dof), ends


def _attrs(model: Model, chosen: Combination, level: float) -> dict[str, dict[str, Any]]:
    """Return the CF attributes of each result."""
    what = f"{chosen.text} of {model.title}"
    attrs: dict[str, dict[str, Any]] = {
        "estimate": {
            "long_name": what,
            "ancillary_variables": f"{model.prefix}stderr",
        },
        "stderr": {"long_name": f"standard error of {what}"},
        "tvalue": {"long_name": f"{what}, over its standard error", "units": "1"},
        "pvalue": {"long_name": f"two-sided p-value of {what}", "units": "1"},
        "conf_int": {"long_name": f"{100 * level:g} % confidence interval of {what}"},
    }
    if chosen.units is not None:
        attrs["estimate"]["units"] = attrs["conf_int"]["units"] = chosen.units
        attrs["stderr"]["units"] = multiply_units(chosen.units, "", difference=True)
    return attrs
