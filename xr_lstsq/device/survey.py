"""Look at a few pixels before a solve: their lanes, the batches, and how long they take."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xr_lstsq.device.batch import BatchSolver
from xr_lstsq.device.batches import in_batches
from xr_lstsq.device.inputs import read_inputs
from xr_lstsq.device.lease import Lease, lease, resolve
from xr_lstsq.device.plan import Plan
from xr_lstsq.device.scratch import Scratch
from xr_lstsq.device.staged import solve_in_stages
from xr_lstsq.solvers import least_squares
from xr_lstsq.solvers.factor import Factor
from xr_lstsq.solvers.least_squares import Lane
from xr_lstsq.solvers.precision import Precision

__all__ = ["Survey", "survey"]

Array = NDArray[Any]

GPU_PIXELS = 2**18
"""Pixels that keep a GPU about as busy as a large block does."""
REPEATED = 0.2
"""Share of pixels for the rank-revealing lane up to which pixels are repeated to be timed."""


@dataclass(frozen=True)
class Survey:
    """What a few pixels say of all the others.

    Attributes
    ----------
    device : str
        Where they were solved.
    cores : int
        Batches that the device solves side by side, as far as this makes it faster.
    precision : str
        Number types in which pixels are solved first.
    batch_pixels, batch_bytes : int
        Pixels of a batch and the working memory it takes, in bytes.
    lanes : dict of str to int
        Number of pixels that start in each lane, apart from lanes that none takes.
    again : dict of str to int
        How many of them their lane cannot keep, so that another solver takes them.
    seconds : float
        Working time of a pixel on one core.
    """

    device: str
    cores: int
    precision: str
    batch_pixels: int
    batch_bytes: int
    lanes: dict[str, int]
    again: dict[str, int]
    seconds: float


def survey(
    cube: Array,
    *,
    plan: Plan,
    block_pixels: int,
    design: Factor | Array,
    weights: Array | None = None,
    valid: Array | None = None,
) -> Survey:
    """Solve a few pixels, twice, and say how that went.

    Parameters
    ----------
    cube, plan, design, weights, valid
        As of `solve_block`.
    block_pixels : int
        Pixels of the largest block that is to be solved.

    Raises
    ------
    DeviceError
        When the device is not there, or not even one pixel fits into its memory.
    """
    n, b = cube.shape[plan.axis], math.prod(np.delete(cube.shape, plan.axis).tolist())
    own = None if isinstance(design, Factor) else design
    inputs = read_inputs(cube, plan, rows=own, weights=weights, valid=valid)
    device = resolve(plan.device)
    with lease(device) as held:
        solver = BatchSolver.of(plan, design, device)
        first = solver.stages[0]
        assert first is not None  # the solver that leaves no pixel is the last
        pixel_bytes = solver.bytes_of_a_pixel(inputs, first)
        lanes, again = _lanes(solver, inputs, b, pixel_bytes, first, held)
        batch_pixels = min(block_pixels, held.allowed_bytes(plan.max_bytes) // pixel_bytes)
        # On a GPU, batches side by side share one processor
        cores = held.workers() if device.type == "cpu" else 1
        seconds = 0.0
        if b:
            # As many as keep every core busy, since cores that share memory slow each other down.
            # Not where solved with care: equal gaps share a factorisation, and would look cheap
            busy = cores * batch_pixels if device.type == "cpu" else min(GPU_PIXELS, block_pixels)
            hard = lanes.get(Lane.MINIMUM_NORM.name.lower(), 0) + sum(again.values())
            copies = max(1, busy // b) if hard <= REPEATED * b else 1
            many = {
                key: array if array.shape == (n, 1) and b > 1 else np.tile(array, copies)
                for key, array in inputs.items()
            }
            busy = max(1, min(cores, -(-b * copies // batch_pixels)))
            for _ in range(2):  # the first warms up
                seconds = _seconds(solver, many, batch_pixels, held) * busy / (b * copies)
        return Survey(
            device=_named(device),
            cores=cores,
            precision=first.name,
            batch_pixels=batch_pixels,
            batch_bytes=batch_pixels * pixel_bytes,
            lanes=lanes,
            again=again,
            seconds=seconds,
        )


def _lanes(
    solver: BatchSolver,
    inputs: dict[str, Array],
    b: int,
    pixel_bytes: int,
    precision: Precision,
    held: Lease,
) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many pixels each lane takes, and how many of these it cannot keep."""
    if precision.last:
        # Leaves what its lanes cannot keep, which float64 would solve at once where it is much
        precision = replace(precision, trusted=sys.float_info.min)

    def work(here: slice, scratch: Scratch) -> tuple[Tensor, Tensor]:
        batch = {key: scratch.put(array, here) for key, array in inputs.items()}
        _, problem, _ = solver.read(batch, precision, scratch.workspace)
        lanes = least_squares.choose(problem)
        left = least_squares.solve(problem).left & (lanes != Lane.MINIMUM_NORM)
        return _counts(lanes), _counts(lanes[left])

    parts = in_batches(work, b, pixel_bytes, solver.plan.max_bytes, held)
    empty = torch.zeros(len(Lane), dtype=torch.int64)
    taken = sum((part[0] for part in parts), empty).tolist()
    left = sum((part[1] for part in parts), empty).tolist()
    names = {lane.name.lower(): int(lane) for lane in Lane if taken[lane]}
    return (
        {name: taken[lane] for name, lane in names.items()},
        {name: left[lane] for name, lane in names.items()},
    )


def _counts(lanes: Tensor) -> Tensor:
    """Return how often each lane stands there, (number of lanes,) on the host."""
    return torch.bincount(lanes, minlength=len(Lane)).cpu()


def _seconds(solver: BatchSolver, inputs: dict[str, Array], most: int, held: Lease) -> float:
    """Return how long it takes to solve all pixels, in batches of `most` at most, as blocks are."""

    def store(results: dict[str, Array], _: slice | Array) -> None:
        for values in results.values():
            np.array(values)

    started = time.perf_counter()
    solve_in_stages(solver, inputs, held, store, most=most)
    return time.perf_counter() - started


def _named(device: torch.device) -> str:
    """Return what to call a device."""
    if device.type == "cpu":
        return "cpu"
    return f"{device} ({torch.cuda.get_device_name(device)})"
