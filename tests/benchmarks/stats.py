"""What statistics cost beside the fit alone: ``python -m tests.benchmarks.stats``."""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from tests.benchmarks import memory, page
from tests.benchmarks.timing import OURS, solve
from tests.benchmarks.works import Arrays, make

PIXELS = {"W2": 200_000, "W3": 100_000}
SETS: tuple[tuple[str, ...], ...] = (
    (),
    ("rss",),
    ("rsquared",),
    ("stderr",),
    ("dof", "resid_std", "stderr", "rsquared"),
    ("stderr", "rsquared", "pvalue"),
    ("cov",),
)
AIMED = ("stderr", "rsquared", "pvalue")
AIMS = {"W2": 1.6, "W3": 2.5}
LOOP_PIXELS = 300
"""Pixels of the loop over statsmodels."""


def seconds(arrays: Arrays, dtype: str, repeats: int) -> dict[tuple[str, ...], list[float]]:
    """Time every set of statistics in turn, and all again."""
    times: dict[tuple[str, ...], list[float]] = {asked: [] for asked in SETS}
    for turn in range(repeats + 1):
        for asked, spent in times.items():
            start = time.perf_counter()
            solve(arrays, dtype, stats=asked)
            if turn:  # the first warms up
                spent.append(time.perf_counter() - start)
    return times


def loop_us(arrays: Arrays) -> float:
    """Return the time a pixel of a loop over statsmodels, for the statistics that are aimed at."""
    import statsmodels.api as sm

    rows = arrays.rows(0)
    start = time.perf_counter()
    for k in range(LOOP_PIXELS):
        y = arrays.y[:, k].astype(np.float64)
        valid = np.isfinite(y)
        fit = sm.OLS(y[valid], rows[valid]).fit()
        _ = fit.bse, fit.rsquared, fit.pvalues
    return 1e6 * (time.perf_counter() - start) / LOOP_PIXELS


def section(name: str, pixels: int, repeats: int) -> str:
    """Measure one work; return its part of the page."""
    arrays = make(name, pixels)
    n, b = arrays.y.shape
    lines = []
    for dtype in OURS.values():
        times = seconds(arrays, dtype, repeats)
        bare = statistics.median(times[()])
        for names, spent in times.items():
            median = statistics.median(spent)
            aim = f" (aim {AIMS[name]:g})" if names == AIMED and dtype == "float64" else ""
            found = memory.in_a_process("memory", name, str(pixels), dtype, *names)
            lines.append(
                [
                    ", ".join(names) or "none",
                    dtype,
                    f"{1e6 * median / b:.2f}",
                    f"{median / bare:.2f}{aim}",
                    f"{memory.extra(found) / 1e6:.0f}",
                    f"{max(spent) / min(spent):.1f}",
                ]
            )
    asked = ", ".join(AIMED)
    head = ["stats", "dtype", "µs a pixel", "times none", "MB beyond", "spread"]
    return "\n".join(
        [
            f"### {name}: n {n}, p {arrays.params}, {b:,} pixels",
            "",
            page.table(head, lines),
            "",
            f"A loop over the pixels by statsmodels, for {asked}: {loop_us(arrays):.0f} µs each.",
        ]
    )


def main() -> None:
    """Measure, print, and write the page where that is asked for."""
    parser = page.parser("python -m tests.benchmarks.stats", __doc__, PIXELS)
    options = page.read(parser, PIXELS)
    parts = [page.machine()]
    for name in options.works or PIXELS:
        parts.append(section(name, options.pixels or PIXELS[name], options.repeats))
        sys.stdout.write(parts[-1] + "\n\n")
        sys.stdout.flush()
    if options.write:
        page.write_section("stats", "\n\n".join(parts))


if __name__ == "__main__":
    main()
