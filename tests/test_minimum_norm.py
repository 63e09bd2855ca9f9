"""The rank-revealing solver on its own: hard weights, mixed ranks, shared patterns."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from tests import oracle
from xr_lstsq.solvers.minimum_norm import MinimumNorm

EPS = float(np.finfo(np.float64).eps)


def solve(
    rows: np.ndarray, y: np.ndarray, pattern: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve for (n, p, u) rows and (n, b) samples with the default cut-off."""
    cutoffs = torch.full((rows.shape[2],), EPS * max(rows.shape[:2]), dtype=torch.float64)
    index = None if pattern is None else torch.as_tensor(pattern)
    system = MinimumNorm.of(torch.as_tensor(rows), cutoffs, index)
    coef, residual = system.solve(torch.as_tensor(y))
    return coef.numpy(), system.take(system.rank).numpy(), residual.numpy()


@pytest.mark.parametrize(("n", "p"), [(12, 3), (5, 5), (4, 7), (1, 1), (1, 3)])
@pytest.mark.parametrize("r", [1, 2, 5])
def test_every_rank_gives_the_shortest_answer(n: int, p: int, r: int) -> None:
    rng = np.random.default_rng(n + 10 * p + 100 * r)
    b = 9
    rows = np.einsum("nrb,rpb->npb", rng.normal(size=(n, r, b)), rng.normal(size=(r, p, b)))
    y = rng.normal(size=(n, b))
    coef, rank, residual = solve(rows, y)
    assert (rank == min(n, p, r)).all()
    for k in range(b):
        want = oracle.fit(y[:, k], rows[..., k])
        np.testing.assert_allclose(coef[:, k], want.coef, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(residual[:, k], y[:, k] - rows[..., k] @ coef[:, k], atol=1e-10)


def test_pixels_with_the_same_design_share_it() -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(8, 3, 4)), rng.normal(size=(8, 50))
    rows[:, 2, 1] = rows[:, 0, 1]  # one of the designs is short
    pattern = rng.integers(0, 4, 50)
    shared, alone = solve(rows, y, pattern), solve(rows[..., pattern], y)
    for one, other in zip(shared, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)
    assert set(shared[1]) == {2, 3}


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e155, 1e200, 1e300])
def test_columns_whose_squares_are_no_numbers_change_their_own_coefficient_only(
    size: float,
) -> None:
    rng = np.random.default_rng(1)
    rows, y = rng.normal(size=(9, 3, 6)), rng.normal(size=(9, 6))
    rows[2:, :, 0] = y[2:, 0] = 0  # short of rank
    want, ranks, residual = solve(rows, y)
    coef, rank, left = solve(rows * np.array([1.0, size, 1.0])[:, None], y)
    np.testing.assert_array_equal(rank, ranks)
    full = rank == 3
    np.testing.assert_allclose(coef[1, full] * size, want[1, full], rtol=1e-12)
    np.testing.assert_allclose(coef[::2, full], want[::2, full], rtol=1e-12)
    np.testing.assert_allclose(left[:, full], residual[:, full], rtol=1e-12, atol=1e-13)


def test_a_design_that_is_not_finite_has_no_answer_and_spoils_no_other() -> None:
    rng = np.random.default_rng(2)
    rows, y = rng.normal(size=(9, 3, 4)), rng.normal(size=(9, 4))
    want, ranks, _ = solve(rows, y)
    rows[4, 1, 2] = np.inf
    coef, rank, _ = solve(rows, y)
    assert np.isnan(coef[:, 2]).all()
    others = [0, 1, 3]
    np.testing.assert_array_equal(rank[others], ranks[others])
    np.testing.assert_allclose(coef[:, others], want[:, others], rtol=1e-13)


def test_no_rows_at_all_have_rank_zero_and_no_coefficients() -> None:
    coef, rank, residual = solve(np.zeros((4, 2, 3)), np.zeros((4, 3)))
    assert not coef.any()
    assert not rank.any()
    assert not residual.any()


def test_three_heavy_rows_leave_the_light_ones_their_digits() -> None:
    # Heavy rows that agree exactly, and a fourth param that only rows of weight 1e-24 determine
    rng = np.random.default_rng(8)
    n = 12
    design = np.vander(np.linspace(-1, 1, n), 4, increasing=True)
    y = rng.normal(size=n)
    weights = np.where(np.arange(n) < 3, 1.0, 1e-24)
    root = np.sqrt(weights)
    coef, rank, _ = solve((design * root[:, None])[..., None], (y * root)[:, None])
    want = [float(x) for x in exact(design * root[:, None], y * root)]
    assert rank.tolist() == [4]
    np.testing.assert_allclose(coef[:, 0], want, rtol=1e-11)


def test_params_in_units_that_lie_far_apart_keep_the_shortest_answer() -> None:
    rng = np.random.default_rng(4)
    units = np.array([1e8, 1.0, 1e-8, 1e3])
    basis = rng.normal(size=(10, 2))
    rows = basis @ rng.normal(size=(2, 4)) / units
    y = rng.normal(size=10)
    coef, rank, _ = solve(rows[..., None], y[:, None])
    assert rank.tolist() == [2]
    # The shortest of all answers lies in the row space: x = B'(BB')^-1 z, in exact arithmetic
    q, _ = np.linalg.qr(basis)
    want = row_space_answer(q.T @ rows, q.T @ y)
    np.testing.assert_allclose(coef[:, 0], want, rtol=1e-7)


def exact(rows: np.ndarray, y: np.ndarray) -> list[Fraction]:
    """Solve the normal equations in rational arithmetic."""
    a = [[Fraction(float(x)) for x in row] for row in rows]
    b = [Fraction(float(x)) for x in y]
    p = len(a[0])
    gram = [[sum(row[i] * row[j] for row in a) for j in range(p)] for i in range(p)]
    rhs = [sum(row[i] * v for row, v in zip(a, b, strict=True)) for i in range(p)]
    return eliminate(gram, rhs)


def row_space_answer(back: np.ndarray, z: np.ndarray) -> np.ndarray:
    a = [[Fraction(float(x)) for x in row] for row in back]
    gram = [[sum(x * y for x, y in zip(u, v, strict=True)) for v in a] for u in a]
    t = eliminate(gram, [Fraction(float(x)) for x in z])
    return np.array([float(sum(row[j] * c for row, c in zip(a, t, strict=True))) for j in range(4)])


def eliminate(matrix: list[list[Fraction]], rhs: list[Fraction]) -> list[Fraction]:
    """Solve a square system in rational arithmetic."""
    rows = [[*row, value] for row, value in zip(matrix, rhs, strict=True)]
    size = len(rows)
    for k in range(size):
        pivot = next(i for i in range(k, size) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(size):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]
