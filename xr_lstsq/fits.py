"""What a fit looks like: labels and attributes on its arrays, and how they are read again."""

from __future__ import annotations

import json
from collections.abc import Hashable
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq import labels, outputs
from xr_lstsq.arguments import Job
from xr_lstsq.errors import LabelError

__all__ = ["SPECIFICATION", "coefficients", "join", "label", "params"]

ANCILLARY = ("stderr", "status", "nobs")
"""Variables that say how far coefficients may be trusted."""
SPECIFICATION = "lstsq"
"""Attribute that holds the specification of a fit; fits are found by it, never by names."""


def label(
    job: Job,
    stripped: labels.Labels,
    arrays: dict[str, Any],
    axes: dict[str, tuple[Hashable, ...]],
) -> xr.Dataset:
    """Make the labelled fit of a job from its arrays."""
    name = "the cube" if stripped.name is None else str(stripped.name)
    units = stripped.attrs.get("units")
    own = _param_units(job, units)
    specification = json.dumps(_specify(job, stripped, own))
    extra = _own_coordinates(job, own, specification)
    rows = {row.name: row for row in job.options.outputs}
    mapping = labels.grid_mapping(stripped)
    fit: dict[str, xr.DataArray] = {}
    for key, array in arrays.items():
        row = rows[key]
        variable = labels.restore(array, stripped, axes[row.shape], extra=extra[row.shape])
        # Sums of weighted residuals have the units of the weights in them.
        weighted = job.weights is not None and row.power != 0 and row.shape == "pixel"
        variable.attrs = outputs.variable_attrs(row, name, None if weighted else units)
        if row.is_data:
            own_units = {k: v for k, v in variable.attrs.items() if k == "units"}
            variable.attrs = variable.attrs | labels.data_attrs(stripped) | own_units
        if key == "coef":
            variable.attrs[SPECIFICATION] = specification
            beside = [job.prefix + name for name in ANCILLARY if name in arrays]
            variable.attrs["ancillary_variables"] = " ".join(beside)
        if (
            row.power
            and own is not None
            and len(set(own)) == 1
            and own[0]
            and "param" in outputs.AXES[row.shape]
        ):
            variable.attrs["units"] = outputs.multiply_units(own[0], "", difference=row.difference)
        if mapping is not None and mapping in variable.coords:
            variable.encoding["grid_mapping"] = mapping
        fit[job.prefix + key] = variable
    result = xr.Dataset(fit | job.design.variables)
    if "source" in stripped.encoding:
        result.encoding["source"] = stripped.encoding["source"]
    return result


def join(parts: list[xr.Dataset], cubes: xr.Dataset) -> xr.Dataset:
    """Join the fits of the variables of a Dataset.

    Parameters
    ----------
    parts : list of Dataset
        One fit a variable, with the prefix in its names. Where their params stand in different
        units, the coordinate with the units gets the prefix too.
    cubes : Dataset
        What was fitted; its attrs are kept.
    """
    units = [part.coords.get(labels.PARAM_UNITS) for part in parts]
    same = all(one is None for one in units) or all(
        one is not None and one.equals(units[0]) for one in units
    )
    if not same:
        parts = [_with_own_units(part) for part in parts]
    fit = xr.merge(parts, compat="override", join="exact", combine_attrs="override")
    fit.attrs = dict(cubes.attrs)
    if len(parts) > 1:
        # The params are those of several variables, so their specification names none.
        specs = [spec for _, _, spec in coefficients(fit)]
        shared = {
            key: value for key, value in specs[0].items() if all(s[key] == value for s in specs)
        }
        shared |= {"variable": None, "fits": specs}
        fit[specs[0]["param_dim"]].attrs[SPECIFICATION] = json.dumps(shared)
    if "source" in cubes.encoding:
        fit.encoding["source"] = cubes.encoding["source"]
    return fit


def params(fit: xr.Dataset) -> xr.Dataset:
    """Return one variable per param of a fit, each with its own units.

    Parameters
    ----------
    fit : Dataset
        A fit, also one read back from a file.

    Returns
    -------
    Dataset
        Variables named like the params (after the prefix of a Dataset fit), with the fit's
        coordinates, and ``units`` and ``long_name`` of each; what QGIS, Panoply and plots want.

    Raises
    ------
    ValueError
        When the Dataset is no fit.
    LabelError
        When a param is called like a coordinate.
    """
    found: dict[str, xr.DataArray] = {}
    for name, coef, spec in coefficients(fit):
        prefix = name.removesuffix("coef")
        dim = spec["param_dim"]
        names = coef.coords[dim].values if dim in coef.coords else np.arange(coef.sizes[dim])
        for index, label in enumerate(names.tolist()):
            key = f"{prefix}{label}" if isinstance(label, str) else f"{prefix}{dim}_{label}"
            one = coef.isel({dim: index}, drop=True)
            if key in one.coords or key in one.dims or key in found:
                msg = f"the param {key!r} is called like a coordinate. Rename that with fit.rename."
                raise LabelError(msg)
            one.attrs = {"long_name": f"{label} of {spec['variable'] or 'the cube'}"}
            if spec["long_names"]:
                one.attrs["long_name"] = spec["long_names"][index]
            if spec["units"] and spec["units"][index]:
                one.attrs["units"] = spec["units"][index]
            found[key] = one
    return xr.Dataset(found, attrs=fit.attrs)


