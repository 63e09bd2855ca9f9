"""Batched Cholesky of small symmetric systems, written over the pixel axis.

A symmetric (s, s, b) matrix is stored as its lower triangle, column after column, in one
(s(s+1)/2, b) tensor. Every step works on whole columns of all b pixels at a time, which keeps
a batch in cache on a CPU and is the interleaved layout that serves GPUs best (Gates, Kurzak,
Luszczek, Pei and Dongarra 2017, doi:10.1109/IPDPSW.2017.18).
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["column", "factorise", "pack_order", "smallest_eigenvalue", "solve"]


def pack_order(s: int) -> tuple[list[int], list[int]]:
    """Return rows and columns of the lower triangle in the order in which it is packed."""
    pairs = [(row, col) for col in range(s) for row in range(col, s)]
    return [row for row, _ in pairs], [col for _, col in pairs]


def column(s: int, k: int) -> slice:
    """Return where column k, from its diagonal downward, lies in the packed triangle."""
    start = k * s - k * (k - 1) // 2
    return slice(start, start + s - k)


def factorise(packed: Tensor, s: int) -> Tensor:
    """Overwrite S with its factor L, S = L L'; the diagonal holds 1 / l_kk.

    Parameters
    ----------
    packed : Tensor
        (s(s+1)/2, b) packed S. A pixel that is not positive definite turns to NaN or infinity,
        for itself alone.
    s : int
        Size of the systems.

    Returns
    -------
    Tensor
        `packed` itself.
    """
    for k in range(s):
        here = packed[column(s, k)]
        here[0].rsqrt_()
        here[1:] *= here[0]
        for j in range(k + 1, s):
            packed[column(s, j)].addcmul_(here[j - k], here[j - k :], value=-1)
    return packed


def solve(factor: Tensor, rhs: Tensor) -> Tensor:
    """Overwrite `rhs` with the solution of S x = rhs and return it.

    Parameters
    ----------
    factor : Tensor
        (s(s+1)/2, b) from `factorise`.
    rhs : Tensor
        (s, b), or (s, m, b) for m right sides a pixel.
    """
    s = rhs.shape[0]
    columns = [factor[column(s, k)] for k in range(s)]
    if rhs.ndim == 3:
        columns = [entries[:, None] for entries in columns]
    for k, entries in enumerate(columns):
        rhs[k] *= entries[0]
        rhs[k + 1 :].addcmul_(entries[1:], rhs[k], value=-1)
    for k in range(s - 1, -1, -1):
        entries = columns[k]
        if k + 1 < s:
            rhs[k] -= (entries[1:] * rhs[k + 1 :]).sum(0)
        rhs[k] *= entries[0]
    return rhs


def smallest_eigenvalue(factor: Tensor, s: int) -> Tensor:
    """Estimate the smallest eigenvalue of each S, (b,), by two steps of inverse iteration.

    The start is one fixed vector with no zero and no pattern, so that an answer never depends on
    the other pixels. NaN where S was not positive definite.
    """
    start = torch.cos(torch.arange(1, s + 1, dtype=factor.dtype, device=factor.device) * 1.7) + 1.5
    u = solve(factor, start[:, None].expand(s, factor.shape[1]).clone())
    size = u.square().sum(0)
    v = solve(factor, u)
    return (size / v.square().sum(0)).sqrt()
