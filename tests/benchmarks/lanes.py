"""Force each lane of the solver on the same pixels, beside what the cost model says.

Run ``python -m tests.benchmarks.lanes``. Pixels of a batch all have the same number of gaps; each
shape is solved in the missing-system lane and in the Gram lane on one core, and the number of gaps
at which the two cost the same is shown beside `most_missing` of `xr_lstsq.solvers.cost`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import click
import numpy as np
import torch

from xr_lstsq.solvers.cost import most_missing
from xr_lstsq.solvers.factor import factorise
from xr_lstsq.solvers.lanes import LANES, Lane
from xr_lstsq.solvers.problem import Problem, weigh
from xr_lstsq.solvers.shared import share
from xr_lstsq.solvers.wanted import NOTHING

SHAPES = [(40, 3), (100, 6), (100, 12), (60, 20), (87, 29), (150, 50)]
PIXELS = 4000


def seconds(lane: Lane, problem: Problem, repeats: int) -> float:
    """Return the median time of a lane for the whole batch."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        LANES[lane](problem, NOTHING)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def problem_of(n: int, r: int, gaps: int, rng: np.random.Generator) -> Problem:
    """Return a batch in which every pixel has as many gaps, in places of its own."""
    y = rng.normal(size=(n, PIXELS))
    np.put_along_axis(y, rng.random((n, PIXELS)).argsort(axis=0)[:gaps], np.nan, axis=0)
    design = share(factorise(rng.normal(size=(n, r))), torch.device("cpu"))
    basis = design.basis.whole  # what is not made where the model would never use it
    complement = torch.eye(n, dtype=torch.float64) - basis @ basis.T
    design = replace(design, complement=complement)
    samples = weigh(torch.as_tensor(y))
    return Problem(samples.y, samples.weights, samples.nobs, samples.square, True, design)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    click.echo("microseconds a pixel, one core")
    click.echo(
        f"{'n':>4} {'r':>3} {'gaps':>5} {'missing':>8} {'gram':>8} {'cheaper':>8} {'model':>8}"
    )
    for n, r in SHAPES:
        limit = most_missing(n, r)
        for gaps in sorted({1, 2, 4, 8, 12, 16, 24, 32, 40, limit}):
            if not 0 < gaps < n - r:
                continue
            problem = problem_of(n, r, gaps, rng)
            missing, gram = (
                seconds(lane, problem, repeats) / PIXELS * 1e6 for lane in (Lane.MISSING, Lane.GRAM)
            )
            cheaper = "missing" if missing < gram else "gram"
            model = "missing" if gaps <= limit else "gram"
            click.echo(f"{n:4} {r:3} {gaps:5} {missing:8.3f} {gram:8.3f} {cheaper:>8} {model:>8}")


if __name__ == "__main__":
    main()
