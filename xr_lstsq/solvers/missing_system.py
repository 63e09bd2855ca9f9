"""The missing system: rows are dropped by filling gaps with what the fit itself predicts.

With H = Q Q' and y0 the samples with 0 in the gaps m, the values t that fill the gaps solve

    (I - H)_mm t = (H y0)_m ,    z = Q'(y0 + t) ,

and then add nothing to the residual: the fit is the one without those rows. A pixel with few gaps
has a small system, and I - H is shared, so that a pixel only gathers m x m numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers import cholesky
from xr_lstsq.solvers.gram import CACHE, ByGram
from xr_lstsq.solvers.lane import Begun
from xr_lstsq.solvers.meat import outer
from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.workspace import Workspace

__all__ = ["Gaps", "MissingSystem"]

CLEAR = 1e-4
"""Share of a constant from which a difference of shares tells that no x can fit it."""
GROUP = 4096
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
    skips : tuple of list of int
        For each of the m how many of the group's first pixels have no such gap: pixels are sorted
        by their number of gaps, so that nothing is computed of fillers.
    workspace : Workspace
        Memory for systems and answers.
    """

    pixels: tuple[Tensor, ...]
    rows: tuple[Tensor, ...]
    skips: tuple[list[int], ...]
    workspace: Workspace

    @classmethod
    def of(cls, flags: Tensor, missing: Tensor, workspace: Workspace) -> Gaps:
        """Find the gaps of (n, b) flags, `missing` (b,) int64 of them a pixel."""
        n, b = flags.shape
        if not b:
            return cls((), (), (), workspace)
        most = int(missing.max())
        pixel, sample = (flags.T == 0).nonzero(as_tuple=True)
        # The k-th gap of a pixel stands k places after its first in the list of all gaps
        place = torch.arange(pixel.numel(), device=flags.device)
        place.sub_((missing.cumsum(0) - missing).index_select(0, pixel)).mul_(b).add_(pixel)
        rows = workspace.empty(most, b, dtype=torch.int64).fill_(n)
        rows.view(-1).scatter_(0, place, sample)
        groups = tuple(missing.argsort().split(GROUP))
        gaps = torch.arange(most, device=flags.device)
        skips = [
            torch.searchsorted(missing.index_select(0, group), gaps, right=True).tolist()
            for group in groups
        ]
        return cls(
            groups,
            tuple(_take(rows, group, missing, workspace) for group in groups),
            tuple(skips),
            workspace,
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
        bordered = bordered.view(1, -1)
        factors = []
        for rows, skip in zip(self.rows, self.skips, strict=True):
            size, k = rows.shape
            packed = self.workspace.empty(size * (size + 1) // 2, k, dtype=shared.dtype)
            lines = torch.mul(rows, n + 1, out=self.workspace.empty(size, k, dtype=rows.dtype))
            at = self.workspace.empty(size, k, dtype=rows.dtype)
            fillers = (rows == n).to(shared.dtype)
            for j in range(size):
                here = packed[cholesky.column(size, j)]
                torch.add(lines[j:], rows[j], out=at[j:])
                torch.gather(bordered.expand(size - j, -1), 1, at[j:], out=here)
                here[0].add_(fillers[j])
            factors.append(cholesky.factorise(packed, size, skip))
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
        filled = self.workspace.empty(*rhs.shape, dtype=rhs.dtype).zero_()
        for group, rows, skip, factor in zip(
            self.pixels, self.rows, self.skips, factors, strict=True
        ):
            if not rows.shape[0]:
                continue
            at = torch.mul(rows, b, out=self.workspace.empty(*rows.shape, dtype=rows.dtype))
            at += group
            values = self.workspace.empty(*rows.shape, dtype=rhs.dtype)
            torch.take(rhs, at, out=values)
            if smallest is None:
                values = cholesky.solve(factor, values, skip[: rows.shape[0]])
            else:
                size, k = values.shape
                both = self.workspace.empty(size, 2, k, dtype=factor.dtype)
                values, smallest[group] = cholesky.solve_and_judge(
                    factor, values, both, skip[:size]
                )
            filled.view(-1).scatter_(0, at.view(-1), values.reshape(-1))
        return filled[:-1]


def _take(rows: Tensor, group: Tensor, missing: Tensor, workspace: Workspace) -> Tensor:
    """Return the missing samples of a group of pixels, of which the last has the most."""
    size = int(missing[group[-1]])
    out = workspace.empty(size, group.numel(), dtype=rows.dtype)
    return torch.index_select(rows[:size], 1, group, out=out)


@dataclass(frozen=True)
class MissingSystem(ByGram):
    """The factorised systems of a batch of pixels that share a design.

    Since S = I - Q_m'Q_m, its inverse is I + Q_m' C_mm^-1 Q_m: the covariance is B+B+' + T'T with
    C_mm = L L' and T = L^-1 A+_m', the rows of the shared A+ at the gaps.
    """

    problem: Problem
    gaps: Gaps
    factors: tuple[Tensor, ...]

    @classmethod
    def of(cls, problem: Problem) -> MissingSystem:
        """Find the gaps of each pixel and factorise their systems.

        A row that cannot be used at all is no gap: its row of Q is 0.
        """
        design, flags = problem.shared_systems, problem.weights
        if design.usable < flags.shape[0]:
            flags = flags.masked_fill(design.root_weights[:, None] == 0, 1.0)
        gaps = Gaps.of(flags, problem.missing, problem.workspace)
        return cls(problem, gaps, gaps.factorise(design.complement))

    @classmethod
    def begin(cls, problem: Problem, flags: Tensor, y: Tensor) -> Begun:
        """Factorise, and solve for samples (n, b)."""
        del flags
        system = cls.of(problem)
        projected = problem.project(y)
        smallest = torch.ones_like(y[0], dtype=problem.precision.systems)
        return Begun(system, system._fill(projected, smallest), projected, smallest)

    @property
    def basis(self) -> Tensor:
        """Q in the dtype of the samples."""
        return self.problem.shared_samples.basis.whole

    def solve(self, y: Tensor) -> Tensor:
        """Return z (r, b) for samples (n, b), 0 at gaps."""
        return self._fill(self.problem.project(y))

    def _fill(self, projected: Tensor, smallest: Tensor | None = None) -> Tensor:
        """Return z (r, b) from Q'y0."""
        shape = self.basis.shape[0] + 1, projected.shape[1]
        predicted = self.gaps.workspace.empty(*shape, dtype=self.basis.dtype)
        torch.mm(self.basis, projected, out=predicted[:-1])
        gaps = self.gaps.solve(self.factors, predicted, smallest)
        return self.problem.project(gaps).add_(projected)

    def take(self, pixels: Tensor) -> MissingSystem:
        """Return the systems of some pixels."""
        return MissingSystem.of(self.problem.take(pixels))

    def variance(self) -> Tensor:
        """Return the diagonal of (A'A)+ of the valid rows, (p, b)."""
        whole = self.problem.shared_samples.to_coef.whole
        p, b = whole.shape[0], self.problem.y.shape[1]
        out = self.problem.workspace.empty(p, b, dtype=whole.dtype)
        out.copy_(whole.square().sum(1)[:, None].expand(p, b))
        for pixels, low, half in self._halves(CACHE):
            added = half.mul_(half).sum(0)
            out[low : low + half.shape[1]].index_add_(1, pixels, added)
        return out

    def constant(self) -> Tensor:
        """Return the share of a constant that no x can fit, (b,).

        With e = (I - H) 1 of all rows it is e'e - e_m' C_mm^-1 e_m for the valid ones. What cancels
        there counts for nothing while much is left; else the fit itself tells.
        """
        problem, design = self.problem, self.problem.shared_systems
        if problem.constant is not None or not design.plain_weights:
            return super().constant()
        unfitted = design.complement.sum(1)
        padded = torch.nn.functional.pad(unfitted, (0, 1))
        left = (unfitted @ unfitted).expand(problem.y.shape[1]).clone()
        for pixels, rows, skip, factor in zip(
            self.gaps.pixels, self.gaps.rows, self.gaps.skips, self.factors, strict=True
        ):
            size = rows.shape[0]
            if not size:
                continue
            half = cholesky.forward(factor, size, padded[rows][:, None], skip=skip[:size])
            left.index_add_(0, pixels, half.square_().sum((0, 1)), alpha=-1)
        share = left.div_(problem.nobs).to(problem.y.dtype)
        unclear = (~(share > CLEAR)).nonzero()[:, 0]
        if unclear.numel():
            share[unclear] = ByGram.constant(self.take(unclear))
        return share

    def covariance(self) -> Tensor:
        """Return (A'A)+ of the valid rows, (p, p, b)."""
        whole = self.problem.shared_samples.to_coef.whole
        total = (whole @ whole.T)[:, :, None].repeat(1, 1, self.problem.y.shape[1])
        for pixels, _, half in self._halves(None):
            total[:, :, pixels] += outer(half)
        return total

    def _halves(self, most: int | None) -> Iterator[tuple[Tensor, int, Tensor]]:
        """Yield pixels, a first param, and T (m, some params, pixels), of `most` bytes each."""
        shared = self.problem.shared_systems
        # One more row of zeros for the fillers
        inverse = torch.nn.functional.pad(shared.to_coef.whole @ shared.basis.whole.T, (0, 1))
        p = inverse.shape[0]
        gaps = self.gaps
        for pixels, rows, skip, factor in zip(
            gaps.pixels, gaps.rows, gaps.skips, self.factors, strict=True
        ):
            size, k = rows.shape
            if not size:
                continue
            bytes_each = size * k * factor.dtype.itemsize
            group = p if most is None else min(p, max(1, most // bytes_each))
            memory = gaps.workspace.empty(group, size, k, dtype=factor.dtype)
            for low in range(0, p, group):
                some = memory[: p - low]
                for j, one in enumerate(some):
                    # Several times as fast as `take`
                    torch.gather(inverse[low + j].expand(size, -1), 1, rows, out=one)
                half = some.transpose(0, 1)
                yield pixels, low, cholesky.forward(factor, size, half, skip=skip[:size])
