"""What each precision promises: ranks and statuses of float64, and how near its answers are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import xr_lstsq
from tests import strategies
from tests.pixels import Pixels, pixels
from tests.test_laws import assert_same, reference
from xr_lstsq.device import plan
from xr_lstsq.method import Method
from xr_lstsq.solvers import least_squares
from xr_lstsq.solvers.precision import DOUBLE, MIXED, SINGLE, Precision
from xr_lstsq.solvers.problem import Problem, Solution
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.solvers.wanted import Wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
ROUGH = float(np.finfo(np.float32).eps)
STATS = ("dof", "rss", "rmse", "residual", "fitted")
FIT = Wanted(frozenset({"residual", "fitted"}))
EXACT = ("status", "rank", "nobs", "dof")


def staged(case: Pixels, precision: Precision) -> tuple[Solution, torch.Tensor]:
    """Return what is solved in a precision, and which pixels it keeps."""
    problem = case.problem(precision)
    assume(problem.shared.single and problem.shared.tau < 1)
    solution = least_squares.solve(problem, FIT)
    return solution, ~solution.left & (problem.nobs > 0)


def carefully(problem: Problem) -> Solution:
    return least_squares.solve_carefully(problem, FIT)


def dataset(case: Pixels, *, own: bool = False, **changes: Any) -> xr.Dataset:
    """Solve by the public function, with the design for all pixels or a copy for each."""
    dims = ("sample", "pixel")
    design = xr.DataArray(case.design, dims=("sample", "param"))
    if own:
        design = design * xr.DataArray(np.linspace(1.0, 2.0, case.y.shape[1]), dims="pixel")
    weights = None if case.weights is None else xr.DataArray(case.weights, dims=dims)
    if case.shared_weights is not None:
        weights = xr.DataArray(case.shared_weights, dims="sample")
    cube = xr.DataArray(case.y, dims=dims)
    arguments = {"design": design, "dim": "sample", "weights": weights, "stats": STATS}
    return xr_lstsq.solve(cube, **arguments, **changes)


# --------------------------------------------------------------------------------------------
# float32 systems with float64 refinement


@given(case=pixels(), power=st.sampled_from([-200, 0, 200]))
@settings(max_examples=100)
def test_float32_systems_give_float64_answers(case: Pixels, power: int) -> None:
    unit = 10.0**power
    scaled = replace(case, y=case.y * unit)
    solution, keep = staged(scaled, MIXED)
    double = scaled.problem()
    assert torch.equal(solution.rank[keep], carefully(double).rank[keep])
    for k in keep.nonzero()[:, 0]:
        fit = case.fit(int(k))
        if fit.margin > 10:
            error = np.abs(solution.coef[:, k].numpy() / unit - fit.coef)
            assert (error <= fit.coef_tol).all()
            error = np.abs(solution.facts["fitted"][:, k].numpy() / unit - fit.fitted)
            assert (error <= fit.fitted_tol).all()


@given(case=pixels(wide=False))
@settings(max_examples=100)
def test_float32_systems_are_as_good_as_float64_ones(case: Pixels) -> None:
    solution, keep = staged(case, MIXED)
    double = least_squares.solve(case.problem())
    both = keep & ~double.left
    error = (solution.coef - double.coef).abs()[:, both].numpy()
    assert (error <= 1e4 * EPS * natural_scale(case)[:, both]).all()


def natural_scale(case: Pixels) -> Floats:
    """Return ||W^(1/2) y|| times the norms of the rows of B+ over the smallest eigenvalue."""
    size, smallest = facts(case)
    rows = np.linalg.norm(case.problem().shared.to_coef.whole.numpy(), axis=1)
    return rows[:, None] * size / smallest


def facts(case: Pixels) -> tuple[Floats, Floats]:
    """Return ||W^(1/2) y|| and the smallest eigenvalue of Q'WQ, with weights of at most 1."""
    problem = case.problem()
    weights = problem.normalised_weights().numpy()
    basis = problem.shared.basis.whole.numpy()
    size = np.sqrt((weights * problem.scaled_samples().numpy() ** 2).sum(0))
    systems = np.einsum("ir,ib,is->brs", basis, weights, basis)
    return size, np.maximum(np.linalg.eigvalsh(systems)[:, 0], EPS)


