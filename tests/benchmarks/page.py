"""The page docs/reference/benchmarks.md: what the benchmarks write, and the text around it."""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

import torch

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = REFERENCE / "benchmarks.md"
NOTHING = "Not measured yet."

SKELETON = """\
# Benchmarks

Time and memory of a fit, beside other ways to the same coefficients and beside the least that any
way must do. Every number on this page was written by a command that stands with it; run it to get
those of your own machine. The tables compare what was measured in one run, on the same arrays, so
it is the ratios that carry over to other machines.

## Works

```shell
pip install -e ".[test]"
pip install nrt mintpy dolphin  # each of them if you like; dolphin wants GDAL's Python bindings
python -m tests.benchmarks --write
```

What the columns mean:

- *µs a pixel*: median of the repeats over the number of pixels. The cube is a float32 DataArray in
  memory, and fits go through `cube.lstsq.solve` on the CPU, labels and all. A slow peer is timed on
  the first pixels only, as many as fill its share of the time.
- *times float64* and *times float32*: that time over the time of xr_lstsq with `dtype="float64"`
  and `dtype="float32"`. Above 1, xr_lstsq is faster.
- *spread*: slowest over fastest repeat. Repeats go round all ways in turn, so a busy machine slows
  them alike.
- *difference*: the largest difference of a coefficient from the float64 answer of xr_lstsq, over
  the pixel's largest coefficient, at pixels whose rank is as high as their samples and the design
  allow: there the answer is unique, or the unique one of minimum norm. A difference of 1 or more
  means that the other answer is wrong; `numpy.linalg.lstsq` on the rows that are left is the
  measure of ours. *NaN* is the share of those pixels without an answer.
- The *floors* are one matrix product of the pseudo-inverse with the cube, gaps filled with zeros
  beforehand, and one sum over the input, with as many threads: no answer, but what one costs at
  the least.
- *Memory* is the peak of a process that makes the cube and fits it once, less input and output,
  less what Python, torch and xarray take before the cube is made.

% begin works
% end works

## Statistics

```shell
python -m tests.benchmarks.stats --write
```

What statistics cost beside the fit alone, on the same arrays in one run. *times none* is the time
over that of a fit without any; *MB beyond* is the peak of a process less input, output and what
Python and the libraries take.

% begin stats
% end stats

## Accuracy

```shell
python -m tests.benchmarks.accuracy --write
```

Correct digits of the worst coefficient (log relative error, at most 15) on the linear-regression
sets of NIST StRD, against the exact answer for the design in float64. *Gappy* is the set as some
pixels of a cube with as many rows again, means of its own rows, that are missing there.

% begin accuracy
% end accuracy

## How cost grows

```shell
python -m tests.benchmarks.growth --write
```

Time a pixel and peak memory beyond input and output, one size changed at a time. The chunks are
those of a dask array that the threaded scheduler computes.

% begin growth
% end growth

## From file to file

```shell
python -m tests.benchmarks.files --write  # 15 GB of temporary files
```

Runs of `xr-lstsq solve`, medians of the repeats. Files are in the cache of the system where they
fit into memory.

% begin files
% end files

## On a GPU

```shell
python -m tests.benchmarks.gpu --write
```

From arrays in the host's memory to arrays in the host's memory, so with both transfers.

% begin gpu
% end gpu
"""


def read_page(path: Path = PAGE) -> str:
    """Return the page as it stands, with the text around the sections as it is here."""
    old = path.read_text("utf-8") if path.exists() else ""
    page = SKELETON
    for name in re.findall(r"^% begin (\w+)$", SKELETON, flags=re.MULTILINE):
        found = re.search(
            rf"^% begin {name}\n(.*?)^% end {name}$", old, flags=re.DOTALL | re.MULTILINE
        )
        kept = found[1].strip() if found else ""
        page = _replace(page, name, kept or NOTHING)
    return page


def write_section(name: str, text: str, path: Path = PAGE) -> None:
    """Replace one section of the page and keep the others."""
    path.write_text(_replace(read_page(path), name, text.strip()), "utf-8")


def _replace(page: str, name: str, text: str) -> str:
    pattern = rf"^% begin {name}\n.*?^% end {name}$"
    new = f"% begin {name}\n\n{text}\n\n% end {name}"
    return re.sub(pattern, lambda _: new, page, flags=re.DOTALL | re.MULTILINE)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; all columns but the first are numbers."""
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        "| " + " | ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)) + " |"
        for line in [head, rule, *rows]
    ]
    return "\n".join(lines)


def machine(*, cuda: bool = False) -> str:
    """Return one sentence: processor, threads, versions."""
    found = [platform.processor() or platform.machine()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = (
            re.findall(r"^model name\s*:\s*(.+)$", info.read_text(), flags=re.MULTILINE) or found
        )
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "xarray", "dask"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    card = f"{torch.cuda.get_device_name()}; " if cuda else ""
    return (
        f"{card}{found[0]}, {cores} cores, torch with {torch.get_num_threads()} threads; "
        f"{platform.system()}, Python {platform.python_version()}, xr_lstsq {version('xr_lstsq')}, "
        f"torch {torch.__version__}, {packages}."
    )


def parser(prog: str, text: str | None, works: Collection[str]) -> argparse.ArgumentParser:
    """Return the arguments of a command that measures works and writes a part of the page."""
    made = argparse.ArgumentParser(prog=prog, description=text)
    made.add_argument("works", nargs="*", help=f"default: all of {', '.join(works)}")
    made.add_argument("--pixels", type=int, help="of each work; default: see works.py")
    made.add_argument("--repeats", type=int, default=5)
    made.add_argument("--write", action="store_true", help=f"into docs/reference/{PAGE.name}")
    return made


def read(made: argparse.ArgumentParser, works: Collection[str]) -> argparse.Namespace:
    """Return what was given to the command, with names of works that exist."""
    options = made.parse_args()
    unknown = set(options.works) - set(works)
    if unknown:
        made.error(f"unknown works: {', '.join(sorted(unknown))}. Known: {', '.join(works)}")
    return options
