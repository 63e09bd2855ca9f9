"""The arrays of a block as the solver takes them: samples first, pixels last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xr_lstsq.device.plan import Plan

__all__ = ["read_inputs"]

Array = NDArray[Any]


def read_inputs(
    cube: Array,
    plan: Plan,
    *,
    rows: Array | None = None,
    weights: Array | None = None,
    valid: Array | None = None,
) -> dict[str, Array]:
    """Return what is cut into batches, with the samples first and the pixels last.

    Views wherever the strides allow it, else the one copy that is made of the block.

    Parameters
    ----------
    cube, plan, weights, valid
        As of `solve_block`.
    rows : array, optional
        Designs of the pixels, (n, p, ...).

    Returns
    -------
    dict of str to array
        ``y``, and as they are given ``masked``, ``weights``, ``valid``, (n, b) or (n, 1); ``rows``
        (n, p, b).
    """
    every = tuple(range(cube.ndim))
    inputs = {"y": _spread(np.asarray(cube), every, plan.axis, cube.shape)}
    if isinstance(cube, np.ma.MaskedArray):
        inputs["masked"] = _spread(np.ma.getmaskarray(cube), every, plan.axis, cube.shape)
    for name, array in (("weights", weights), ("valid", valid)):
        if array is not None:
            values = np.ma.filled(array, 0)  # masked: weight 0, not valid
            inputs[name] = _spread(np.asarray(values), plan.axes[name], plan.axis, cube.shape)
    if rows is not None:
        inputs["rows"] = _rows(rows, plan, cube.shape)
    return inputs


def _rows(design: Array, plan: Plan, shape: tuple[int, ...]) -> Array:
    """Return a design per pixel as (n, p, b); what is masked is not finite."""
    if isinstance(design, np.ma.MaskedArray):
        design = np.ma.filled(design.astype(np.float64), np.nan)
    axes = plan.axes["design"]  # the samples' axis first, then those of the pixels
    order = sorted(range(len(axes)), key=axes.__getitem__)
    rising = tuple(axes[i] for i in order)
    columns = [
        _spread(design[:, j].transpose(order), rising, plan.axis, shape)
        for j in range(design.shape[1])
    ]
    return np.stack(columns, axis=1)


def _spread(array: Array, axes: tuple[int, ...], axis: int, shape: tuple[int, ...]) -> Array:
    """Return an array with some of the cube's axes as (n, b), or (n, 1) with no pixel axis."""
    own = array.reshape([size if i in axes else 1 for i, size in enumerate(shape)])
    first = np.moveaxis(own, axis, 0)
    if axes == (axis,) and len(shape) > 1:
        return first.reshape(shape[axis], 1)
    pixels = shape[:axis] + shape[axis + 1 :]
    return np.broadcast_to(first, (shape[axis], *pixels)).reshape(shape[axis], math.prod(pixels))
