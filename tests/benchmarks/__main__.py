"""Time each work beside its peers and floors: ``python -m tests.benchmarks``."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass

import numpy as np

from tests.benchmarks import accuracy, memory, page
from tests.benchmarks.timing import OURS, Row, clear_pixels, measure, solve
from tests.benchmarks.works import WORKS, Arrays, make

FLOAT64, FLOAT32 = OURS


@dataclass(frozen=True)
class Goal:
    """A ratio to reach: at least `float64` times faster, or at most so many times the time.

    Attributes
    ----------
    work, against : str
        Where, and the beginning of the row's name; of several, the fastest counts.
    float64, float32 : float, optional
        For each dtype of the answer.
    floor : bool
        Whether it is a floor, and the ratio the other way round.
    """

    work: str
    against: str
    float64: float | None
    float32: float | None
    floor: bool = False


GOALS = [
    Goal("W1", "zero-filled A'A, batched", 80, 130),
    Goal("W1", "floor: one GEMM A+ Y, float32", None, 8, floor=True),
    Goal("W2", "nrt", 3, 5),
    Goal("W2", "floor: one GEMM A+ Y, float32", None, 4, floor=True),
    Goal("W2", "xarray polyfit", 80, 120),
    Goal("W3", "MintPy", 150, 190),
    Goal("W3", "dolphin", 12, 15),
    Goal("W3 weighted", "MintPy", 80, 110),
    Goal("W2 complete", "floor: one GEMM A+ Y, float64", 1.5, None, floor=True),
    Goal("W2 complete", "floor: one GEMM A+ Y, float32", None, 1.5, floor=True),
]


def figure(number: float, digits: int = 3) -> str:
    """Return a number with so many digits and no exponent; a dash for NaN."""
    if not math.isfinite(number):
        return "-"
    if number == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    return f"{number:,.{places}f}"


def facts(name: str, arrays: Arrays) -> str:
    """Return what a work is, in one sentence, from its arrays."""
    fit = solve(arrays)
    valid = np.isfinite(arrays.y)
    patterns = len(np.unique(np.packbits(valid, axis=0), axis=1).T)
    n, b = arrays.y.shape
    short = float((fit["rank"] < arrays.params).mean())
    clear = clear_pixels(fit, arrays).mean()
    return (
        f"{WORKS[name].title}: n {n}, p {arrays.params}, {b:,} pixels, "
        f"{100 * (1 - valid.mean()):.0f} % missing, {patterns:,} gap patterns, "
        f"rank below p at {100 * short:.1f} % of the pixels, compared at {100 * clear:.1f} %."
    )


def line(row: Row, ours: dict[str, float]) -> list[str]:
    """Return one row of a table, as text."""
    if row.note:
        return [row.name, row.note, *[""] * 6]
    off = "" if row.difference is None else f"{row.difference:.0e}"
    if row.nan_share:
        off += f" (NaN at {figure(100 * row.nan_share)} %)"
    return [
        row.name,
        figure(row.us),
        figure(row.us / ours[FLOAT64], 2),
        figure(row.us / ours[FLOAT32], 2),
        f"{row.pixels:,}",
        str(len(row.seconds)),
        figure(row.spread, 2),
        off.strip(),
    ]


def work_section(
    name: str, pixels: int | None, options: argparse.Namespace
) -> tuple[str, list[Row]]:
    """Measure one work; return its part of the page and its rows."""
    arrays = make(name, pixels)
    told = facts(name, arrays)
    rows = measure(arrays, options.repeats, options.seconds, with_peers=not options.no_peers)
    ours = {row.name: row.us for row in rows if row.name in OURS}
    head = ["", "µs a pixel", "times float64", "times float32", "pixels", "repeats", "spread",
            "difference"]  # fmt: skip
    lines = [f"### {name}", "", told, "", page.table(head, [line(row, ours) for row in rows]), ""]
    if not options.no_memory:
        for dtype in OURS.values():
            found = memory.in_a_process("memory", name, str(arrays.pixels), dtype)
            sizes = {key: f"{value / 1e6:.0f} MB" for key, value in found.items()}
            lines.append(
                f"Memory, {dtype}: {memory.extra(found) / 1e6:.0f} MB beside {sizes['input']} of "
                f"input, {sizes['output']} of output and {sizes['before']} before the cube is made."
                "  "
            )
    return "\n".join(lines), rows


def goals(measured: dict[str, list[Row]]) -> str:
    """Return the table of the ratios that are aimed at."""
    lines = []
    for goal in GOALS:
        rows = measured.get(goal.work, [])
        times = {row.name: row.us for row in rows}
        found = [r.us for r in rows if r.name.startswith(goal.against) and math.isfinite(r.us)]
        if not found:
            continue
        cells = []
        for dtype, wanted in ((FLOAT64, goal.float64), (FLOAT32, goal.float32)):
            ratio = times[dtype] / min(found) if goal.floor else min(found) / times[dtype]
            aim = "" if wanted is None else f" ({'at most' if goal.floor else 'aim'} {wanted:g})"
            cells.append(figure(ratio, 2) + aim)
        words = "time over that of the" if goal.floor else "times faster than"
        against = goal.against.removeprefix("floor: ") + (" floor" if goal.floor else "")
        lines.append([f"{goal.work}, {words} {against}", *cells])
    return page.table(["", "float64 answer", "float32 answer"], lines) if lines else ""


def main() -> None:
    """Measure, print, and write the page where that is asked for."""
    parser = page.parser("python -m tests.benchmarks", __doc__, WORKS)
    parser.add_argument("--seconds", type=float, default=0.3, help="for a peer to take in a repeat")
    parser.add_argument("--no-peers", action="store_true", help="ours and the floors only")
    parser.add_argument("--no-memory", action="store_true", help="no peak memory")
    options = page.read(parser, WORKS)
    parts, measured = [], {}
    for name in options.works or WORKS:
        text, measured[name] = work_section(name, options.pixels, options)
        parts.append(text)
        sys.stdout.write(text + "\n\n")
        sys.stdout.flush()
    summary = f"{page.machine()}\n\n### Ratios\n\n{goals(measured)}"
    sys.stdout.write(summary + "\n\n")
    told = accuracy.section()
    sys.stdout.write(told + "\n")
    if options.write:
        page.write_section("works", "\n\n".join([summary, *parts]))
        page.write_section("accuracy", told)


if __name__ == "__main__":
    main()
