"""Arrays of twice float64's precision, for what is done once per design on the host.

A number is the unevaluated sum of two float64 (about 32 digits), so the result is the same on
every platform, whatever its long double. Error-free sums and products: Knuth, The Art of Computer
Programming 2, 4.2.2; Dekker 1971, Numerische Mathematik 18, 224-242, doi:10.1007/BF01397083.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EPS", "Extended"]

EPS = 2.0**-104
"""Relative rounding error of an operation."""

Float = NDArray[np.float64]
SPLITTER = 2.0**27 + 1


class Extended:
    """An array of numbers hi + lo with |lo| at most half a unit in the last place of hi."""

    __slots__ = ("hi", "lo")

    def __init__(self, hi: Float, lo: Float | None = None) -> None:
        self.hi = hi
        self.lo = np.zeros_like(hi) if lo is None else lo

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.hi.shape

    @property
    def T(self) -> Extended:  # noqa: N802 - the name that numpy gives it
        """The transposed array."""
        return Extended(self.hi.T, self.lo.T)

    def __getitem__(self, key: Any) -> Extended:
        """Return a part, as numpy indexes."""
        return Extended(np.asarray(self.hi[key]), np.asarray(self.lo[key]))

    def __setitem__(self, key: Any, value: Extended) -> None:
        """Set a part."""
        self.hi[key] = value.hi
        self.lo[key] = value.lo

    def __neg__(self) -> Extended:
        """Return -self."""
        return Extended(-self.hi, -self.lo)

    def __add__(self, other: Extended) -> Extended:
        """Return self + other."""
        high, error = _two_sum(self.hi, other.hi)
        low, error_low = _two_sum(self.lo, other.lo)
        high, error = _fast_two_sum(high, error + low)
        return Extended(*_fast_two_sum(high, error + error_low))

    def __sub__(self, other: Extended) -> Extended:
        """Return self - other."""
        return self + (-other)

    def __mul__(self, other: Extended) -> Extended:
        """Return self * other."""
        high, error = _two_product(self.hi, other.hi)
        return Extended(*_fast_two_sum(high, error + (self.hi * other.lo + self.lo * other.hi)))

    def __truediv__(self, other: Extended) -> Extended:
        """Return self / other."""
        first = self.hi / other.hi
        rest = self - other * Extended(first)
        second = rest.hi / other.hi
        rest = rest - other * Extended(second)
        high, error = _fast_two_sum(first, second)
        return Extended(*_fast_two_sum(high, error + rest.hi / other.hi))

    def copy(self) -> Extended:
        """Return a copy."""
        return Extended(self.hi.copy(), self.lo.copy())

    def sqrt(self) -> Extended:
        """Return the square root; 0 for 0."""
        root = np.sqrt(self.hi)
        rest = self - Extended(root) * Extended(root)
        safe = np.where(root > 0, root, 1)
        return Extended(*_fast_two_sum(root, rest.hi / (2 * safe)))

    def sum(self) -> Extended:
        """Return the sum along the first axis, added pairwise."""
        total = self
        if total.shape[0] == 0:
            return Extended(np.zeros(total.shape[1:]))
        while (size := total.shape[0]) > 1:
            half = size // 2
            added = total[:half] + total[half : 2 * half]
            if size % 2:
                added[:1] = added[:1] + total[2 * half :]
            total = added
        return total[0]


def _two_sum(a: Float, b: Float) -> tuple[Float, Float]:
    """Return a + b and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _fast_two_sum(a: Float, b: Float) -> tuple[Float, Float]:
    """Return a + b and its rounding error, for |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def _two_product(a: Float, b: Float) -> tuple[Float, Float]:
    """Return a * b and its rounding error."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _split(a: Float) -> tuple[Float, Float]:
    """Split into two halves of 26 bits, whose products are exact."""
    big = SPLITTER * a
    high = big - (big - a)
    return high, a - high
