"""Solve a block of pixels: arrays in, arrays out, batch by batch on a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xr_lstsq import clock
from xr_lstsq.device.batch import BatchSolver
from xr_lstsq.device.inputs import read_inputs
from xr_lstsq.device.lease import lease, resolve
from xr_lstsq.device.plan import Plan
from xr_lstsq.device.staged import solve_in_stages
from xr_lstsq.outputs import AXES, axis_lengths, dtype_of
from xr_lstsq.solvers.factor import Factor

__all__ = ["solve_block"]

Array = NDArray[Any]


def solve_block(
    cube: Array,
    *,
    plan: Plan,
    design: Factor | Array,
    weights: Array | None = None,
    valid: Array | None = None,
) -> tuple[Array, ...]:
    """Solve all pixels of one block.

    Parameters
    ----------
    cube : array
        Samples, n along ``plan.axis``; may be masked, of any real dtype, byte order and strides.
        It is never written to.
    plan : Plan
        What to do.
    design : Factor or array
        The factorised shared design, or (n, p, ...) rows for each pixel.
    weights, valid : array, optional
        With some of the cube's axes (see `Plan`).

    Returns
    -------
    tuple of array
        One array for each of ``plan.outputs``: the axes of its shape, then those of the pixels; of
        samples the cube's own shape.

    Raises
    ------
    DeviceError
        When not even one pixel fits into the memory of the device.
    """
    n, pixels = cube.shape[plan.axis], cube.shape[: plan.axis] + cube.shape[plan.axis + 1 :]
    p = design.rows.shape[1] if isinstance(design, Factor) else design.shape[1]
    b = math.prod(pixels)
    own = None if isinstance(design, Factor) else design
    with clock.stage("copy"):
        inputs = read_inputs(cube, plan, rows=own, weights=weights, valid=valid)
    lengths = axis_lengths(n, p)
    leading = {row.name: tuple(lengths[axis] for axis in AXES[row.shape]) for row in plan.outputs}
    out = {
        row.name: np.empty((*leading[row.name], b), dtype=dtype_of(row, plan.dtype))
        for row in plan.outputs
    }

    def store(results: dict[str, Array], at: slice | Array) -> None:
        for name, values in results.items():
            out[name][..., at] = values

    if b:
        device = resolve(plan.device)
        with lease(device) as held:
            solve_in_stages(BatchSolver.of(plan, design, device), inputs, held, store)
    arrays = []
    for row in plan.outputs:
        array = out[row.name].reshape((*leading[row.name], *pixels))
        arrays.append(np.moveaxis(array, 0, plan.axis) if row.shape == "sample" else array)
    return tuple(arrays)
