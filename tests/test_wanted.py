"""Facts of every lane against an oracle that drops rows and takes the pseudo-inverse.

The facts are those of `xr_lstsq.solvers.wanted`: variances, leverage and the rest, from which all
statistics are made.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.pixels import Pixels, pixels
from xr_lstsq.solvers import least_squares
from xr_lstsq.solvers.lanes import LANES, Lane
from xr_lstsq.solvers.meat import FULL_LEVERAGE
from xr_lstsq.solvers.reflected import solve_reflected
from xr_lstsq.solvers.shared import IN_SPAN
from xr_lstsq.solvers.wanted import FACTS, SAFE_INVERSE, Sandwich, Wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xr_lstsq.solvers.lane import Kept
    from xr_lstsq.solvers.problem import Problem

    Floats = NDArray[np.float64]

EPS = oracle.EPS
GROWTH = 256.0
"""Rounding errors that may pile up on one another, apart from those a condition explains."""
NINE_DIGITS = 3e-9
KINDS = ("HC0", "HC1", "HC2", "HC3", "HAC")
MAXLAGS = 3


def kernel(n: int) -> Floats:
    """Return the weights of Bartlett for samples one step apart."""
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return np.clip(1.0 - lag / (MAXLAGS + 1.0), 0.0, None)


# --------------------------------------------------------------------------------------------
# The oracle


@dataclass(frozen=True)
class Truth:
    """Facts of one pixel, and how far a lane may be off.

    Attributes
    ----------
    facts : dict of str to array
        As those of a lane, without the axis of the pixels.
    rank : int
        Rank of the weighted rows that count.
    counts : array of bool, (n,)
        Samples that count.
    fit : oracle.Fit
        With the tolerances of fitted values.
    size : array of float, (p,)
        Root of the variance of each param. Where the rank is short, at least the norm of its column
        over the square of the smallest singular value: minimum norm may leave little of that.
    scores : array of float, (v,)
        Weighted residuals as the sandwich takes them.
    """

    facts: dict[str, Any]
    rank: int
    counts: NDArray[np.bool_]
    fit: oracle.Fit
    size: Floats
    scores: Floats


def pseudo_inverse(rows: Floats) -> tuple[Floats, int, float]:
    """Return the pseudo-inverse of weighted rows, their rank, and the condition of unit columns.

    The rank is that of columns of unit norm, the pseudo-inverse is in the params' own units.
    """
    v, p = rows.shape
    norms = np.linalg.norm(rows, axis=0)
    norms[norms == 0] = 1.0
    left, sizes, right = scipy.linalg.svd(rows / norms, full_matrices=False)
    rank = int((sizes > EPS * max(v, p) * sizes[0]).sum())
    if rank == p:
        q, triangle = scipy.linalg.qr(rows / norms, mode="economic")
        inverse = scipy.linalg.solve_triangular(triangle, q.T) / norms[:, None]
        return inverse, rank, float(sizes[0] / sizes[-1])
    if rank == v:
        return of_full_row_rank(rows), rank, float(np.inf)
    # Of a product of matrices of full rank: the product of theirs
    back = of_full_row_rank(right[:rank] * norms)
    return back @ (left[:, :rank] / sizes[:rank]).T, rank, float(np.inf)


def of_full_row_rank(matrix: Floats) -> Floats:
    """Return the pseudo-inverse of a matrix whose columns may differ in size by many orders."""
    order = np.argsort(-np.abs(matrix).max(axis=0))
    q, triangle, pivots = scipy.linalg.qr(matrix.T[order], mode="economic", pivoting=True)
    unit = np.eye(len(matrix))[pivots]
    inverse = np.empty(matrix.T.shape)
    inverse[order] = q @ scipy.linalg.solve_triangular(triangle, unit, trans="T")
    return inverse


def truth(y: Floats, design: Floats, weights: Floats | None, kind: str) -> Truth:
    """Return the facts of one pixel by dropping its rows."""
    counts = oracle.valid_rows(y, design, weights)
    fit = oracle.fit(y, design, weights)
    root = np.ones(counts.sum()) if weights is None else np.sqrt(weights[counts])
    rows = design[counts] * root[:, None]
    inverse, rank, cond = pseudo_inverse(rows)
    hat = np.zeros(len(y))
    hat[counts] = np.einsum("ij,ji->i", rows, inverse)
    residual = np.where(counts, fit.residual, 0.0)
    left = root - rows @ (inverse @ root)
    free = np.clip(1.0 - hat[counts], 0.0, None)
    middle = kernel(len(y))[np.ix_(counts, counts)] if kind == "HAC" else np.eye(counts.sum())
    with np.errstate(divide="ignore", invalid="ignore"):  # where nothing can be known
        factor = {
            "HC1": np.sqrt(counts.sum() / np.float64(counts.sum() - rank)),
            "HC2": 1 / np.sqrt(free),
            "HC3": 1 / free,
        }.get(kind, 1.0)
        scores = residual[counts] * root * factor
        sandwich = (inverse * scores) @ middle @ (inverse * scores).T
    facts = {
        "residual": residual,
        "fitted": fit.fitted,
        "variance": np.diag(inverse @ inverse.T),
        "covariance": inverse @ inverse.T,
        "leverage": hat,
        "cond": cond,
        "constant": left @ left / (root @ root),
        "sandwich": sandwich,
    }
    size = np.sqrt(facts["variance"])
    if rank < design.shape[1]:
        size = np.maximum(size, np.linalg.norm(rows, axis=0) * np.linalg.norm(inverse, 2) ** 2)
    return Truth(facts, rank, counts, fit, size, scores)


# --------------------------------------------------------------------------------------------
# Lanes, forced on a batch


def facts_of(problem: Problem, lane: Lane, wanted: Wanted) -> tuple[Kept, dict[str, Floats]] | None:
    """Return what a lane makes of a batch, forced on all of it; None where it cannot run."""
    if lane == Lane.MINIMUM_NORM:
        kept = solve_reflected(problem)
        return kept, as_arrays(kept.facts(problem, wanted))
    shared, basis = problem.shared, problem.shared.basis.whole
    if not (shared.tau < 1 and basis.numel()):
        return None
    if lane == Lane.COMPLETE and (not problem.flags or bool(problem.missing.any())):
        return None
    if lane in (Lane.MISSING, Lane.WIDE, Lane.VALID_ROWS) and not problem.flags:
        return None
    if lane == Lane.WIDE and shared.wide is None:
        return None
    if lane == Lane.OWN_DESIGN:
        rows = shared.plain[:, :, None].repeat(1, 1, problem.nobs.numel())
        flags = problem.flags and shared.plain_weights
        problem = replace(problem, design=rows, weights=problem.full_weights, flags=flags)
    else:  # the complement is there also where another lane would be cheaper
        complement = torch.eye(len(basis), dtype=torch.float64) - basis @ basis.T
        problem = replace(problem, design=replace(shared, complement=complement))
    kept = LANES[lane](problem, wanted)
    return kept, as_arrays(kept.facts(problem, wanted))


def as_arrays(facts: dict[str, torch.Tensor]) -> dict[str, Floats]:
    return {name: values.numpy() for name, values in facts.items()}


def everything(kind: str, n: int, *, without_dof: bool = True) -> Wanted:
    """Return the request for every fact."""
    bartlett = torch.as_tensor(kernel(n)) if kind == "HAC" else None
    return Wanted(frozenset(FACTS), Sandwich(kind, bartlett), without_dof=without_dof)


def smallest_eigenvalue(problem: Problem, lane: Lane, k: int, cond: float) -> float:
    """Return the smallest eigenvalue of a pixel's system in a lane, the largest being about 1."""
    if lane == Lane.OWN_DESIGN:
        return cond**-2
    if lane == Lane.MINIMUM_NORM:  # no normal equations
        return 1 / cond
    weights, shared = problem.normalised_weights()[:, k].numpy(), problem.shared
    if lane in (Lane.WIDE, Lane.VALID_ROWS):
        rows = (shared.rows * shared.row_scale[:, None]).numpy()
        # All rows are inverted together, then those of the gaps are taken out
        rows = rows[shared.root_weights.numpy() > 0] if lane == Lane.WIDE else rows[weights > 0]
        return float(np.linalg.eigvalsh(rows @ rows.T)[0])
    basis = shared.basis.whole.numpy()
    return float(np.linalg.eigvalsh((basis * weights[:, None]).T @ basis)[0])


