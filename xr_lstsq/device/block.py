"""Solve a block of pixels: arrays in, arrays out, batch by batch on a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xr_lstsq.device.batch import BatchSolver
from xr_lstsq.device.batches import in_batches
from xr_lstsq.device.lease import lease, resolve
from xr_lstsq.device.plan import Plan
from xr_lstsq.outputs import OUTPUTS, dtype_of
from xr_lstsq.solvers.factor import Factor
from xr_lstsq.solvers.shared import share

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
        One array for each of ``plan.outputs``: (p, *pixels), pixels, or the cube's own shape.

    Raises
    ------
    DeviceError
        When not even one pixel fits into the memory of the device.
    """
    n, pixels = cube.shape[plan.axis], cube.shape[: plan.axis] + cube.shape[plan.axis + 1 :]
    p = design.rows.shape[1] if isinstance(design, Factor) else design.shape[1]
    b = math.prod(pixels)
    inputs = _inputs(cube, plan, weights, valid)
    if not isinstance(design, Factor):
        inputs["rows"] = _rows(design, plan, cube.shape)
    sizes = {"param": (p, b), "pixel": (b,), "sample": (n, b)}
    out = {
        name: np.empty(sizes[OUTPUTS[name].shape], dtype=dtype_of(OUTPUTS[name], plan.dtype))
        for name in plan.outputs
    }
    if b:
        device = resolve(plan.device)
        with lease(device) as held:
            shared = share(design, device) if isinstance(design, Factor) else None
            pixel_bytes = _pixel_bytes(n, p, own=shared is None)
            broken = isinstance(design, Factor) and design.negative
            solver = BatchSolver(plan, shared, broken)

            def work(here: slice, max_bytes: int) -> Array:
                batch = {key: _put(array, here, device) for key, array in inputs.items()}
                results, left = solver.run(batch, max_bytes, careful=False)
                _store(out, results, here)
                return np.asarray(left.cpu().numpy() + here.start)

            # Pixels that only the costly solver can solve are few, and cost less together
            parts = in_batches(work, b, pixel_bytes, plan.max_bytes, held)
            left = np.sort(np.concatenate(parts))

            def work_carefully(here: slice, max_bytes: int) -> None:
                at = left[here]
                batch = {key: _put(array, at, device) for key, array in inputs.items()}
                _store(out, solver.run(batch, max_bytes, careful=True)[0], at)

            in_batches(work_carefully, left.size, pixel_bytes, plan.max_bytes, held)
    shapes = {"param": (p, *pixels), "pixel": pixels, "sample": (n, *pixels)}
    arrays = []
    for name in plan.outputs:
        shape = OUTPUTS[name].shape
        array = out[name].reshape(shapes[shape])
        arrays.append(np.moveaxis(array, 0, plan.axis) if shape == "sample" else array)
    return tuple(arrays)


def _inputs(
    cube: Array, plan: Plan, weights: Array | None, valid: Array | None
) -> dict[str, Array]:
    """Return what is cut into batches, with the samples first and the pixels last: (n, b).

    Views wherever the strides allow it, else the one copy that is made of the block.
    """
    every = tuple(range(cube.ndim))
    inputs = {"y": _spread(np.asarray(cube), every, plan.axis, cube.shape)}
    if isinstance(cube, np.ma.MaskedArray):
        inputs["masked"] = _spread(np.ma.getmaskarray(cube), every, plan.axis, cube.shape)
    for name, array in (("weights", weights), ("valid", valid)):
        if array is not None:
            values = np.ma.filled(array, 0)  # masked: weight 0, not valid
            inputs[name] = _spread(np.asarray(values), plan.axes[name], plan.axis, cube.shape)
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


def _constant(array: Array) -> bool:
    """Return whether an array (n, 1) holds for all pixels."""
    return array.ndim == 2 and array.shape[1] == 1


def _store(out: dict[str, Array], results: dict[str, Tensor], pixels: slice | Array) -> None:
    """Put the results of a batch in their places."""
    for name, values in results.items():
        out[name][..., pixels] = values.cpu().numpy()


_READ = frozenset({"bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"})
_KEPT = frozenset({torch.bool, torch.float32, torch.float64})


def _put(array: Array, here: slice | Array, device: torch.device) -> Tensor:
    """Return the pixels `here` of an array on the device, as floats or, where it is one, a mask."""
    part = array if _constant(array) else array[..., here]
    kind = part.dtype.newbyteorder("=")
    if kind.name not in _READ:
        kind = np.dtype(np.float64)  # torch knows no long double and few wide unsigned kinds
    if part.dtype != kind or not part.flags.writeable or any(s < 0 for s in part.strides):
        part = part.astype(kind)
    tensor = torch.from_numpy(part).to(device)
    return tensor if tensor.dtype in _KEPT else tensor.to(torch.float64)


def _pixel_bytes(n: int, p: int, *, own: bool) -> int:
    """Return about how much working memory a pixel takes on its way through the solver.

    Copies of its samples, of coefficients, a packed system, and its design if it has its own. The
    system of a wide design (n <= p) is that of its gaps, which are few beside n.
    """
    samples, coefficients, design = 10 * n, 8 * p, 2 * n * p if own else 0
    system = n * n // 8 if n <= p else p * (p + 1) // 2
    return 8 * (samples + coefficients + system + design)
