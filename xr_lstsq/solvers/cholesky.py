"""Batched Cholesky of small symmetric systems, written over the pixel axis.

A symmetric (s, s, b) matrix is stored as its lower triangle, column after column, in one
(s(s+1)/2, b) tensor. Every step works on whole columns of all b pixels at a time, which keeps
a batch in cache on a CPU and is the interleaved layout that serves GPUs best (Gates, Kurzak,
Luszczek, Pei and Dongarra 2017, doi:10.1109/IPDPSW.2017.18).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import torch
from torch import Tensor

from xr_lstsq.solvers.powers import shift

__all__ = [
    "column",
    "factorise",
    "forward",
    "inverse",
    "pack_order",
    "solve",
    "solve_and_judge",
    "times_factor",
]


def pack_order(s: int) -> tuple[list[int], list[int]]:
    """Return rows and columns of the lower triangle in the order in which it is packed."""
    pairs = [(row, col) for col in range(s) for row in range(col, s)]
    return [row for row, _ in pairs], [col for _, col in pairs]


def column(s: int, k: int) -> slice:
    """Return where column k, from its diagonal downward, lies in the packed triangle."""
    start = k * s - k * (k - 1) // 2
    return slice(start, start + s - k)


def factorise(packed: Tensor, s: int, skip: Sequence[int] | None = None) -> Tensor:
    """Overwrite S with its factor L, S = L L'; the diagonal holds 1 / l_kk.

    Parameters
    ----------
    packed : Tensor
        (s(s+1)/2, b) packed S. A pixel that is not positive definite turns to NaN or infinity,
        for itself alone.
    s : int
        Size of the systems.
    skip : sequence of int, optional
        For each column how many of the first pixels have a system that ends before it: from there
        on they hold the identity.

    Returns
    -------
    Tensor
        `packed` itself.
    """
    columns = packed.split(list(range(s, 0, -1)))
    for k, column_k in enumerate(columns):
        first = skip[k] if skip else 0
        here = column_k[:, first:]
        # Column by column: earlier ones are only read, and the one that is written stays in cache
        for j in range(k):
            before = columns[j][k - j :, first:]
            here.addcmul_(before[0], before, value=-1)
        here[0].rsqrt_()
        here[1:].mul_(here[0])
    return packed


def solve(factor: Tensor, rhs: Tensor, skip: Sequence[int] | None = None) -> Tensor:
    """Solve S x = rhs: in place, and returned, where both have one dtype.

    Parameters
    ----------
    factor : Tensor
        (s(s+1)/2, b) from `factorise`.
    rhs : Tensor
        (s, b), or (s, m, b) for m right sides a pixel. Where its dtype is wider, the solution has
        the digits of the factor and the range of `rhs`.
    skip : sequence of int, optional
        As in `factorise`.
    """
    if rhs.dtype != factor.dtype:
        exponent = _exponent(rhs)
        narrow = solve(factor, _narrowed(rhs, exponent, factor.dtype), skip)
        return shift(narrow.to(rhs.dtype), exponent)
    s = rhs.shape[0]
    columns = (factor[:, None] if rhs.ndim == 3 else factor).split(list(range(s, 0, -1)))
    firsts = skip or [0] * s
    inverses = [c[0, ..., f:] for c, f in zip(columns, firsts, strict=True)]
    below = [c[1:, ..., f:] for c, f in zip(columns, firsts, strict=True)]
    rows = [rhs[k, ..., f:] for k, f in enumerate(firsts)]
    rest = [rhs[k + 1 :, ..., f:] for k, f in enumerate(firsts)]
    for k in range(s):
        rows[k].mul_(inverses[k])
        if k + 1 < s:
            rest[k].addcmul_(below[k], rows[k], value=-1)
    for k in range(s - 1, -1, -1):
        if k + 1 < s:
            rows[k].sub_((below[k] * rest[k]).sum(0))
        rows[k].mul_(inverses[k])
    return rhs


def forward(
    factor: Tensor,
    s: int,
    rhs: Tensor,
    starts: Sequence[int] | None = None,
    skip: Sequence[int] | None = None,
) -> Tensor:
    """Overwrite right sides with L^-1 rhs, of which only the last rows take part.

    Parameters
    ----------
    factor : Tensor
        (s(s+1)/2, b) from `factorise`.
    s : int
        Size of the systems.
    rhs : Tensor
        (t, m, b), the last t rows of m right sides a pixel; the rows before them are 0.
    starts : sequence of int, optional
        For each of the m right sides the first of the s rows that is not 0, rising; 0 if not given.
    skip : sequence of int, optional
        As in `factorise`.

    Returns
    -------
    Tensor
        `rhs` itself.
    """
    columns = factor[:, None].split(list(range(s, 0, -1)))
    first = s - rhs.shape[0]
    for k in range(first, s):
        pixels = skip[k] if skip else 0
        sides = bisect_right(starts, k) if starts else rhs.shape[1]
        here = rhs[k - first, :sides, pixels:]
        here.mul_(columns[k][0, :, pixels:])
        if k + 1 < s:
            later = rhs[k - first + 1 :, :sides, pixels:]
            later.addcmul_(columns[k][1:, :, pixels:], here, value=-1)
    return rhs


def inverse(factor: Tensor, s: int) -> Tensor:
    """Return S^-1, (s, s, b)."""
    b = factor.shape[1]
    eye = torch.eye(s, dtype=factor.dtype, device=factor.device)
    half = forward(factor, s, eye[:, :, None].expand(s, s, b).contiguous(), range(s))
    out = torch.empty_like(half)
    for k in range(s):
        # Column k of L^-1 is 0 above k
        torch.sum(half[k:, k : k + 1] * half[k:], dim=0, out=out[k])
    return out


def times_factor(factor: Tensor, s: int, matrix: Tensor) -> Tensor:
    """Return L' matrix, (s, m, b), of a shared (s, m) matrix."""
    columns = factor.split(list(range(s, 0, -1)))
    rows = []
    for k, column_k in enumerate(columns):
        lower = column_k.clone()
        lower[0] = 1.0 / lower[0]
        rows.append(matrix[k:].T @ lower)
    return torch.stack(rows)