def assert_true(got: dict[str, Floats], k: int, truth: Truth, kind: str, error: float) -> None:
    """Compare the facts of pixel k, of which variances may be off by a relative `error`."""
    facts, counts, p = truth.facts, truth.counts, len(truth.size)
    size = np.outer(truth.size, truth.size)
    off = np.abs(got["variance"][:, k] - facts["variance"])
    assert (off <= error * np.diag(size)).all(), "variance"
    off = np.abs(got["covariance"][..., k] - facts["covariance"])
    assert (off <= error * size).all(), "covariance"
    off = np.abs(got["leverage"][:, k] - facts["leverage"])[counts]
    assert (off <= error).all(), "leverage"
    if truth.rank < p:
        assert got["cond"][k] == np.inf
    else:
        off = abs(got["cond"][k] / facts["cond"] - 1.0)
        assert off <= error + GROWTH * EPS * facts["cond"], "cond"
    off = abs(np.sqrt(got["constant"][k]) - np.sqrt(facts["constant"]))
    assert off <= error, "constant"
    assert (got["constant"][k] <= IN_SPAN**2) == (facts["constant"] <= IN_SPAN**2)
    assert (got["residual"][~counts, k] == 0).all()
    off = np.abs(got["residual"][:, k] - facts["residual"])
    assert (off <= truth.fit.fitted_tol).all(), "residual"
    off = np.abs(got["fitted"][:, k] - facts["fitted"])
    assert (off <= truth.fit.fitted_tol).all(), "fitted"
    free = 1.0 - facts["leverage"][counts]
    if counts.sum() > truth.rank and (kind not in ("HC2", "HC3") or free.min() > 1e-6):
        assert_sandwich(got["sandwich"][..., k], truth, kind, error)


