"""Peak memory of a process that makes a cube and fits it once."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def peak_bytes() -> int:
    """Return the most memory that this process has had so far.

    On Linux from the kernel's own page about the process: `ru_maxrss` of a child starts with the
    peak of the parent that it was forked from.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)


def free_bytes() -> int | None:
    """Return how much memory can still be had, or None where the system does not say."""
    page = Path("/proc/meminfo")
    if page.exists():
        for line in page.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None


def in_a_process(module: str, *arguments: str) -> dict[str, float]:
    """Run a module of the benchmarks in a process of its own and return the JSON that it writes."""
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        msg = f"{' '.join(command[1:])} ended with {done.returncode}:\n{done.stderr}"
        raise RuntimeError(msg)
    report: dict[str, float] = json.loads(done.stdout)
    return report


def extra(report: dict[str, float]) -> float:
    """Return the bytes beyond input, output and what the process had before, at least 0."""
    return max(0.0, report["peak"] - report["before"] - report["input"] - report["output"])


def main(name: str, pixels: int, dtype: str, stats: tuple[str, ...]) -> None:
    """Make a work, fit it once with some statistics, and write what that took."""
    from tests.benchmarks import works
    from tests.benchmarks.timing import solve

    solve(works.make(name, 1))  # imports and thread pools
    before = peak_bytes()
    arrays = works.make(name, pixels)
    made = peak_bytes()
    fit = solve(arrays, dtype, stats=stats)
    report = {
        "before": before,
        "made": made,
        "peak": peak_bytes(),
        "input": arrays.nbytes,
        "output": fit.nbytes,
    }
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], tuple(sys.argv[4:]))
