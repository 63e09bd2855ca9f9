"""Values of a fitted model at new samples, with their intervals."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any, Literal

import numpy as np
import xarray as xr

from xr_lstsq.errors import LabelError
from xr_lstsq.inference.coordinates import as_coordinate
from xr_lstsq.inference.distributions import quantile
from xr_lstsq.inference.products import weigh
from xr_lstsq.inference.reading import Model, names_along, read
from xr_lstsq.inference.rows import as_matrix, is_matrix
from xr_lstsq.method import check_level

__all__ = ["predict"]

Interval = Literal["confidence", "prediction"]
NEEDS: dict[str, tuple[str, ...]] = {
    "confidence": ("cov",),
    "prediction": ("cov", "resid_std"),
}
"""Statistics that each interval is made of."""


def predict(
    fit: xr.Dataset, at: Any, interval: Interval | None = None, level: float = 0.95
) -> xr.DataArray | xr.Dataset:
    """Return the values of a fitted model at new samples: see `.lstsq.predict`.

    Examples
    --------
    >>> import numpy as np, xarray as xr, xr_lstsq
    >>> time = np.arange("2001-01-01", "2001-01-07", dtype="datetime64[D]")
    >>> cube = xr.DataArray([1.0, 2, 4, 4, 5, 7], {"time": time}, "time")
    >>> fit = cube.lstsq.solve("polynomial(1, unit=day)", stats=("cov", "resid_std"))
    >>> predict(fit, ["2001-01-07", "2001-01-08"]).round(3).values
    array([7.733, 8.848])
    >>> predict(fit, "2001-01-07", "prediction").upper.round(2).values
    array([9.73])
    """
    level = check_level(level)
    if interval is not None and interval not in NEEDS:
        known = ", ".join(map(repr, NEEDS))
        msg = f"interval={interval!r} is not known. Choose from {known}, or None for values alone."
        raise ValueError(msg)
    if isinstance(at, xr.Dataset):
        msg = f"at is a Dataset. Pass one DataArray, such as one of {list(at.variables)}."
        raise ValueError(msg)  # noqa: TRY004 - as for every other wrong `at`
    models = read(fit)
    parts: dict[str, xr.DataArray] = {}
    for model in models:
        values = _predict(model, at, interval, level)
        if interval is None:
            one = values["prediction"]
            if len(models) == 1 and not model.prefix:
                return one.rename(model.spec["variable"])
            parts[model.prefix.removesuffix("_") or model.title] = one
        else:
            parts |= {model.prefix + key: value for key, value in values.items()}
    return xr.Dataset(parts, attrs=fit.attrs)


def _predict(
    model: Model, at: Any, interval: Interval | None, level: float
) -> dict[str, xr.DataArray]:
    """Return the prediction of one variable and the ends of its interval."""
    dim, param_dim = str(model.spec["dim"]), model.param_dim
    stats = () if interval is None else NEEDS[interval]
    if model.absolute_sigma:
        stats = tuple(stat for stat in stats if stat != "resid_std")
    found = dict(zip(stats, model.need(stats, f"interval={interval!r}"), strict=True))
    ends = () if interval is None else ("prediction", "lower", "upper")
    model.refuse_taken((dim, *(model.prefix + key for key in ends)))
    rows = _rows(model, at)
    values = {"prediction": weigh(model.coef, [param_dim], rows)}
    if interval is not None:
        variance = _variance(model, rows, found["cov"])
        if interval == "prediction":
            # A new sample of weight 1, which is of variance 1 where the weights say variances.
            own = 1.0 if model.absolute_sigma else found["resid_std"].astype(np.float64) ** 2
            variance = variance + own
        half = _quantile(model, level) * np.sqrt(variance)
        values |= {
            "lower": values["prediction"] - half,
            "upper": values["prediction"] + half,
        }
    order = _order(model, dim)
    along = {name: coord for name, coord in rows.coords.items() if coord.dims == (dim,)}
    labelled = {
        key: model.finish(array.transpose(*order), _attrs(model, key, interval, level))
        for key, array in values.items()
    }
    return {key: array.assign_coords(along) for key, array in labelled.items()}


def _rows(model: Model, at: Any) -> xr.DataArray:
    """Return the rows of the design at new samples, columns in the order of the fit's params."""
    dim, param_dim, terms = str(model.spec["dim"]), model.param_dim, model.terms
    matrix = is_matrix(at, model)
    if terms is None and not matrix:
        pixels = model.spec["terms"].get("pixel_dims", [])
        own = (
            f", with the pixel dims {pixels} where it differs from pixel to pixel" if pixels else ""
        )
        msg = (
            f"the fit of {model.title} was made with a design matrix, and labels of {dim!r} do not "
            f"tell its rows. Pass at as a matrix with the dims ({dim!r}, {param_dim!r}){own}."
        )
        raise ValueError(msg)
    model.refuse_joined()
    _refuse_part(model)
    if terms is None or matrix:
        return as_matrix(at, model)
    coord = as_coordinate(at, terms, dim)
    columns = terms.map_data(functools.partial(_select, coord=coord)).evaluate(coord)
    order = [columns.names.index(name) for name in model.names]
    rows = xr.DataArray(np.asarray(columns.matrix)[:, order], dims=(dim, param_dim))
    return rows.assign_coords({dim: coord})


