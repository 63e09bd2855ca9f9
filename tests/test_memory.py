"""Working memory is that of a batch, not of the cube."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CHILD = """
import json, resource, sys
import numpy as np, xarray as xr
import xr_lstsq

def peak():
    scale = 1 if sys.platform == "darwin" else 1024
    return scale * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

rng = np.random.default_rng(0)
n, p, pixels = 60, 10, 200_000
values = np.empty((n, pixels), np.float32)
for row in values:
    row[:] = rng.standard_normal(pixels, dtype=np.float32)
    row[rng.random(pixels, dtype=np.float32) < 0.3] = np.nan
cube = xr.DataArray(values, dims=("time", "pixel"))
design = rng.normal(size=(n, p))
xr_lstsq.solve(cube[:, :100], design, "time", device="cpu")  # torch, caches, threads
before = peak()
fit = xr_lstsq.solve(cube, design, "time", device="cpu", max_memory="200MB")
print(json.dumps({"rise": peak() - before, "output": fit.nbytes, "input": cube.nbytes}))
"""


@pytest.mark.slow
def test_solving_takes_no_more_than_its_output_and_the_memory_allowed() -> None:
    ran = subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True)
    report = json.loads(ran.stdout)
    # A design or a Gram matrix a pixel would be 960 MB or 160 MB, a float64 copy of the cube 96 MB
    # more than once; the allocator's own slack is some tens of MB.
    assert report["rise"] <= report["output"] + 200e6, report
