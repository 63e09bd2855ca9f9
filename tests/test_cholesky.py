"""Batched Cholesky over the pixel axis, against numpy one system at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xr_lstsq.solvers import cholesky


def systems(s: int, b: int, seed: int = 0) -> np.ndarray:
    """Return (s, s, b) positive definite matrices of modest condition."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(b, s, 2 * s))
    return np.moveaxis(factors @ factors.transpose(0, 2, 1), 0, -1)


def packed(matrices: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(matrices[cholesky.pack_order(matrices.shape[0])].copy())


def estimate(matrices: np.ndarray) -> torch.Tensor:
    """Return the estimate of the smallest eigenvalue of each."""
    s, _, b = matrices.shape
    factor = cholesky.factorise(packed(matrices), s)
    return cholesky.solve_and_judge(factor, torch.ones(s, b).double(), factor.new_empty(s, 2, b))[1]


@pytest.mark.parametrize("s", [1, 2, 5, 30])
@pytest.mark.parametrize("sides", [None, 3])
def test_systems_are_solved_as_numpy_solves_them(s: int, sides: int | None) -> None:
    matrices, b = systems(s, 17), 17
    rhs = np.random.default_rng(1).normal(size=(s, b) if sides is None else (s, sides, b))
    got = cholesky.solve(cholesky.factorise(packed(matrices), s), torch.as_tensor(rhs.copy()))
    for k in range(b):
        want = np.linalg.solve(matrices[..., k], rhs[..., k])
        np.testing.assert_allclose(got[..., k].numpy(), want, rtol=1e-9, atol=1e-11)


def test_a_matrix_that_is_not_positive_definite_spoils_itself_alone() -> None:
    matrices = systems(4, 6)
    alone = estimate(matrices)
    matrices[..., 2] = 0
    matrices[..., 4] = -np.eye(4)
    got = estimate(matrices)
    assert not (got[[2, 4]] > 0).any()
    keep = [0, 1, 3, 5]
    assert torch.equal(got[keep], alone[keep])


@pytest.mark.parametrize("smallest", [1.0, 1e-3, 1e-7])
def test_the_estimate_of_the_smallest_eigenvalue_is_near_it(smallest: float) -> None:
    rng = np.random.default_rng(5)
    matrices = np.empty((6, 6, 40))
    for k in range(40):
        q, _ = np.linalg.qr(rng.normal(size=(6, 6)))
        matrices[..., k] = (q * [1, 1, 0.9, 0.8, 0.7, smallest]) @ q.T
    got = estimate(matrices).numpy()
    want = min(smallest, 0.7)
    assert (got >= want * (1 - 1e-6)).all()  # an upper bound by construction
    assert np.median(got) <= 1.5 * want
