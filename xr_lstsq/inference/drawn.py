"""A few pixels of a fit, drawn at random, with the samples that they were made of."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq import labels
from xr_lstsq.arguments import nodata_values
from xr_lstsq.arguments.inputs import names_used, read_samples
from xr_lstsq.design import Columns
from xr_lstsq.design.steps import read_steps
from xr_lstsq.errors import LabelError
from xr_lstsq.inference.designs import design_of
from xr_lstsq.inference.reading import Model
from xr_lstsq.method import Method
from xr_lstsq.outputs import OUTPUTS

__all__ = ["Drawn", "cube_of", "draw", "samples_of"]

Floats = NDArray[np.float64]
PIXEL = "a pixel that was drawn"
"""Dim that takes the place of all pixel dims."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Pixels of one variable of a fit, in memory.

    Attributes
    ----------
    fit : mapping of str to array
        The variables of the fit, by their names without prefix; pixels come last.
    y : ndarray, (n, k)
        Their samples, NaN where one is missing.
    weights, valid : ndarray, (n, k), or None
    design : Columns
        What the terms or the matrix gave.
    steps : ndarray, (n,), or None
        Where the samples lie in time, where the method of the fit asks for it.
    regular : bool
        Whether these are whole steps.
    total : int
        Number of pixels out of which these were drawn.
    """

    fit: Mapping[str, NDArray[Any]]
    y: Floats
    weights: Floats | None
    valid: NDArray[Any] | None
    design: Columns
    steps: Floats | None
    regular: bool
    total: int

    @property
    def rows(self) -> Floats:
        """(n, p) rows that are solved with."""
        stable = self.design.stable
        return np.asarray(self.design.matrix if stable is None else stable.matrix)


def cube_of(model: Model, cube: xr.DataArray | xr.Dataset) -> xr.DataArray:
    """Return the cube that a variable of a fit was made of.

    Raises
    ------
    LabelError
        When a Dataset does not have it.
    DtypeError
        When it does not hold real numbers.
    """
    array: xr.DataArray
    if isinstance(cube, xr.Dataset):
        name = model.spec["variable"]
        if name not in cube.data_vars:
            msg = (
                f"the fit is one of the variable {name!r}, and the Dataset has "
                f"{list(cube.data_vars)}. Pass the Dataset that was solved."
            )
            raise LabelError(msg)
        array = cube[name]
    else:
        array = cube
    labels.refuse_dtype([array])
    return array


def samples_of(
    model: Model, cube: xr.DataArray | xr.Dataset, given: Mapping[str, Any]
) -> dict[str, xr.DataArray | None]:
    """Return weights and flags of valid samples, matched with the cube of a variable.

    Raises
    ------
    ValueError
        When one is given that the fit was made without, or the other way round.
    LabelError
        When one does not fit the cube.
    """
    array, dim = cube_of(model, cube), _sample_dim(model, cube_of(model, cube))
    read: dict[str, xr.DataArray | None] = {}
    for argument, value in given.items():
        stored = model.spec["arguments"][argument]
        if stored is None and value is not None:
            msg = f"{argument} is given, and {model.title} was fitted without. Drop {argument}=."
            raise ValueError(msg)
        if stored is not None and value is None:
            what = "" if stored == "given" else f" called {stored!r}"
            msg = (
                f"{model.title} was fitted with {argument}{what}. Pass {argument}= as it was "
                "passed to solve."
            )
            raise ValueError(msg)
        if isinstance(cube, xr.Dataset) and names_used(cube, {argument: value}):
            value = cube[value]
        read[argument] = read_samples(value, array, dim, argument)
    return read


def draw(
    model: Model,
    array: xr.DataArray,
    samples: Mapping[str, xr.DataArray | None],
    n: int,
    rng: np.random.Generator,
) -> Drawn:
    """Draw pixels of a variable of a fit, and read them.

    Parameters
    ----------
    model : Model
        The variable.
    array : DataArray
        Its cube, or a larger one.
    samples : mapping of str to DataArray or None
        ``weights`` and ``valid``, matched with the cube.
    n : int
        Number of pixels; all where there are no more.
    rng : Generator
        What draws.

    Raises
    ------
    LabelError, ValueError
        When fit and cube do not belong together.
    """
    dim = _sample_dim(model, array)
    dims = model.pixel_dims
    sizes = [model.coef.sizes[name] for name in dims]
    total = int(np.prod(sizes, dtype=np.int64))
    every = np.arange(total)
    drawn = every if total <= n else np.sort(rng.choice(total, n, replace=False))
    at = dict(zip(dims, np.unravel_index(drawn, sizes) if dims else (), strict=True))
    design = design_of(model, array, dim)
    within = {name: _positions(model.coef, array, name)[index] for name, index in at.items()}
    variables = {name: _variable(model, name) for name in OUTPUTS}
    parts: dict[str, xr.DataArray] = {
        name: _take(_in_order(variable, array, dim), at)
        for name, variable in variables.items()
        if variable is not None
    }
    parts["the cube"] = _take(array, within)
    parts |= {f"the {k}": _take(v, within) for k, v in samples.items() if v is not None}
    # All at once, so that a lazy fit is solved once
    found = xr.Dataset(parts).compute()
    y = _array(found["the cube"], dim, drawn.size, np.nan)
    nodata = nodata_values(array, tuple(model.spec["arguments"]["nodata"]))
    y[np.isin(y, nodata)] = np.nan
    weights, valid = (
        _array(found[f"the {name}"], dim, drawn.size, 0.0) if f"the {name}" in found else None
        for name in ("weights", "valid")
    )
    how = {key: model.spec["arguments"].get(key) for key in ("cov_type", "noise")}
    needs_time = Method(cov_type=how["cov_type"] or "nonrobust", noise=how["noise"]).needs_time
    steps = None if needs_time is None else read_steps(array.coords.get(dim), needs_time)
    return Drawn(
        fit={
            name: _leading(found[name], dim, model.param_dim)
            for name, variable in variables.items()
            if variable is not None
        },
        y=y,
        weights=weights,
        valid=valid,
        design=design,
        steps=None if steps is None else steps.position,
        regular=steps is None or steps.regular,
        total=total,
    )


def _sample_dim(model: Model, array: xr.DataArray) -> Hashable:
    """Return the sample dim of a cube; the others must be those of the pixels."""
    name = model.spec["dim"]
    found = [dim for dim in array.dims if str(dim) == name]
    others = {dim for dim in array.dims if str(dim) != name}
    if not found or others != set(model.pixel_dims):
        msg = (
            f"the fit is one along {name!r} of pixels along {model.pixel_dims}, and "
            f"{labels.shown(array)!r} has {array.dims}. Pass the cube that was solved."
        )
        raise LabelError(msg)
    return found[0]


def _positions(coef: xr.DataArray, array: xr.DataArray, dim: Hashable) -> NDArray[np.intp]:
    """Return where the pixels of a fit stand in its cube, or in a larger one, along a dim."""
    mine, theirs = (
        pd.Index(one[dim].values) if dim in one.coords else None for one in (coef, array)
    )
    if mine is not None and theirs is not None and not mine.equals(theirs):
        # With labels that stand twice, only equal indexes tell which is which
        found = theirs.get_indexer(mine) if theirs.is_unique else np.array([-1])
        if (found >= 0).all():
            return np.asarray(found)
    try:
        labels.match(coef[dim], array, "fit")
    except LabelError as error:
        msg = (
            f"along {dim!r} the fit is not one of {labels.shown(array)!r}: {error} "
            "Better, pass the cube that was solved, or a larger one that has its labels."
        )
        raise LabelError(msg) from error
    return np.arange(coef.sizes[dim])


def _variable(model: Model, name: str) -> xr.DataArray | None:
    """Return a variable of a fit; None where it is not there."""
    found = model.fit.data_vars.get(model.prefix + name)
    return model.coef if name == "coef" else found


def _in_order(variable: xr.DataArray, array: xr.DataArray, dim: Hashable) -> xr.DataArray:
    """Return a variable of a fit with its samples, if it has any, in the order of the cube."""
    if dim not in variable.dims or dim not in variable.coords:
        return variable
    only = variable.drop_vars([name for name, c in variable.coords.items() if c.dims != (dim,)])
    return labels.match(only, array[dim], "fit")


def _take(array: xr.DataArray, at: Mapping[Hashable, NDArray[np.intp]]) -> xr.DataArray:
    """Return an array at pixels, without coordinates, with one dim of pixels if it has any."""
    bare = array.drop_vars(list(array.coords))
    own = {name: xr.Variable(PIXEL, index) for name, index in at.items() if name in array.dims}
    return bare.isel(own) if own else bare


def _array(array: xr.DataArray, dim: Hashable, k: int, fill: float) -> Floats:
    """Return samples of k pixels as float64, (n, k); what is masked becomes `fill`."""
    order = [name for name in (dim, PIXEL) if name in array.dims]
    values = np.ma.filled(array.transpose(*order).data.astype(np.float64), fill)
    shape = [array.sizes.get(dim, 1), array.sizes.get(PIXEL, 1)]
    wide = np.asarray(values).reshape(shape)
    return np.broadcast_to(wide, (wide.shape[0], k)).copy()


def _leading(variable: xr.DataArray, dim: Hashable, param_dim: str) -> NDArray[Any]:
    """Return a variable of a fit with the pixels last, even where there is only one."""
    if PIXEL not in variable.dims:
        variable = variable.expand_dims(PIXEL)
    order = (dim, param_dim, f"{param_dim}_2", "bound", PIXEL)
    return np.asarray(variable.transpose(*order, missing_dims="ignore").data)
