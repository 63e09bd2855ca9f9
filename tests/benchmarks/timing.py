"""Time every way through a work, in turn, and see how far each answer lies from ours."""

from __future__ import annotations

import statistics
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

import xr_lstsq  # noqa: F401 - registers the accessor
from tests.benchmarks.floors import FLOORS
from tests.benchmarks.peers import PEERS, Floats, Peer, Run
from tests.benchmarks.works import Arrays

OURS = {"xr_lstsq, float64": "float64", "xr_lstsq, float32": "float32"}
FIRST_PIXELS = 64
LONG_SECONDS = 10.0
"""No way is repeated longer than this; one that takes longer runs once."""


@dataclass
class Row:
    """One way through a work.

    Attributes
    ----------
    name : str
    pixels : int
        How many it was timed on.
    seconds : list of float
        One for each repeat.
    difference : float, optional
        Largest relative difference from our float64 answer; None where there is none to compare.
    nan_share : float
        Share of the compared pixels without an answer.
    note : str
        Why there are no numbers.
    """

    name: str
    pixels: int = 0
    seconds: list[float] = field(default_factory=list)
    difference: float | None = None
    nan_share: float = 0.0
    note: str = ""

    @property
    def us(self) -> float:
        """Median time in microseconds a pixel; NaN where it was not timed."""
        if not self.seconds:
            return float("nan")
        return 1e6 * statistics.median(self.seconds) / self.pixels

    @property
    def spread(self) -> float:
        """Slowest over fastest repeat."""
        return max(self.seconds) / min(self.seconds) if self.seconds else float("nan")


def solve(
    arrays: Arrays,
    dtype: str = "float64",
    device: str = "cpu",
    stats: tuple[str, ...] = (),
    **method: Any,
) -> xr.Dataset:
    """Fit a work through the accessor."""
    fit: xr.Dataset = arrays.cube.lstsq.solve(
        arrays.design,
        "sample",
        weights=arrays.weights,
        dtype=dtype,
        device=device,
        stats=stats,
        **method,
    )
    return fit


def clear_pixels(fit: xr.Dataset, arrays: Arrays) -> np.ndarray:
    """Return True, (b,), where the rank is as high as the samples and the design allow.

    There the answer is unique, or the unique one of minimum norm.
    """
    most = np.linalg.matrix_rank(arrays.rows(0))
    nobs, rank = fit["nobs"].values.ravel(), fit["rank"].values.ravel()
    return (nobs > 0) & (rank == np.minimum(nobs, most))


def difference(coef: Floats, want: Floats, keep: np.ndarray) -> tuple[float | None, float]:
    """Return the largest relative difference of a pixel's coefficients, and the share of NaN.

    Relative to the largest coefficient of the pixel; both (p, b), on the pixels to keep.
    """
    coef, want = coef[:, keep].astype(np.float64), want[:, keep]
    gone = ~np.isfinite(coef).all(axis=0)
    if gone.all():
        return None, float(gone.any())
    off = np.abs(coef - want)[:, ~gone].max(axis=0) / np.abs(want)[:, ~gone].max(axis=0)
    return float(off.max()), float(gone.mean())


def clock(run: Run) -> tuple[float, Floats]:
    """Run once; return the seconds and the answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a peer's, about its own internals
        start = time.perf_counter()
        found = run()
        return time.perf_counter() - start, found


def measure(arrays: Arrays, repeats: int, seconds: float, *, with_peers: bool = True) -> list[Row]:
    """Time all that suit a work: everything once, then everything again, and so on.

    Parameters
    ----------
    arrays : Arrays
    repeats : int
        Repeats of what does not take long.
    seconds : float
        Peers are timed on as many pixels as take about so long.
    with_peers : bool, default: True

    Returns
    -------
    list of Row
        Ours, the floors, the peers.
    """
    b = arrays.pixels
    runs: dict[str, tuple[Row, Run]] = {}
    for name, dtype in OURS.items():
        runs[name] = Row(name, b), _ours(arrays, dtype)
    rows = [row for row, _ in runs.values()]
    fit = solve(arrays)
    want, keep = fit["coef"].values.reshape(arrays.params, -1), clear_pixels(fit, arrays)
    del fit
    others = {**FLOORS, **(PEERS if with_peers else {})}
    for name, peer in others.items():
        if not peer.suits(arrays):
            continue
        row = Row(f"{name}{peer.version}")
        rows.append(row)
        if not peer.installed:
            row.note = "not installed"
            continue
        try:
            pixels = b if name in FLOORS else _affordable(peer, arrays, seconds)
            run = peer.ready(arrays, pixels)
            answer = clock(run)[1]  # warm-up
        except ImportError as error:
            row.note = f"cannot be imported: {error}"
            continue
        except Exception as error:  # what stops a peer is its result
            row.note = f"raised {type(error).__name__}"
            continue
        row.pixels = pixels
        runs[name] = row, run
        if name not in FLOORS:
            own = want[:, :pixels] if peer.design is None else _with(peer, arrays, pixels)
            row.difference, row.nan_share = difference(answer, own, keep[:pixels])
    for turn in range(repeats):
        for name, (row, run) in runs.items():
            if turn and sum(row.seconds) + row.seconds[-1] > LONG_SECONDS:
                continue
            spent, answer = clock(run)
            row.seconds.append(spent)
            if turn == 0 and OURS.get(name) == "float32":
                row.difference, row.nan_share = difference(answer, want, keep)
    return rows


def _ours(arrays: Arrays, dtype: str) -> Run:
    return lambda: solve(arrays, dtype)["coef"].values.reshape(arrays.params, -1)


def _with(peer: Peer, arrays: Arrays, pixels: int) -> Floats:
    """Return our answer for the design that a peer fits."""
    assert peer.design is not None
    cube = xr.DataArray(arrays.y[:, :pixels], dims=("sample", "pixel"))
    return cube.lstsq.solve(peer.design(arrays), "sample", device="cpu")["coef"].values


def _affordable(peer: Peer, arrays: Arrays, seconds: float) -> int:
    """Return how many pixels a peer does in about so many seconds."""
    pixels = min(FIRST_PIXELS, arrays.pixels)
    while True:
        run = peer.ready(arrays, pixels)
        clock(run)  # compiles, where it does
        spent = clock(run)[0]
        if pixels == arrays.pixels or spent > seconds / 4:
            return max(1, min(arrays.pixels, int(pixels * seconds / spent)))
        pixels = min(arrays.pixels, 4 * pixels)
