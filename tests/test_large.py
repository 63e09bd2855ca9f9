"""A cube of 12 GB goes through 1 GB of memory. Left out unless asked for: ``pytest -m large``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from tests import oracle
from tests.fitted import columns
from tests.large import write_cube
from xr_lstsq.formats import table

# Also slow, so that -m "not slow", which takes the place of "not large", leaves it out too
pytestmark = [pytest.mark.large, pytest.mark.slow]

SHAPE = (100, 5500, 5500)
DESIGN = "polynomial(1) + harmonics(1, 2)"
ALLOWED = 1.6e9
"""Peak of the whole process, in bytes."""

PEAK = """
import resource, sys
unit = 1 if sys.platform == "darwin" else 1024
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
"""
SHELL = """
from xr_lstsq.cli import main
main({arguments!r}, standalone_mode=False)
"""
NOTEBOOK = """
import xarray as xr, xr_lstsq
cube = xr.open_dataset({source!r}, chunks={{"time": -1, "y": 25, "x": 2750}})
fit = cube.ndvi.lstsq.solve({design!r})
getattr(fit.lstsq, {method!r})({output!r}, progress=True)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("large") / "cube.nc"
    write_cube(path, SHAPE, packed=False)
    assert path.stat().st_size > 12e9
    yield path
    path.unlink()


def peak(code: str) -> int:
    """Run code in a new process, and return the most memory that it has held."""
    done = subprocess.run(
        [sys.executable, "-c", code + PEAK], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "pixel/s" in done.stderr  # the bar
    return int(done.stdout.split()[-1])


def assert_right(source: Path, fit: xr.Dataset) -> None:
    """Compare pixels from all over the cube with the fit of the rows that they have."""
    rng = np.random.default_rng(0)
    with xr.open_dataset(source) as cube:
        design = columns(cube["time"].to_numpy(), degree=1, cycles=2)
        for y, x in zip(rng.integers(0, SHAPE[1], 20), rng.integers(0, SHAPE[2], 20), strict=True):
            want = oracle.fit(cube["ndvi"][:, y, x].to_numpy(), design)
            off = np.abs(fit["coef"][:, y, x].to_numpy() - want.coef)
            assert (off <= want.coef_tol).all()
            assert fit["nobs"][y, x] == want.nobs


@pytest.mark.parametrize("output", ["fit.nc", "fit.zarr", "fit.tif"])
def test_the_shell_stays_inside_its_memory(source: Path, tmp_path: Path, output: str) -> None:
    target = tmp_path / output
    command = ["solve", str(source), "-o", str(target), "--design", DESIGN, "--max-memory", "1GB"]
    assert peak(SHELL.format(arguments=command)) < ALLOWED
    if output == "fit.tif":
        assert {path.name for path in tmp_path.iterdir()} == {
            f"fit_{name}.tif" for name in ("coef", "nobs", "rank", "status")
        }
    else:
        with table.to_read(target).module.open(target) as fit:
            assert_right(source, fit)


@pytest.mark.parametrize(
    ("method", "output"),
    [("to_netcdf", "fit.nc"), ("to_zarr", "fit.zarr"), ("to_geotiff", "fit.tif")],
)
def test_a_notebook_stays_inside_the_same_memory(
    source: Path, tmp_path: Path, method: str, output: str
) -> None:
    target = tmp_path / output
    code = NOTEBOOK.format(source=str(source), design=DESIGN, method=method, output=str(target))
    assert peak(code) < ALLOWED
