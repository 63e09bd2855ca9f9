"""The works that are measured: cubes with gaps and noise, as data.

Letters: n samples, p params, b pixels. Cubes are float32 with the samples first, and are made one
sample after another, so that making one never takes more memory than the cube itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.ndimage
import xarray as xr
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Gaps = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.bool_]]

COLUMNS = 500
NOISE = 0.3
DATES = 30
PAIRS = 87


@dataclass(frozen=True)
class Work:
    """What is fitted, apart from its number of pixels.

    Attributes
    ----------
    title : str
        What it is, for the table.
    design : callable
        Returns the shared design, (n, p).
    gaps : callable
        ``gaps(rng, (rows, columns))`` returns True where one sample is missing.
    pixels : int
        Default number of pixels.
    weighted : bool
        Whether every sample has a weight of its own.
    pixelwise : bool
        Whether every pixel has a design of its own: the rows of `design`, each times a factor.
    dates : ndarray, optional
        Acquisition dates in years, for a network of interferograms.
    """

    title: str
    design: Callable[[], Floats]
    gaps: Gaps
    pixels: int
    weighted: bool = False
    pixelwise: bool = False
    dates: Floats | None = None


@dataclass(frozen=True)
class Arrays:
    """A work at one size.

    Attributes
    ----------
    cube : DataArray of float32, (sample, y, x)
        NaN in the gaps.
    design : ndarray, (n, p) or DataArray of float32, (sample, param, y, x)
    weights : DataArray of float32, (sample, y, x), or None
        Inverse variances.
    dates : ndarray, optional
        See `Work`.
    """

    cube: xr.DataArray
    design: Floats | xr.DataArray
    weights: xr.DataArray | None
    dates: Floats | None

    @property
    def nbytes(self) -> int:
        """Bytes of everything that is handed to a solver."""
        parts = (self.cube, self.design, self.weights)
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def y(self) -> Singles:
        """The samples, (n, b); a view."""
        return flat(self.cube)

    @property
    def pixels(self) -> int:
        return self.y.shape[1]

    @property
    def params(self) -> int:
        return int(self.design.shape[1])

    def first(self, pixels: int) -> Arrays:
        """Return the first pixels, in one row; views."""
        parts = [self.cube, self.weights]
        cube, weights = (None if a is None else _first(a, pixels) for a in parts)
        assert cube is not None
        own = isinstance(self.design, xr.DataArray)
        design = _first(self.design, pixels) if own else self.design
        return Arrays(cube, design, weights, self.dates)

    def rows(self, pixel: int) -> Floats:
        """Return the design of one pixel, (n, p)."""
        if isinstance(self.design, xr.DataArray):
            return self.design.values.reshape(*self.design.shape[:2], -1)[..., pixel].astype(float)
        return self.design


def flat(array: xr.DataArray) -> Singles:
    """Return (n, y, x) as (n, b); a view."""
    return array.values.reshape(array.shape[0], -1)


def _first(array: xr.DataArray, pixels: int) -> xr.DataArray:
    values = array.values.reshape(*array.shape[:-2], 1, -1)[..., :pixels]
    return xr.DataArray(values, {"sample": array["sample"].values}, array.dims)


def make(name: str, pixels: int | None = None) -> Arrays:
    """Make a work with at least so many pixels: the next number of whole rows."""
    work = {**WORKS, **ON_A_CARD}[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    shape = (-(-(pixels or work.pixels) // COLUMNS), COLUMNS)
    matrix = work.design()
    n, p = matrix.shape
    b = shape[0] * shape[1]
    truth = rng.standard_normal((p, b), dtype=np.float32)
    y = np.empty((n, b), np.float32)
    weights = np.empty((n, b), np.float32) if work.weighted else None
    own = np.empty((n, p, b), np.float32) if work.pixelwise else None
    for i, row in enumerate(matrix.astype(np.float32)):
        if own is None:
            np.matmul(row, truth, out=y[i])
        else:
            own[i] = row[:, None] * rng.uniform(0.5, 2.0, (p, b))
            y[i] = (own[i] * truth).sum(axis=0)
        noise = rng.standard_normal(b, dtype=np.float32)
        if weights is None:
            y[i] += NOISE * noise
        else:
            weights[i] = rng.uniform(0.1, 10.0, b)
            y[i] += NOISE * noise / np.sqrt(weights[i])
        y[i][work.gaps(rng, shape).ravel()] = np.nan
    dims = ("sample", "y", "x")
    coords = {"sample": np.linspace(0.0, 4.0, n)}
    return Arrays(
        cube=xr.DataArray(y.reshape(n, *shape), coords, dims),
        design=matrix
        if own is None
        else xr.DataArray(own.reshape(n, p, *shape), coords, ("sample", "param", "y", "x")),
        weights=None if weights is None else xr.DataArray(weights.reshape(n, *shape), coords, dims),
        dates=work.dates,
    )


# --------------------------------------------------------------------------------------------
# Gaps


def scattered(share: float) -> Gaps:
    """Return gaps at random, independent of each other."""

    def gaps(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.bool_]:
        return rng.random(shape, dtype=np.float32) < share

    return gaps


def clouds(cell: int = 8, size: int = 64) -> Gaps:
    """Return blobs as clouds leave them: every third image clear, every sixth all covered.

    Cloud masks are coarser than the bands; so a mask is constant in cells of ``cell`` pixels, and
    the pixels of a cell share their pattern. `size` is about the diameter of a blob in pixels.
    """

    def gaps(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.bool_]:
        kind = rng.random()
        if kind < 1 / 3:
            return np.zeros(shape, bool)
        if kind < 1 / 2:
            return np.ones(shape, bool)
        cells = tuple(-(-length // cell) for length in shape)
        knots = tuple(2 + length // (size // cell) for length in cells)
        field = scipy.ndimage.zoom(rng.standard_normal(knots), size / cell, order=1)
        field = field[: cells[0], : cells[1]]
        covered = field < np.quantile(field, rng.uniform(0.1, 0.6))
        covered = np.repeat(np.repeat(covered, cell, axis=0), cell, axis=1)
        return covered[: shape[0], : shape[1]]

    return gaps


# --------------------------------------------------------------------------------------------
# Designs


def generic(n: int, p: int) -> Floats:
    """Return normal random numbers."""
    return np.random.default_rng(n * 1000 + p).normal(size=(n, p))


def seasonal(n: int) -> Floats:
    """Return trend and two annual harmonics over four years, (n, 6)."""
    t = np.linspace(0.0, 4.0, n)
    waves = [f(2 * np.pi * k * t) for k in (1, 2) for f in (np.cos, np.sin)]
    return np.stack([np.ones(n), t, *waves], axis=1)


def smooth(n: int, p: int) -> Floats:
    """Return powers of time between -1 and 1."""
    return np.linspace(-1.0, 1.0, n)[:, None] ** np.arange(p)


def acquisitions() -> Floats:
    """Return dates in years: every 12 days, now and then one is left out."""
    steps = np.random.default_rng(5).choice([12.0, 24.0], DATES - 1, p=[0.8, 0.2])
    return np.concatenate([[0.0], np.cumsum(steps)]) / 365.25


def pairs(step: int) -> list[tuple[int, int]]:
    """Return the pairs of dates that lie 1, 2, 3, ... times `step` apart, the shortest first.

    With `step` 2, no pair connects the even with the odd dates.
    """
    spans = range(step, DATES, step)
    return [(i, i + span) for span in spans for i in range(DATES - span)][:PAIRS]


def network(step: int = 1) -> Floats:
    """Return the network that turns interval velocities into phases, (pairs, dates - 1)."""
    intervals = np.diff(acquisitions())
    design = np.zeros((PAIRS, DATES - 1))
    for row, (first, second) in zip(design, pairs(step), strict=True):
        row[first:second] = intervals[first:second]
    return design


WORKS = {
    "W1": Work("random design, 20 % gaps", lambda: generic(50, 100), scattered(0.2), 100_000),
    "W2": Work("trend and 2 harmonics, 30 % gaps", lambda: seasonal(100), scattered(0.3), 200_000),
    "W2 complete": Work(
        "trend and 2 harmonics, no gaps", lambda: seasonal(100), scattered(0.0), 200_000
    ),
    "W2 clouds": Work(
        "trend and 2 harmonics, cloud-like gaps", lambda: seasonal(100), clouds(), 200_000
    ),
    "W3": Work(
        "87 interferograms of 30 dates, 10 % gaps",
        network,
        scattered(0.1),
        100_000,
        dates=acquisitions(),
    ),
    "W3 weighted": Work(
        "the same, a weight for each sample",
        network,
        scattered(0.1),
        50_000,
        weighted=True,
        dates=acquisitions(),
    ),
    "W3 disconnected": Work(
        "87 interferograms that leave 30 dates in two parts, 10 % gaps",
        lambda: network(2),
        scattered(0.1),
        50_000,
        dates=acquisitions(),
    ),
    "pixelwise": Work(
        "a design per pixel, 20 % gaps",
        lambda: smooth(60, 3),
        scattered(0.2),
        100_000,
        pixelwise=True,
    ),
}

ON_A_CARD = {
    "n 50, p 100, 20 % gaps": Work(
        "random design", lambda: generic(50, 100), scattered(0.2), 250_000
    ),
    "n 50, p 100, no gaps": Work(
        "random design", lambda: generic(50, 100), scattered(0.0), 250_000
    ),
}
"""Works for a GPU only: 500 x 500 pixels."""
