"""Solve a block of pixels: arrays in, arrays out, batch by batch on a device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xr_lstsq.device.batches import in_batches
from xr_lstsq.device.lease import lease, resolve
from xr_lstsq.outputs import OUTPUTS, STATUS, dtype_of
from xr_lstsq.solvers import least_squares
from xr_lstsq.solvers.factor import Factor
from xr_lstsq.solvers.problem import Problem, Shared, Solution, Weighed, weigh
from xr_lstsq.statistics import NEEDS_FITTED, NEEDS_RESIDUAL, STATISTICS

__all__ = ["Plan", "solve_block"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Plan:
    """What a block needs to know beside its arrays; it travels inside dask graphs.

    Attributes
    ----------
    axis : int
        Axis of the samples in the cube.
    axes : mapping of str to tuple of int
        For design, weights and valid: which axes of the cube theirs are, apart from the params'.
        Those of weights and valid rise.
    outputs : tuple of str
        Names of the arrays to return, in this order.
    nodata : tuple of float
        Values of the cube that mean missing.
    min_obs : int
        Fewest samples that a pixel needs.
    keep_short : bool
        Whether a rank-short pixel keeps its minimum-norm coefficients.
    rcond : float, optional
        Cut-off of the rank.
    dtype : str
        Dtype of the float outputs.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    max_bytes : int, optional
        Working memory of all blocks in flight on the device.
    """

    axis: int
    axes: Mapping[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    nodata: tuple[float, ...] = ()
    min_obs: int = 1
    keep_short: bool = True
    rcond: float | None = None
    dtype: str = "float64"
    device: str = "auto"
    max_bytes: int | None = None


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
            shared = least_squares.share(design, device) if isinstance(design, Factor) else None
            broken = isinstance(design, Factor) and design.negative

            def work(here: slice, max_bytes: int) -> None:
                batch = {key: _put(array, here, device) for key, array in inputs.items()}
                results = _solve_batch(batch, plan, shared, max_bytes, broken=broken)
                for name, values in results.items():
                    out[name][..., here] = values.cpu().numpy()

            pixel_bytes = _pixel_bytes(n, p, own=shared is None)
            in_batches(work, b, pixel_bytes, plan.max_bytes, held)
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


_READ = frozenset({"bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"})
_KEPT = frozenset({torch.bool, torch.float32, torch.float64})


def _put(array: Array, here: slice, device: torch.device) -> Tensor:
    """Return the pixels `here` of an array on the device, as floats or, where it is one, a mask."""
    part = array if array.shape[-1] == 1 and array.ndim == 2 else array[..., here]
    kind = part.dtype.newbyteorder("=")
    if kind.name not in _READ:
        kind = np.dtype(np.float64)  # torch knows no long double and few wide unsigned kinds
    if part.dtype != kind or not part.flags.writeable or any(s < 0 for s in part.strides):
        part = part.astype(kind)
    tensor = torch.from_numpy(part).to(device)
    return tensor if tensor.dtype in _KEPT else tensor.to(torch.float64)


def _solve_batch(
    batch: dict[str, Tensor], plan: Plan, shared: Shared | None, max_bytes: int, *, broken: bool
) -> dict[str, Tensor]:
    """Solve one batch of pixels that lies on the device and return every output of the plan."""
    y = batch["y"]
    if "masked" in batch:
        y = torch.where(batch["masked"], torch.nan, y)
    design: Shared | Tensor
    usable: Tensor | None
    if shared is not None:
        finite = shared.finite[:, None]
        usable = None if shared.plain_weights else (shared.root_weights > 0)[:, None]
        design = shared
    else:
        finite = usable = torch.isfinite(batch["rows"]).all(1)
        design = torch.where(finite[:, None], batch["rows"].to(torch.float64), 0.0)
    samples = weigh(
        y,
        nodata=plan.nodata,
        usable=usable,
        valid=batch.get("valid"),
        weights=batch["weights"].to(torch.float64) if "weights" in batch else None,
    )
    problem = Problem(
        y=samples.y,
        weights=samples.weights,
        nobs=samples.nobs,
        flags="weights" not in batch,
        design=design,
        rcond=plan.rcond,
    )
    wanted = set(plan.outputs)
    solution = least_squares.solve(
        problem,
        residual=bool(wanted & NEEDS_RESIDUAL),
        fitted=bool(wanted & NEEDS_FITTED),
        max_bytes=max_bytes,
    )
    status = _judge(samples, solution, plan, problem.p, broken=broken)
    no_answer = torch.isnan(solution.coef[0]) if problem.p else status > 0
    results = {"coef": solution.coef, "nobs": problem.nobs, "rank": solution.rank, "status": status}
    for name in plan.outputs:
        if name not in results:
            values = STATISTICS[name](problem, solution)
            if values.is_floating_point():
                values = torch.where(no_answer, torch.nan, values)
            results[name] = values
    if "fitted" in results:
        results["fitted"] = torch.where(finite, results["fitted"], torch.nan)
    return {name: results[name] for name in plan.outputs}


def _judge(samples: Weighed, solution: Solution, plan: Plan, p: int, *, broken: bool) -> Tensor:
    """Return the status of each pixel, (b,), and set coefficients without an answer to NaN."""
    coef, rank, nobs = solution.coef, solution.rank, samples.nobs
    failed = samples.broken | ~torch.isfinite(coef).all(0)
    if broken:
        failed = torch.ones_like(failed)
    # From the weakest fact to the strongest
    status = torch.where(rank < p, STATUS["rank_deficient"], STATUS["solved"])
    status = torch.where(nobs < plan.min_obs, STATUS["too_few_obs"], status)
    status = torch.where(nobs == 0, STATUS["no_data"], status)
    status = torch.where(failed, STATUS["failed"], status)
    blank = (status != STATUS["solved"]) & (status != STATUS["rank_deficient"])
    if not plan.keep_short:
        blank = status != STATUS["solved"]
    coef.masked_fill_(blank, torch.nan)
    rank.masked_fill_(failed, 0)
    return status


def _pixel_bytes(n: int, p: int, *, own: bool) -> int:
    """Return about how much working memory a pixel takes on its way through the solver."""
    r = min(n, p)
    samples, design = 10 * n, 2 * n * p if own else 0
    return 8 * (samples + r * (r + 1) + 8 * p + design)