@given(problem=strategies.problems())
def test_a_device_slow_in_float64_gives_what_others_give(problem: strategies.Problem) -> None:
    arguments = {"stats": STATS, "device": "cpu", **problem.arguments()}
    want = xr_lstsq.solve(problem.cube, **arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "slow_in_float64", lambda _: True)
        got = xr_lstsq.solve(problem.cube, **arguments)
    assert_same(got, want, reference(problem))
    for name in EXACT:
        xr.testing.assert_equal(got[name], want[name])


# --------------------------------------------------------------------------------------------
# float32


@given(case=pixels(wide=False))
@settings(max_examples=150)
def test_float32_is_off_by_its_rounding_over_the_smallest_eigenvalue(case: Pixels) -> None:
    solution, keep = staged(case, SINGLE)
    double = case.problem()
    want, (size, smallest) = carefully(double), facts(case)
    assert torch.equal(solution.rank[keep], want.rank[keep])
    limit = 50 * ROUGH * size / smallest
    spread = np.linalg.norm(double.shared.to_fit.numpy(), axis=1)[:, None]
    off = (solution.coef - want.coef).abs().numpy()
    assert (off <= 50 * ROUGH * natural_scale(case))[:, keep].all()
    off = (solution.facts["fitted"] - want.facts["fitted"]).abs().numpy()
    assert (off <= limit * spread)[:, keep].all()
    weights = double.normalised_weights() * double.shared.root_weights[:, None].square()
    off = (
        (weights * (solution.facts["residual"] - want.facts["residual"]).square())
        .sum(0)
        .sqrt()
        .numpy()
    )
    assert (off <= limit)[keep].all()


@given(case=pixels(wide=True))
@settings(max_examples=150)
def test_float32_of_a_wide_design_is_off_by_its_rounding_over_that_of_the_rows(
    case: Pixels,
) -> None:
    # With rows of unit norm: |dx| <= C eps ||y|| / smallest eigenvalue of A A' of the valid rows
    case = replace(case, weights=None)
    solution, keep = staged(case, SINGLE)
    double = case.problem()
    want = carefully(double)
    assert torch.equal(solution.rank[keep], want.rank[keep])
    rows = (double.shared.rows * double.shared.row_scale[:, None]).numpy()
    y = (double.scaled_samples() * double.shared.row_scale[:, None]).numpy()
    for k in keep.nonzero()[:, 0]:
        valid = double.weights[:, k].numpy() > 0
        smallest = np.linalg.eigvalsh(rows[valid] @ rows[valid].T)[0]
        off = np.linalg.norm((solution.coef[:, k] - want.coef[:, k]).numpy())
        assert off <= 50 * ROUGH * np.linalg.norm(y[:, k]) / smallest


@given(case=pixels(wide=False))
@settings(max_examples=100)
def test_float32_of_a_design_a_pixel_is_off_by_its_rounding_over_that_of_unit_columns(
    case: Pixels,
) -> None:
    shared = case.problem(SINGLE)
    rows = shared.shared.plain[:, :, None].repeat(1, 1, shared.nobs.numel())
    solution = least_squares.solve(replace(shared, design=rows.float()))
    want = carefully(replace(case.problem(), design=rows))
    keep = ~solution.left & (shared.nobs > 0)
    assert torch.equal(solution.rank[keep], want.rank[keep])
    double = case.problem()
    roots = double.normalised_weights().sqrt()
    sizes = (roots * double.y).norm(dim=0)
    for k in keep.nonzero()[:, 0]:
        weighted = (rows[:, :, k] * roots[:, k, None]).numpy()
        norms = np.linalg.norm(weighted, axis=0)
        smallest = np.linalg.svd(weighted / norms, compute_uv=False)[-1] ** 2
        size = float(sizes[k])
        off = (solution.coef[:, k] - want.coef[:, k]).abs().numpy()
        assert (off <= 200 * ROUGH * size / norms / smallest).all()


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # 1e300 in float32
@given(case=pixels(hard=True), own=st.booleans())
@settings(max_examples=200)
def test_statuses_and_ranks_in_float32_are_always_those_of_float64(case: Pixels, own: bool) -> None:
    got, want = (dataset(case, own=own, dtype=dtype) for dtype in ("float32", "float64"))
    for name in EXACT:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)
    for name in ("coef", *STATS):
        assert got[name].dtype == (np.float32 if name not in EXACT else want[name].dtype)
        np.testing.assert_array_equal(np.isnan(got[name]), np.isnan(want[name]), err_msg=name)


