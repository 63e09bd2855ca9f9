"""Time and memory of runs from file to file: ``python -m tests.benchmarks.files``."""

from __future__ import annotations

import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

from tests.benchmarks import memory, page
from tests.large import write_cube
from xr_lstsq import runs

DESIGN = "polynomial(1) + harmonics(1, 2)"
PACKED = (100, 3162, 3162)
"""1e9 samples: 2 GB as int16."""
LARGE = (100, 5500, 5500)
"""12.1 GB as float32."""
MOST = "1GB"
ROWS = 125
"""Rows that xarray reads at a time, as many bytes as a chunk of a run."""
SMALL = (20, 400, 400)
SIDE = 10
SLOW_DESIGN = "polynomial(2) + harmonics(1, 13)"
"""29 params, so that a chunk takes about a second."""
SLOW = (200, 1200, 1200)
SLOW_CHUNK = {"y": 200, "x": 600}


def seconds(work: Callable[[], object]) -> float:
    """Return the time that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def read(path: Path) -> None:
    """Read a cube by xarray alone, as numbers, some rows at a time."""
    with xr.open_dataset(path) as cube:
        for start in range(0, cube.sizes["y"], ROWS):
            _ = cube["ndvi"][:, start : start + ROWS].to_numpy()


def netcdf(folder: Path, repeats: int) -> str:
    """Time a run from netCDF to netCDF beside reading and writing as much by xarray alone."""
    source, output = folder / "packed.nc", folder / "fit.nc"
    write_cube(source, PACKED, packed=True)
    solve = functools.partial(runs.solve_file, source, output, DESIGN)
    stages = solve().stages
    fit = xr.load_dataset(output)
    for variable in fit.variables.values():
        variable.encoding = {}
    spent: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, work in {
            "read, by xarray": functools.partial(read, source),
            "write, by xarray": functools.partial(fit.to_netcdf, folder / "other.nc"),
            "xr_lstsq": solve,
        }.items():
            spent.setdefault(name, []).append(seconds(work))
    median = {name: statistics.median(times) for name, times in spent.items()}
    alone = median["read, by xarray"] + median["write, by xarray"]
    rows = [
        [name, f"{value:.1f}", f"{value / alone:.2f}", f"{max(spent[name]) / min(spent[name]):.1f}"]
        for name, value in median.items()
    ]
    sizes = f"{source.stat().st_size / 1e9:.2f} GB int16, {fit.nbytes / 1e9:.2f} GB of results"
    head = ["", "s", "times read and write", "spread"]
    told = ", ".join(f"{name} {took:.1f}" for name, took in stages.items())
    return (
        f"### From netCDF to netCDF\n\nn {PACKED[0]}, p 6, {PACKED[1] * PACKED[2]:,} pixels, 30 % "
        f"missing; {sizes}, float64 answer. Aim: at most 1.5.\n\n{page.table(head, rows)}\n\n"
        f"Stages of a run, seconds of all threads together: {told}."
    )


def bounded(folder: Path, _repeats: int) -> str:
    """Measure the peak memory of runs over a cube of 12 GB."""
    source = folder / "large.nc"
    write_cube(source, LARGE, packed=False)
    rows = []
    for name in ("fit.nc", "fit.zarr"):
        found = memory.in_a_process("files", "run", str(source), str(folder / name))
        pixels = LARGE[1] * LARGE[2]
        rows.append(
            [
                f"--max-memory {MOST} -o {name}",
                f"{found['peak'] / 1e9:.2f}",
                f"{found['seconds']:.0f}",
                f"{1e6 * found['seconds'] / pixels:.2f}",
            ]
        )
    source.unlink()
    head = ["", "peak, GB", "s", "µs a pixel"]
    return (
        f"### A cube larger than memory\n\nn {LARGE[0]}, p 6, {LARGE[1] * LARGE[2]:,} pixels, 30 % "
        f"missing, {4 * np.prod(LARGE, dtype=float) / 1e9:.1f} GB float32 in netCDF; peak of the "
        f"whole process. Aim: under 1.6 GB.\n\n{page.table(head, rows)}"
    )


def regions(folder: Path, repeats: int) -> str:
    """Time what a chunk costs beside its solution, in a run of many small ones into Zarr."""
    source = folder / "small.nc"
    write_cube(source, SMALL, packed=True, chunks=(SMALL[0], SIDE, SIDE))
    chunks = SMALL[1] // SIDE * (SMALL[2] // SIDE)
    spent: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, size in {"many": SIDE, "one": -1}.items():
            work = functools.partial(
                runs.solve_file,
                source,
                folder / "fit.zarr",
                DESIGN,
                chunks={"y": size, "x": size},
                stats=("stderr", "rsquared", "rmse"),
            )
            spent.setdefault(name, []).append(seconds(work))
    median = {name: statistics.median(times) for name, times in spent.items()}
    each = 1e3 * (median["many"] - median["one"]) / chunks
    return (
        f"### What a chunk costs\n\n{chunks:,} chunks of {SIDE} by {SIDE} pixels against a single "
        "one, with 7 variables into a Zarr store with its ledger: "
        f"{median['many']:.1f} s against {median['one']:.1f} s, so {each:.1f} ms a chunk (reading, "
        "graph, seven durable objects and the ledger). Aim: under 20 ms."
    )


def workers(folder: Path, repeats: int) -> str:
    """Time a run on one and on two worker processes of a thread each."""
    import distributed

    source = folder / "slow.nc"
    write_cube(source, SLOW, packed=False, chunks=(SLOW[0], 100, 100))
    chunks = SLOW[1] // SLOW_CHUNK["y"] * (SLOW[2] // SLOW_CHUNK["x"])
    spent: dict[int, list[float]] = {1: [], 2: []}
    clusters = {
        n: distributed.LocalCluster(
            n_workers=n, threads_per_worker=1, memory_limit="4GB", dashboard_address=None
        )
        for n in spent
    }
    for turn in range(repeats + 1):
        for n, cluster in clusters.items():
            took = seconds(
                functools.partial(
                    runs.solve_file,
                    source,
                    folder / "slow.zarr",
                    SLOW_DESIGN,
                    chunks=SLOW_CHUNK,
                    scheduler=cluster.scheduler_address,
                )
            )
            if turn:  # the first one imports
                spent[n].append(took)
    for cluster in clusters.values():
        cluster.close()
    median = {n: statistics.median(times) for n, times in spent.items()}
    rows = [[str(n), f"{took:.1f}", f"{median[1] / took:.2f}"] for n, took in median.items()]
    return (
        f"### Worker processes\n\nn {SLOW[0]}, p 29, {chunks} chunks of "
        f"{SLOW_CHUNK['y'] * SLOW_CHUNK['x']:,} pixels, 30 % missing, from netCDF into Zarr by "
        f"`scheduler=`; workers of one thread on two cores, {median[1] / chunks:.1f} s a chunk. "
        f"Aim: 1.6.\n\n{page.table(['workers', 's', 'times faster than one'], rows)}"
    )


SECTIONS = {"netcdf": netcdf, "bounded": bounded, "regions": regions, "workers": workers}


def run(source: str, output: str) -> None:
    """Fit a file in bounded memory and write what that took, as JSON."""
    summary = runs.solve_file(source, output, DESIGN, max_memory=MOST)
    json.dump({"peak": memory.peak_bytes(), "seconds": summary.seconds}, sys.stdout)


def main() -> None:
    """Measure, print, and write the page where that is asked for."""
    parser = page.parser("python -m tests.benchmarks.files", __doc__, SECTIONS)
    options = page.read(parser, SECTIONS)
    parts = [page.machine()]
    for name in options.works or SECTIONS:
        with tempfile.TemporaryDirectory() as folder:
            parts.append(SECTIONS[name](Path(folder), options.repeats))
        sys.stdout.write(parts[-1] + "\n\n")
        sys.stdout.flush()
    if options.write:
        page.write_section("files", "\n\n".join(parts))


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(*sys.argv[2:])
    else:
        main()
