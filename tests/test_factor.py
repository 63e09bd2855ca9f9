"""The factorisation of a shared design, against itself in exact terms and against numpy."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from xr_lstsq.solvers.factor import factorise

EPS = np.finfo(np.float64).eps


@given(st.integers(1, 12), st.integers(1, 12), st.booleans(), st.integers(0, 2**16))
def test_basis_and_back_transform_reproduce_the_design(
    n: int, p: int, weighted: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-4, 5, p)
    weights = rng.random(n) + 0.1 if weighted else None
    factor = factorise(design, weights)
    q, to_coef = factor.basis.whole, factor.to_coef.whole
    r = min(n, p)
    assert q.shape == (n, r)
    np.testing.assert_allclose(q.T @ q, np.eye(r), atol=8 * EPS * n)
    rows = design * np.sqrt(1 if weights is None else weights)[..., None]
    sizes = np.abs(rows).max(axis=0)
    # Q Q' A = A, and A B+ = Q: the span and the coordinates in it are those of the design
    np.testing.assert_allclose(q @ (q.T @ rows) / sizes, rows / sizes, atol=64 * EPS * n)
    cond = np.linalg.cond(rows / np.linalg.norm(rows, axis=0)) if n >= p else np.linalg.cond(rows)
    np.testing.assert_allclose(rows @ to_coef, q, atol=64 * EPS * n * cond)
    np.testing.assert_allclose(
        factor.to_fit * factor.root_weights[:, None], q, atol=64 * EPS * n * cond
    )


def test_short_rank_gives_the_pseudo_inverse() -> None:
    rng = np.random.default_rng(3)
    design = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 5))
    factor = factorise(design)
    assert factor.basis.whole.shape == (9, 2)
    pinv = np.linalg.pinv(design, rcond=1e-12)
    np.testing.assert_allclose(factor.to_coef.whole @ factor.basis.whole.T, pinv, atol=1e-13)


def test_collinear_columns_whose_rounding_differs_are_seen_as_one() -> None:
    design = np.outer(np.arange(1.0, 8.0), [0.1, 0.2, 0.3])
    assert factorise(design).basis.whole.shape == (7, 1)
    assert factorise(np.zeros((4, 3))).basis.whole.shape == (4, 0)


def test_rcond_is_the_cut_off_of_the_rank() -> None:
    design = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-6], [1.0, 1.0 - 1e-6]])
    assert factorise(design).basis.whole.shape == (3, 2)
    assert factorise(design, rcond=1e-3).basis.whole.shape == (3, 1)


def test_rows_that_cannot_be_used_are_zero_and_named() -> None:
    design = np.array([[1.0, 2.0], [np.nan, 1.0], [3.0, np.inf], [1.0, -1.0], [2.0, 2.0]])
    factor = factorise(design, np.array([1.0, 1.0, 1.0, 0.0, np.nan]))
    assert factor.finite.tolist() == [True, False, False, True, True]
    assert (factor.root_weights > 0).tolist() == [True, False, False, False, False]
    assert not factor.rows[1:].any()
    assert factor.plain[3].tolist() == [1.0, -1.0]
    # Rows of weight 0 still have fitted values
    np.testing.assert_allclose(factor.to_fit, factor.plain @ factor.to_coef.whole, atol=1e-14)


def test_a_negative_weight_is_told() -> None:
    assert factorise(np.eye(2), np.array([1.0, -1.0])).negative
    assert not factorise(np.eye(2), np.array([1.0, 0.0])).negative


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_extreme_units_neither_overflow_nor_vanish(size: float) -> None:
    rng = np.random.default_rng(0)
    design = rng.normal(size=(8, 3)) * [size, 1.0, 1 / size]
    units = np.array([[size], [1.0], [1 / size]])
    plain = factorise(design * units.T**-1.0)
    factor = factorise(design, np.full(8, size))
    inverse = (factor.to_coef.whole * units) @ factor.basis.whole.T * np.sqrt(size)
    np.testing.assert_allclose(
        inverse, plain.to_coef.whole @ plain.basis.whole.T, rtol=1e-11, atol=1e-13
    )


def test_halves_add_up_to_more_digits_than_float64() -> None:
    design = np.vander(np.linspace(0, 1, 20), 6)
    halves = factorise(design).basis
    assert np.array_equal(halves.high + halves.low, halves.whole)
    assert np.abs(halves.low).max() <= 2.0**-24
    # The leading halves are numbers of 24 bits on a grid, so that they multiply without rounding
    grid = 2.0 ** (np.frexp(np.abs(halves.whole).max(axis=1))[1] - 24.0)
    assert np.array_equal(halves.high / grid[:, None] % 1, np.zeros_like(halves.high))


def test_weights_that_lie_too_far_apart_send_every_pixel_to_the_reflectors() -> None:
    design = np.vander(np.linspace(0, 1, 10), 3)
    assert factorise(design, np.logspace(0, -24, 10)).tau < 1
    assert factorise(design, np.logspace(0, -45, 10)).tau == 1