@given(case=pixels(), own=st.booleans())
@settings(max_examples=100)
def test_fits_in_float32_are_near_those_in_float64(case: Pixels, own: bool) -> None:
    got, want = (dataset(case, own=own, dtype=dtype) for dtype in ("float32", "float64"))
    weights = 1.0 if case.shared_weights is None else case.shared_weights[:, None]
    weights = weights if case.weights is None else case.weights
    size = np.sqrt(np.nansum(weights * case.y**2, axis=0))
    off = weights * (got["residual"] - want["residual"]).values ** 2
    assert (np.sqrt(np.nansum(off, axis=0)) <= 1e-4 * size).all()
    for name, share in (("rss", 1.0), ("rmse", np.sqrt(want["nobs"].values))):
        roots = (np.sqrt(x[name].values) if name == "rss" else x[name].values for x in (got, want))
        off = np.nan_to_num(next(roots) - next(roots)) * share
        assert (np.abs(off) <= 1e-4 * size).all()


@given(case=pixels())
def test_what_float32_leaves_is_the_float64_answer_rounded(case: Pixels) -> None:
    solution = least_squares.solve(case.problem(SINGLE))
    got, want = (dataset(case, dtype=dtype)["coef"].values for dtype in ("float32", "float64"))
    left = solution.left.numpy()
    np.testing.assert_allclose(got[:, left], want[:, left], rtol=ROUGH, atol=0)


DESIGNS = {
    "polynomial of years": np.vander(np.linspace(2000.0, 2020.0, 40), 11),
    "parabola in years": np.vander(np.linspace(2000.0, 2020.0, 40), 3),
    "tiny column": np.c_[np.ones(40), 1e-20 * np.linspace(-1, 1, 40)],
    "huge column": np.c_[np.ones(40), 1e25 * np.linspace(-1, 1, 40)],
}


@pytest.mark.parametrize("design", DESIGNS)
def test_a_design_that_float32_cannot_hold_is_solved_in_float64_and_rounded(design: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(40, 30)) + 5
    y[rng.random(y.shape) < 0.2] = np.nan
    case = Pixels(DESIGNS[design], y, None, None)
    assert not case.problem().shared.single
    got, want = (dataset(case, dtype=dtype) for dtype in ("float32", "float64"))
    for name in ("coef", "rss", "rmse", "residual", "fitted"):
        np.testing.assert_array_equal(got[name], want[name].astype(np.float32), err_msg=name)


def test_precisions_are_tried_from_the_cheapest_to_the_one_that_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = Pixels(np.c_[np.ones(9), np.arange(9.0)], np.ones((9, 2)), None, None).problem().shared
    bad = replace(good, single=False)
    cpu = torch.device("cpu")

    def stages(
        dtype: str, shared: Shared | None, *facts: str, **method: Any
    ) -> tuple[Precision | None, ...]:
        asked = plan.Plan(0, {}, (), Method(**method), dtype=dtype)
        return plan.stages(asked, shared, Wanted(frozenset(facts)), cpu)

    assert stages("float64", good) == (DOUBLE, None)
    assert stages("float32", good) == (SINGLE, DOUBLE, None)
    assert stages("float32", bad) == (DOUBLE, None)
    assert stages("float32", None) == (SINGLE, DOUBLE, None)
    monkeypatch.setattr(plan, "slow_in_float64", lambda _: True)
    assert stages("float64", good) == (MIXED, DOUBLE, None)
    assert stages("float64", bad) == (DOUBLE, None)
    assert stages("float64", None) == (DOUBLE, None)
    assert stages("float32", good) == (SINGLE, DOUBLE, None)
    # An inverse is not refined; spans and whitened rows are a matter of float64's digits
    assert stages("float64", good, "residual") == (MIXED, DOUBLE, None)
    assert stages("float64", good, "variance") == (DOUBLE, None)
    assert stages("float32", good, "variance") == (SINGLE, DOUBLE, None)
    assert stages("float32", good, "constant") == (DOUBLE, None)
    assert stages("float32", good, noise="ar1") == (DOUBLE, None)
