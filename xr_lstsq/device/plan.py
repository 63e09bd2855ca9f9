"""What a block needs to know beside its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Plan"]


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
