"""What all tests share: fixed hypothesis examples and a cluster of two real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import distributed

    from xr_lstsq.solvers.problem import Problem

# The same examples in every run, and no deadline: the first solve of a process imports torch.
hypothesis.settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("fixed")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked `gpu` where torch sees no CUDA device."""
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch sees no CUDA device")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option by which every test runs in one lane of the solver, wherever it may."""
    parser.addoption(
        "--lane",
        choices=["missing", "gram", "wide", "valid_rows", "minimum_norm"],
        help="solve every pixel in this lane of the solver where it can be used at all",
    )


@pytest.fixture(autouse=True)
def one_lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Force the lane of ``--lane``; what it cannot keep still goes to the rank-revealing one."""
    name = request.config.getoption("--lane")
    if name is None:
        return
    import torch

    from xr_lstsq.solvers import least_squares
    from xr_lstsq.solvers.least_squares import Lane

    lane, natural = Lane[name.upper()], least_squares.choose

    def forced(problem: Problem) -> torch.Tensor:
        chosen = natural(problem)
        shared = chosen.new_tensor(
            [Lane.COMPLETE, Lane.MISSING, Lane.GRAM, Lane.WIDE, Lane.VALID_ROWS]
        )
        able = torch.isin(chosen, shared)
        if lane in (Lane.MISSING, Lane.WIDE, Lane.VALID_ROWS):
            able &= problem.flags
        if lane == Lane.MISSING and able.any():
            able &= problem.shared.complement.numel() > 0
        if lane == Lane.WIDE and able.any():
            able &= problem.shared.wide is not None
        if lane == Lane.VALID_ROWS and able.any():
            able &= problem.nobs <= problem.shared.basis.whole.shape[1]
        if lane == Lane.MINIMUM_NORM:
            able = chosen != Lane.NONE
        return torch.where(able, lane, chosen)

    monkeypatch.setattr(least_squares, "choose", forced)


@pytest.fixture(scope="module")
def two_processes() -> Iterator[distributed.LocalCluster]:
    """Start a cluster of two worker processes."""
    import distributed  # slow, and few tests need it

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as local:
        yield local


@pytest.fixture
def cluster(two_processes: distributed.LocalCluster) -> Iterator[distributed.Client]:
    """Make the cluster the default scheduler of one test, and of no other."""
    with two_processes.get_client() as client:
        yield client
