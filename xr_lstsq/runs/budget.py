"""How a run stays inside the memory that it is given: chunks, threads, windows and the solver."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["MINIMUM", "Budget", "peak_bytes", "resident_bytes", "share_out"]

MINIMUM = 500 * 10**6
"""Least budget of a process: Python with torch and what else is imported takes 350 to 450 MB."""
BASE = 450 * 10**6
"""What a process takes before it has a cube, where that cannot be measured."""
COPIES = 4
"""Chunks' worth of memory while a chunk is read and solved: as it is stored, as numbers, what
unpacking takes on the way, and a copy in the order of the solver."""
SOLVER_BYTES = 64 * 2**20
"""Working memory of a core; more does not make it faster."""


@dataclass(frozen=True)
class Budget:
    """How the memory of a process is shared out.

    Attributes
    ----------
    total : int
        All of it, in bytes.
    base : int
        What the process takes without a cube.
    solver : int
        Working memory of the solver, for all threads together.
    window : int
        Results that are computed before they are written.
    chunks : int
        What is left for chunks of the cube, with all copies of them.
    """

    total: int
    base: int
    solver: int
    window: int
    chunks: int

    def chunk_bytes(self, threads: int) -> int:
        """Return the cube of one chunk, as numbers, when `threads` of them are read and solved."""
        return self.chunks // (COPIES * max(1, threads))

    def threads(self, chunk_bytes: int, most: int) -> int:
        """Return how many chunks of a size may be in flight, at least one.

        Parameters
        ----------
        chunk_bytes : int
            Cube of a chunk, with what is read beside it.
        most : int
            Threads that there are.
        """
        return max(1, min(most, self.chunks // max(1, COPIES * chunk_bytes)))


def share_out(total: int, base: int, threads: int) -> Budget:
    """Share out the memory of a process.

    Parameters
    ----------
    total : int
        All of it, in bytes.
    base : int
        What it takes already.
    threads : int
        Threads that solve.

    Raises
    ------
    ValueError
        When it is too little to begin with.
    """
    free = total - base
    if total < MINIMUM or free < MINIMUM // 10:
        need = max(MINIMUM, base + MINIMUM // 10)
        msg = (
            f"max_memory is {total / 1e6:,.0f} MB for the whole process, which takes "
            f"{base / 1e6:,.0f} MB before it reads anything: Python, torch and what they load. "
            f"Allow at least {-(-need // 10**6):,} MB, better 1GB."
        )
        raise ValueError(msg)
    solver = min(SOLVER_BYTES * threads, free // 4)
    window = free // 5
    return Budget(total, base, solver, window, free - solver - window)


def resident_bytes() -> int:
    """Return the memory that this process holds now, as far as the system tells."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        import resource

        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return min(BASE, peak_bytes() or BASE)


def peak_bytes() -> int | None:
    """Return the most memory that this process has held; None where the system does not tell."""
    if find_spec("resource") is None:  # Windows
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
