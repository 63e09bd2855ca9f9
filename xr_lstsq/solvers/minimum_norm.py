"""The rank-revealing solver: right for every pixel, whatever its rank, at the highest cost.

For each pixel: rows times the root of their weight, columns near unit norm, rows sorted by size,
Householder QR with column pivoting, reflectors applied to y. Rank comes from the singular values
of the triangle. Written over the pixel axis, since torch has no batched pivoted QR. Rows sorted
by size and columns pivoted make it stable row by row, so that weights may differ by 1e24 (Cox and
Higham 1998, "Stability of Householder QR factorization for weighted least squares problems").
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers.powers import power_of_two
from xr_lstsq.solvers.singular import singular_values

__all__ = ["MinimumNorm", "Reflected"]


@dataclass(frozen=True)
class Reflected:
    """A batch of factorised designs, u of them, each for one or more pixels.

    Attributes
    ----------
    sort : Tensor
        (n, u) order of the rows, largest first.
    vectors : Tensor
        (n, s, u) Householder vectors of unit norm, or 0; s = min(n, p) steps.
    upper : Tensor
        (s, p, u) the triangle, columns in pivoted order.
    order : Tensor
        (p, u) order of the columns.
    """

    sort: Tensor
    vectors: Tensor
    upper: Tensor
    order: Tensor


@dataclass(frozen=True)
class MinimumNorm:
    """Weighted designs of a batch, u of them, factorised, with their ranks.

    Attributes
    ----------
    factor : Reflected
        Of the designs with columns near unit norm.
    scale : Tensor
        (p, u) powers of two by which the columns were divided.
    rank : Tensor
        (u,) int64.
    cond : Tensor
        (u,) condition of the columns of unit norm; infinite where the rank is short, NaN where a
        design is not finite.
    pattern : Tensor or None
        (b,) index of each pixel's design; None when u = b in the same order.
    """

    factor: Reflected
    scale: Tensor
    rank: Tensor
    cond: Tensor
    pattern: Tensor | None

    @classmethod
    def of(cls, rows: Tensor, cutoffs: Tensor, pattern: Tensor | None = None) -> MinimumNorm:
        """Factorise.

        Parameters
        ----------
        rows : Tensor
            (n, p, u) weighted designs, 0 in rows that are missing.
        cutoffs : Tensor
            (u,) cut-off of the rank on unit-norm columns.
        pattern : Tensor, optional
            See the attributes.
        """
        # The largest entry first, so that no square of one is too large or too small for a number
        largest = _power_of_two(rows.abs().amax(0))  # (p, u)
        rows = rows / largest
        sizes = torch.linalg.vector_norm(rows, dim=0)
        near = _power_of_two(sizes)
        scale = largest * near
        factor = _factorise(rows / near)
        unit = torch.where(sizes > 0, sizes / near, 1.0).gather(0, factor.order)
        rank, cond = _rank(factor.upper / unit, cutoffs)
        return cls(factor, scale, rank, cond, pattern)

    def take(self, values: Tensor) -> Tensor:
        """Return what is known of each design for each pixel."""
        return values if self.pattern is None else values.index_select(-1, self.pattern)

    def solve(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the shortest x that minimises ||rows x - y||, pixel by pixel in lock-step.

        Parameters
        ----------
        y : Tensor
            (n, b) weighted samples, 0 where missing.

        Returns
        -------
        coef : Tensor
            (p, b) minimum norm in the params' own units where the rank is below p.
        residual : Tensor
            (n, b) weighted residual.
        """
        sort, vectors = self.take(self.factor.sort), self.take(self.factor.vectors)
        rotated = _reflect(vectors, y.gather(0, sort))
        coef = self._from_head(rotated[: self.factor.upper.shape[0]], self.pattern)
        coef = torch.where(torch.isnan(self.take(self.cond)), torch.nan, coef)
        # What lies past the rank is residual: the triangle beyond it counts as 0.
        index = torch.arange(y.shape[0], device=y.device)[:, None]
        tail = torch.where(index < self.take(self.rank), 0.0, rotated)
        back = _reflect(vectors, tail, reverse=True)
        return coef, torch.empty_like(tail).scatter_(0, sort, back)

    def maps(self) -> Tensor:
        """Return C (p, s, u), which takes the first s rotated samples to the coefficients.

        The covariance (A'WA)+ of each design is C C'.
        """
        steps, _, u = self.factor.upper.shape
        return self._from_head(_units(self.scale, steps, steps, u), None)

    def directions(self) -> Tensor:
        """Return the columns of Q, (n, s, u); 0 past the rank."""
        factor = self.factor
        n, steps, u = factor.vectors.shape
        live = torch.arange(steps, device=self.rank.device)[:, None] < self.rank
        units = _units(self.scale, n, steps, u).mul_(live)
        turned = _reflect(factor.vectors, units, reverse=True)
        return torch.empty_like(turned).scatter_(0, factor.sort[:, None].expand_as(turned), turned)

    def _from_head(self, head: Tensor, pattern: Tensor | None) -> Tensor:
        """Return coefficients (p, ..., b) by the first rotated samples (s, ..., b).

        `pattern` is the design of each pixel, None for one a pixel.
        """

        def take(values: Tensor) -> Tensor:
            return values if pattern is None else values.index_select(-1, pattern)

        factor, scale = self.factor, self.scale
        rank, p = take(self.rank), scale.shape[0]
        coef = head.new_zeros(p, *head.shape[1:])
        full = (rank == p).nonzero()[:, 0]
        if full.numel():
            upper = take(factor.upper)[:p].index_select(2, full)
            order = take(factor.order).index_select(1, full)
            solved = _back_substitute(upper, head[:p].index_select(-1, full))
            solved = torch.empty_like(solved).scatter_(0, _beside(order, solved), solved)
            coef[..., full] = solved / _middle(take(scale).index_select(1, full), solved)
        short = (rank < p).nonzero()[:, 0]
        if short.numel():
            designs = short if pattern is None else pattern.index_select(0, short)
            designs, which = torch.unique(designs, return_inverse=True)
            coef[..., short] = _shortest(
                factor.upper.index_select(2, designs),
                factor.order.index_select(1, designs),
                scale.index_select(1, designs),
                self.rank.index_select(0, designs),
                head.index_select(-1, short),
                which,
            )
        return coef