def _exponent(rhs: Tensor) -> Tensor:
    """Return the power of two near the largest entry of each right side."""
    return torch.frexp(rhs.abs().amax(0)).exponent


def _narrowed(rhs: Tensor, exponent: Tensor, dtype: torch.dtype) -> Tensor:
    """Return right sides over 2^exponent in a dtype of less range."""
    return shift(rhs, -exponent).to(dtype)


def start_vector(factor: Tensor, s: int) -> Tensor:
    """Return the start of the inverse iteration, (s, 1): fixed, with no zero and no pattern."""
    steps = torch.arange(1, s + 1, dtype=factor.dtype, device=factor.device)
    return (torch.cos(steps * 1.7) + 1.5)[:, None]


def smallest_eigenvalue(factor: Tensor, u: Tensor, skip: Sequence[int] | None = None) -> Tensor:
    """Estimate the smallest eigenvalue of each S, (b,), by a second step of inverse iteration.

    Parameters
    ----------
    factor : Tensor
        (s(s+1)/2, b) from `factorise`.
    u : Tensor
        (s, b) the first step, the solution of S u = `start_vector`. Overwritten.
    skip : sequence of int, optional
        As in `factorise`.

    Returns
    -------
    Tensor
        An upper bound, near the eigenvalue where it is small. NaN where S was not positive
        definite. It never depends on the other pixels.
    """
    size = u.square().sum(0)
    v = solve(factor, u, skip)
    return size.div_(v.square().sum(0)).sqrt_()


def solve_and_judge(
    factor: Tensor, rhs: Tensor, both: Tensor, skip: Sequence[int] | None = None
) -> tuple[Tensor, Tensor]:
    """Return the solution of S x = rhs and the estimate of the smallest eigenvalue of S.

    The first step of the iteration shares its passes over the factor with the solution.

    Parameters
    ----------
    factor : Tensor
        (s(s+1)/2, b) from `factorise`.
    rhs : Tensor
        (s, b) right sides; of a wider dtype as in `solve`.
    both : Tensor
        (s, 2, b) memory in the dtype of `factor`; the solution may lie in it.
    skip : sequence of int, optional
        As in `factorise`.
    """
    wider = rhs.dtype != factor.dtype
    exponent = _exponent(rhs) if wider else None
    both[:, 0] = rhs if exponent is None else _narrowed(rhs, exponent, factor.dtype)
    both[:, 1] = start_vector(factor, rhs.shape[0])
    solve(factor, both, skip)
    smallest = smallest_eigenvalue(factor, both[:, 1], skip)
    z = both[:, 0]
    return (z if exponent is None else shift(z.to(rhs.dtype), exponent)), smallest
