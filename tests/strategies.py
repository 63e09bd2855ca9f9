"""Hypothesis strategies: cubes with gaps, weights, designs and chunkings; noise in all of them.

Structure (sizes, kinds, chunkings) is drawn by hypothesis and so shrinks; the numbers come from a
generator seeded by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

PIXEL_DIMS = ("z", "y", "x")
SHARED_DESIGNS = (
    "generic",
    "polynomial",
    "network",
    "islands",
    "collinear",
    "zero_column",
    "mixed_units",
)


@dataclass(frozen=True)
class Problem:
    """A cube and what belongs to it.

    Attributes
    ----------
    cube : DataArray, (sample, *pixel dims)
    design : DataArray, (sample, param) or (sample, param, *pixel dims)
    weights : DataArray, any dims of the cube, or None
    valid : DataArray of bool, (sample, *pixel dims), or None
    kind : str
        Of the design, for messages.
    """

    cube: xr.DataArray
    design: xr.DataArray
    weights: xr.DataArray | None
    valid: xr.DataArray | None
    kind: str

    def arguments(self) -> dict[str, Any]:
        """Return the keywords to hand to solve."""
        return {
            "design": self.design,
            "dim": "sample",
            "weights": self.weights,
            "valid": self.valid,
        }


def problems(
    *,
    pixelwise: bool | None = None,
    weighted: bool | None = None,
    kinds: tuple[str, ...] = SHARED_DESIGNS,
    max_pixels: int = 4,
) -> st.SearchStrategy[Problem]:
    """Draw problems; None leaves it to chance whether the design differs per pixel and so on."""

    @st.composite
    def draw_problem(draw: st.DrawFn) -> Problem:
        n = draw(st.integers(1, 24), label="n")
        p = draw(st.integers(1, 7), label="p")
        shape = tuple(draw(st.lists(st.integers(1, max_pixels), max_size=3), label="pixels"))
        dims = PIXEL_DIMS[len(PIXEL_DIMS) - len(shape) :]
        rng = np.random.default_rng(draw(st.integers(0, 2**20), label="seed"))
        kind = draw(st.sampled_from(kinds), label="design")
        design = xr.DataArray(_DESIGNS[kind](rng, n, p), dims=("sample", "param"))
        per_pixel = draw(st.booleans()) if pixelwise is None else pixelwise
        if per_pixel and shape:
            factor = xr.DataArray(rng.uniform(0.5, 2.0, (n, *shape)), dims=("sample", *dims))
            holes = xr.DataArray(rng.random((n, *shape)) < 0.05, dims=("sample", *dims))
            design = (design * factor).where(~holes)
        # Every column has its share in the values, whatever its units; and there is noise that
        # no model explains.
        share = xr.DataArray(
            rng.normal(size=(design.sizes["param"], *shape)), dims=("param", *dims)
        )
        scale = float(draw(st.sampled_from([0.01, 1.0, 100.0]), label="noise"))
        noise = xr.DataArray(rng.normal(scale=scale, size=(n, *shape)), dims=("sample", *dims))
        size = abs(design).max(("sample", *design.dims[2:]))
        cube = (design.fillna(0.0) * share / size.where(size > 0, 1.0)).sum("param") + noise
        cube = cube.transpose("sample", *dims).where(
            ~xr.DataArray(_gaps(draw, rng, (n, *shape)), dims=("sample", *dims))
        )
        return Problem(
            cube=cube.rename("signal"),
            design=design.transpose("sample", "param", *dims, missing_dims="ignore"),
            weights=_weights(draw, rng, cube, weighted),
            valid=_valid(draw, rng, cube),
            kind=kind,
        )

    return draw_problem()


def chunks_of(size: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw irregular chunks of one dim, now and then with an empty one."""

    @st.composite
    def draw_chunks(draw: st.DrawFn) -> tuple[int, ...]:
        cuts = sorted(draw(st.lists(st.integers(0, size), max_size=3)))
        edges = [0, *cuts, size]
        return tuple(b - a for a, b in pairwise(edges))

    return draw_chunks()


