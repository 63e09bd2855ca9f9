"""What each lane costs for a pixel: the one place that decides which lane a pixel takes.

Costs are in units of the time of one multiplication inside a large matrix product. Work on small
systems, over the pixel axis, is bound by memory instead, and gathering from a shared matrix more
so. The two ratios were fitted to `tests.benchmarks.lanes`, which forces each lane on works of many
shapes; they need be right only to a factor of two, since lanes of nearly equal cost are equally
good.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Costs", "most_missing"]


@dataclass(frozen=True)
class Costs:
    """Relative costs of elementary work."""

    small: float = 6.0
    """One multiply-add of a factorisation over the pixel axis."""
    gather: float = 30.0
    """One number taken from a shared matrix at an index of its own."""
    column: float = 60.0
    """One column of a small system: a few calls, shared by the pixels of a batch."""

    def gram(self, n: int, r: int) -> float:
        """Cost of forming and solving S z = Q'Wy."""
        triangle = r * (r + 1) / 2
        return triangle * n + n * r + self.small * (r**3 / 6 + 6 * r**2) + self.column * r

    def missing(self, n: int, r: int, m: int) -> float:
        """Cost of the missing system of m gaps."""
        triangle = m * (m + 1) / 2
        solve = self.small * (m**3 / 6 + 6 * m**2) + self.column * m
        return 3 * n * r + self.gather * (triangle + 3 * m) + solve


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
