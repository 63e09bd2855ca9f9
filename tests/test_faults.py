"""Faults in the middle of a run: each ends in the right result or in one clear error."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import xarray as xr

from xr_lstsq import outputs, runs
from xr_lstsq.device.batch import BatchSolver
from xr_lstsq.errors import DeviceError, WriteError
from xr_lstsq.formats.table import by_suffix

if TYPE_CHECKING:
    import distributed

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits")

DESIGN = "polynomial(1) + harmonics(1)"
CHUNKS = {"y": 5, "x": 6}
SHELL = [sys.executable, "-c", "from xr_lstsq.cli import main; main()"]
OUTPUTS = pytest.mark.parametrize("name", ["fit.nc", "fit.zarr"])


def make_cube(y: int = 20, x: int = 18) -> xr.Dataset:
    rng = np.random.default_rng(0)
    ndvi = rng.normal(0.5, 0.2, size=(24, y, x)).astype(np.float32)
    dates = np.datetime64("2015-01-05", "ns") + np.arange(24) * np.timedelta64(31, "D")
    return xr.Dataset({"ndvi": (("time", "y", "x"), ndvi)}, {"time": dates})


def write_cube(path: Path, **sizes: int) -> xr.Dataset:
    """Write a cube in storage chunks of 24 x 5 x 6."""
    cube = make_cube(**sizes)
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".zarr":
        cube["ndvi"].encoding = {"chunks": (24, 5, 6)}
        cube.to_zarr(path, consolidated=False)
    else:
        cube["ndvi"].encoding = {"chunksizes": (24, 5, 6), "shuffle": False, "fletcher32": True}
        cube.to_netcdf(path)
    return cube


@pytest.fixture
def cube_file(tmp_path: Path) -> Path:
    write_cube(tmp_path / "in" / "cube.nc")
    return tmp_path / "in" / "cube.nc"


def read(path: Path) -> xr.Dataset:
    with by_suffix(path).module.open(path) as opened:
        return opened.load().drop_attrs(deep=False)  # without the history


def made(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "in")


def left_over(folder: Path) -> list[str]:
    """Return what a run left, short of what a run into Zarr needs to go on."""
    return [name for name in made(folder) if name not in {".fit.zarr.partial", ".fit.zarr.ledger"}]


# ------------------------------------------------------------------------- workers that die


def _die_once(mark: str, *, always: bool) -> None:
    from xr_lstsq import pipeline

    inner = pipeline._solve_block

    def deadly(cube: Any, *arguments: Any, **options: Any) -> Any:
        # Of the chunk in the middle of the cube
        if float(cube[0, 0, 0]) == float(mark.partition(":")[0]):
            path = Path(mark.partition(":")[2])
            if always or not path.exists():
                path.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return inner(cube, *arguments, **options)

    deadly.__module__, deadly.__qualname__ = pipeline.__name__, "_solve_block"
    pipeline._solve_block = deadly


class Deadly:
    """A plugin that makes every worker, also one that is started later, die on a chunk."""

    name = "deadly"

    def __init__(self, mark: str, *, always: bool) -> None:
        self.mark, self.always = mark, always

    def setup(self, worker: Any) -> None:  # noqa: ARG002
        _die_once(self.mark, always=self.always)


def _cluster(**options: Any) -> distributed.LocalCluster:
    import distributed

    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"} | options
    return distributed.LocalCluster(**settings)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "nanny"), [("fit.nc", True), ("fit.zarr", False)])
def test_a_worker_that_is_killed_changes_nothing(
    cube_file: Path, tmp_path: Path, name: str, nanny: bool
) -> None:
    options: dict[str, Any] = {"var": "ndvi", "chunks": CHUNKS, "stats": "default"}
    runs.solve_file(cube_file, tmp_path / f"want_{name}", DESIGN, **options)
    first = float(make_cube()["ndvi"][0, 10, 6])
    mark = f"{first!r}:{tmp_path / 'died'}"
    with _cluster() as local, local.get_client() as client:
        client.register_plugin(_as_plugin(Deadly(mark, always=False)))
        if not nanny:
            client.run(_no_restart, nanny=True)
        runs.solve_file(cube_file, tmp_path / name, DESIGN, **options)
    assert (tmp_path / "died").exists()
    xr.testing.assert_identical(read(tmp_path / name), read(tmp_path / f"want_{name}"))
    assert made(tmp_path) == ["died", name, f"want_{name}"]


def _no_restart(dask_worker: Any) -> None:
    dask_worker.auto_restart = False


def _as_plugin(plugin: Any) -> Any:
    import distributed

    class Plugin(type(plugin), distributed.WorkerPlugin):  # type: ignore[misc]
        pass

    return Plugin(plugin.mark, always=plugin.always)


@pytest.mark.slow
@OUTPUTS
def test_a_chunk_on_which_every_worker_dies_is_an_error(
    cube_file: Path, tmp_path: Path, name: str
) -> None:
    import dask

    first = float(make_cube()["ndvi"][0, 10, 6])
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        _cluster() as local,
        local.get_client() as client,
    ):
        client.register_plugin(
            _as_plugin(Deadly(f"{first!r}:{tmp_path / 'in' / 'died'}", always=True))
        )
        with pytest.raises(RuntimeError, match=r"lost with its worker again and again.*memory"):
            runs.solve_file(cube_file, tmp_path / name, DESIGN, var="ndvi", chunks=CHUNKS)
    assert left_over(tmp_path) == []


# ------------------------------------------------------------------------ what cannot be read


def damage(path: Path, cube: xr.Dataset) -> None:
    """Damage the storage chunk of y 5:10, x 6:12 on the disk."""
    if path.suffix == ".zarr":
        (path / "ndvi" / "c" / "0" / "1" / "1").write_bytes(b"no chunk")
        return
    content = bytearray(path.read_bytes())
    chunk = cube["ndvi"].values[:, 5:10, 6:12].tobytes()
    content[content.index(chunk[400:500])] ^= 0xFF  # its check sum is wrong now
    path.write_bytes(content)


@OUTPUTS
@pytest.mark.parametrize("source", ["cube.nc", "cube.zarr"])
def test_an_unreadable_chunk_is_named_or_skipped(tmp_path: Path, source: str, name: str) -> None:
    path, options = tmp_path / "in" / source, {"chunks": CHUNKS, "stats": "default"}
    cube = write_cube(path)
    runs.solve_file(path, tmp_path / f"want_{name}", DESIGN, **options)
    want = read(tmp_path / f"want_{name}")
    damage(path, cube)
    with pytest.raises(OSError, match=rf"Reading 'ndvi' of '.*{source}' at y 5:10, x 6:12 failed"):
        runs.solve_file(path, tmp_path / name, DESIGN, **options)
    assert left_over(tmp_path) == [f"want_{name}"]
    with pytest.warns(UserWarning, match=r"at y 5:10, x 6:12 cannot be read .*status failed"):
        summary = runs.solve_file(path, tmp_path / name, DESIGN, skip_unreadable=True, **options)
    assert summary.statuses["failed"] == 30
    assert made(tmp_path) == [name, f"want_{name}"]
    got = read(tmp_path / name)
    lost = {"y": slice(5, 10), "x": slice(6, 12)}
    assert (got["status"][lost] == outputs.STATUS["failed"]).all()
    assert np.isnan(got["coef"].isel(lost)).all()
    assert np.isnan(got["rsquared"].isel(lost)).all()
    assert (got["nobs"].isel(lost) == 0).all()
    for one in got.data_vars:
        if {"y", "x"} <= set(got[one].dims):
            got[one][{**lost}] = want[one][{**lost}]
    xr.testing.assert_identical(got, want)


def test_the_shell_says_what_is_kept_of_a_run_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from xr_lstsq.cli import main

    monkeypatch.setattr("xr_lstsq.formats.windows.AHEAD", 2)
    path = tmp_path / "in" / "cube.nc"
    cube = write_cube(path, y=100)
    content = bytearray(path.read_bytes())
    content[content.index(cube["ndvi"].values[:, 95:, 12:].tobytes()[400:500])] ^= 0xFF
    path.write_bytes(content)
    for name, kept in (("fit.nc", False), ("fit.zarr", True)):
        output = str(tmp_path / name)
        command = ["solve", str(path), "-o", output, "--design", DESIGN, "--chunks", "y=5,x=6"]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 1
        assert "Error: Reading 'ndvi' of " in result.stderr
        assert ("was kept, and a run with resume" in result.stderr) == kept
        assert "othing was written" not in result.stderr


# ----------------------------------------------------------------------------- disk and device


FULL = """
import resource, signal, sys
from xr_lstsq import runs
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    runs.solve_file(sys.argv[1], sys.argv[2], "polynomial(1) + harmonics(1)", chunks={"y": 20})
except OSError as error:
    print(type(error).__name__, error)
