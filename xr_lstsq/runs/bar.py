"""A bar of pixels done, their rate and the time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bar"]


@contextmanager
def bar(*, visible: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Give a function of pixels done and in all that shows them on standard error.

    Parameters
    ----------
    visible : bool
        Gives None instead where it is False.
    """
    if not visible:
        yield None
        return
    from tqdm.auto import tqdm

    bars: list[tqdm] = []

    def show(done: int, total: int) -> None:
        if not bars:
            # A log file gets a line now and then, a terminal a bar that moves.
            interval = 0.1 if sys.stderr.isatty() else 10.0
            bars.append(tqdm(total=total, unit="pixel", unit_scale=True, mininterval=interval))
        bars[0].update(done - bars[0].n)

    try:
        yield show
    finally:
        for one in bars:
            one.close()