def _units(like: Tensor, n: int, steps: int, u: int) -> Tensor:
    """Return the first unit vectors of n, as right sides of u designs, (n, steps, u)."""
    eye = torch.eye(n, steps, dtype=like.dtype, device=like.device)
    return eye[:, :, None].repeat(1, 1, u)


def _middle(values: Tensor, like: Tensor) -> Tensor:
    """Return (k, b) values such that they go with (k, b) or (k, m, b) ones."""
    return values if like.ndim == values.ndim else values[:, None]


def _beside(index: Tensor, like: Tensor) -> Tensor:
    """Return an index (k, b) as one of the shape of (k, b) or (k, m, b) values."""
    return _middle(index, like).expand_as(like)


def _power_of_two(sizes: Tensor) -> Tensor:
    """Return the power of two near each size (exact to scale by); 1 for a size of 0."""
    exponent = torch.frexp(torch.where(sizes > 0, sizes, 1.0)).exponent
    return power_of_two(exponent, sizes.dtype)


def _factorise(rows: Tensor) -> Reflected:
    """Factorise (n, p, u) matrices by Householder QR with sorted rows and pivoted columns."""
    n, p, u = rows.shape
    sort = rows.abs().amax(1).argsort(dim=0, descending=True, stable=True)  # (n, u)
    work = rows.gather(0, sort[:, None].expand(n, p, u))
    order = torch.arange(p, device=rows.device)[:, None].repeat(1, u)
    steps = min(n, p)
    vectors = torch.zeros(n, steps, u, dtype=rows.dtype, device=rows.device)
    for k in range(steps):
        pick = work[k:, k:].square().sum(0).argmax(0) + k  # (u,)
        _swap(work, 1, k, pick)
        _swap(order, 0, k, pick)
        vector = vectors[k:, k]
        vector.copy_(work[k:, k])
        size = torch.linalg.vector_norm(vector, dim=0)
        diagonal = -torch.copysign(size, vector[0])
        vector[0] -= diagonal
        length = torch.linalg.vector_norm(vector, dim=0)
        vector *= torch.where(length > 0, 1.0 / length, 0.0)
        rest = work[k:, k + 1 :]
        inner = (vector[:, None] * rest).sum(0)  # (p-k-1, u)
        rest.addcmul_(vector[:, None], inner, value=-2)
        work[k, k] = diagonal
        work[k + 1 :, k] = 0
    return Reflected(sort, vectors, work[:steps], order)


