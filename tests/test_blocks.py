"""Blocks, with plain numpy functions that know nothing of fitting."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

from xr_lstsq import blocks
from xr_lstsq.blocks import Operand, Result
from xr_lstsq.errors import ChunkError

FLOAT = np.dtype(np.float64)


def total_and_shape(cube: Any, *, scale: Any, factor: Any = 1.0) -> tuple[Any, ...]:
    """Return the sum over time, and the cube times two weights."""
    return (cube * scale).sum(axis=0) * factor, cube * scale


def run(cube: Any, scale: Any, factor: Any = 1.0) -> tuple[Any, ...]:
    return blocks.run(
        total_and_shape,
        Operand(cube, ("t", "y", "x")),
        {"scale": Operand(scale, ("y", "x")), "factor": Operand(factor, ())},
        [Result(("y", "x"), FLOAT), Result(("t", "y", "x"), FLOAT)],
        whole={"t": cube.shape[0]},
    )


@pytest.fixture
def cube() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(4, 6, 5))


@pytest.fixture
def scale() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(6, 5))


def test_arrays_in_memory_are_run_at_once(cube: np.ndarray, scale: np.ndarray) -> None:
    total, each = run(cube, scale)
    assert isinstance(total, np.ndarray)
    np.testing.assert_array_equal(each, cube * scale)


@pytest.mark.parametrize("chunks", [(4, 2, 5), (4, (1, 0, 5), (2, 3)), (4, 6, 5)])
def test_every_chunking_gives_the_same(
    cube: np.ndarray, scale: np.ndarray, chunks: tuple[Any, ...]
) -> None:
    lazy = da.from_array(cube, chunks=chunks)
    total, each = run(lazy, scale)
    assert total.chunks == lazy.chunks[1:]
    assert each.chunks == lazy.chunks
    assert (total.dtype, each.dtype) == (FLOAT, FLOAT)
    for got, want in zip(dask.compute(total, each), run(cube, scale), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_operands_are_cut_as_the_cube_is(cube: np.ndarray, scale: np.ndarray) -> None:
    lazy = da.from_array(cube, chunks=(4, 2, 5))
    otherwise = da.from_array(scale, chunks=(5, 3))
    total, _ = run(lazy, otherwise)
    assert total.chunks == ((2, 2, 2), (5,))
    np.testing.assert_allclose(total.compute(), (cube * scale).sum(0))


def test_a_cube_in_memory_is_cut_as_its_lazy_operand(cube: np.ndarray, scale: np.ndarray) -> None:
    total, _ = run(cube, da.from_array(scale, chunks=(2, 5)))
    assert total.chunks == ((2, 2, 2), (5,))
    np.testing.assert_allclose(total.compute(), (cube * scale).sum(0))


def test_one_call_makes_all_results_of_a_chunk(cube: np.ndarray, scale: np.ndarray) -> None:
    calls = []

    def counted(block: Any, *, scale: Any, factor: Any) -> tuple[Any, ...]:
        calls.append(block.shape)
        return total_and_shape(block, scale=scale, factor=factor)

    lazy = da.from_array(cube, chunks=(4, 2, 5))
    results = blocks.run(
        counted,
        Operand(lazy, ("t", "y", "x")),
        {"scale": Operand(scale, ("y", "x")), "factor": Operand(2.0, ())},
        [Result(("y", "x"), FLOAT), Result(("t", "y", "x"), FLOAT)],
        whole={"t": 4},
    )
    assert calls == []  # not even on arrays of size zero
    dask.compute(*results, scheduler="sync")
    assert calls == [(4, 2, 5)] * 3


def test_what_is_made_once_is_made_once(cube: np.ndarray, scale: np.ndarray) -> None:
    calls = []

    def make(value: float) -> float:
        calls.append(value)
        return value * 2

    assert blocks.once(make, 1.5, lazy=False) == 3.0
    calls.clear()
    factor = blocks.once(make, 1.5, lazy=True)
    assert calls == []
    total, _ = run(da.from_array(cube, chunks=(4, 1, 1)), scale, factor)
    np.testing.assert_allclose(total.compute(), 3 * (cube * scale).sum(0))
    assert calls == [1.5]


def test_what_is_held_is_not_made_again_for_each_part(cube: np.ndarray, scale: np.ndarray) -> None:
    calls = []

    def make(values: np.ndarray) -> float:
        calls.append(values.shape)
        return float(values.size)

    lazy = da.from_array(np.ones(6), chunks=2)
    factor = blocks.once(make, lazy, lazy=True)
    total, _ = run(da.from_array(cube, chunks=(4, 1, 1)), scale, factor)
    held = blocks.held(total)
    assert calls == [(6,)]
    parts = [held[:1].compute(), held[1:].compute()]
    np.testing.assert_allclose(np.concatenate(parts), 6 * (cube * scale).sum(0))
    assert calls == [(6,)]
    assert blocks.held(cube) is cube


def test_a_series_without_pixels_is_one_block() -> None:
    series = da.from_array(np.arange(3.0), chunks=3)
    (got,) = blocks.run(
        lambda block: (block.sum(keepdims=False),),
        Operand(series, ("t",)),
        {},
        [Result((), FLOAT)],
        whole={"t": 3},
    )
    assert got.compute() == 3.0


def test_a_cut_along_the_samples_is_refused_with_what_to_type(cube: np.ndarray) -> None:
    lazy = da.from_array(cube, chunks=((2, 2), 6, 5))
    with pytest.raises(ChunkError, match=r"'time' of 'ndvi' is in 2 chunks.*all 4 samples.*"
                       r"ndvi\.chunk\(time=-1\).*rechunk=True"):  # fmt: skip
        blocks.refuse_cut(lazy, 0, "time", "ndvi")
    blocks.refuse_cut(da.from_array(cube, chunks=((0, 4), 6, 5)), 0, "time", "ndvi")
    blocks.refuse_cut(cube, 0, "time", "ndvi")


@pytest.mark.parametrize(
    ("scheduler", "name"),
    [("threads", "threads"), ("processes", "processes"), ("synchronous", "sync")],
)
def test_the_scheduler_in_force_is_named(scheduler: str, name: str) -> None:
    assert blocks.scheduler_name() == "threads"
    with dask.config.set(scheduler=scheduler):
        assert blocks.scheduler_name() == name


@pytest.mark.parametrize(("size", "bytes_"), [("2GB", 2 * 10**9), (5, 5), ("1KiB", 1024)])
def test_sizes_are_read(size: Any, bytes_: int) -> None:
    assert blocks.parse_size(size) == bytes_


@pytest.mark.parametrize("size", ["lots", 0, -1, "0MB"])
def test_what_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match=r"max_memory=.*Pass bytes, or text such as '2GB'"):
        blocks.parse_size(size)
