"""Devices: names, batches, retreat when memory is short, cores shared and not fought over."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from xr_lstsq.device import Plan, lease, resolve, solve_block
from xr_lstsq.device.batch import BatchSolver
from xr_lstsq.device.batches import in_batches
from xr_lstsq.device.lease import Lease, check_name
from xr_lstsq.device.scratch import Scratch
from xr_lstsq.errors import DeviceError
from xr_lstsq.outputs import select
from xr_lstsq.solvers.factor import factorise

DESIGN = np.c_[np.ones(12), np.linspace(-1, 1, 12)]
ROWS = select(("rss", "residual", "fitted"))
OUTPUTS = tuple(row.name for row in ROWS)


def cube_of(b: int) -> np.ndarray:
    rng = np.random.default_rng(b)
    y = rng.normal(size=(12, b))
    y[rng.random(y.shape) < 0.3] = np.nan
    return y


def plan(**arguments: Any) -> Plan:
    return Plan(**({"axis": 0, "axes": {}, "outputs": ROWS, "device": "cpu"} | arguments))


def solve(y: np.ndarray, **arguments: Any) -> dict[str, np.ndarray]:
    results = solve_block(y, plan=plan(**arguments), design=factorise(DESIGN))
    return dict(zip(OUTPUTS, results, strict=True))


# --------------------------------------------------------------------------------------------
# Names


@pytest.mark.parametrize("name", ["gpu", "cpu:0", "cuda:x", "auto:1", "", "mps", None])
def test_an_unknown_name_is_refused_with_the_known_ones(name: Any) -> None:
    with pytest.raises(DeviceError, match="'auto', 'cpu', 'cuda' or 'cuda:1'"):
        check_name(name)


def test_auto_takes_cuda_where_torch_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert resolve("auto").type == "cuda"
    assert resolve("cpu").type == "cpu"
    with pytest.raises(DeviceError, match=r"'cuda:1' is not there.*sees 1 CUDA devices"):
        resolve("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve("auto").type == "cpu"
    with pytest.raises(DeviceError, match=r"'cuda' is not there.*device='cpu'"):
        resolve("cuda")


# --------------------------------------------------------------------------------------------
# Batches


def test_batches_cover_every_pixel_once() -> None:
    done = np.zeros(1000, dtype=int)
    held = Lease(torch.device("cpu"))
    sizes = []

    def work(here: slice, _: Scratch) -> None:
        done[here] += 1
        sizes.append(here.stop - here.start)

    in_batches(work, 1000, 100, 7000, held)
    assert (done == 1).all()
    assert max(sizes) <= 70 // held.workers() + 1


@pytest.mark.parametrize("memory", [10_000, 100_000, None])
def test_the_batch_size_changes_nothing(memory: int | None) -> None:
    y = cube_of(333)
    want, got = solve(y), solve(y, max_bytes=memory)
    for name in OUTPUTS:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: tried 8 bytes"),
        MemoryError("Unable to allocate 8 GiB for an array"),
    ],
)
def test_out_of_memory_halves_the_batch_and_goes_on(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    y, sizes = cube_of(100), []
    want = solve(y)
    inner = BatchSolver.run

    def cramped(
        self: BatchSolver, batch: dict[str, torch.Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        sizes.append(batch["y"].shape[1])
        if sizes[-1] > 30:
            raise error
        return inner(self, batch, *args, **kwargs)

    monkeypatch.setattr(BatchSolver, "run", cramped)
    got = solve(y)
    assert sizes[0] == 100
    assert 50 in sizes
    assert max(sizes[-4:]) <= 25
    for name in OUTPUTS:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-12, atol=1e-13, err_msg=name)


def test_a_pixel_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        msg = "CUDA out of memory"
        raise torch.OutOfMemoryError(msg)

    with pytest.raises(DeviceError, match=r"one pixel needs about .* bytes.*larger max_memory"):
        solve(cube_of(5), max_bytes=100)
    monkeypatch.setattr(BatchSolver, "run", full)
    with pytest.raises(DeviceError, match="cpu ran out of memory on a single pixel"):
        solve(cube_of(5))


def test_another_fault_is_not_taken_for_a_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        msg = "expected scalar type Double"
        raise RuntimeError(msg)

    monkeypatch.setattr(BatchSolver, "run", broken)
    with pytest.raises(RuntimeError, match="expected scalar type"):
        solve(cube_of(50), max_bytes=40_000)


# --------------------------------------------------------------------------------------------
# Threads


def test_blocks_in_flight_never_take_more_than_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    cores, now, most, lock = 3, [0], [0], threading.Lock()
    monkeypatch.setattr(lease, "_LEASES", {})
    monkeypatch.setattr(lease, "_cores", lambda: cores)
    inner = BatchSolver.run

    def watched(*args: Any, **kwargs: Any) -> Any:
        with lock:
            now[0] += torch.get_num_threads()
            most[0] = max(most[0], now[0])
        try:
            return inner(*args, **kwargs)
        finally:
            with lock:
                now[0] -= torch.get_num_threads()

    monkeypatch.setattr(BatchSolver, "run", watched)
    before = torch.get_num_threads()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda seed: solve(cube_of(500 + seed), max_bytes=200_000), range(9)))
    assert 1 < most[0] <= cores
    assert torch.get_num_threads() == before


def test_a_worker_that_says_one_core_still_uses_each_of_its_threads() -> None:
    # dask workers set OMP_NUM_THREADS=1 and run as many tasks side by side as they have threads
    held = Lease(torch.device("cpu"))
    held.cores, held.active = 1, 2
    inside = threading.Barrier(2, timeout=10)

    def one() -> None:
        with held.batch():
            inside.wait()

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(one), pool.submit(one)]:
            future.result()


def test_a_gpu_runs_one_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_LEASES", {})
    gpu, seen = torch.device("cuda:0"), []

    def one(name: int) -> None:
        with lease.lease(gpu):
            seen.append(("in", name))
            threading.Event().wait(0.02)
            seen.append(("out", name))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(one, range(3)))
    assert [what for what, _ in seen] == ["in", "out"] * 3
    assert all(seen[k][1] == seen[k + 1][1] for k in (0, 2, 4))


# --------------------------------------------------------------------------------------------
# Blocks


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_samples_may_lie_on_any_axis(axis: int) -> None:
    y = cube_of(15).reshape(12, 5, 3)
    want, got = solve(y), solve(np.moveaxis(y, 0, axis), axis=axis)
    for name in OUTPUTS:
        array = got[name]
        if name in {"residual", "fitted"}:
            array = np.moveaxis(array, axis, 0)
        np.testing.assert_allclose(array, want[name], rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", ">f8", "int16", "uint16", "uint32", ">i4", "uint8"])
def test_every_real_dtype_is_read_and_left_as_it_is(dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 99, (12, 20))
    y = values.astype(dtype)
    y.flags.writeable = False
    got, want = solve(y[:, ::-1]), solve(values[:, ::-1].astype(float))
    np.testing.assert_array_equal(got["coef"], want["coef"])
    np.testing.assert_array_equal(y, values)


def test_masked_samples_weights_and_rows_are_missing() -> None:
    y = np.ma.masked_array(cube_of(6).round(3), mask=False)
    plain = np.asarray(y).copy()
    y[3] = 1e20
    y[3] = np.ma.masked
    plain[3] = np.nan
    np.testing.assert_array_equal(solve(y)["coef"], solve(plain)["coef"])
    weights = np.ma.masked_array(np.ones((12, 6)), mask=False)
    weights[3] = np.ma.masked
    rows = np.ma.masked_array(np.repeat(DESIGN[..., None], 6, axis=2), mask=False)
    rows[3, 0] = np.ma.masked
    by_rows = solve_block(
        np.asarray(cube_of(6).round(3)),
        plan=plan(axes={"design": (0, 1), "weights": (0, 1)}),
        design=rows,
        weights=np.ones((12, 6)),
    )
    by_weights = solve_block(
        np.asarray(cube_of(6).round(3)),
        plan=plan(axes={"weights": (0, 1)}),
        design=factorise(DESIGN),
        weights=weights,
    )
    want = solve(plain)
    for got in (by_rows, by_weights):
        np.testing.assert_array_equal(got[1], want["nobs"])
        np.testing.assert_allclose(got[0], want["coef"], rtol=1e-12)
    assert np.isnan(by_rows[6][3]).all()  # no fitted value where the row is masked


def test_a_block_without_pixels_is_empty() -> None:
    got = solve(np.zeros((12, 0, 3)))
    assert got["coef"].shape == (2, 0, 3)
    assert got["residual"].shape == (12, 0, 3)
