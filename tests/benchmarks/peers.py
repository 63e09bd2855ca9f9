"""Other ways to the same coefficients, each on the same arrays.

A peer is made ready first, which is not timed: what it takes is converted and its library is
imported. What is timed is a call without arguments that returns coefficients (p, pixels). Some
peers are libraries that need not be installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from tests.benchmarks.works import Arrays, flat

Floats = NDArray[Any]
Run = Callable[[], Floats]

COPY_BYTES = 128 * 2**20
"""Most memory for a copy of the design per pixel, in chunks of pixels."""


@dataclass(frozen=True)
class Peer:
    """One way to the coefficients.

    Attributes
    ----------
    ready : callable
        ``ready(arrays, pixels)`` returns the call that fits the first pixels.
    suits : callable
        Whether it can do a work.
    library : str, optional
        Distribution that has to be installed.
    module : str
        Its import name, where that is another.
    design : callable, optional
        Returns the design that it fits in place of the work's.
    """

    ready: Callable[[Arrays, int], Run]
    suits: Callable[[Arrays], bool]
    library: str = ""
    module: str = ""
    design: Callable[[Arrays], Floats] | None = None

    @property
    def installed(self) -> bool:
        return not self.library or importlib.util.find_spec(self.module or self.library) is not None

    @property
    def version(self) -> str:
        return f" {version(self.library)}" if self.library and self.installed else ""


def any_work(_: Arrays) -> bool:
    return True


def is_shared(arrays: Arrays) -> bool:
    return not isinstance(arrays.design, xr.DataArray)


def is_plain(arrays: Arrays) -> bool:
    return is_shared(arrays) and arrays.weights is None


def is_series(arrays: Arrays) -> bool:
    return is_plain(arrays) and arrays.dates is None and arrays.params < 10


def is_network(arrays: Arrays) -> bool:
    return arrays.dates is not None


# --------------------------------------------------------------------------------------------
# What users write by hand


def torch_loop(dtype: torch.dtype) -> Callable[[Arrays, int], Run]:
    """Return a loop of torch.linalg.solve over A'A, one pixel after another."""

    def ready(arrays: Arrays, pixels: int) -> Run:
        y = torch.from_numpy(arrays.y)[:, :pixels].to(dtype)
        weights = _weights(arrays, pixels, dtype)
        design, own = design_of(arrays, pixels, dtype)

        def run() -> Floats:
            coef = torch.full((arrays.params, pixels), torch.nan, dtype=dtype)
            for i in range(pixels):
                keep = torch.isfinite(y[:, i])
                rows = (design[:, :, i] if own else design)[keep]
                left = rows.T if weights is None else rows.T * weights[keep, i]
                try:
                    coef[:, i] = torch.linalg.solve(left @ rows, left @ y[keep, i])
                except torch.linalg.LinAlgError:
                    continue  # stays NaN
            return coef.numpy()

        return run

    return ready


