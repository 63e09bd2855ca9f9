"""Rows of a design matrix at new samples, matched with a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq import blocks, labels
from xr_lstsq.design.matrix import refuse_dtype
from xr_lstsq.errors import LabelError
from xr_lstsq.inference.reading import Model, names_along

__all__ = ["as_matrix", "is_matrix"]


def is_matrix(at: Any, model: Model) -> bool:
    """Return whether `at` is a design matrix, and not labels of the sample dim."""
    if isinstance(at, xr.DataArray):
        return model.param_dim in at.dims
    return not isinstance(at, str) and np.ndim(at) == 2


def as_matrix(at: Any, model: Model) -> xr.DataArray:
    """Return a design matrix with its columns in the order of the fit's params.

    Parameters
    ----------
    at : DataArray or array
        (k, p). Columns of a DataArray are matched by their labels where it has any, and pixels by
        theirs; those of a plain array are in the order of the fit's params.
    model : Model
        What was fitted.

    Returns
    -------
    DataArray
        (sample dim, param dim, any pixel dims), without coordinates but those along the samples
        alone.

    Raises
    ------
    LabelError
        For dims, columns or pixels that are not those of the fit.
    DtypeError
        For values that are not real numbers.
    """
    dim, param_dim = str(model.spec["dim"]), model.param_dim
    if not isinstance(at, xr.DataArray):
        at = xr.DataArray(at if blocks.is_lazy(at) else np.asarray(at), dims=(dim, param_dim))
    refuse_dtype(at.dtype, "at")
    known = {dim, param_dim, *model.pixel_dims}
    if dim not in at.dims or set(at.dims) - known:
        msg = (
            f"at has the dims {at.dims}, and a design matrix has {dim!r} and {param_dim!r}, "
            f"and may have {model.pixel_dims}. Rename its dims, or select along those left over."
        )
        raise LabelError(msg)
    at = _match_columns(at, model)
    along = {name: coord for name, coord in at.coords.items() if coord.dims == (dim,)}
    # Columns are in order now, so that only pixels are left to match.
    bare = at.drop_vars(
        [name for name, coord in at.coords.items() if {dim, param_dim} & {*coord.dims}]
    )
    matched = labels.match(bare, model.coef, "at")
    return matched.drop_vars(list(matched.coords)).assign_coords(along)


def _match_columns(at: xr.DataArray, model: Model) -> xr.DataArray:
    """Bring the columns of a design matrix into the order of the fit's params."""
    names, param_dim = model.names, model.param_dim
    if param_dim not in at.coords:
        if at.sizes[param_dim] != len(names):
            msg = f"at has {at.sizes[param_dim]} columns, and the fit has the params {names}."
            raise LabelError(msg)
        return at
    found = names_along(at, param_dim)
    absent = [name for name in names if name not in found]
    more = [name for name in found if name not in names]
    if absent or more or len(found) != len(names):
        msg = (
            f"at has the columns {found}, and the fit has the params {names}: "
            f"{', '.join(map(repr, absent + more)) or 'some'} must stand once in each of them. "
            f"Give at the names of the params along {param_dim!r}."
        )
        raise LabelError(msg)
    return at.isel({param_dim: [found.index(name) for name in names]})