def assert_sandwich(got: Floats, truth: Truth, kind: str, error: float) -> None:
    """Compare a robust covariance G K G' of one pixel, with G = (A'WA)+ (w e a)'.

    It may be off by what rounding of residuals, leverage and inverse make of each other.
    """
    facts, counts = truth.facts, truth.counts
    free = 1.0 - facts["leverage"][counts]
    power = {"HC2": 0.5, "HC3": 1.0}.get(kind, 0.0)
    residual = np.abs(facts["residual"][counts])
    relative = truth.fit.fitted_tol[counts] / np.where(residual > 0, residual, np.inf)
    of_scores = np.abs(truth.scores) * (relative + power * error / free)
    largest = np.abs(truth.scores).max()
    change = truth.size * (of_scores.max() + error * largest)
    mass = truth.size * largest
    width = MAXLAGS + 1.0 if kind == "HAC" else 1.0  # the norm of the kernel
    limit = width * (np.outer(change, mass) + np.outer(mass, change))
    assert (np.abs(got - facts["sandwich"]) <= limit).all(), "sandwich"


# --------------------------------------------------------------------------------------------
# The law


@given(case=pixels(b=5), kind=st.sampled_from(KINDS))
@settings(max_examples=25)
def test_every_lane_that_keeps_a_pixel_gives_the_facts_of_its_rows(case: Pixels, kind: str) -> None:
    problem = case.problem()
    request = everything(kind, len(case.y))
    truths: dict[int, Truth] = {}
    for lane in (*LANES, Lane.MINIMUM_NORM):
        made = facts_of(problem, lane, request)
        if made is None:
            continue
        kept, got = made
        for k in (kept.keep & (problem.nobs > 0)).nonzero()[:, 0].tolist():
            weights = case.shared_weights if case.weights is None else case.weights[:, k]
            if k not in truths:
                truths[k] = truth(case.y[:, k], case.design, weights, kind)
            if truths[k].fit.margin <= 10:  # the rank is in doubt
                continue
            assert int(kept.rank[k]) == truths[k].rank, lane.name
            least = smallest_eigenvalue(problem, lane, k, truths[k].fit.cond)
            error = GROWTH * EPS * (1 / least + truths[k].fit.cond)
            if lane != Lane.MINIMUM_NORM:
                # lanes estimate it, on the safe side within an order of magnitude
                assert least > 0.1 * SAFE_INVERSE or lane == Lane.OWN_DESIGN
                error = min(error, NINE_DIGITS)
            assert_true(got, k, truths[k], kind, error)


# --------------------------------------------------------------------------------------------
# Every lane with every kind of covariance


@dataclass(frozen=True)
class Row:
    """A lane, and pixels that it keeps: most of them, so that the comparison is not empty."""

    lane: Lane
    n: int
    p: int
    share: float
    weighted: bool = False
    short: bool = False


GRID = (
    Row(Lane.COMPLETE, 40, 5, 0.0),
    Row(Lane.COMPLETE, 12, 20, 0.0),
    Row(Lane.COMPLETE, 40, 5, 0.0, short=True),
    Row(Lane.MISSING, 40, 5, 0.3),
    Row(Lane.MISSING, 40, 5, 0.3, short=True),
    Row(Lane.GRAM, 40, 5, 0.3),
    Row(Lane.GRAM, 40, 5, 0.3, weighted=True),
    Row(Lane.GRAM, 40, 5, 0.3, weighted=True, short=True),
    Row(Lane.GRAM, 12, 20, 0.0, weighted=True),
    Row(Lane.WIDE, 12, 20, 0.3),
    Row(Lane.WIDE, 12, 12, 0.1),
    Row(Lane.VALID_ROWS, 30, 12, 0.75),
    Row(Lane.VALID_ROWS, 12, 20, 0.3),
    Row(Lane.OWN_DESIGN, 40, 5, 0.3),
    Row(Lane.OWN_DESIGN, 40, 5, 0.3, weighted=True),
    Row(Lane.MINIMUM_NORM, 40, 5, 0.3, weighted=True),
    Row(Lane.MINIMUM_NORM, 40, 5, 0.3, short=True),
    Row(Lane.MINIMUM_NORM, 12, 20, 0.3),
)


