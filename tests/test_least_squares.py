"""Which lane may keep a pixel: traps in which normal equations look healthy and are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests import oracle
from tests.pixels import Pixels, pixels, problem_of
from xr_lstsq.solvers import least_squares
from xr_lstsq.solvers.factor import factorise
from xr_lstsq.solvers.lane import Kept
from xr_lstsq.solvers.lanes import LANES, Lane
from xr_lstsq.solvers.problem import Problem, Solution, weigh
from xr_lstsq.solvers.reflected import solve_reflected
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.solvers.wanted import NOTHING, Wanted

EPS = float(np.finfo(np.float64).eps)


def whole(problem: Problem, *facts: str) -> Solution:
    """Solve every pixel, those that are left too."""
    wanted = Wanted(frozenset(facts))
    solution = least_squares.solve(problem, wanted)
    left = solution.left.nonzero()[:, 0]
    rest = least_squares.solve_carefully(problem.take(left), wanted)
    assert not rest.left.any()
    solution.coef[:, left], solution.rank[left] = rest.coef, rest.rank
    for name in facts:
        solution.facts[name][..., left] = rest.facts[name]
    return solution


def kept_by(lane: Lane, problem: Problem) -> np.ndarray:
    """Return which pixels a lane keeps."""
    return LANES[lane](problem, NOTHING).keep.numpy()


def gappy(n: int, b: int, share: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, b))
    y[rng.random(y.shape) < share] = np.nan
    return y


def answers_of(lane: Lane, problem: Problem) -> Kept | None:
    """Return what a lane makes of a batch, forced on all of it; None where it cannot run."""
    shared = problem.shared
    if lane == Lane.COMPLETE and not (problem.flags and not problem.missing.any()):
        return None
    if lane in (Lane.MISSING, Lane.WIDE, Lane.VALID_ROWS) and not problem.flags:
        return None
    if lane == Lane.WIDE and shared.wide is None:
        return None
    basis = shared.basis.whole  # the complement also where another lane is always cheaper
    complement = torch.eye(len(basis), dtype=torch.float64) - basis @ basis.T
    design: Shared | torch.Tensor = replace(shared, complement=complement)
    if lane == Lane.OWN_DESIGN:
        design = shared.rows[:, :, None].repeat(1, 1, problem.nobs.numel())
        root = shared.root_weights[:, None]
        kept = LANES[lane](replace(problem, design=design, y=problem.y * root), NOTHING)
        fitted = kept.fitted() / root
        return replace(kept, evaluate=lambda: fitted)
    return LANES[lane](replace(problem, design=design), NOTHING)


@given(case=pixels())
@settings(max_examples=100)
def test_every_lane_that_keeps_a_pixel_gives_the_one_answer(case: Pixels) -> None:
    problem = case.problem()
    want = least_squares.solve_carefully(problem)
    fits = [case.fit(k) for k in range(case.y.shape[1])]
    every = whole(problem, "fitted")
    assert torch.equal(every.rank, want.rank)
    kept_all = torch.ones_like(problem.nobs, dtype=torch.bool)
    chosen = solve_reflected(problem)
    chosen = replace(chosen, coef=every.coef, rank=every.rank, keep=kept_all)
    answers: dict[str, Kept | None] = {
        "chosen": replace(chosen, evaluate=lambda: every.facts["fitted"])
    }
    safe = problem.shared.tau < 1 and problem.shared.basis.whole.numel()
    answers |= {lane.name: answers_of(lane, problem) for lane in LANES if safe}
    for name, kept in answers.items():
        fitted = torch.empty(0) if kept is None else kept.fitted()
        for k in () if kept is None else (kept.keep & (problem.nobs > 0)).nonzero()[:, 0]:
            assert kept.rank[k] == want.rank[k], name
            if fits[k].margin > 10:
                error = np.abs(kept.coef[:, k].numpy() - fits[k].coef)
                assert (error <= fits[k].coef_tol).all(), name
                error = np.abs(fitted[:, k].numpy() - fits[k].fitted)
                assert (error <= fits[k].fitted_tol).all(), name


def test_the_lane_law_reaches_every_lane() -> None:
    rng = np.random.default_rng(0)
    tall, broad = rng.normal(size=(20, 4)), rng.normal(size=(4, 9))
    for design, lanes in (
        (tall, ["MISSING", "GRAM", "OWN_DESIGN"]),
        (broad, ["WIDE", "VALID_ROWS"]),
    ):
        problem = problem_of(design, gappy(design.shape[0], 30, 0.2, 1))
        for name in lanes:
            kept = answers_of(Lane[name], problem)
            assert kept is not None
            assert kept.keep.double().mean() > 0.5, name


def test_each_lane_is_chosen_where_it_is_the_cheapest(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--lane"):
        pytest.skip("a lane is forced")

    def lanes(n: int, p: int, gaps: list[int], weights: bool = False) -> list[str]:
        y = np.random.default_rng(0).normal(size=(n, len(gaps)))
        for pixel, count in enumerate(gaps):
            y[:count, pixel] = np.nan
        design = np.random.default_rng(1).normal(size=(n, p))
        problem = problem_of(design, y, np.ones_like(y) if weights else None)
        return [Lane(lane).name for lane in least_squares.choose(problem).tolist()]

    assert lanes(100, 12, [0, 1, 30, 100]) == ["COMPLETE", "MISSING", "GRAM", "NONE"]
    assert lanes(100, 12, [87, 88, 99]) == ["GRAM", "VALID_ROWS", "VALID_ROWS"]
    assert lanes(50, 100, [24, 25]) == ["WIDE", "VALID_ROWS"]
    assert lanes(100, 6, [0, 1, 30]) == ["COMPLETE", "GRAM", "GRAM"]
    assert lanes(87, 29, [0, 9, 50]) == ["COMPLETE", "MISSING", "GRAM"]
    assert lanes(50, 100, [0, 10, 50]) == ["COMPLETE", "WIDE", "NONE"]
    assert lanes(30, 3, [0, 2], weights=True) == ["GRAM", "GRAM"]


def test_a_wide_design_is_not_inverted_where_the_rank_of_its_rows_is_in_doubt() -> None:
    rng = np.random.default_rng(5)
    design = rng.normal(size=(4, 9))
    assert factorise(design).wide is not None
    assert factorise(design, rcond=0.02).wide is None
    design[2] *= 1e13  # rows of unit norm look harmless, the rule does not
    assert factorise(design).wide is None
    y = gappy(4, 60, 0.3, 2)
    solution = whole(problem_of(design, y))
    ranks = [oracle.fit(y[:, k], design).rank for k in range(60)]
    assert solution.rank.tolist() == ranks


def test_a_design_of_ill_conditioned_rows_is_not_inverted() -> None:
    rng = np.random.default_rng(0)
    design = rng.normal(size=(6, 12))
    assert factorise(design).wide is not None
    design[5] = design[4] + 1e-4 * rng.normal(size=12)
    assert factorise(design).wide is None
    y = gappy(6, 40, 0.3, 1)
    solution = whole(problem_of(design, y))
    for k in range(40):
        one = oracle.fit(y[:, k], design)
        assert (np.abs(solution.coef[:, k].numpy() - one.coef) <= one.coef_tol).all()


def test_a_missing_row_of_leverage_one_is_seen() -> None:
    # Only row 4 tells the last param: without it the pixel is short, and 0 is the answer
    design = np.c_[np.ones(5), [0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0, 1.0]]
    y = np.array([[1.0], [3.0], [2.0], [5.0], [np.nan]])
    problem = problem_of(design, y)
    assert not kept_by(Lane.GRAM, problem).any()
    assert not kept_by(Lane.MISSING, problem).any()
    solution = whole(problem)
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
    solution = whole(problem_of(design, y))
    for k in range(12):
        want = oracle.exact(y[:, k], design)[0]
        error = np.abs(solution.coef[:, k].numpy() - want).max() / np.abs(want).max()
        cond = oracle.fit(y[:, k], design).cond
        assert error <= 100 * EPS * cond


def test_a_close_fit_keeps_the_digits_of_a_small_coefficient(
    request: pytest.FixtureRequest,
) -> None:
    if request.config.getoption("--lane") == "minimum_norm":
        pytest.skip("that lane promises eps times condition")
    # An intercept a thousandth of the samples, in a fit that leaves a ten-thousandth of them
    rng = np.random.default_rng(0)
    n, b = 60, 30
    t = np.linspace(0, 3e6, n)
    design = np.c_[np.ones(n), t, t**2]
    y = design @ [[6.7e-4], [7.3e-7], [-3e-15]] + rng.normal(0, 2e-4, (n, b))
    y[rng.random((n, b)) < 0.3] = np.nan
    solution = whole(problem_of(design, y))
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
    shared = whole(problem_of(design, y, weights), "residual", "fitted")
    samples = replace(problem_of(design, y, weights), design=torch.as_tensor(own))
    each = whole(samples, "residual", "fitted")
    keep = np.arange(b) != 7
    assert each.rank[7] == 2
    assert torch.equal(each.rank[keep], shared.rank[keep])
    torch.testing.assert_close(each.coef[:, keep], shared.coef[:, keep], rtol=1e-9, atol=1e-10)
    left, right = each.facts["residual"], shared.facts["residual"]
    torch.testing.assert_close(left[:, keep], right[:, keep])
    np.testing.assert_allclose(
        each.coef[:, 7].numpy(), oracle.fit(y[:, 7], own[..., 7], weights[:, 7]).coef, rtol=1e-9
    )


def test_residuals_of_light_rows_are_not_lost_beside_heavy_ones() -> None:
    rng = np.random.default_rng(3)
    design = np.vander(np.linspace(-1, 1, 12), 4, increasing=True)
    y = rng.normal(size=(12, 5)) + 100
    weights = np.where(np.arange(12) < 3, 1.0, 1e-24)[:, None] * np.ones((1, 5))
    problem = problem_of(design, y, weights)
    solution = whole(problem, "residual")
    rss = (problem.weights * solution.facts["residual"].square()).sum(0).numpy()
    want = [float(oracle.exact(y[:, k], design, weights[:, k])[2]) for k in range(5)]
    np.testing.assert_allclose(rss, want, rtol=1e-11)


def test_a_basis_too_large_for_all_products_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    design = np.random.default_rng(0).normal(size=(30, 7))
    y, weights = gappy(30, 50, 0.3, 1), np.random.default_rng(2).random((30, 50)) + 0.1
    want = whole(problem_of(design, y, weights))
    monkeypatch.setattr("xr_lstsq.solvers.shared.MOST_SHARED", 7 * 8 // 2 * 30 - 1)
    problem = problem_of(design, y, weights)
    assert not problem.shared.products.numel()
    got = whole(problem)
    torch.testing.assert_close(got.coef, want.coef, rtol=1e-13, atol=1e-14)


def test_gaps_of_more_than_52_samples_are_told_apart() -> None:
    # Patterns are compared as words of bits; samples past the first word count as well
    design = np.zeros((120, 2))
    design[:60, 0] = 1
    design[60:, 1] = 1
    y = np.random.default_rng(0).normal(size=(120, 3))
    y[60:, 0] = np.nan
    y[60:119, 1] = np.nan
    y[:60, 2] = np.nan
    solution = least_squares.solve_carefully(problem_of(design, y))
    assert solution.rank.tolist() == [1, 2, 1]
    assert float(solution.coef[1, 1]) == pytest.approx(y[119, 1])
    assert float(solution.coef[1, 0]) == 0


def test_little_memory_changes_nothing() -> None:
    design = np.random.default_rng(0).normal(size=(10, 12))
    problem = problem_of(design, gappy(10, 40, 0.3, 1))
    one = least_squares.solve_carefully(problem)
    other = least_squares.solve_carefully(problem, max_bytes=1)
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
