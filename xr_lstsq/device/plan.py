"""What a block needs to know beside its arrays, and what follows from it for its pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from xr_lstsq.device.lease import slow_in_float64
from xr_lstsq.method import Method
from xr_lstsq.outputs import Output
from xr_lstsq.solvers.precision import DOUBLE, MIXED, SINGLE, Precision
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.solvers.wanted import NOTHING, Wanted

__all__ = ["Plan", "bytes_of_a_pixel", "stages"]


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
    outputs : tuple of Output
        The arrays to return, in this order.
    method : Method
        How statistics are made.
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
    to_coef : ndarray, shape (p, p), optional
        What turns the solver's coefficients into those of the params, where the design is given in
        a basis of its own.
    required : (ndarray of bool, shape (k, n), int), optional
        Groups of samples, and how many of each group a pixel needs.
    constraint : ndarray, shape (k, p), optional
        Weak rows for pixels of short rank (see `solvers.tied`).
    """

    axis: int
    axes: Mapping[str, tuple[int, ...]]
    outputs: tuple[Output, ...]
    method: Method = field(default_factory=Method)
    nodata: tuple[float, ...] = ()
    min_obs: int = 1
    keep_short: bool = True
    rcond: float | None = None
    dtype: str = "float64"
    device: str = "auto"
    max_bytes: int | None = None
    to_coef: NDArray[np.float64] | None = None
    required: tuple[NDArray[np.bool_], int] | None = None
    constraint: NDArray[np.float64] | None = None


def stages(
    plan: Plan, shared: Shared | None, wanted: Wanted, device: torch.device
) -> tuple[Precision | None, ...]:
    """Return in which precisions pixels are solved, in turn: each takes what the one before left.

    Parameters
    ----------
    plan : Plan
        With the dtype of the answer.
    shared : Shared or None
        The design, unless each pixel has its own.
    wanted : Wanted
        What is asked beside coefficients.
    device : torch.device
        Where.

    Returns
    -------
    tuple of Precision or None
        The cheapest that does for most pixels, then float64, then, as None, the solver that leaves
        no pixel.
    """
    first: tuple[Precision, ...] = ()
    # Whitened rows have a condition of their own, and whether a constant lies in a span is a matter
    # of float64's digits
    exact = plan.method.noise is not None or plan.to_coef is not None or "constant" in wanted.facts
    if not exact and (shared is None or (shared.single and shared.tau < 1)):
        if plan.dtype == "float32":
            first = (SINGLE,)
        # An inverse is not refined, and has the digits of the systems
        elif shared is not None and not wanted.least_eigenvalue and slow_in_float64(device):
            first = (MIXED,)
    return (*first, DOUBLE, None)


def bytes_of_a_pixel(
    n: int, p: int, precision: Precision | None, *, own: bool, wanted: Wanted = NOTHING
) -> int:
    """Return about how much working memory a pixel takes on its way through the solver.

    Copies of its samples, of coefficients, a packed system, its design if it has its own, and what
    is asked beside coefficients. The system of a wide design (n <= p) is that of its gaps, which
    are few beside n.
    """
    samples, coefficients, design = 6 * n, 4 * p, 2 * n * p if own else 0
    system = n * n // 8 if n <= p else p * (p + 1) // 2
    size = (precision or DOUBLE).samples.itemsize
    return size * (samples + coefficients + system + design + wanted.numbers_of_a_pixel(n, p))