def label(row: Row) -> str:
    words = [row.lane.name.lower(), f"{row.n}x{row.p}"]
    words += ["weighted"] * row.weighted + ["short"] * row.short
    return " ".join(words)


@functools.cache
def batch(row: Row, b: int = 8) -> Pixels:
    rng = np.random.default_rng(8)
    design = rng.integers(-9, 10, (row.n, row.p)) / 4.0
    if row.short:  # exactly, and of pixels with any gaps
        design[:, -1] = design[:, 1] - 2.0 * design[:, 0]
    y = 3.0 + rng.normal(size=(row.n, b))
    y[rng.random(y.shape) < row.share] = np.nan
    return Pixels(design, y, np.exp(rng.normal(size=y.shape)) if row.weighted else None, None)


@functools.cache
def problem_of_row(row: Row) -> Problem:
    return batch(row).problem()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", GRID, ids=label)
def test_a_lane_gives_the_facts_of_the_rows(row: Row, kind: str) -> None:
    case, problem = batch(row), problem_of_row(row)
    made = facts_of(problem, row.lane, everything(kind, row.n))
    assert made is not None
    kept, got = made
    pixels_kept = kept.keep.nonzero()[:, 0].tolist()
    assert len(pixels_kept) > case.y.shape[1] / 4
    for k in pixels_kept:
        weights = None if case.weights is None else case.weights[:, k]
        want = truth(case.y[:, k], case.design, weights, kind)
        assert int(kept.rank[k]) == want.rank
        cond = want.fit.cond
        error = GROWTH * EPS * (1 / smallest_eigenvalue(problem, row.lane, k, cond) + cond)
        assert_true(got, k, want, kind, min(error, NINE_DIGITS))


def test_what_the_solver_returns_is_what_its_lanes_return() -> None:
    # Some pixels in each of several lanes, written one after another into one answer
    rng = np.random.default_rng(2)
    design = np.c_[np.ones(60), rng.normal(size=(60, 11))]
    y = rng.normal(size=(60, 80))
    for k, gaps in enumerate(np.repeat([0, 3, 25, 50, 56, 60], [20, 20, 20, 10, 9, 1])):
        y[rng.permutation(60)[:gaps], k] = np.nan
    case = Pixels(design, y, None, None)
    problem = case.problem()
    assert len(set(least_squares.choose(problem).tolist())) >= 4
    request = everything("HC3", 60)
    solution = least_squares.solve(problem, request)
    left = solution.left
    rest = least_squares.solve_carefully(problem, request)
    assert left.sum() < 20
    for k in range(79):
        found = rest if left[k] else solution
        want = truth(y[:, k], design, None, "HC3")
        assert int(found.rank[k]) == want.rank
        assert_true(as_arrays(found.facts), k, want, "HC3", NINE_DIGITS)
    for found in (solution, rest):
        facts = as_arrays(found.facts)
        assert (facts["residual"][:, 79] == 0).all()
        for name in set(FACTS) - {"residual"}:
            assert np.isnan(facts[name][..., 79]).all(), name


@pytest.mark.parametrize("size", [1e-200, 1e155, 1e200])
def test_the_condition_does_not_move_with_the_units_of_a_column(size: float) -> None:
    rng = np.random.default_rng(3)
    design = np.c_[np.ones(40), np.arange(40) / 9, rng.normal(size=40)]
    y = rng.normal(size=(40, 20))
    y[rng.random(y.shape) < 0.3] = np.nan
    wanted = Wanted(frozenset({"cond"}))
    want, got = (
        least_squares.solve(Pixels(rows, y, None, None).problem(), wanted).facts["cond"].numpy()
        for rows in (design, design * [size, 1, 1])
    )
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_robust_covariances_have_nine_digits_at_the_gate_of_their_lane() -> None:
    # A window at one end of the axis leaves S nearly singular
    rng = np.random.default_rng(4)
    x = np.linspace(-1, 1, 60)
    design = np.vander(x, 4, increasing=True)
    y = rng.normal(size=(60, 12))
    for k in range(12):
        y[: 12 + 2 * k, k] = np.nan
    wanted = Wanted(frozenset({"sandwich"}), Sandwich("HC0"))
    problem = Pixels(design, y, None, None).problem()
    least = np.array([smallest(problem, k) for k in range(12)])
    solution = least_squares.solve(problem, wanted)
    keep = ~solution.left.numpy()
    assert 0 < keep.sum() < 12
    assert least[keep].min() < 1e-3
    for k in np.flatnonzero(keep):
        want = truth(y[:, k], design, None, "HC0").facts["sandwich"]
        spread = np.sqrt(np.outer(np.diag(want), np.diag(want)))
        got = solution.facts["sandwich"].numpy()[..., k]
        assert (np.abs(got - want) <= 1e-9 * spread).all()


