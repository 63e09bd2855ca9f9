"""Solve the pixels of a block in stages, each of which takes what the one before left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xr_lstsq import clock
from xr_lstsq.device.batch import BatchSolver
from xr_lstsq.device.batches import in_batches
from xr_lstsq.device.lease import Lease
from xr_lstsq.device.scratch import Scratch
from xr_lstsq.solvers.precision import Precision

__all__ = ["solve_in_stages"]

Array = NDArray[Any]
Store = Callable[[dict[str, Array], "slice | Array"], None]


def solve_in_stages(
    solver: BatchSolver,
    inputs: dict[str, Array],
    held: Lease,
    store: Store,
    *,
    most: int | None = None,
) -> None:
    """Solve all pixels.

    Parameters
    ----------
    solver : BatchSolver
        With the design on the device.
    inputs : dict of str to array
        From `read_inputs`.
    held : Lease
        The device.
    store : callable
        ``store(results, pixels)`` is called for every batch with its arrays, by several threads.
        A pixel may come again, with the answer that counts.
    most : int, optional
        Most pixels of a batch.
    """
    max_bytes = solver.plan.max_bytes
    every = np.arange(inputs["y"].shape[1])
    left = every
    for precision in solver.stages:
        some = left

        def work(
            here: slice,
            scratch: Scratch,
            some: Array = some,
            precision: Precision | None = precision,
        ) -> Array:
            at = here if some is every else some[here]  # a slice is cut without a copy
            with clock.stage("copy"):
                batch = {key: scratch.put(array, at) for key, array in inputs.items()}
            with clock.stage("solve"):
                results, left = solver.run(batch, scratch.nbytes, precision, scratch.workspace)
                scratch.wait()
            with clock.stage("copy"):
                store({name: scratch.get(values) for name, values in results.items()}, at)
                kept: Array = some[here][scratch.get(left)]
            return kept

        pixel_bytes = solver.bytes_of_a_pixel(inputs, precision)
        if most is not None:
            pixel_bytes = max(pixel_bytes, held.allowed_bytes(max_bytes) // most)
        parts = in_batches(work, some.size, pixel_bytes, max_bytes, held)
        # Few, so gathered over all batches
        left = np.sort(np.concatenate([every[:0], *parts]))
