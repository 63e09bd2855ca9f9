"""How time and memory grow, one size changed at a time: ``python -m tests.benchmarks.growth``.

Every point is measured in a process of its own, which makes a cube, fits it with a random design
and writes time and peak memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

import xr_lstsq  # noqa: F401 - registers the accessor
from tests.benchmarks import memory, page
from tests.benchmarks.works import COLUMNS, NOISE, generic, scattered

FIGURE = page.REFERENCE / "costs.svg"
SPARE_BYTES = 10**9
"""Memory that must be free beside input and output before a point is measured."""


@dataclass(frozen=True)
class Point:
    """Sizes of one fit.

    Attributes
    ----------
    pixels, n, p : int
    gaps : int
        Share of missing samples, in percent.
    chunks : int
        Chunks of a dask array along the pixels; 0 is a cube in memory.
    dtype : str
        Dtype of the answer.
    """

    pixels: int = 100_000
    n: int = 100
    p: int = 6
    gaps: int = 30
    chunks: int = 0
    dtype: str = "float64"

    @property
    def nbytes(self) -> int:
        """Bytes of input and output."""
        return self.pixels * (4 * self.n + np.dtype(self.dtype).itemsize * self.p + 9)


VALUES: dict[str, tuple[int, ...]] = {
    "pixels": (10_000, 100_000, 1_000_000, 10_000_000),
    "n": (10, 20, 50, 100, 200, 500),
    "p": (2, 5, 10, 20, 50, 100, 200),
    "gaps": (0, 10, 20, 30, 40, 50, 60, 70, 80, 90),
    "chunks": (0, 1, 10, 100, 1000),
}
LABELS = {
    "pixels": "pixels",
    "n": "samples n",
    "p": "params p",
    "gaps": "missing samples [%]",
    "chunks": "chunks",
}
PIXELS_OF_PARAMS = 4_000_000
"""Pixels times params along the axis `p`, at most: large systems on fewer pixels."""
SAMPLES = 40_000_000
"""Pixels times samples along the axis `n`, at most."""


def points(axis: str, base: Point) -> list[Point]:
    """Return the points along one axis."""
    found = []
    for value in VALUES[axis]:
        point = replace(base, **{axis: value})
        if axis == "p":
            point = replace(point, pixels=min(base.pixels, PIXELS_OF_PARAMS // value))
        if axis == "n":
            point = replace(point, pixels=min(base.pixels, SAMPLES // value))
        found.append(replace(point, pixels=_whole_rows(point)))
    return found


def _whole_rows(point: Point) -> int:
    """Return a number of pixels that makes a row for each chunk, at least."""
    columns = _columns(point)
    return columns * max(1, point.chunks, round(point.pixels / columns))


def _columns(point: Point) -> int:
    """Return the length of a row: short enough for a row in each of 1000 chunks."""
    return max(1, min(COLUMNS, point.pixels // max(VALUES["chunks"])))


def make_cube(point: Point) -> tuple[xr.DataArray, np.ndarray]:
    """Return cube and design; the cube is made one sample after another."""
    rng = np.random.default_rng(1)
    design, gaps = generic(point.n, point.p), scattered(point.gaps / 100)
    shape = (point.pixels // _columns(point), _columns(point))
    few = min(1000, point.pixels)  # the truth of so many pixels is repeated: less to hold
    truth = rng.standard_normal((point.p, few), dtype=np.float32)
    values = np.empty((point.n, *shape), np.float32)
    for row, image in zip(design.astype(np.float32), values, strict=True):
        rng.standard_normal(dtype=np.float32, out=image)
        image *= NOISE
        image += np.resize(row @ truth, point.pixels).reshape(shape)
        image[gaps(rng, shape)] = np.nan
    return xr.DataArray(values, dims=("sample", "y", "x")), design


def fit(cube: xr.DataArray, design: np.ndarray, point: Point) -> xr.Dataset:
    """Fit once, in memory or through dask's threads."""
    if point.chunks:
        cube = cube.chunk(y=-(-cube.sizes["y"] // point.chunks))
    found: xr.Dataset = cube.lstsq.solve(design, "sample", dtype=point.dtype, device="cpu")
    return found.compute(scheduler="threads")


def child(point: Point, repeats: int, seconds: float) -> None:
    """Measure one point in this process and write the report."""
    small = replace(point, pixels=200, chunks=min(point.chunks, 2))
    fit(*make_cube(small), small)  # imports and thread pools
    before = memory.peak_bytes()
    cube, design = make_cube(point)
    spent: list[float] = []
    output = peak = 0
    while len(spent) < repeats and (not spent or sum(spent) + spent[-1] < seconds):
        start = time.perf_counter()
        found = fit(cube, design, point)
        spent.append(time.perf_counter() - start)
        if len(spent) == 1:  # of the first fit: a later one starts while the last answer is there
            peak, output = memory.peak_bytes(), found.nbytes
    report = {
        "seconds": statistics.median(spent),
        "repeats": len(spent),
        "before": before,
        "peak": peak,
        "input": cube.nbytes,
        "output": output,
    }
    sys.stdout.write(json.dumps(report))


def measure(base: Point, options: argparse.Namespace) -> tuple[dict[str, list[Any]], list[str]]:
    """Measure all points; return (point, report) by axis, and what was skipped."""
    found: dict[str, list[Any]] = {axis: [] for axis in options.axes}
    skipped = []
    for axis in options.axes:
        for point in points(axis, base):
            free = memory.free_bytes()
            if free is not None and point.nbytes + SPARE_BYTES > free:
                skipped.append(f"{axis} {getattr(point, axis):,}: {point.nbytes / 1e9:.1f} GB of "
                               f"input and output, {free / 1e9:.1f} GB free")  # fmt: skip
                continue
            for dtype in ("float64", "float32"):
                this = replace(point, dtype=dtype)
                report = memory.in_a_process(
                    "growth", "--child", json.dumps(asdict(this)),
                    "--repeats", str(options.repeats), "--seconds", str(options.seconds),
                )  # fmt: skip
                found[axis].append((this, report))
                sys.stdout.write(f"{axis} {line(axis, this, report)}\n")
                sys.stdout.flush()
    return found, skipped


def line(axis: str, point: Point, report: dict[str, float]) -> list[str]:
    """Return one row of a table, as text."""
    return [
        f"{getattr(point, axis):,}",
        point.dtype,
        f"{point.pixels:,}",
        f"{1e6 * report['seconds'] / point.pixels:.3g}",
        f"{memory.extra(report) / 1e6:,.0f}",
        f"{report['input'] / 1e6:,.0f}",
        f"{report['output'] / 1e6:,.0f}",
        str(report["repeats"]),
    ]


def per_chunk(found: list[Any]) -> str:
    """Return what a chunk costs beside the fit of its pixels, in one sentence."""
    told = []
    for dtype in ("float64", "float32"):
        seconds = {p.chunks: report["seconds"] for p, report in found if p.dtype == dtype}
        most = max(seconds, default=0)
        if most > 1 and 0 in seconds:
            cost = 1e3 * (seconds[most] - seconds[0]) / most
            told.append(f"{cost:.2f} ms ({dtype}, {most:,} chunks)")
    return f"A chunk costs {' and '.join(told)} beside the fit of its pixels." if told else ""


def draw(found: dict[str, list[Any]], base: Point) -> None:
    """Draw time and memory along each axis into the figure of the page."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "costs"  # the same file from the same numbers
    drawing = Figure(figsize=(9, 2.6 * len(found)), layout="constrained")
    axes = drawing.subplots(len(found), 2, squeeze=False)
    for (axis, reports), (left, right) in zip(found.items(), axes, strict=True):
        for dtype, marker in (("float64", "o-"), ("float32", "s--")):
            chosen = [(p, r) for p, r in reports if p.dtype == dtype]
            x = [getattr(p, axis) for p, _ in chosen]
            times = [1e6 * r["seconds"] / p.pixels for p, r in chosen]
            left.plot(x, times, marker, label=f"{dtype} answer")
            right.plot(x, [memory.extra(r) / 1e6 for _, r in chosen], marker)
        left.set(yscale="log", ylabel="µs a pixel", xlabel=LABELS[axis])
        right.set(ylabel="MB beyond input\nand output", xlabel=LABELS[axis], ylim=(0, None))
        for panel in (left, right):
            panel.grid(alpha=0.3)
            if axis == "chunks":
                panel.set_xscale("symlog", linthresh=1)
                panel.set_xlim(-0.2, 1.5 * max(VALUES[axis]))
            elif axis != "gaps":
                panel.set_xscale("log")
    axes[0, 0].legend()
    drawing.suptitle(f"where not said: n {base.n}, p {base.p}, {base.gaps} % missing, "
                     f"{base.pixels:,} pixels")  # fmt: skip
    drawing.savefig(FIGURE, metadata={"Date": None})


def section(found: dict[str, list[Any]], skipped: list[str], base: Point) -> str:
    """Return the part of the page."""
    head = ["dtype", "pixels", "µs a pixel", "MB beyond", "MB input", "MB output", "repeats"]
    parts = [
        page.machine(),
        f"Where not said: n {base.n}, p {base.p}, {base.gaps} % missing at random, "
        f"{base.pixels:,} pixels; large n and p on fewer pixels, as the tables say.",
        f"![Time a pixel and peak memory along each size]({FIGURE.name})",
    ]
    for axis, reports in found.items():
        rows = [[LABELS[axis], *head], *(line(axis, point, report) for point, report in reports)]
        if axis == "pixels":  # once is enough
            rows = [row[:2] + row[3:] for row in rows]
        parts += [f"### {LABELS[axis][0].upper()}{LABELS[axis][1:]}", page.table(rows[0], rows[1:])]
        if axis == "chunks":
            parts += ["0 chunks: a cube in memory, no dask. " + per_chunk(reports)]
    if skipped:
        parts.append("Not measured, for want of memory: " + "; ".join(skipped) + ".")
    return "\n\n".join(parts)


def main() -> None:
    """Measure, print, and write the page where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.growth", description=__doc__)
    parser.add_argument("axes", nargs="*", help=f"default: all of {', '.join(VALUES)}")
    parser.add_argument("--pixels", type=int, default=Point.pixels, help="where they do not grow")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="most for the repeats of a point"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"into docs/reference/{page.PAGE.name}"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Point(**json.loads(options.child)), options.repeats, options.seconds)
        return
    options.axes = options.axes or list(VALUES)
    unknown = set(options.axes) - set(VALUES)
    if unknown:
        parser.error(f"unknown axes: {', '.join(sorted(unknown))}. Known: {', '.join(VALUES)}")
    base = Point(pixels=options.pixels)
    found, skipped = measure(base, options)
    told = section(found, skipped, base)
    sys.stdout.write(told + "\n")
    if options.write:
        draw(found, base)
        page.write_section("growth", told)


if __name__ == "__main__":
    main()
