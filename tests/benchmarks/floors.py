"""The least that any way must do: no answer, but what one costs at the least."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import xarray as xr

from tests.benchmarks.peers import Peer, Run, any_work, design_of, is_shared
from tests.benchmarks.works import Arrays, flat


def gemm(dtype: torch.dtype) -> Callable[[Arrays, int], Run]:
    """Return one matrix product A+ Y into a new array, gaps filled beforehand."""

    def ready(arrays: Arrays, pixels: int) -> Run:
        y = torch.nan_to_num(torch.from_numpy(arrays.y)[:, :pixels]).to(dtype).contiguous()
        inverse = torch.from_numpy(np.linalg.pinv(arrays.design)).to(dtype)
        return lambda: (inverse @ y).numpy()

    return ready


def read(arrays: Arrays, pixels: int) -> Run:
    """Return a sum over the cube, and over weights and designs per pixel where there are any."""
    parts: list[torch.Tensor] = [torch.from_numpy(arrays.y)[:, :pixels]]
    if arrays.weights is not None:
        parts.append(torch.from_numpy(flat(arrays.weights))[:, :pixels])
    if isinstance(arrays.design, xr.DataArray):
        parts.append(design_of(arrays, pixels, torch.float32)[0])
    return lambda: np.array([float(part.sum()) for part in parts])


FLOORS = {
    "floor: one GEMM A+ Y, float32": Peer(gemm(torch.float32), is_shared),
    "floor: one GEMM A+ Y, float64": Peer(gemm(torch.float64), is_shared),
    "floor: reading the input once": Peer(read, any_work),
}
