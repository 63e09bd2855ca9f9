"""The CPU and CUDA give the same fit: ranks and statuses exactly, floats within rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings

import xr_lstsq
from tests import strategies
from tests.test_laws import assert_same, reference, solve
from xr_lstsq.device import plan

if TYPE_CHECKING:
    from tests.strategies import Problem

pytestmark = pytest.mark.gpu

STATS = ("dof", "rss", "rmse", "residual", "fitted")


def cube_and_design(pixels: int = 30_000, p: int = 6) -> tuple[xr.DataArray, np.ndarray]:
    rng = np.random.default_rng(11)
    design = rng.normal(size=(40, p))
    values = design @ rng.normal(size=(p, pixels)) + rng.normal(size=(40, pixels))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, 5] = np.nan  # no data
    values[p - 2 :, 7] = np.nan  # short of rank
    return xr.DataArray(values, dims=("sample", "pixel")), design


def fit(device: str, **arguments: Any) -> xr.Dataset:
    cube, design = cube_and_design()
    return xr_lstsq.solve(cube, design, "sample", stats=STATS, device=device, **arguments)


def assert_close(got: xr.Dataset, want: xr.Dataset, rtol: float) -> None:
    for name in want.data_vars:
        if want[name].dtype.kind == "f":
            atol = rtol * float(abs(want[name]).max())
            np.testing.assert_allclose(got[name], want[name], rtol=rtol, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(got[name], want[name], err_msg=name)


@given(problem=strategies.problems())
@settings(max_examples=150)
def test_cuda_and_the_cpu_agree_on_every_problem(problem: Problem) -> None:
    limits = 2 * reference(problem)
    limits["margin"] = limits["margin"] / 2  # a factor, not a tolerance
    assert_same(solve(problem, device="cuda"), solve(problem, device="cpu"), limits)


@pytest.mark.parametrize("max_memory", [None, "20MB"])
def test_cuda_and_the_cpu_agree_on_a_cube_in_any_batches(max_memory: str | None) -> None:
    assert_close(fit("cuda", max_memory=max_memory), fit("cpu"), rtol=1e-11)


def test_a_float32_answer_of_cuda_is_that_of_the_cpu() -> None:
    got, want = fit("cuda", dtype="float32"), fit("cpu", dtype="float32")
    assert got["coef"].dtype == np.float32
    assert_close(got, want, rtol=1e-4)


@pytest.mark.parametrize("slow", [True, False])
def test_a_card_slow_in_float64_gives_the_same_answer(
    slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(plan.slow_in_float64(torch.device("cuda")), bool)
    monkeypatch.setattr(plan, "slow_in_float64", lambda _: slow)
    assert_close(fit("cuda"), fit("cpu"), rtol=1e-11)


def test_products_in_float32_keep_all_their_digits() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        assert_close(fit("cuda", dtype="float32"), fit("cpu"), rtol=1e-4)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_more_params_than_samples_have_the_same_answer() -> None:
    rng = np.random.default_rng(12)
    design = rng.normal(size=(20, 40))
    values = rng.normal(size=(20, 500))
    values[rng.random(values.shape) < 0.2] = np.nan
    cube = xr.DataArray(values, dims=("sample", "pixel"))
    got, want = (xr_lstsq.solve(cube, design, "sample", device=d) for d in ("cuda", "cpu"))
    assert_close(got, want, rtol=1e-10)


def test_chunks_of_a_lazy_cube_take_turns_on_the_card() -> None:
    cube, design = cube_and_design()
    lazy = xr_lstsq.solve(cube.chunk(pixel=4_000), design, "sample", stats=STATS, device="cuda")
    assert_close(lazy.compute(scheduler="threads"), fit("cpu"), rtol=1e-11)


def test_auto_takes_the_card() -> None:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.max_memory_allocated()
    assert_close(fit("auto"), fit("cpu"), rtol=1e-11)
    assert torch.cuda.max_memory_allocated() > before