def _select(data: xr.DataArray, what: str, coord: xr.DataArray) -> xr.DataArray:
    """Return the data of a term at new labels of the samples.

    Raises
    ------
    LabelError
        Where it has none for a label.
    """
    dim = coord.dims[0]
    if data.name in coord.coords and data.name != dim:
        found: xr.DataArray = coord.coords[data.name].reset_coords(drop=True)
        return found
    try:
        return data.sel({dim: coord.values})
    except (KeyError, ValueError, TypeError):
        beside = "" if data.name is None else f", a coordinate {data.name!r} with at"
        held = f"{data.sizes[dim]} labels of {dim!r}" if dim in data.coords else "no labels"
        msg = (
            f"{what} is kept with the fit at {held}, and at has others. Pass labels of the "
            f"cube's{beside}, or a design matrix."
        )
        raise LabelError(msg) from None


def _refuse_part(model: Model) -> None:
    """Refuse a fit that holds only some of the params of its design."""
    every = model.names if model.spec["names"] is None else list(model.spec["names"])
    absent = [name for name in every if name not in model.names]
    if absent or len(set(model.names)) < len(model.names):
        missing = f"without {absent}" if absent else "with some more than once"
        msg = (
            f"the fit of {model.title} holds the params {model.names} of a design with {every}, "
            f"and {missing} nothing can be predicted. "
            f"Predict with the fit as it was before selecting along {model.param_dim!r}."
        )
        raise ValueError(msg)


def _variance(model: Model, rows: xr.DataArray, cov: xr.DataArray) -> xr.DataArray:
    """Return a C a' of each row a of the design, with C the covariance of the params."""
    first, second = model.param_dim, f"{model.param_dim}_2"
    names = names_along(cov, second)
    absent = [name for name in model.names if name not in names]
    if absent:
        msg = (
            f"the covariance of {model.title} has the params {names} along {second!r}, "
            f"without {absent}. Predict with the fit before selecting along {second!r}."
        )
        raise LabelError(msg)
    order = [names.index(name) for name in model.names]
    if order != list(range(len(names))):
        cov = cov.isel({second: order})
    return weigh(cov, [first, second], rows, rows.rename({first: second})).clip(min=0)


def _quantile(model: Model, level: float) -> Any:
    """Return how many standard errors the interval of each pixel reaches to each side."""
    dof = model.dof()
    if dof is None:
        return quantile(None, level)
    return xr.apply_ufunc(
        quantile,
        dof,
        kwargs={"level": level},
        dask="parallelized",
        output_dtypes=[np.float64],
    )


def _order(model: Model, dim: str) -> list[Hashable]:
    """Return the dims of a prediction: those of the cube, the sample dim in its place."""
    dims, pixels = list(model.spec["dims"]), list(model.pixel_dims)
    if set(pixels) <= set(dims):
        return [name for name in dims if name == dim or name in pixels]
    # Renamed, stacked or joined along a new dim: as the fit has them
    pixels.insert(min(dims.index(dim), len(pixels)), dim)
    return pixels


def _attrs(model: Model, key: str, interval: Interval | None, level: float) -> dict[str, Any]:
    """Return the attributes of the fitted variable, which its prediction has too."""
    attrs = dict(model.spec["attrs"])
    if key == "prediction":
        return attrs
    what = f"{key} end of the {100 * level:g} % {interval} interval"
    return attrs | {"long_name": f"{what} of {attrs.get('long_name', model.title)}"}
