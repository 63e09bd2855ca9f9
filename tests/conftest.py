"""What all tests share: fixed hypothesis examples and a cluster of two real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import distributed

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
