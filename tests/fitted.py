"""Fits built by hand from the oracle, for tests of what is made of a fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tests import oracle
from xr_lstsq import design
from xr_lstsq.outputs import multiply_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TERMS = design.polynomial(1) + design.harmonics(1)
STATS = ("stderr", "cov", "resid_std", "rss")
EMPTY, SHORT = (0, 1), (1, 2)
"""Places (y, x) of a pixel without samples, and of one with as many as params of `TERMS`."""


def years(time: Any, origin: str = "2000-01-01") -> Floats:
    """Return dates as years of 365.25 days since an origin."""
    since = np.asarray(time).astype("datetime64[ns]") - np.datetime64(origin, "ns")
    return since / np.timedelta64(1, "h") / (24 * 365.25)


def columns(time: Any, degree: int = 1, cycles: int = 1, origin: str = "2000-01-01") -> Floats:
    """Return the columns of a polynomial and of harmonics of a year, without the package."""
    t = years(time, origin)
    turns = [f(2 * np.pi * k * t) for k in range(1, cycles + 1) for f in (np.cos, np.sin)]
    return np.stack([*(t**k for k in range(degree + 1)), *turns], axis=1)


def make_cube(n: int = 40, seed: int = 0, name: str | None = "lst") -> xr.DataArray:
    """Return a cube (time, y, x) with trend, season, noise, gaps, and all kinds of coordinates."""
    rng = np.random.default_rng(seed)
    days = np.sort(rng.choice(3000, n, replace=False))
    time = np.datetime64("2012-03-01", "ns") + days * np.timedelta64(1, "D")
    coef = rng.normal(size=(4, 2, 4)) * np.array([10.0, 0.5, 3.0, 3.0])[:, None, None]
    values = np.einsum("np,pyx->nyx", columns(time), coef) + rng.normal(size=(n, 2, 4))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, *EMPTY] = np.nan
    values[4:, *SHORT], values[:4, *SHORT] = np.nan, rng.normal(size=4)
    cube = xr.DataArray(
        values,
        {
            "time": ("time", time, {"axis": "T"}),
            "y": [50.0, 49.0],
            "x": ("x", np.arange(4.0), {"axis": "X"}),
            "lat": (("y", "x"), rng.normal(size=(2, 4)), {"units": "degrees_north"}),
            "spatial_ref": ((), 0, {"crs_wkt": "made up"}),
        },
        ("time", "y", "x"),
        name=name,
        attrs={"long_name": "surface temperature", "units": "degC"},
    )
    cube.encoding["grid_mapping"] = "spatial_ref"
    return cube


def make_weights(cube: xr.DataArray, seed: int = 1) -> xr.DataArray:
    """Return inverse variances of each sample."""
    rng = np.random.default_rng(seed)
    return xr.DataArray(10 ** rng.uniform(-1, 1, cube.shape), cube.coords, cube.dims)


def in_chunks(fit: xr.Dataset, **chunks: int) -> xr.Dataset:
    """Return a fit in chunks, but for the few words along its params, which are read at once."""
    return fit.chunk(chunks).assign_coords(param_origin=fit["param_origin"])


def make_fit(
    cube: xr.DataArray,
    term: design.Term | Floats = TERMS,
    weights: xr.DataArray | None = None,
    *,
    prefix: str = "",
    matrix: Any = None,
    **arguments: Any,
) -> xr.Dataset:
    """Return the fit of a cube (sample dim `time`, any pixel dims) as the solver gives it.

    `matrix` (n, p) stands for the columns of `term`, where those of the package shall not count.
    """
    pixels = tuple(dim for dim in cube.dims if dim != "time")
    y = cube.transpose("time", *pixels)
    w = None if weights is None else weights.transpose("time", *pixels).values
    bound = found = None
    if isinstance(term, design.Term):
        bound = term.bind(cube["time"])
        found = bound.evaluate(cube["time"])
    given = term if found is None else found.matrix if matrix is None else matrix
    names: Any = np.arange(given.shape[1]) if found is None else np.array(found.names)
    facts = {"absolute_sigma": False, "cov_type": "nonrobust", "noise": None} | arguments
    solved = {
        place: _solve(y.values[:, *place], given, None if w is None else w[:, *place], facts)
        for place in np.ndindex(*y.shape[1:])
    }
    p, shape = given.shape[1], y.shape[1:]
    kept = cube.isel(time=0, drop=True).coords
    axes = {"coef": ("param",), "stderr": ("param",), "cov": ("param", "param_2")}
    fit = xr.Dataset(attrs={"title": "made by hand"})
    for key in ("coef", "nobs", "rank", "status", *STATS):
        extra = axes.get(key, ())
        array = np.empty(
            (*[p] * len(extra), *shape), np.asarray(solved[(0,) * len(shape)][key]).dtype
        )
        for place, one in solved.items():
            array[..., *place] = one[key]
        fit[prefix + key] = xr.DataArray(array, kept, (*extra, *pixels))
        fit[prefix + key].attrs["long_name"] = key
        fit[prefix + key].encoding["grid_mapping"] = "spatial_ref"
    return _label(fit, cube, bound, found, names, prefix, facts)


def _label(
    fit: xr.Dataset,
    cube: xr.DataArray,
    bound: Any,
    found: Any,
    names: Any,
    prefix: str,
    facts: dict[str, Any],
) -> xr.Dataset:
    """Put on what tells of the params, and the specification."""
    spec = {
        "format": 1,
        "xr_lstsq": "0",
        "terms": {"term": "matrix", "variable": "design_matrix"},
        "names": None if found is None else list(found.names),
        "origins": None if found is None else list(found.origins),
        "long_names": None,
        "units": None,
        "coef": f"{prefix}coef",
        "dim": "time",
        "param_dim": "param",
        "variable": cube.name,
        "dims": list(cube.dims),
        "attrs": dict(cube.attrs),
        "span": None,
        "arguments": {
            "weights": None, "valid": None, "nodata": [], "min_obs": 1, "deficient": "min_norm",
            "rcond": None, "dtype": "float64", "level": 0.95, "maxlags": None, **facts,
        },
    }  # fmt: skip
    fit = fit.assign_coords(param=names, param_2=names)
    if found is not None:
        spec["terms"] = bound.to_json()
        ends = cube["time"].values[[0, -1]]
        spec["span"] = ends.tolist() if ends.dtype.kind in "if" else [_text(end) for end in ends]
        units = [
            multiply_units(cube.attrs.get("units", "1"), factor, difference=not level)
            for factor, level in zip(found.units, found.levels, strict=True)
        ]
        spec["units"] = units
        fit = fit.assign_coords(param_units=("param", np.array(units)))
        fit = fit.assign_coords(param_origin=("param", np.array(found.origins)))
    text = json.dumps(spec)
    fit[f"{prefix}coef"].attrs["lstsq"] = text
    fit["param"].attrs["lstsq"] = text
    return fit


def _text(date: Any) -> str:
    """Return a date as an ISO 8601 text."""
    return np.datetime_as_string(date)[:10] if hasattr(date, "dtype") else date.isoformat()[:10]


def _solve(y: Floats, given: Floats, w: Floats | None, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of one pixel, its rows that do not count dropped."""
    p = given.shape[1]
    one = oracle.fit(y, given, w)
    cov = np.full((p, p), np.nan)
    resid_std = np.nan
    if one.dof > 0:
        resid_std = float(np.sqrt(one.rss / one.dof))
    if one.nobs and (one.dof > 0 or facts["absolute_sigma"]):
        keep = oracle.valid_rows(y, given, w)
        root = np.ones(one.nobs) if w is None else np.sqrt(w[keep])
        inverse = np.linalg.pinv(given[keep] * root[:, None])
        cov = inverse @ inverse.T * (1.0 if facts["absolute_sigma"] else resid_std**2)
    return {
        "coef": one.coef,
        "nobs": np.int32(one.nobs),
        "rank": np.int32(one.rank),
        "status": np.int8(1 if not one.nobs else 0 if one.rank == p else 3),
        "rss": one.rss,
        "resid_std": resid_std,
        "cov": cov,
        "stderr": np.sqrt(np.diag(cov)),
    }
