"""The oracle itself: right to many digits, and independent of what it judges."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings

from tests import oracle, strategies


def pixel(array: xr.DataArray | None) -> np.ndarray | None:
    """Return the first pixel of an array with samples first."""
    return None if array is None else array.values.reshape(*_leading(array), -1)[..., 0]


def _leading(array: xr.DataArray) -> tuple[int, ...]:
    return tuple(array.sizes[dim] for dim in array.dims if dim in {"sample", "param"})


@given(problem=strategies.problems(kinds=("generic", "polynomial", "network", "islands"),
                                   pixelwise=False, max_pixels=1))  # fmt: skip
@settings(max_examples=40)
def test_float64_agrees_with_60_digits_within_its_own_tolerance(
    problem: strategies.Problem,
) -> None:
    arguments = [pixel(problem.cube), problem.design.values,
                 pixel(problem.weights), pixel(problem.valid)]  # fmt: skip
    fit = oracle.fit(*arguments)
    coef, rank, rss = oracle.exact(*arguments)
    if fit.margin < 10:
        return
    assert fit.rank == rank
    np.testing.assert_array_equal(np.isnan(fit.coef), np.isnan(coef))
    if fit.nobs:
        assert (abs(fit.coef - coef) <= fit.coef_tol).all()
        assert abs(fit.rss - rss) <= fit.rss_tol


def test_a_line_by_hand() -> None:
    fit = oracle.fit(
        [1.0, np.nan, 4.0, 5.0], [[1, 0], [1, 1], [1, 2], [1, 3]], [1.0, 1.0, 2.0, 0.0]
    )
    # Two samples are left: (0, 1) and (2, 4).
    np.testing.assert_allclose(fit.coef, [1.0, 1.5], rtol=1e-14)
    assert (fit.nobs, fit.rank, fit.dof) == (2, 2, 0)
    np.testing.assert_allclose(fit.fitted, [1.0, 2.5, 4.0, 5.5], rtol=1e-14)
    assert np.isnan(fit.residual).tolist() == [False, True, False, True]


def test_weights_multiply_the_squared_residual() -> None:
    fit = oracle.fit([1.0, 4.0], [[1.0], [1.0]], [3.0, 1.0])
    np.testing.assert_allclose([fit.coef[0], fit.rss], [1.75, 3 * 0.75**2 + 2.25**2], rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e18])
def test_the_shortest_answer_is_the_one_in_own_units(scale: float) -> None:
    # Only 2 a + scale b = 4 is known: the shortest (a, b) lies along (2, scale).
    fit = oracle.fit([4.0], [[2.0, scale]])
    want = 4.0 / (4.0 + scale**2) * np.array([2.0, scale])
    np.testing.assert_allclose(fit.coef, want, rtol=1e-13)
    assert fit.rank == 1


def test_the_rank_does_not_move_with_units() -> None:
    ticks = 1.3e18 + 2.5e16 * np.arange(10.0)
    fit = oracle.fit(np.arange(10.0), np.c_[np.ones(10), ticks])
    assert fit.rank == 2


def test_no_valid_sample_leaves_nan_and_rank_zero() -> None:
    fit = oracle.fit([np.nan, np.inf], [[1.0], [1.0]])
    assert np.isnan(fit.coef).all()
    assert np.isnan(fit.rss)
    assert (fit.rank, fit.nobs, fit.dof) == (0, 0, 0)


def test_the_oracle_imports_nothing_of_the_package() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import)
             for alias in node.names}  # fmt: skip
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(name.startswith(("xr_lstsq", "torch", "tests")) for name in names)
