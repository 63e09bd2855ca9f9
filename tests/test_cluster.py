"""Runs on a cluster of two real processes: what a local run gives, and nothing done twice."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
import xarray as xr

import xr_lstsq  # noqa: F401 (gives `.lstsq`)
from xr_lstsq import blocks, clock, runs
from xr_lstsq.formats.table import by_suffix
from xr_lstsq.runs.budget import COPIES
from xr_lstsq.runs.cluster import USED, connected, worker_memory
from xr_lstsq.runs.inputs import Inputs
from xr_lstsq.runs.job import lazy_fit

if TYPE_CHECKING:
    from collections.abc import Iterator

    import distributed

DESIGN = "polynomial(1) + harmonics(1)"
OPTIONS: dict[str, Any] = {"var": "ndvi", "valid": "valid", "stats": "default"}
CHUNKS = {"y": 5, "x": 6}
SHELL = [sys.executable, "-c", "from xr_lstsq.cli import main; main()"]


def make_cube(n: int = 24, y: int = 20, x: int = 18) -> xr.Dataset:
    rng = np.random.default_rng(0)
    ndvi = rng.normal(0.5, 0.2, size=(n, y, x)).astype(np.float32)
    ndvi[rng.random(ndvi.shape) < 0.2] = np.nan
    valid = (rng.random(ndvi.shape) < 0.8).astype(np.uint8)
    dates = np.datetime64("2015-01-05", "ns") + np.arange(n) * np.timedelta64(31, "D")
    dims = ("time", "y", "x")
    return xr.Dataset({"ndvi": (dims, ndvi), "valid": (dims, valid)}, {"time": dates})


@pytest.fixture
def cube_file(tmp_path: Path) -> Path:
    cube = make_cube()
    cube["ndvi"].encoding = {"chunksizes": (24, 5, 6)}
    (tmp_path / "in").mkdir()
    cube.to_netcdf(tmp_path / "in" / "cube.nc")
    return tmp_path / "in" / "cube.nc"


def read(path: Path) -> xr.Dataset:
    with by_suffix(path).module.open(path) as opened:
        return opened.load().drop_attrs(deep=False)  # without the history


def made(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "in")


@pytest.mark.parametrize("name", ["fit.nc", "fit.zarr"])
@pytest.mark.parametrize("skip", [False, True])
def test_a_run_on_a_cluster_equals_a_local_one_bit_for_bit(
    cube_file: Path,
    tmp_path: Path,
    two_processes: distributed.LocalCluster,
    name: str,
    skip: bool,
) -> None:
    options = {**OPTIONS, "chunks": CHUNKS, "skip_unreadable": skip}
    here, there = tmp_path / f"here_{name}", tmp_path / f"there_{name}"
    local = runs.solve_file(cube_file, here, DESIGN, **options)
    before = clock.totals()
    summary = runs.solve_file(
        cube_file, there, DESIGN, scheduler=two_processes.scheduler_address, **options
    )
    xr.testing.assert_identical(read(there), read(here))
    assert made(tmp_path) == [here.name, there.name]
    assert summary.statuses == local.statuses
    # Workers read and solve, this process writes; all of it is told
    assert set(summary.stages) == {"read", "copy", "solve", "write"}
    for stage in ("read", "copy", "solve"):
        assert clock.totals()[stage] == before[stage]


@pytest.mark.slow
def test_the_shell_solves_on_a_cluster(
    cube_file: Path, tmp_path: Path, two_processes: distributed.LocalCluster
) -> None:
    command = ["solve", str(cube_file), "-o", "fit.nc", "--design", DESIGN, "--var", "ndvi"]
    for more in ([], ["--scheduler", two_processes.scheduler_address, "-o", "far.nc"]):
        job = subprocess.run(
            [*SHELL, *command, "--chunks", "y=5", *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert job.returncode == 0, job.stderr
    assert "360 of 360 pixels solved" in job.stdout
    assert "Traceback" not in job.stderr
    xr.testing.assert_identical(read(tmp_path / "far.nc"), read(tmp_path / "fit.nc"))


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
@pytest.mark.usefixtures("cluster")
def test_a_lazy_fit_is_written_by_the_client_in_force(tmp_path: Path, suffix: str) -> None:
    fit = make_cube()["ndvi"].chunk(CHUNKS).lstsq.solve(DESIGN)
    write = {"nc": "to_netcdf", "zarr": "to_zarr"}[suffix]
    getattr(fit.lstsq, write)(tmp_path / f"far.{suffix}")
    with dask.config.set(scheduler="threads"):
        getattr(fit.lstsq, write)(tmp_path / f"near.{suffix}")
    far, near = read(tmp_path / f"far.{suffix}"), read(tmp_path / f"near.{suffix}")
    xr.testing.assert_identical(far, near)


# ------------------------------------------------------------------------------- once, not always


def _count_calls() -> None:
    from xr_lstsq import pipeline

    if not hasattr(pipeline, "calls"):
        pipeline.calls, inner = [], pipeline._factorise  # type: ignore[attr-defined]

        def counted(*arguments: Any) -> Any:
            pipeline.calls.append(1)  # type: ignore[attr-defined]
            return inner(*arguments)

        counted.__module__, counted.__qualname__ = pipeline.__name__, "_factorise"
        pipeline._factorise = counted
    pipeline.calls.clear()  # type: ignore[attr-defined]


def _calls() -> int:
    from xr_lstsq import pipeline

    return len(pipeline.calls)  # type: ignore[attr-defined]


def _fetched(dask_worker: Any) -> int:
    """Return how often this worker has got a factor from another."""
    return sum(
        "once" in str(key) for one in dask_worker.transfer_incoming_log for key in one["keys"]
    )


@pytest.mark.parametrize(("n", "p"), [(100, 6), (300, 60), (400, 100)])
@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_the_factor_is_made_once_and_shipped_once_to_each_worker(
    tmp_path: Path, cluster: distributed.Client, n: int, p: int, suffix: str
) -> None:
    rng = np.random.default_rng(n)
    values = rng.normal(size=(n, 8, 12)).astype("f4")
    dates = {"time": np.arange(float(n))}
    cube = xr.DataArray(values, dates, ("time", "y", "x"), name="v")
    cube.to_dataset().to_netcdf(tmp_path / "in.nc")
    design = xr.DataArray(rng.normal(size=(n, p)), dates, ("time", "param"))
    cluster.run(_count_calls)
    fetched = cluster.run(_fetched)
    chunks = {"y": 2, "x": 2}  # 24, two at a time
    runs.solve_file(tmp_path / "in.nc", tmp_path / f"fit.{suffix}", design, chunks=chunks)
    assert sum(cluster.run(_calls).values()) == 1
    for worker, count in cluster.run(_fetched).items():
        assert count - fetched[worker] <= 1
    # Neither the factor nor the design is in what is sent for a window
    held = blocks.held(cube.chunk(chunks).lstsq.solve(design))
    graph = dict(dask.optimize(held.isel(y=slice(2), x=slice(2)))[0].__dask_graph__())
    sizes = [len(pickle.dumps(task)) for key, task in graph.items() if "lstsq-solve" in str(key)]
    assert sizes
    assert max(sizes) < 3000


def _slow_down() -> None:
    from xr_lstsq import pipeline

    if not hasattr(pipeline, "solved"):
        pipeline.solved, inner = 0, pipeline._solve_block  # type: ignore[attr-defined]

        def slow(*arguments: Any, **options: Any) -> Any:
            time.sleep(0.1)
            pipeline.solved += 1  # type: ignore[attr-defined]
            return inner(*arguments, **options)

        pipeline.quick = inner  # type: ignore[attr-defined]
        slow.__module__, slow.__qualname__ = pipeline.__name__, "_solve_block"
        pipeline._solve_block = slow
    pipeline.solved = 0  # type: ignore[attr-defined]


def _at_full_speed() -> None:
    from xr_lstsq import pipeline

    pipeline._solve_block = pipeline.quick  # type: ignore[attr-defined]
    del pipeline.solved  # type: ignore[attr-defined]


def _solved() -> int:
    from xr_lstsq import pipeline

    return pipeline.solved  # type: ignore[attr-defined, no-any-return]


def test_every_worker_has_its_share_of_the_chunks(
    cube_file: Path, tmp_path: Path, cluster: distributed.Client
) -> None:
    cluster.run(_slow_down)
    runs.solve_file(cube_file, tmp_path / "fit.nc", DESIGN, var="ndvi", chunks={"y": 2, "x": 6})
    shares = cluster.run(_solved).values()
    assert sum(shares) == 30
    assert min(shares) >= 10
    cluster.run(_at_full_speed)


def test_the_names_of_tasks_say_what_they_are(
    cube_file: Path, tmp_path: Path, two_processes: distributed.LocalCluster
) -> None:
    two_processes.scheduler.task_prefixes.clear()
    runs.solve_file(
        cube_file,
        tmp_path / "fit.zarr",
        DESIGN,
        scheduler=two_processes.scheduler_address,
        chunks=CHUNKS,
        skip_unreadable=True,
        **OPTIONS,
    )
    names = set(two_processes.scheduler.task_prefixes)
    assert {"lstsq-once-factorise", "lstsq-solve", "read-ndvi", "read-valid"} <= names
    assert {name.split("-")[0] for name in names} <= {
        *("lstsq", "read", "flag", "values", "blank", "write")
    }


# ------------------------------------------------------------------------------------ memory


@pytest.fixture
def small_worker() -> Iterator[distributed.Client]:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            memory_limit="1.2GB",
            dashboard_address=":0",
        ) as local,
        local.get_client() as client,
    ):
        yield client


@pytest.mark.usefixtures("small_worker")
def test_chunks_are_cut_for_the_memory_of_a_worker(tmp_path: Path) -> None:
    import netCDF4

    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        for dim, size in {"time": 50, "y": 2000, "x": 1000}.items():
            file.createDimension(dim, size)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(50.0)
        file.createVariable("v", "f4", ("time", "y", "x"), chunksizes=(50, 20, 500))
    memory = worker_memory()
    assert memory is not None
    allowed, threads = memory
    assert (allowed, threads) == (int(1.2e9 * USED), 2)
    names = dict.fromkeys(("var", "dim", "weights", "valid", "chunks")) | {"dim": "time"}
    inputs = Inputs(tmp_path / "in.nc")
    with lazy_fit(inputs, "polynomial(1)", names, {}, max_memory=None, skip=False) as job:
        assert job.budget is not None
        assert job.budget.total == allowed
        assert job.source.chunk_bytes * COPIES * threads <= job.budget.chunks
        assert job.threads == 2
    with (
        pytest.raises(ValueError, match="Allow at least"),
        lazy_fit(inputs, "polynomial(1)", names, {}, max_memory="0.4GB", skip=False),
    ):
        pass


# ------------------------------------------------------------------------------------ no cluster


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:9", r"No scheduler answers at 'tcp://127.0.0.1:9'.*dask scheduler"),
        ("nowhere", "No scheduler answers at 'nowhere'"),
        ("htp://127.0.0.1:9", "No scheduler answers at 'htp://"),
    ],
)
def test_a_scheduler_that_is_not_there_is_an_error(address: str, message: str) -> None:
    with pytest.raises(ConnectionError, match=message), connected(address, wait=0.5):
        pass
    assert blocks.scheduler_name() == "threads"  # it is not the client of what comes after


def test_a_scheduler_without_workers_is_an_error() -> None:
    import distributed

    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as local:
        address = local.scheduler_address
        with (
            pytest.raises(ConnectionError, match=r"has no worker after 0\.3 s.*dask worker"),
            connected(address, wait=0.3),
        ):
            pass
