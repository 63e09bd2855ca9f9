"""Which lane may keep a pixel: traps in which normal equations look healthy and are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests import oracle
from xr_lstsq.solvers import least_squares
from xr_lstsq.solvers.factor import factorise
from xr_lstsq.solvers.problem import Problem, Shared, Solution, weigh

EPS = float(np.finfo(np.float64).eps)
CPU = torch.device("cpu")


def problem_of(design: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Problem:
    """Return the problem of (n, b) samples with NaN in the gaps."""
    given = None if weights is None else torch.as_tensor(weights)
    if design.ndim == 2:
        shared = least_squares.share(factorise(design), CPU)
        samples = weigh(torch.as_tensor(y), weights=given)
        rows: Shared | torch.Tensor = shared
    else:
        samples = weigh(torch.as_tensor(y), weights=given)
        rows = torch.as_tensor(design)
    return Problem(samples.y, samples.weights, samples.nobs, weights is None, rows)


def by_reflectors(problem: Problem) -> Solution:
    """Solve all pixels in the rank-revealing lane."""
    shared = problem.design
    assert isinstance(shared, Shared)
    return least_squares.solve(
        replace(problem, design=replace(shared, tau=1.0)), residual=True, fitted=True
    )


def kept_by_gram(problem: Problem) -> np.ndarray:
    """Return which pixels the Gram lane keeps."""
    shared = problem.design
    assert isinstance(shared, Shared)
    blank = Solution(
        torch.zeros(problem.p, problem.y.shape[1], dtype=torch.float64),
        torch.zeros_like(problem.nobs),
    )
    left = least_squares._gram_shared(problem, blank).numpy()
    return ~np.isin(np.arange(problem.y.shape[1]), left) & (problem.nobs.numpy() > 0)


def gappy(n: int, b: int, share: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, b))
    y[rng.random(y.shape) < share] = np.nan
    return y


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_lanes_give_one_answer(share: float, weighted: bool) -> None:
    rng = np.random.default_rng(2)
    t = np.sort(rng.random(40))
    design = np.c_[np.ones(40), t, np.cos(6 * t), np.sin(6 * t)]
    y = gappy(40, 200, share, 3)
    weights = rng.random(y.shape) * 10 if weighted else None
    problem = problem_of(design, y, weights)
    assert kept_by_gram(problem).mean() > 0.9
    one = least_squares.solve(problem, residual=True, fitted=True)
    other = by_reflectors(problem)
    for k in range(200):
        tolerance = oracle.fit(y[:, k], design, None if weights is None else weights[:, k]).coef_tol
        assert (np.abs((one.coef - other.coef)[:, k].numpy()) <= tolerance).all()
    assert torch.equal(one.rank, other.rank)
    assert one.residual is not None
    assert other.residual is not None
    torch.testing.assert_close(one.residual, other.residual, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(one.fitted, other.fitted, rtol=1e-9, atol=1e-10)


def test_a_missing_row_of_leverage_one_is_seen() -> None:
    # Only row 4 tells the last param: without it the pixel is short, and 0 is the answer
    design = np.c_[np.ones(5), [0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0, 1.0]]
    y = np.array([[1.0], [3.0], [2.0], [5.0], [np.nan]])
    problem = problem_of(design, y)
    assert not kept_by_gram(problem).any()
    solution = least_squares.solve(problem)
    want = oracle.fit(y[:, 0], design)
    assert solution.rank.tolist() == [2]
    assert abs(float(solution.coef[2, 0])) <= 1e-12
    np.testing.assert_allclose(solution.coef[:, 0].numpy(), want.coef, atol=1e-12)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_one_end_of_the_axis_missing_keeps_the_accuracy_of_its_condition(share: float) -> None:
    n = 60
    design = np.vander(np.linspace(0, 1, n), 9, increasing=True)
    rng = np.random.default_rng(1)
    y = rng.normal(size=(n, 12))
    y[: int(share * n)] = np.nan
    solution = least_squares.solve(problem_of(design, y))
    for k in range(12):
        want = oracle.exact(y[:, k], design)[0]
        error = np.abs(solution.coef[:, k].numpy() - want).max() / np.abs(want).max()
        cond = oracle.fit(y[:, k], design).cond
        assert error <= 100 * EPS * cond


def test_a_close_fit_keeps_the_digits_of_a_small_coefficient() -> None:
    # An intercept a thousandth of the samples, in a fit that leaves a ten-thousandth of them
    rng = np.random.default_rng(0)
    n, b = 60, 30
    t = np.linspace(0, 3e6, n)
    design = np.c_[np.ones(n), t, t**2]
    y = design @ [[6.7e-4], [7.3e-7], [-3e-15]] + rng.normal(0, 2e-4, (n, b))
    y[rng.random((n, b)) < 0.3] = np.nan
    solution = least_squares.solve(problem_of(design, y))
    for k in range(b):
        want = oracle.exact(y[:, k], design)[0]
        np.testing.assert_allclose(solution.coef[:, k].numpy(), want, rtol=1e-14)


def test_a_design_per_pixel_gives_what_the_shared_one_gives() -> None:
    rng = np.random.default_rng(6)
    design = np.c_[np.ones(20), np.linspace(-1, 1, 20), rng.normal(size=20)]
    y, b = gappy(20, 50, 0.4, 8), 50
    weights = rng.random(y.shape)
    own = np.repeat(design[:, :, None], b, axis=2)
    own[:, 2, 7] = own[:, 1, 7]  # one pixel with twins
    shared = least_squares.solve(problem_of(design, y, weights), residual=True, fitted=True)
    each = least_squares.solve(problem_of(own, y, weights), residual=True, fitted=True)
    keep = np.arange(b) != 7
    assert each.rank[7] == 2
    assert torch.equal(each.rank[keep], shared.rank[keep])
    assert each.residual is not None
    assert shared.residual is not None
    torch.testing.assert_close(each.coef[:, keep], shared.coef[:, keep], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(each.residual[:, keep], shared.residual[:, keep])
    np.testing.assert_allclose(
        each.coef[:, 7].numpy(), oracle.fit(y[:, 7], own[..., 7], weights[:, 7]).coef, rtol=1e-9
    )


def test_gaps_of_more_than_52_samples_are_told_apart() -> None:
    # Patterns are compared as words of bits; samples past the first word count as well
    design = np.zeros((120, 2))
    design[:60, 0] = 1
    design[60:, 1] = 1
    y = np.random.default_rng(0).normal(size=(120, 3))
    y[60:, 0] = np.nan
    y[60:119, 1] = np.nan
    y[:60, 2] = np.nan
    solution = by_reflectors(problem_of(design, y))
    assert solution.rank.tolist() == [1, 2, 1]
    assert float(solution.coef[1, 1]) == pytest.approx(y[119, 1])
    assert float(solution.coef[1, 0]) == 0


def test_little_memory_changes_nothing() -> None:
    design = np.random.default_rng(0).normal(size=(10, 12))
    problem = problem_of(design, gappy(10, 40, 0.3, 1))
    one, other = least_squares.solve(problem), least_squares.solve(problem, max_bytes=1)
    assert torch.equal(one.rank, other.rank)
    torch.testing.assert_close(one.coef, other.coef, rtol=1e-12, atol=1e-13)


def test_everything_that_hides_a_sample_becomes_weight_zero() -> None:
    y = torch.tensor([[1.0], [torch.nan], [torch.inf], [-9.0], [5.0], [6.0], [7.0], [8.0], [9.0]])
    usable = torch.ones(9, 1, dtype=torch.bool)
    usable[4] = False
    valid = torch.ones(9, 1)
    valid[5] = 0
    weights = torch.ones(9, 1, dtype=torch.float64)
    weights[6], weights[7], weights[8] = 0.0, torch.nan, 2.5
    seen = weigh(y, nodata=(-9.0,), usable=usable, valid=valid, weights=weights)
    assert seen.weights[:, 0].tolist() == [1.0, *[0.0] * 7, 2.5]
    assert seen.y[:, 0].tolist() == [1.0, *[0.0] * 7, 9.0]
    assert seen.nobs.tolist() == [2]
    assert not seen.broken.any()


@pytest.mark.parametrize(("valid", "weight"), [(2.0, 1.0), (1.0, -1.0)])
def test_a_flag_or_weight_that_cannot_be_breaks_its_pixel(valid: float, weight: float) -> None:
    y = torch.ones(2, 2)
    flags, weights = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)
    flags[0, 1], weights[0, 1] = valid, weight
    assert weigh(y, valid=flags, weights=weights).broken.tolist() == [False, True]
