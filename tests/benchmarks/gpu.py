"""The works on CUDA against the CPU: ``python -m tests.benchmarks.gpu``.

Ends inside 8 minutes: what would start too late is left out, and the table says so. Exits with 2
where torch sees no CUDA device, with 1 where the answers differ.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
import xarray as xr

from tests.benchmarks import page
from tests.benchmarks.peers import torch_batched
from tests.benchmarks.timing import OURS, clear_pixels, difference, solve
from tests.benchmarks.works import ON_A_CARD, WORKS, Arrays, make

BOUNDS = {"float64": 1e-9, "float32": 1e-4}
"""Largest difference from the CPU's float64 answer, over the pixel's largest coefficient."""
EXACT = ("nobs", "rank", "status")
CPU_SECONDS = 10.0
COPY_BYTES = 4 * 2**30
"""The zero-filled solve's copies of the design, a chunk at a time."""
NO_LATER_THAN = 360.0
"""Seconds after which no further work is started; one takes far less than what is left to 480."""


@dataclass
class Row:
    """What one work took and how far the answers lie apart.

    Attributes
    ----------
    work : str
    dtype : str
        Of the answer.
    pixels, cpu_pixels : int
    ours, cpu, zero_filled : float
        Microseconds a pixel: on the card, on the CPU, and the batched zero-filled solve on the
        card; NaN where not measured.
    bytes : int
        Most memory of the card that torch held.
    off : float
        Largest difference from the CPU's float64 answer.
    faults : list of str
        What the CPU and the card do not agree on.
    """

    work: str
    dtype: str
    pixels: int
    cpu_pixels: int
    ours: float
    cpu: float
    zero_filled: float
    bytes: int
    off: float
    faults: list[str] = field(default_factory=list)


def median(run: Callable[[], object], repeats: int) -> float:
    """Return the median time in seconds; all runs end with their answer in host memory."""
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def on_the_cpu(arrays: Arrays) -> tuple[Arrays, xr.Dataset]:
    """Return as many pixels as the CPU does in its time, and its float64 answer for them."""
    few = arrays.first(min(1000, arrays.pixels))
    solve(few)
    seconds = median(lambda: solve(few), 1)
    most = max(few.pixels, int(few.pixels * CPU_SECONDS / seconds))
    part = arrays.first(min(arrays.pixels, most))
    return part, solve(part)


def faults(
    got: xr.Dataset, want: xr.Dataset, keep: np.ndarray, bound: float
) -> tuple[float, list[str]]:
    """Compare the first pixels of an answer; return the largest difference and what is wrong."""
    wrong = []
    for name in EXACT:
        a, b = got[name].values.ravel()[: keep.size], want[name].values.ravel()
        if (a != b).any():
            wrong.append(f"{name} differs at {(a != b).sum()} pixels")
    p = want.sizes["param"]
    ours = got["coef"].values.reshape(p, -1)[:, : keep.size]
    off, gone = difference(ours, want["coef"].values.reshape(p, -1), keep)
    if gone:
        wrong.append(f"no answer at {gone:.2%} of the pixels")
    off = float("inf") if off is None else off
    if not off <= bound:
        wrong.append(f"coef is off by {off:.0e}, more than {bound:.0e}")
    return off, wrong


def measure(name: str, arrays: Arrays, device: str, repeats: int) -> list[Row]:
    """Fit a work on a device and on the CPU, and by the zero-filled solve on the device."""
    part, want = on_the_cpu(arrays)
    keep = clear_pixels(want, part)
    rows = []
    for dtype in OURS.values():
        solve(arrays.first(min(1000, arrays.pixels)), dtype, device)  # kernels, allocator
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        got = solve(arrays, dtype, device)
        held = torch.cuda.max_memory_allocated() if device == "cuda" else 0
        off, wrong = faults(got, want, keep, BOUNDS[dtype])
        ours = median(lambda dtype=dtype: solve(arrays, dtype, device), repeats)
        cpu = median(lambda dtype=dtype: solve(part, dtype), 1)
        batched = torch_batched(getattr(torch, dtype), device, COPY_BYTES)(arrays, arrays.pixels)
        batched()
        zero_filled = median(batched, repeats)
        to_us = 1e6 / arrays.pixels
        rows.append(Row(
            name, dtype, arrays.pixels, part.pixels, ours * to_us, 1e6 * cpu / part.pixels,
            zero_filled * to_us, held, off, wrong,
        ))  # fmt: skip
    return rows


def line(row: Row) -> list[str]:
    """Return one row of the table, as text."""
    return [
        row.work,
        row.dtype,
        f"{row.pixels:,}",
        f"{row.ours:.3g}",
        f"{row.cpu:.3g}",
        f"{row.cpu_pixels:,}",
        f"{row.cpu / row.ours:.3g}",
        f"{row.zero_filled:.3g}",
        f"{row.zero_filled / row.ours:.3g}",
        f"{row.bytes / 1e6:,.0f}",
        f"{row.off:.0e}",
        "; ".join(row.faults) or "the same",
    ]


HEAD = [
    "work",
    "dtype",
    "pixels",
    "µs a pixel",
    "CPU µs",
    "CPU pixels",
    "CPU / GPU",
    "zero-filled µs",
    "zero-filled / GPU",
    "MB held",
    "difference",
    "nobs, rank, status",
]


def run(names: list[str], pixels: int | None, device: str, repeats: int) -> tuple[str, list[Row]]:
    """Measure the works on a device; return the part of the page and the rows."""
    start = time.perf_counter()
    rows: list[Row] = []
    late = []
    for name in names:
        if time.perf_counter() - start > NO_LATER_THAN:
            late.append(name)
            continue
        found = measure(name, make(name, pixels), device, repeats)
        rows += found
        for row in found:
            sys.stdout.write(f"{time.perf_counter() - start:4.0f} s  {line(row)}\n")
        sys.stdout.flush()
    parts = [
        page.machine(cuda=device == "cuda"),
        page.table(HEAD, [line(row) for row in rows]),
        "*CPU pixels*: the CPU fits the first pixels only where all would take long; answers are "
        "compared there. *zero-filled*: gaps filled with zeros, A'A for each pixel and "
        "`torch.linalg.solve`, in the dtype of the answer, on the same card. *difference*: from "
        "the CPU's float64 answer, over the pixel's largest coefficient; at most "
        + " and ".join(f"{bound:.0e} ({dtype})" for dtype, bound in BOUNDS.items())
        + ", else the last column says so.",
    ]
    if late:
        parts.append(f"Left out, for want of time: {', '.join(late)}.")
    return "\n\n".join(parts), rows


def main() -> None:
    """Measure, print, and write the page where that is asked for."""
    works = {**ON_A_CARD, **WORKS}
    options = page.read(page.parser("python -m tests.benchmarks.gpu", __doc__, works), works)
    if not torch.cuda.is_available():
        sys.stdout.write(f"torch {torch.__version__} sees no CUDA device: nothing measured\n")
        sys.exit(2)
    told, rows = run(options.works or list(works), options.pixels, "cuda", options.repeats)
    sys.stdout.write(told + "\n")
    if options.write:
        page.write_section("gpu", told)
    sys.exit(1 if any(row.faults for row in rows) else 0)


if __name__ == "__main__":
    main()
