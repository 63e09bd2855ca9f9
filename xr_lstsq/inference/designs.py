"""The design of a fit on the samples of its cube, to be fitted again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import xarray as xr

from xr_lstsq import labels
from xr_lstsq.design import Columns
from xr_lstsq.design.matrix import VARIABLE, sample_coordinate
from xr_lstsq.errors import LabelError
from xr_lstsq.inference.reading import Model

__all__ = ["design_of"]


def design_of(model: Model, array: xr.DataArray, dim: Hashable) -> Columns:
    """Return the design of a fit on the samples of its cube.

    Raises
    ------
    ValueError
        When the fit does not keep it, or holds only some of its params.
    LabelError
        When the cube is another.
    """
    terms = model.terms
    if terms is not None and all(part.remade for part in terms.terms):
        matched = terms.map_data(lambda data, what: labels.match(data, array, what))
        columns = matched.evaluate(sample_coordinate(array, dim))
        if list(columns.names) != model.names:
            msg = (
                f"the fit of {model.title} holds the params {model.names} of a design with "
                f"{list(columns.names)}. Validate it before selecting along {model.param_dim!r}."
            )
            raise ValueError(msg)
        model.refuse_joined()
        if isinstance(columns.matrix, xr.DataArray):
            raise ValueError(_not_kept(model, columns.matrix.dims[2:]))
        return columns
    own = model.spec["terms"].get("pixel_dims")
    if own:
        raise ValueError(_not_kept(model, own))
    if VARIABLE not in model.fit:
        msg = f"the fit has lost {VARIABLE!r}, the design of {model.title}. Keep it with the fit."
        raise ValueError(msg)
    matrix = model.fit[VARIABLE].transpose(dim, model.param_dim)
    if matrix.sizes[dim] != array.sizes[dim]:
        msg = (
            f"the design of {model.title} has {matrix.sizes[dim]} rows, and "
            f"{labels.shown(array)!r} has {array.sizes[dim]} samples along {dim!r}. Pass the cube "
            "that was solved."
        )
        raise LabelError(msg)
    rows = np.asarray(np.ma.filled(matrix.compute().data.astype(np.float64), np.nan))
    blank = ("",) * rows.shape[1]
    return Columns(rows, blank, blank, blank, (False,) * rows.shape[1], blank)


def _not_kept(model: Model, dims: Sequence[Hashable]) -> str:
    """Say that a design is not there to be fitted again."""
    return (
        f"{model.title} was fitted with a design that differs along {list(dims)}, which a fit does "
        "not keep. Solve a few pixels again with stats='residual' and compare."
    )