"""


def test_a_full_disk_leaves_nothing_of_a_file(tmp_path: Path) -> None:
    write_cube(tmp_path / "in" / "cube.nc", y=200, x=60)
    job = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "in" / "cube.nc"), str(tmp_path / "fit.nc")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert job.stdout.startswith("WriteError Could not write ")
    assert "bytes) free" in job.stdout
    assert made(tmp_path) == []


@OUTPUTS
def test_a_device_that_is_out_of_memory_once_changes_nothing(
    cube_file: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"chunks": CHUNKS, "stats": "default"}
    runs.solve_file(cube_file, tmp_path / f"want_{name}", DESIGN, **options)
    inner, failed = BatchSolver.run, []

    def once(*arguments: Any, **more: Any) -> Any:
        if not failed:
            failed.append(1)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(*arguments, **more)

    monkeypatch.setattr(BatchSolver, "run", once)
    runs.solve_file(cube_file, tmp_path / name, DESIGN, **options)
    assert failed
    got, want = read(tmp_path / name), read(tmp_path / f"want_{name}")
    xr.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    xr.testing.assert_identical(got["status"], want["status"])


@OUTPUTS
def test_a_device_that_is_always_out_of_memory_is_an_error(
    cube_file: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(BatchSolver, "run", full)
    with pytest.raises(DeviceError, match=r"ran out of memory on a single pixel.*device='cpu'"):
        runs.solve_file(cube_file, tmp_path / name, DESIGN, chunks=CHUNKS)
    assert made(tmp_path) == []


@OUTPUTS
def test_a_target_directory_that_goes_away_is_an_error(
    cube_file: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.setattr("xr_lstsq.formats.windows.AHEAD", 2)
    removed = []

    def remove(done: int, _: int) -> None:
        if done and not removed:
            removed.append(1)
            shutil.rmtree(tmp_path / "out", ignore_errors=True)

    with pytest.raises(WriteError, match=f"Could not write '.*{name}'"):
        runs.solve_file(
            cube_file, tmp_path / "out" / name, DESIGN, chunks={"y": 1, "x": 1}, progress=remove
        )
    assert not (tmp_path / "out" / name).exists()


# ------------------------------------------------------------------------------------- signals


def start(folder: Path, name: str, *more: str) -> subprocess.Popen[str]:
    """Start a job of thousands of chunks, and return when some of them are written."""
    write_cube(folder / "in" / "cube.nc", y=300, x=300)
    command = ["solve", "in/cube.nc", "-o", name, "--design", DESIGN, "--chunks", "y=5,x=6"]
    job = subprocess.Popen(
        [*SHELL, *command, "--log-json", "in/log", *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log, until = folder / "in" / "log", time.monotonic() + 60
    while not (log.exists() and '"window"' in log.read_text()):
        assert job.poll() is None, job.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    return job


@pytest.mark.parametrize(
    ("name", "number", "code", "word"),
    [
        ("fit.nc", signal.SIGINT, 130, "Interrupted"),
        ("fit.nc", signal.SIGTERM, 143, "Terminated"),
        ("fit.zarr", signal.SIGTERM, 143, "Terminated"),
    ],
)
def test_a_signal_ends_a_job_and_nothing_is_left(
    tmp_path: Path, name: str, number: signal.Signals, code: int, word: str
) -> None:
    job = start(tmp_path, name)
    job.send_signal(number)
    _, stderr = job.communicate(timeout=60)
    assert job.returncode == code, stderr
    assert f"{word}; " in stderr
    assert "Traceback" not in stderr
    assert left_over(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number", "code"),
    [("fit.nc", signal.SIGINT, 130), ("fit.zarr", signal.SIGTERM, 143)],
)
def test_a_signal_ends_a_job_on_a_cluster(
    tmp_path: Path,
    two_processes: distributed.LocalCluster,
    name: str,
    number: signal.Signals,
    code: int,
) -> None:
    job = start(tmp_path, name, "--scheduler", two_processes.scheduler_address)
    job.send_signal(number)
    _, stderr = job.communicate(timeout=60)
    assert job.returncode == code, stderr
    assert "Traceback" not in stderr
    assert left_over(tmp_path) == []
    # Nothing of it goes on there
    until = time.monotonic() + 20
    while two_processes.scheduler.tasks:
        assert time.monotonic() < until
        time.sleep(0.1)
