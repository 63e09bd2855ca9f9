"""How long the stages of the work take: seconds of all threads of this process together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["STAGES", "stage", "totals"]

STAGES = ("read", "copy", "solve", "write")
"""In the order of the work."""

_SECONDS: dict[str, float] = {}
_LOCK = threading.Lock()


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Add the time spent inside to that of a stage.

    Parameters
    ----------
    name : str
        One of STAGES.
    """
    started = time.perf_counter()
    try:
        yield
    finally:
        spent = time.perf_counter() - started
        with _LOCK:
            _SECONDS[name] = _SECONDS.get(name, 0.0) + spent


def totals() -> dict[str, float]:
    """Return the seconds of each stage since the process began; subtract two to get a run's."""
    with _LOCK:
        return dict(_SECONDS)