def torch_batched(
    dtype: torch.dtype, device: str = "cpu", copy_bytes: int = COPY_BYTES
) -> Callable[[Arrays, int], Run]:
    """Return gaps filled with zeros, A'A for each pixel and a batched solve, chunk by chunk."""

    def ready(arrays: Arrays, pixels: int) -> Run:
        y = torch.from_numpy(arrays.y)[:, :pixels]
        weights = _weights(arrays, pixels, dtype)
        design, own = design_of(arrays, pixels, dtype)
        chunk = max(1, copy_bytes // (design.shape[0] * design.shape[1] * dtype.itemsize))
        shared = design.to(device)

        def run() -> Floats:
            coef = torch.full((arrays.params, pixels), torch.nan, dtype=dtype)
            for start in range(0, pixels, chunk):
                here = slice(start, min(start + chunk, pixels))
                samples = y[:, here].to(device, dtype).T  # (chunk, n)
                valid = torch.isfinite(samples)
                samples = torch.where(valid, samples, 0)
                rows = design[..., here].to(device).permute(2, 0, 1) if own else shared
                rows = rows * valid[:, :, None]  # (chunk, n, p)
                left = rows.mT
                if weights is not None:
                    left = left * weights[:, here].to(device).T[:, None, :]
                try:
                    x = torch.linalg.solve(left @ rows, left @ samples[:, :, None])
                except torch.linalg.LinAlgError:
                    continue  # one singular pixel stops its chunk, which stays NaN
                coef[:, here] = x[:, :, 0].T.cpu()
            return coef.numpy()

        return run

    return ready


def numpy_loop(arrays: Arrays, pixels: int) -> Run:
    """Return a loop of numpy.linalg.lstsq over the pixels, gaps dropped."""
    y = arrays.y[:, :pixels].astype(np.float64)
    weights = None if arrays.weights is None else flat(arrays.weights)[:, :pixels]
    roots = None if weights is None else np.sqrt(weights.astype(np.float64))
    own = not is_shared(arrays)

    def run() -> Floats:
        coef = np.empty((arrays.params, pixels))
        for i in range(pixels):
            keep = np.isfinite(y[:, i])
            rows, series = (arrays.rows(i) if own else arrays.design)[keep], y[keep, i]
            if roots is not None:
                rows, series = rows * roots[keep, i, None], series * roots[keep, i]
            coef[:, i] = np.linalg.lstsq(rows, series, rcond=None)[0]
        return coef

    return run


def _weights(arrays: Arrays, pixels: int, dtype: torch.dtype) -> torch.Tensor | None:
    if arrays.weights is None:
        return None
    return torch.from_numpy(flat(arrays.weights))[:, :pixels].to(dtype)


def design_of(arrays: Arrays, pixels: int, dtype: torch.dtype) -> tuple[torch.Tensor, bool]:
    """Return the design, (n, p), or (n, p, pixels) and True."""
    if isinstance(arrays.design, xr.DataArray):
        n, p = arrays.design.shape[:2]
        own = torch.from_numpy(arrays.design.values).reshape(n, p, -1)
        return own[..., :pixels].to(dtype), True
    return torch.from_numpy(arrays.design).to(dtype), False


# --------------------------------------------------------------------------------------------
# Libraries


def polyfit(arrays: Arrays, pixels: int) -> Run:
    """Return xarray's polyfit of as many terms, of the same samples."""
    dims = ("sample", "pixel")
    cube = xr.DataArray(arrays.y[:, :pixels], {"sample": arrays.cube["sample"].values}, dims)
    degree = arrays.params - 1
    return lambda: cube.polyfit("sample", degree)["polyfit_coefficients"].values


def powers(arrays: Arrays) -> Floats:
    """Return the design of `polyfit`, the highest degree first."""
    time = arrays.cube["sample"].values
    return time[:, None] ** np.arange(arrays.params - 1, -1, -1)


def nrt(arrays: Arrays, pixels: int) -> Run:
    """Return nrt.stats.nanlstsq: normal equations per pixel, compiled and parallel, float64."""
    from nrt.stats import nanlstsq

    design, y = arrays.design, arrays.y[:, :pixels].astype(np.float64)
    return lambda: nanlstsq(design, y)


def mintpy(arrays: Arrays, pixels: int) -> Run:
    """Return MintPy's function for interval velocities, pixel by pixel as MintPy calls it."""
    from mintpy.ifgram_inversion import estimate_timeseries

    velocities = np.asarray(arrays.design)
    crossed = velocities != 0
    last = crossed.shape[1] - 1 - crossed[:, ::-1].argmax(axis=1)
    before = crossed.argmax(axis=1) - 1
    incidence = np.zeros_like(velocities)  # of all dates but the first
    incidence[np.arange(len(last)), last] = 1.0
    incidence[before >= 0, before[before >= 0]] = -1.0
    assert arrays.dates is not None
    intervals = np.diff(arrays.dates).reshape(-1, 1)
    y = arrays.y[:, :pixels].astype(np.float64)
    weights = None if arrays.weights is None else flat(arrays.weights)[:, :pixels]
    roots = None if weights is None else np.sqrt(weights.astype(np.float64))

    def run() -> Floats:
        series = np.empty((arrays.params + 1, pixels))
        for i in range(pixels):
            series[:, i : i + 1] = estimate_timeseries(
                A=incidence,
                B=velocities,
                y=y[:, i],
                tbase_diff=intervals,
                weight_sqrt=None if roots is None else roots[:, i],
                min_norm_velocity=True,
                inv_quality_name="no",
                print_msg=False,
            )[0]
        return np.diff(series, axis=0) / intervals

    return run


def dolphin(arrays: Arrays, pixels: int) -> Run:
    """Return dolphin's censored_lstsq, or its weighted inversion; jax, float64, in chunks."""
    import jax
    from dolphin.timeseries import censored_lstsq, invert_stack

    jax.config.update("jax_enable_x64", True)
    design = np.asarray(arrays.design)
    y = arrays.y[:, :pixels].astype(np.float64)
    valid = np.isfinite(y)
    y = np.where(valid, y, 0.0)
    chunk = max(2, COPY_BYTES // design.nbytes)
    chunks = [slice(start, start + chunk) for start in range(0, pixels, chunk)]
    if arrays.weights is None:
        return lambda: np.concatenate(
            [np.asarray(censored_lstsq(design, y[:, c], valid[:, c])[0]) for c in chunks], axis=1
        )
    weights = np.where(valid, flat(arrays.weights)[:, :pixels].astype(np.float64), 0.0)

    def weighted(c: slice) -> Floats:
        found = invert_stack(design, y[:, None, c], weights[:, None, c])[0]
        return np.asarray(found).reshape(arrays.params, -1)

    return lambda: np.concatenate([weighted(c) for c in chunks], axis=1)


PEERS = {
    "torch.linalg.solve of A'A, loop, float32": Peer(torch_loop(torch.float32), any_work),
    "torch.linalg.solve of A'A, loop, float64": Peer(torch_loop(torch.float64), any_work),
    "zero-filled A'A, batched solve, float32": Peer(torch_batched(torch.float32), any_work),
    "zero-filled A'A, batched solve, float64": Peer(torch_batched(torch.float64), any_work),
    "numpy.linalg.lstsq, loop": Peer(numpy_loop, any_work),
    "xarray polyfit of as many terms": Peer(polyfit, is_series, design=powers),
    "nrt nanlstsq": Peer(nrt, is_plain, "nrt"),
    "MintPy estimate_timeseries": Peer(mintpy, is_network, "mintpy"),
    "dolphin (float64)": Peer(dolphin, is_shared, "dolphin"),
}