def chunkings(cube: xr.DataArray) -> st.SearchStrategy[dict[str, tuple[int, ...]]]:
    """Draw chunks of all dims of a cube; its samples stay in one chunk."""
    return st.fixed_dictionaries(
        {
            str(dim): st.just((size,)) if dim == "sample" else chunks_of(size)
            for dim, size in cube.sizes.items()
        }
    )


def _generic(rng: np.random.Generator, n: int, p: int) -> Floats:
    return rng.normal(size=(n, p))


def _polynomial(rng: np.random.Generator, n: int, p: int) -> Floats:
    t = np.sort(rng.uniform(-1.0, 1.0, n))
    return t[:, None] ** np.arange(min(p, 5))


def _network(rng: np.random.Generator, n: int, p: int) -> Floats:
    """Pairs of dates, the first date is the reference: an incidence matrix."""
    pairs = np.array([rng.choice(p + 1, 2, replace=False) for _ in range(n)])
    return _incidence(pairs, p + 1)[:, 1:]


def _islands(rng: np.random.Generator, n: int, p: int) -> Floats:
    """Pairs within two groups of dates that no pair connects, and no reference date."""
    dates = max(p, 4)
    half = dates // 2
    groups = [np.arange(half), np.arange(half, dates)]
    pairs = np.array([rng.choice(groups[rng.integers(2)], 2, replace=False) for _ in range(n)])
    return _incidence(pairs, dates)


def _incidence(pairs: NDArray[np.int64], dates: int) -> Floats:
    design = np.zeros((len(pairs), dates))
    design[np.arange(len(pairs)), pairs[:, 0]] = -1.0
    design[np.arange(len(pairs)), pairs[:, 1]] = 1.0
    return design


def _collinear(rng: np.random.Generator, n: int, p: int) -> Floats:
    design = rng.integers(-8, 9, (n, p)).astype(np.float64)
    if p > 1:  # exact in float64: the null space is known
        design[:, -1] = 2 * design[:, 0] - design[:, -2]
    return design


def _zero_column(rng: np.random.Generator, n: int, p: int) -> Floats:
    design = rng.normal(size=(n, p))
    design[:, rng.integers(p)] = 0.0
    return design


def _mixed_units(rng: np.random.Generator, n: int, p: int) -> Floats:
    return rng.normal(size=(n, p)) * 2.0 ** rng.integers(-40, 40, p)


_DESIGNS: dict[str, Callable[[np.random.Generator, int, int], Floats]] = {
    "generic": _generic,
    "polynomial": _polynomial,
    "network": _network,
    "islands": _islands,
    "collinear": _collinear,
    "zero_column": _zero_column,
    "mixed_units": _mixed_units,
}


def _gaps(draw: st.DrawFn, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return True where a sample is missing."""
    kind = draw(st.sampled_from(["none", "random", "most", "block", "pixels"]), label="gaps")
    gaps = np.zeros(shape, bool)
    if kind == "random":
        gaps = rng.random(shape) < 0.3
    elif kind == "most":
        gaps = rng.random(shape) < 0.85
    elif kind == "block":
        start, stop = sorted(rng.integers(0, shape[0] + 1, 2))
        gaps[start:stop] = True
        gaps &= rng.random(shape[1:]) < 0.7
    elif kind == "pixels":
        gaps = (rng.random(shape) < 0.1) | (rng.random(shape[1:]) < 0.4)
    return gaps


def _weights(
    draw: st.DrawFn, rng: np.random.Generator, cube: xr.DataArray, weighted: bool | None
) -> xr.DataArray | None:
    choices = ["none"] if weighted is False else ["shared", "pixel"]
    if weighted is None:
        choices = ["none", *choices]
    kind = draw(st.sampled_from(choices), label="weights")
    if kind == "none":
        return None
    dims = ("sample",) if kind == "shared" else cube.dims
    shape = tuple(cube.sizes[dim] for dim in dims)
    weights = rng.uniform(0.05, 20.0, shape)
    weights[rng.random(shape) < 0.1] = 0.0
    weights[rng.random(shape) < 0.05] = np.nan
    return xr.DataArray(weights, dims=dims)


def _valid(draw: st.DrawFn, rng: np.random.Generator, cube: xr.DataArray) -> xr.DataArray | None:
    if not draw(st.booleans(), label="valid given"):
        return None
    return xr.DataArray(rng.random(cube.shape) < 0.8, dims=cube.dims)
