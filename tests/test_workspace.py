"""Memory that batches use one after the other: no batch sees, or harms, another one's numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.pixels import Pixels, pixels
from xr_lstsq.device import Plan, lease, solve_block
from xr_lstsq.device.plan import bytes_of_a_pixel
from xr_lstsq.device.scratch import Scratch
from xr_lstsq.outputs import select
from xr_lstsq.solvers.factor import factorise
from xr_lstsq.solvers.precision import DOUBLE
from xr_lstsq.solvers.workspace import ALIGNED, Workspace

OUTPUTS = select(("rss", "residual", "fitted"))
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool])
SHAPES = st.lists(st.integers(0, 9), min_size=1, max_size=3)


def solve(case: Pixels, **arguments: Any) -> dict[str, np.ndarray]:
    axes = {} if case.weights is None else {"weights": (0, 1)}
    plan = Plan(axis=0, axes=axes, outputs=OUTPUTS, device="cpu", **arguments)
    design = factorise(case.design, case.shared_weights)
    results = solve_block(case.y, plan=plan, design=design, weights=case.weights)
    return {row.name: array for row, array in zip(OUTPUTS, results, strict=True)}


def assert_near(got: dict[str, np.ndarray], want: dict[str, np.ndarray], case: Pixels) -> None:
    """Compare with room for the order of sums, which depends on the size of a batch."""
    for name in ("nobs", "rank", "status"):
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)
    for k in range(case.y.shape[1]):
        off = np.abs(got["coef"][:, k] - want["coef"][:, k])
        if (fit := case.fit(k)).margin > 10 and fit.nobs:
            assert (off <= fit.coef_tol).all()


@given(parts=st.lists(st.tuples(SHAPES, DTYPES), max_size=12), nbytes=st.integers(0, 6000))
def test_tensors_of_a_workspace_never_overlap(
    parts: list[tuple[list[int], torch.dtype]], nbytes: int
) -> None:
    space = Workspace(nbytes)
    for _ in range(2):
        tensors = [space.empty(*shape, dtype=dtype) for shape, dtype in parts]
        for number, tensor in enumerate(tensors):
            assert tensor.is_contiguous()
            assert tensor.numel() == 0 or tensor.data_ptr() % ALIGNED == 0
            tensor.fill_(number % 2 if tensor.dtype == torch.bool else number)
        for number, (tensor, (shape, dtype)) in enumerate(zip(tensors, parts, strict=True)):
            assert (list(tensor.shape), tensor.dtype) == (shape, dtype)
            assert (tensor == (number % 2 if dtype == torch.bool else number)).all()
        space.clear()


def test_a_cleared_workspace_hands_out_the_same_memory() -> None:
    space = Workspace(4096)
    first = space.empty(8, 8)
    assert space.empty(8, 8).data_ptr() != first.data_ptr()
    space.clear()
    assert space.empty(4, dtype=torch.float32).data_ptr() == first.data_ptr()


@given(case=pixels(b=30), dtype=st.sampled_from(["float64", "float32"]))
def test_many_small_batches_give_what_one_large_batch_gives(case: Pixels, dtype: str) -> None:
    n, p = case.design.shape
    most = bytes_of_a_pixel(n, p, DOUBLE, own=False)
    cores = torch.get_num_threads()
    want, got = solve(case, dtype=dtype), solve(case, dtype=dtype, max_bytes=4 * most * cores)
    if dtype == "float64":
        assert_near(got, want, case)
        return
    for name in ("nobs", "rank", "status"):
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)
    residual = [np.nan_to_num(x["residual"]) for x in (got, want)]
    size = np.sqrt(np.nansum(case.y**2))
    if case.weights is None and case.shared_weights is None:
        assert np.abs(residual[0] - residual[1]).max() <= 1e-4 * size


@given(case=pixels(b=30), other=pixels(b=30))
def test_memory_used_before_changes_no_digit(case: Pixels, other: Pixels) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "_LEASES", {})
        fresh = solve(case)
        for _ in range(2):
            solve(replaced(other))
            again = solve(case)
            for name in fresh:
                np.testing.assert_array_equal(again[name], fresh[name], err_msg=name)


def replaced(case: Pixels) -> Pixels:
    """Return pixels whose samples leave large numbers behind."""
    return Pixels(case.design, case.y * 1e150, case.weights, case.shared_weights)


def test_blocks_of_several_threads_keep_to_their_own_memory() -> None:
    cases = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=(20, 400)) + seed
        y[rng.random(y.shape) < 0.3] = np.nan
        weights = rng.random(y.shape) + 0.1 if seed % 3 == 0 else None
        cases.append(Pixels(rng.normal(size=(20, 1 + seed % 6)), y, weights, None))
    alone = [solve(case) for case in cases]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            together = list(pool.map(lambda case: solve(case, max_bytes=2**21), cases))
            for case, got, want in zip(cases, together, alone, strict=True):
                assert_near(got, want, case)


def test_a_worker_gets_memory_that_another_has_given_back() -> None:
    held = lease.Lease(torch.device("cpu"))
    with held.scratch(1024) as first, held.scratch(1024) as second:
        assert first is not second
    with held.scratch(1024) as third:
        assert third in (first, second)
    with held.scratch(2048) as fourth:
        assert isinstance(fourth, Scratch)
        assert fourth.nbytes == 2048


def test_memory_of_a_batch_that_failed_is_not_lent_again() -> None:
    held = lease.Lease(torch.device("cpu"))
    with pytest.raises(ValueError, match="broken"), held.scratch(1024):
        raise ValueError("broken")
    assert held.idle == []