def smallest(problem: Problem, k: int) -> float:
    """Return the smallest eigenvalue of Q'WQ of a pixel."""
    rows = problem.shared.basis.whole.numpy()[problem.weights[:, k].numpy() > 0]
    return float(np.linalg.eigvalsh(rows.T @ rows)[0])


def test_nothing_is_returned_that_is_not_wanted() -> None:
    case = batch(GRID[5])
    for names in ((), ("variance",), ("cond", "leverage")):
        solution = least_squares.solve(case.problem(), Wanted(frozenset(names)))
        assert set(solution.facts) == set(names)


def test_variances_of_pixels_without_degrees_of_freedom_are_made_only_where_they_are_of_use() -> (
    None
):
    case = batch(Row(Lane.WIDE, 12, 20, 0.3))
    for lane in (Lane.WIDE, Lane.VALID_ROWS):
        for of_use in (False, True):
            made = facts_of(case.problem(), lane, everything("HC0", 12, without_dof=of_use))
            assert made is not None
            for name in ("variance", "covariance"):
                assert np.isnan(made[1][name]).all() == (not of_use)


@pytest.mark.parametrize("kind", ["HC2", "HC3"])
@pytest.mark.parametrize("exact", [False, True], ids=["noise", "whole numbers"])
@pytest.mark.parametrize("lane", [Lane.GRAM, Lane.MISSING, Lane.OWN_DESIGN, Lane.MINIMUM_NORM])
def test_a_sample_of_leverage_1_leaves_nothing_to_know_of_its_pixel(
    lane: Lane, kind: str, exact: bool
) -> None:
    # A step after the last but one sample: where that sample is there, it alone determines it
    rng = np.random.default_rng(4)
    n, b = 12, 6
    design = np.c_[np.ones(n), np.arange(n) - 5.0, np.arange(n) >= n - 2]
    y = rng.integers(-4, 5, (n, b)).astype(float) if exact else rng.normal(size=(n, b))
    y[rng.random(y.shape) < 0.2] = np.nan
    y[-2:] = 1.0
    y[-1, ::2] = np.nan
    case = Pixels(design, y, None, None)
    made = facts_of(case.problem(), lane, everything(kind, n))
    assert made is not None
    kept, got = made
    assert kept.keep.all()
    for k in range(b):
        if k % 2:
            want = truth(y[:, k], design, None, kind)
            assert 1.0 - want.facts["leverage"].max() > 100 * FULL_LEVERAGE
            assert_true(got, k, want, kind, NINE_DIGITS)
        else:
            assert got["leverage"][-2, k] == pytest.approx(1.0, abs=FULL_LEVERAGE)
            assert np.isnan(got["sandwich"][..., k]).any()


def test_the_condition_of_as_many_samples_as_params_is_not_that_of_their_square() -> None:
    # Rows of unit norm are harmless, and solved by their own products; those of A'A are not
    rng = np.random.default_rng(0)
    design = rng.normal(size=(30, 3))
    design[::3] *= 1e-5
    y = np.full((30, 6), np.nan)
    for k in range(6):
        y[[0, 1 + k, 2 + 3 * k], k] = rng.normal(size=3)
    problem = Pixels(design, y, None, None).problem()
    assert (least_squares.choose(problem) == Lane.VALID_ROWS).all()
    solution = least_squares.solve(problem, Wanted(frozenset({"cond"})))
    keep = ~solution.left.numpy()
    assert keep.any()
    rows = [design[np.isfinite(y[:, k])] for k in range(6)]
    want = np.array([np.linalg.cond(each / np.linalg.norm(each, axis=0)) for each in rows])
    np.testing.assert_allclose(solution.facts["cond"].numpy()[keep], want[keep], rtol=1e-9)
