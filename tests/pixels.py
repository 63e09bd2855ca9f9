"""Pixels for the solver itself, below labels and blocks: drawn shapes, scales, gaps and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from hypothesis import strategies as st

from tests import oracle
from xr_lstsq.solvers.factor import factorise
from xr_lstsq.solvers.precision import DOUBLE, Precision
from xr_lstsq.solvers.problem import Problem, weigh
from xr_lstsq.solvers.shared import share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def problem_of(
    design: Floats,
    y: Floats,
    weights: Floats | None = None,
    shared_weights: Floats | None = None,
    precision: Precision = DOUBLE,
) -> Problem:
    """Return the problem of (n, b) samples with NaN in the gaps."""
    shared = share(factorise(design, shared_weights), torch.device("cpu"))
    samples = weigh(
        torch.as_tensor(y),
        usable=(shared.root_weights > 0)[:, None],
        weights=None if weights is None else torch.as_tensor(weights),
        dtype=precision.samples,
    )
    facts = samples.y, samples.weights, samples.nobs, samples.square
    return Problem(*facts, weights is None, shared, precision=precision)


@dataclass(frozen=True)
class Pixels:
    """Samples (n, b) with NaN in the gaps, their design and weights."""

    design: Floats
    y: Floats
    weights: Floats | None
    shared_weights: Floats | None

    def problem(self, precision: Precision = DOUBLE) -> Problem:
        """Return what the solver takes."""
        return problem_of(self.design, self.y, self.weights, self.shared_weights, precision)

    def fit(self, k: int) -> oracle.Fit:
        """Return the answer of the oracle for one pixel."""
        weights = self.shared_weights if self.weights is None else self.weights[:, k]
        return oracle.fit(self.y[:, k], self.design, weights)


def pixels(*, wide: bool | None = None, hard: bool = False, b: int = 8) -> st.SearchStrategy[Any]:
    """Draw pixels of one design: wide (n <= p) or tall, `hard` with numbers of any size.

    Samples are the design's own signal, an offset and noise.
    """

    @st.composite
    def draw_pixels(draw: st.DrawFn) -> Pixels:
        rng = np.random.default_rng(draw(st.integers(0, 2**20), label="seed"))
        n = draw(st.integers(1, 40), label="n")
        broad = draw(st.booleans(), label="wide") if wide is None else wide
        p = draw(st.integers(n, 2 * n + 2) if broad else st.integers(1, min(n, 12)), label="p")
        design = rng.normal(size=(n, p))
        kind = draw(st.sampled_from(["noise", "axis", "near twins"]), label="design")
        if kind == "axis" and not broad:
            design = np.vander(np.linspace(-1, 1, n), min(p, 6), increasing=True)
        elif kind == "near twins" and n > 1 and p > 1:  # of rows where there are fewer
            first, last = (design, design) if broad else (design.T, design.T)
            first[0] = last[-1] + draw(st.sampled_from([0.3, 0.05])) * first[0]
        share = rng.normal(size=(design.shape[1], b)) * draw(st.sampled_from([0.0, 1.0, 30.0]))
        noise = draw(st.sampled_from([1e-3, 1.0]), label="noise")
        offset = draw(st.sampled_from([0.0, 100.0]), label="offset")
        y = design @ share + noise * rng.normal(size=(n, b)) + offset
        sizes = [1e-20, 1.0, 1e25] if hard else [1e-3, 1.0, 50.0]
        design *= rng.choice(sizes[: draw(st.integers(1, 3), label="units")], design.shape[1])
        y[_gaps(draw, rng, n, b)] = np.nan
        weights = shared = None
        given = draw(st.sampled_from(["none", "none", "shared", "pixel"]), label="weights")
        spread = draw(st.sampled_from([0.3, 12.0 if hard else 3.0]), label="spread of weights")
        if given == "pixel":
            weights = 10.0 ** rng.uniform(-spread, spread, y.shape)
        elif given == "shared":
            shared = 10.0 ** rng.uniform(-spread, spread, n)
        if hard:
            y *= rng.choice([0.0, 1e-300, 1e-30, 1e-12, 1.0, 1.0, 1e12, 1e30, 1e300], b)
        return Pixels(design, y, weights, shared)

    return draw_pixels()


def _gaps(draw: st.DrawFn, rng: np.random.Generator, n: int, b: int) -> NDArray[np.bool_]:
    """Return True where a sample is missing."""
    kind = draw(st.sampled_from(["none", "random", "one end", "block", "few left"]), label="gaps")
    share = draw(st.sampled_from([0.05, 0.3, 0.7]), label="share of gaps")
    at = np.arange(n)[:, None]
    if kind == "random":
        return rng.random((n, b)) < share
    if kind == "one end":
        return np.broadcast_to(at < rng.uniform(0, share * n, b), (n, b))
    if kind == "block":
        start = rng.integers(0, n, b)
        return (at >= start) & (at < start + share * n)
    if kind == "few left":
        return rng.random((n, b)).argsort(axis=0) >= rng.integers(0, min(n, 6) + 1, b)
    return np.zeros((n, b), bool)
