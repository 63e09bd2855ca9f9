"""Single params of a fit as maps, each with its statistics, for recipes to return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import xarray as xr

from xr_lstsq.inference.reading import Model
from xr_lstsq.outputs import multiply_units

__all__ = ["read_maps", "refuse_idle"]

OF_PIXELS = ("rsquared", "resid_std", "rho", "n_eff", "nobs", "status")
"""Variables of a fit that are handed on as they are, where the fit has them."""


def read_maps(
    model: Model, params: Mapping[str, str], tested: Mapping[str, Mapping[str, str]]
) -> dict[str, xr.DataArray]:
    """Return params of a fit as variables, with statistics of some, and what each pixel has.

    Parameters
    ----------
    model : Model
        What was fitted.
    params : mapping of str to str
        Params, and the name of the variable to make of each.
    tested : mapping of str to mapping
        Of some params: ``stderr``, ``pvalue`` or ``conf_int``, and the variable to make of each.

    Returns
    -------
    dict
        Variables (pixel dims), ``conf_int`` (bound, pixel dims), by their names with the prefix of
        the fit; lazy where it is. `OF_PIXELS` come last.

    Raises
    ------
    LabelError
        For coordinates of the fit with one of these names.
    """
    names = [*params.values(), *(new for own in tested.values() for new in own.values())]
    model.refuse_taken(model.prefix + name for name in names)
    long_names = dict(zip(model.spec["names"], model.spec["long_names"], strict=True))
    found: dict[str, xr.DataArray] = {}
    for param, name in params.items():
        what, units = f"{long_names[param]} of {model.title}", model.units.get(param)
        attrs = {"long_name": what} | ({} if units is None else {"units": units})
        own = tested.get(param, {})
        if "stderr" in own:
            attrs["ancillary_variables"] = model.prefix + own["stderr"]
        one = {model.param_dim: param}
        found[model.prefix + name] = model.finish(model.coef.sel(one, drop=True), attrs)
        arrays = model.need(own, f"the map of {param!r}")
        for (stat, new), array in zip(own.items(), arrays, strict=True):
            found[model.prefix + new] = model.finish(
                array.sel(one, drop=True),
                _attrs(stat, what, units, model.spec["arguments"]["level"]),
            )
    beside = {model.prefix + name: model.get(name) for name in OF_PIXELS}
    return found | {name: array for name, array in beside.items() if array is not None}


def refuse_idle(recipe: str, options: Mapping[str, Any], idle: Iterable[str]) -> None:
    """Refuse options of `xr_lstsq.solve` that change nothing in what a recipe returns.

    Raises
    ------
    TypeError
        With their names.
    """
    found = [name for name in idle if name in options]
    if found:
        raise TypeError(f"{', '.join(found)} would change nothing that {recipe} returns. Drop it.")


def _attrs(stat: str, what: str, units: str | None, level: float) -> dict[str, str]:
    """Return the CF attributes of a statistic of a param."""
    if stat == "pvalue":
        return {"long_name": f"two-sided p-value of the {what}", "units": "1"}
    text = "standard error" if stat == "stderr" else f"{100 * level:g} % confidence interval"
    attrs = {"long_name": f"{text} of the {what}"}
    if units is not None:
        attrs["units"] = multiply_units(units, "", difference=stat == "stderr")
    return attrs