def _swap(tensor: Tensor, dim: int, k: int, pick: Tensor) -> None:
    """Swap entry k along `dim` with entry `pick`, another one for each of the last axis."""
    index = pick.expand_as(tensor.select(dim, k)).unsqueeze(dim)
    picked = tensor.gather(dim, index)
    tensor.scatter_(dim, index, tensor.select(dim, k).unsqueeze(dim).clone())
    tensor.select(dim, k).copy_(picked.squeeze(dim))


def _reflect(vectors: Tensor, values: Tensor, *, reverse: bool = False) -> Tensor:
    """Apply the reflectors (n, s, b) to (n, ..., b): Q' values, or Q values when `reverse`."""
    result = values.clone()
    steps = range(vectors.shape[1])
    for k in reversed(steps) if reverse else steps:
        vector = _middle(vectors[k:, k], result)
        inner = (vector * result[k:]).sum(0)
        result[k:].addcmul_(vector, inner, value=-2)
    return result


def _rank(upper: Tensor, cutoffs: Tensor) -> tuple[Tensor, Tensor]:
    """Return rank (sigma_k > cutoff * sigma_1) and condition of (s, p, u) triangles, (u,) each."""
    values = singular_values(upper)  # (u, s)
    p, u = upper.shape[1:]
    if values.shape[1] == 0:
        rank = torch.zeros(u, dtype=torch.int64, device=upper.device)
        return rank, values.new_full((u,), torch.inf)
    rank = (values > cutoffs[:, None] * values[:, :1]).sum(1)
    full = (rank == p) | torch.isnan(values[:, 0])
    return rank, torch.where(full, values[:, 0] / values[:, -1], torch.inf)


def _back_substitute(upper: Tensor, rhs: Tensor) -> Tensor:
    """Solve R x = rhs for (p, p, b) triangles and (p, ..., b) right sides."""
    x = rhs.clone()
    for k in range(rhs.shape[0] - 1, -1, -1):
        x[k] /= upper[k, k]
        x[:k].addcmul_(_middle(upper[:k, k], x), x[k], value=-1)
    return x


def _shortest(
    upper: Tensor, order: Tensor, scale: Tensor, rank: Tensor, rhs: Tensor, which: Tensor
) -> Tensor:
    """Return the shortest x, in the params' own units, with R P' D x = rhs up to the rank.

    Parameters
    ----------
    upper, order, scale, rank : Tensor
        (s, p, u), (p, u), (p, u) and (u,): the factorised designs.
    rhs : Tensor
        (s, ..., b) rotated samples.
    which : Tensor
        (b,) design of each pixel.
    """
    steps, p, u = upper.shape
    index = torch.arange(steps, device=upper.device)[:, None]
    live = index < rank  # (s, u)
    own = torch.empty_like(upper).scatter_(1, order.expand(steps, p, u), upper) * scale
    own *= live[:, None]
    size = _power_of_two(own.abs().amax((0, 1)))
    # C' = Q2 R2 P2', so the shortest x is Q2 R2^-T P2' rhs. Dead equations are columns of exact
    # zeros in C'; pivoting leaves them last, where the diagonal is 0 and the answer too.
    factor = _factorise((own / size).transpose(0, 1))
    lower = factor.upper.index_select(2, which)  # (min(p, s), s, b)
    x = rhs / size.index_select(0, which)
    x = x.gather(0, _beside(factor.order.index_select(1, which), x))
    alive = live.index_select(1, which)
    for k in range(steps):
        diagonal = torch.where(alive[k], lower[k, k], 1.0)
        x[k] = torch.where(alive[k], x[k] / diagonal, 0.0)
        x[k + 1 :].addcmul_(_middle(lower[k, k + 1 :], x), x[k], value=-1)
    padded = rhs.new_zeros(p, *rhs.shape[1:])
    padded[:steps] = x
    turned = _reflect(factor.vectors.index_select(2, which), padded, reverse=True)
    index = _beside(factor.sort.index_select(1, which), turned)
    return torch.empty_like(turned).scatter_(0, index, turned)
