"""Cubes of very many chunks: what is done for each chunk is done when it is computed."""

from __future__ import annotations

import cProfile
import pickle
import pstats
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.threaded import get

import xr_lstsq  # noqa: F401 (gives `.lstsq`)
from xr_lstsq.formats import netcdf, zarr
from xr_lstsq.formats.table import by_suffix

FORMATS = pytest.mark.parametrize("name", ["fit.nc", "fit.zarr"])


def lazy_fit(y: int, x: int) -> xr.Dataset:
    """Return the lazy fit of y * x chunks of 2 x 2 pixels."""
    values = da.ones((10, 2 * y, 2 * x), chunks=(10, 2, 2))
    cube = xr.DataArray(values, {"time": np.arange(10.0)}, ("time", "y", "x"))
    fit: xr.Dataset = cube.lstsq.solve("polynomial(1)", "time", stats="default")
    return fit


def calls(profile: cProfile.Profile) -> int:
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def layers(fit: xr.Dataset) -> dict[str, Any]:
    return dict(fit.__dask_graph__().layers)  # type: ignore[union-attr]


def once_of(fit: xr.Dataset) -> Any:
    (found,) = (one for name, one in layers(fit).items() if name.startswith("lstsq-once-"))
    return found


def test_a_lazy_fit_of_100_000_chunks_holds_no_task_of_a_chunk() -> None:
    lazy_fit(2, 2)  # imports torch
    sizes, counts = [], []
    for y, x in ((10, 10), (316, 317)):
        with cProfile.Profile() as profile:
            fit = lazy_fit(y, x)
        counts.append(calls(profile))
        assert [one for one in layers(fit).values() if one.is_materialized()] == [once_of(fit)]
        # But for the lengths of chunks, along each dim on its own
        sizes.append(len(pickle.dumps(fit)))
    assert counts[1] < 1.5 * counts[0]
    assert sizes[1] < sizes[0] + 40 * (316 + 317) * len(fit.variables)


class StopError(Exception):
    """Ends a run after its first window."""


@FORMATS
def test_the_first_window_of_100_000_chunks_takes_what_it_takes_of_1_000(
    tmp_path: Path, name: str
) -> None:
    def stop(_: xr.Dataset) -> None:
        raise StopError

    counts = []
    for y, x in ((8, 8), (20, 50), (316, 317)):  # the first for imports
        fit = lazy_fit(y, x)
        with (
            dask.config.set(scheduler="sync"),
            cProfile.Profile() as profile,
            pytest.raises(StopError),
        ):
            by_suffix(name).module.write(fit, tmp_path / name, on_block=stop)
        counts.append(calls(profile))
    assert [one for one in layers(fit).values() if one.is_materialized()] == [once_of(fit)]
    assert counts[2] < 2 * counts[1] + 500_000


@FORMATS
def test_a_window_is_a_bounded_graph(tmp_path: Path, name: str) -> None:
    most = []
    for y, x in ((4, 10), (10, 10), (20, 30)):
        sizes: list[int] = []

        def counted(graph: Any, keys: Any, sizes: list[int] = sizes, **options: Any) -> Any:
            sizes.append(len(dict(graph)))
            return get(graph, keys, **options)

        fit = lazy_fit(y, x)
        with dask.config.set(scheduler=counted):
            by_suffix(name).module.write(fit, tmp_path / name)
        assert len(sizes) > 1
        most.append(max(sizes))
    # Of a chunk: read, solved, and a task for each result
    assert most[2] <= most[0] + 2 * 16
    assert most[2] == most[1] or abs(most[2] - most[1]) <= 2 * 16


@pytest.mark.parametrize("module", [netcdf, zarr])
@pytest.mark.slow
def test_500_chunks_are_written(tmp_path: Path, module: Any) -> None:
    fit = lazy_fit(20, 25)
    done: list[int] = []
    path = tmp_path / ("fit.nc" if module is netcdf else "fit.zarr")
    module.write(fit, path, on_block=lambda block: done.append(block["status"].size))
    assert done == [4] * 500
    with module.open(path) as opened:
        xr.testing.assert_equal(opened["coef"].compute(), fit["coef"].compute())
