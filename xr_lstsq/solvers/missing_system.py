"""The missing system: rows are dropped by filling gaps with what the fit itself predicts.

With H = Q Q' and y0 the samples with 0 in the gaps m, the values t that fill the gaps solve

    (I - H)_mm t = (H y0)_m ,    z = Q'(y0 + t) ,

and then add nothing to the residual: the fit is the one without those rows. A pixel with few gaps
has a small system, and I - H is shared, so that a pixel only gathers m x m numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers import cholesky
from xr_lstsq.solvers.lane import Begun
from xr_lstsq.solvers.shared import Shared

__all__ = ["Gaps", "MissingSystem"]

GROUP = 2048
"""Pixels that are solved together, padded to the most gaps among them."""


@dataclass(frozen=True)
class Gaps:
    """Where the gaps of a batch are: pixels in groups of nearly as many gaps.

    Attributes
    ----------
    pixels : tuple of Tensor
        (k,) int64, the pixels of each group.
    rows : tuple of Tensor
        (m, k) int64, their missing samples in rising order, then n as a filler.
    """

    pixels: tuple[Tensor, ...]
    rows: tuple[Tensor, ...]

    @classmethod
    def of(cls, flags: Tensor, missing: Tensor) -> Gaps:
        """Find the gaps of (n, b) flags, `missing` (b,) int64 of them a pixel."""
        n, b = flags.shape
        most = int(missing.max()) if b else 0
        pixel, sample = (flags.T == 0).nonzero(as_tuple=True)
        start = missing.cumsum(0) - missing
        rows = torch.full((most, b), n, dtype=torch.int64, device=flags.device)
        place = torch.arange(pixel.numel(), device=flags.device) - start.index_select(0, pixel)
        rows.view(-1).scatter_(0, place.mul_(b).add_(pixel), sample)
        groups = tuple(missing.argsort().split(GROUP)) if b else ()
        return cls(
            groups,
            tuple(rows[: int(missing[group[-1]])].index_select(1, group) for group in groups),
        )

    def factorise(self, shared: Tensor) -> tuple[Tensor, ...]:
        """Factorise the submatrices of a shared (n, n) matrix at the gaps of each pixel.

        Returns
        -------
        tuple of Tensor
            One packed factor a group.
        """
        n = shared.shape[0]
        # One more row and column for the fillers, which get a 1 on their diagonal below
        bordered = shared.new_zeros(n + 1, n + 1)
        bordered[:n, :n] = shared
        factors = []
        for rows in self.rows:
            size, k = rows.shape
            packed = shared.new_empty(size * (size + 1) // 2, k)
            lines = rows * (n + 1)
            fillers = (rows == n).to(shared.dtype)
            for j in range(size):
                here = packed[cholesky.column(size, j)]
                torch.take(bordered, lines[j:] + rows[j], out=here)
                here[0].add_(fillers[j])
            factors.append(cholesky.factorise(packed, size))
        return tuple(factors)

    def solve(
        self, factors: tuple[Tensor, ...], rhs: Tensor, smallest: Tensor | None = None
    ) -> Tensor:
        """Return t in the gaps and 0 elsewhere, (n, b), where t solves the systems.

        Parameters
        ----------
        factors : tuple of Tensor
            From `factorise`.
        rhs : Tensor
            (n + 1, b), read at the gaps only. The last row is for the fillers.
        smallest : Tensor, optional
            (b,) where to put the estimate of the smallest eigenvalue of each system.
        """
        b = rhs.shape[1]
        rhs[-1] = 0
        filled = torch.zeros_like(rhs)
        for group, rows, factor in zip(self.pixels, self.rows, factors, strict=True):
            if not rows.shape[0]:
                continue
            at = rows * b + group
            values = rhs.take(at)
            if smallest is None:
                cholesky.solve(factor, values)
            else:
                values, smallest[group] = cholesky.solve_and_judge(factor, values)
            filled.view(-1).scatter_(0, at.view(-1), values.reshape(-1))
        return filled[:-1]


@dataclass(frozen=True)
class MissingSystem:
    """The factorised systems of a batch of pixels that share a design."""

    design: Shared
    flags: Tensor
    missing: Tensor
    gaps: Gaps
    factors: tuple[Tensor, ...]

    @classmethod
    def of(cls, design: Shared, flags: Tensor, missing: Tensor) -> MissingSystem:
        """Factorise for (n, b) flags with `missing` (b,) gaps a pixel.

        A row that cannot be used at all is no gap: its row of Q is 0.
        """
        if design.usable < flags.shape[0]:
            flags = flags.masked_fill(design.root_weights[:, None] == 0, 1.0)
        gaps = Gaps.of(flags, missing)
        return cls(design, flags, missing, gaps, gaps.factorise(design.complement))

    @classmethod
    def begin(cls, design: Shared, flags: Tensor, missing: Tensor, y: Tensor) -> Begun:
        """Factorise, and solve for samples (n, b)."""
        system = cls.of(design, flags, missing)
        projected = design.basis.whole.T @ y
        smallest = y.new_ones(y.shape[1])
        return Begun(system, system._fill(projected, smallest), projected, smallest)

    def solve(self, y: Tensor) -> Tensor:
        """Return z (r, b) for samples (n, b), 0 at gaps."""
        return self._fill(self.design.basis.whole.T @ y)

    def _fill(self, projected: Tensor, smallest: Tensor | None = None) -> Tensor:
        """Return z (r, b) from Q'y0."""
        basis = self.design.basis.whole
        predicted = projected.new_empty(basis.shape[0] + 1, projected.shape[1])
        torch.mm(basis, projected, out=predicted[:-1])
        gaps = self.gaps.solve(self.factors, predicted, smallest)
        return torch.addmm(projected, basis.T, gaps)

    def take(self, pixels: Tensor) -> MissingSystem:
        """Return the systems of some pixels."""
        flags, missing = self.flags.index_select(1, pixels), self.missing.index_select(0, pixels)
        return MissingSystem.of(self.design, flags, missing)
