"""What each lane costs for a pixel: the one place that decides which lane a pixel takes.

Costs are in units of one multiplication inside a large matrix product. Work on small systems, over
the pixel axis, is bound by memory and calls instead, and gathering from a shared matrix more so.
The ratios are fitted by eye to ``python -m tests.benchmarks.lanes``, which forces each lane on the
same pixels; they need be right only to a factor of two, since lanes of nearly equal cost are
equally good.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Costs", "most_missing"]


@dataclass(frozen=True)
class Costs:
    """Relative costs of elementary work."""

    small: float = 10.0
    """One multiply-add of a factorisation over the pixel axis."""
    column: float = 500.0
    """One column of a small system: a few calls, shared by the pixels of a batch."""
    gather: float = 120.0
    """One number taken from a shared matrix at an index of its own."""
    sample: float = 100.0
    """One sample looked at to find the gaps."""

    def gram(self, n: int, r: int) -> float:
        """Cost of forming and solving S z = Q'Wy."""
        return r * (r + 1) / 2 * n + n * r + self._solve(r)

    def missing(self, n: int, r: int, m: int) -> float:
        """Cost of the missing system of m gaps."""
        numbers = m * (m + 1) / 2 + 3 * m
        return 3 * n * r + self.sample * n + self.gather * numbers + self._solve(m)

    def _solve(self, s: int) -> float:
        """Cost of factorising a system of size s and solving it three times."""
        return self.small * (s**3 / 6 + 6 * s**2) + self.column * s


def most_missing(n: int, r: int, costs: Costs | None = None) -> int:
    """Return up to how many missing samples the missing system is cheaper than the Gram matrix.

    Parameters
    ----------
    n : int
        Number of samples.
    r : int
        Rank of the shared design.
    costs : Costs, optional
        None means the fitted ones.
    """
    costs = Costs() if costs is None else costs
    limit = costs.gram(n, r)
    m = 0
    while m < n - r and costs.missing(n, r, m + 1) < limit:
        m += 1
    return m