def coefficients(fit: xr.Dataset) -> list[tuple[str, xr.DataArray, dict[str, Any]]]:
    """Return name, array and specification of each coefficient variable of a fit."""
    found = [
        (str(name), variable, json.loads(variable.attrs[SPECIFICATION]))
        for name, variable in fit.data_vars.items()
        if SPECIFICATION in variable.attrs
    ]
    if not found:
        # Arithmetic drops the attributes of variables, and keeps those of coordinates
        texts = {c.attrs[SPECIFICATION] for c in fit.coords.values() if SPECIFICATION in c.attrs}
        specs = [spec for text in sorted(texts) for spec in _each(json.loads(text))]
        found = [(s["coef"], fit[s["coef"]], s) for s in specs if s["coef"] in fit.data_vars]
    if not found:
        msg = (
            f"the Dataset with the variables {list(fit.data_vars)} is no fit: none of them has the "
            f"attribute {SPECIFICATION!r}. Pass what .lstsq.solve returned, or a file made of it."
        )
        raise ValueError(msg)
    return found


def _each(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the specifications of the fits that share an axis of params."""
    specs: list[dict[str, Any]] = spec.get("fits", [spec])
    return specs


def _with_own_units(part: xr.Dataset) -> xr.Dataset:
    """Give the coordinate with the units of the params the prefix of a fit's variables."""
    if labels.PARAM_UNITS not in part.coords:
        return part
    prefix = coefficients(part)[0][0].removesuffix("coef")
    return part.rename({labels.PARAM_UNITS: prefix + labels.PARAM_UNITS})


def _param_units(job: Job, units: str | None) -> list[str] | None:
    """Return the units of each param, "" where not known; None where cube or design do not tell."""
    columns = job.design.columns
    if columns is None or units is None:
        return None
    return [
        "" if factor is None else outputs.multiply_units(str(units), factor, difference=not level)
        for factor, level in zip(columns.units, columns.levels, strict=True)
    ]


def _own_coordinates(
    job: Job, units: list[str] | None, specification: str
) -> dict[str, xr.Coordinates]:
    """Return the coordinates of the dims that the cube does not have, for each shape.

    Those of the params are their names and, where known, their units and origins.
    """
    param_dim, design = job.options.param_dim, job.design
    coords = design.param.to_dataset()
    coords[param_dim].attrs = {"long_name": "param of the fit", SPECIFICATION: specification}
    texts = {
        labels.PARAM_UNITS: (units, "units of the param"),
        labels.PARAM_ORIGIN: (
            None if design.columns is None else design.columns.origins,
            "where the time of the param is 0",
        ),
    }
    for name, (values, long_name) in texts.items():
        if values is not None:
            coords = coords.assign_coords(
                {name: (param_dim, np.array(values), {"long_name": long_name})}
            )
    names = outputs.own_axes(job.options.outputs, param_dim)
    found: dict[str, xr.Coordinates] = {}
    for shape, axes in outputs.AXES.items():
        own = coords if "param" in axes else xr.Dataset()
        if "param_2" in axes and "param_2" in names:
            own = own.assign_coords({names["param_2"]: coords[param_dim].values})
        if "bound" in axes:
            own = own.assign_coords(bound=list(outputs.BOUNDS))
        found[shape] = own.coords
    return found


def _plain(attrs: dict[Hashable, Any]) -> dict[str, Any]:
    """Return the attributes that JSON can hold."""
    plain = {}
    for name, value in attrs.items():
        value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        flat = value if isinstance(value, list | tuple) else [value]
        if all(isinstance(one, str | int | float) for one in flat):
            plain[str(name)] = value
    return plain


def _specify(job: Job, stripped: labels.Labels, units: list[str] | None) -> dict[str, Any]:
    """Return what a fit remembers of how it was made, as JSON data."""
    options, columns = job.options, job.design.columns
    return {
        "format": 1,
        "xr_lstsq": version("xr_lstsq"),
        "terms": job.design.specification,
        "names": None if columns is None else list(columns.names),
        "origins": None if columns is None else list(columns.origins),
        "long_names": None if columns is None else list(columns.long_names),
        "units": units,
        "coef": f"{job.prefix}coef",
        "dim": str(job.dim),
        "dims": [str(name) for name in stripped.dims],
        "param_dim": options.param_dim,
        "variable": None if stripped.name is None else str(stripped.name),
        "attrs": _plain(labels.data_attrs(stripped)),
        "span": None if job.design.span is None else list(job.design.span),
        "arguments": {
            "weights": _name(job.weights),
            "valid": _name(job.valid),
            "nodata": list(options.nodata),
            "min_obs": options.min_obs,
            "deficient": options.deficient,
            "rcond": options.rcond,
            "dtype": options.dtype,
            **job.method.to_json(),
        },
    }


def _name(samples: xr.DataArray | None) -> str | None:
    """Return what to remember of weights or flags: a name, or that some were given."""
    if samples is None:
        return None
    return "given" if samples.name is None else str(samples.name)
