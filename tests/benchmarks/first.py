"""Time and peak memory of a plain fit beside a loop of numpy.linalg.lstsq.

Run ``python -m tests.benchmarks.first``. A float32 numpy cube of 100 samples and 200,000 pixels,
30 % of it missing at random, is fitted with a trend and two harmonics (6 params) on the CPU
through the accessor. The loop drops the gaps of each pixel and solves what is left, for a sample
of the pixels. Peak memory is that of a process that makes the cube and fits it once.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import xarray as xr

SAMPLES, PARAMS, MISSING = 100, 6, 0.3
ROWS, COLUMNS = 400, 500
LOOP_PIXELS = 2000
TARGET_RATIO, TARGET_EXTRA = 20.0, 500e6


def design() -> np.ndarray:
    """Return trend and two annual harmonics over four years, shape (n, p)."""
    t = np.linspace(0.0, 4.0, SAMPLES)
    angle = 2 * np.pi * t
    columns = [
        np.ones(SAMPLES),
        t,
        np.cos(angle),
        np.sin(angle),
        np.cos(2 * angle),
        np.sin(2 * angle),
    ]
    return np.stack(columns, axis=1)


def make_cube(rows: int = ROWS, columns: int = COLUMNS) -> xr.DataArray:
    """Return the cube, made one sample after another: making it must not set the peak."""
    rng = np.random.default_rng(1)
    matrix = design().astype(np.float32)
    truth = rng.normal(size=(PARAMS, rows * columns)).astype(np.float32)
    values = np.empty((SAMPLES, rows * columns), np.float32)
    for row, value in zip(matrix, values, strict=True):
        np.matmul(row, truth, out=value)
        value += 0.1 * rng.standard_normal(value.size, dtype=np.float32)
        value[rng.random(value.size, dtype=np.float32) < MISSING] = np.nan
    return xr.DataArray(values.reshape(SAMPLES, rows, columns), dims=("time", "y", "x"))


def fit(cube: xr.DataArray) -> xr.Dataset:
    """Fit the cube on the CPU."""
    import xr_lstsq  # noqa: F401 - registers the accessor; here, so that its import can be timed

    return cube.lstsq.solve(design(), "time", device="cpu")


def loop(cube: xr.DataArray, pixels: int) -> np.ndarray:
    """Fit the first pixels one by one, in float64; coefficients (p, pixels)."""
    y, matrix = cube.values.reshape(SAMPLES, -1)[:, :pixels], design()
    coef = np.empty((PARAMS, pixels))
    for i in range(pixels):
        series = y[:, i]
        keep = np.isfinite(series)
        coef[:, i] = np.linalg.lstsq(matrix[keep], series[keep].astype(np.float64), rcond=None)[0]
    return coef


def child() -> None:
    """Fit once and report the peak memory of this process, in bytes."""
    cube = make_cube()
    result = fit(cube)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    report = {"peak": peak, "input": cube.nbytes, "output": result.nbytes}
    sys.stdout.write(json.dumps(report))


def measure(repeats: int) -> dict[str, float]:
    """Return seconds per pixel of both, their ratio, and the peak memory beside its limit."""
    cube = make_cube()
    fit(cube.isel(y=slice(2)))  # imports torch
    ours, loops = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        result = fit(cube)
        ours.append((time.perf_counter() - start) / (ROWS * COLUMNS))
        start = time.perf_counter()
        coef = loop(cube, LOOP_PIXELS)
        loops.append((time.perf_counter() - start) / LOOP_PIXELS)
    got = result["coef"].values.reshape(PARAMS, -1)[:, :LOOP_PIXELS]
    np.testing.assert_allclose(got, coef, rtol=1e-10, atol=1e-12)
    command = [sys.executable, "-m", "tests.benchmarks.first", "--child"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {
        "fit_us": 1e6 * statistics.median(ours),
        "loop_us": 1e6 * statistics.median(loops),
        "ratio": statistics.median(loops) / statistics.median(ours),
        "peak": report["peak"],
        "limit": report["input"] + report["output"] + TARGET_EXTRA,
    }


def main() -> None:
    """Measure, and print what was measured beside what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child()
        return
    found = measure(arguments.repeats)
    sys.stdout.write(
        f"fit {found['fit_us']:.2f} us a pixel, numpy.linalg.lstsq loop {found['loop_us']:.1f}: "
        f"{found['ratio']:.0f} times faster (wanted: {TARGET_RATIO:.0f})\n"
        f"peak memory {found['peak'] / 1e6:.0f} MB (wanted: at most {found['limit'] / 1e6:.0f})\n"
    )


if __name__ == "__main__":
    main()
