"""A design that all pixels share, on a device, with what the lanes make of it once for all."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from xr_lstsq.solvers import cholesky
from xr_lstsq.solvers.cost import most_missing
from xr_lstsq.solvers.factor import Factor, Halves
from xr_lstsq.solvers.powers import shift

__all__ = ["IN_SPAN", "Shared", "Split", "Wide", "share"]

IN_SPAN = 1e-9
"""Share of a vector that may lie outside a span of which it is said to be part."""
MOST_SHARED = 2**23
"""Most numbers that a matrix made once per design may have (64 MiB)."""


@dataclass(frozen=True)
class Split:
    """A matrix in float64, and as the sum of two parts that know more digits of it.

    Attributes
    ----------
    whole : Tensor
        The matrix, rounded to float64.
    high, low : Tensor
        Leading 24 bits on one grid a row, and what they leave.
    """

    whole: Tensor
    high: Tensor
    low: Tensor

    def product(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return matrix @ values as a sum (exact for up to 32 terms) and a small rest.

        The scheme of Ozaki, Ogita, Oishi and Rump 2012 (Numerical Algorithms 59, 95-118,
        doi:10.1007/s11075-011-9478-1): products of halves on a fixed grid have no rounding.
        """
        exponent = torch.frexp(values.abs().amax(0)).exponent - 24
        high = shift(shift(values, -exponent).round(), exponent)
        return self.high @ high, self.high @ (values - high) + self.low @ values


@dataclass(frozen=True)
class Wide:
    """What a design of full row rank, with rows of unit norm, needs beside its factors.

    Attributes
    ----------
    to_coef : Tensor
        (p, n) takes samples, scaled as the rows are, to the minimum-norm coefficients.
    inverse : Tensor
        (n, n) inverse of A A' of the scaled rows.
    refine : bool
        Whether its condition asks for a refinement step.
    """

    to_coef: Tensor
    inverse: Tensor
    refine: bool


@dataclass(frozen=True)
class Shared:
    """A design that all pixels share, factorised: A = Q B on the rows that can be used.

    Attributes
    ----------
    plain : Tensor
        (n, p) the design; 0 in rows that are not finite.
    rows : Tensor
        (n, p) the design times the root of the shared weights; 0 in rows that cannot be used.
    finite : Tensor
        (n,) bool, rows without NaN or infinity.
    basis : Split
        (n, r) Q, orthonormal columns that span `rows`.
    to_coef : Split
        (p, r) B+, takes basis coefficients z to the (minimum-norm) coefficients.
    to_fit : Tensor
        (n, r) takes z to fitted values, also in rows of weight 0.
    root_weights : Tensor
        (n,) root of the shared weights; 0 in rows that cannot be used.
    plain_weights : bool
        True when every one of `root_weights` is 1.
    usable : int
        Number of rows that can be used.
    products : Tensor
        (r(r+1)/2, n) products of the columns of Q, in the packed order of `cholesky`; without
        elements where it would be too large.
    tau : float
        Smallest eigenvalue of Q'WQ at which the basis may still be used for a pixel.
    complement : Tensor
        (n, n) I - Q Q'; without elements where no pixel would use it.
    most_missing : int
        Up to so many gaps the missing system is the cheaper lane.
    row_scale : Tensor
        (n,) one over the norm of each of `rows`; 1 for rows of zeros.
    row_spread : float
        Largest over smallest norm of the rows that can be used.
    row_products : Tensor
        (n, n) A A' of rows of unit norm; without elements where it would be too large.
    wide : Wide, optional
        For designs of full row rank.
    single : bool
        Whether float32 can hold the design, and is not lost to its condition.
    """

    plain: Tensor
    rows: Tensor
    finite: Tensor
    basis: Split
    to_coef: Split
    to_fit: Tensor
    root_weights: Tensor
    plain_weights: bool
    usable: int
    products: Tensor
    tau: float
    complement: Tensor
    most_missing: int
    row_scale: Tensor
    row_spread: float
    row_products: Tensor
    wide: Wide | None
    single: bool

    def in_dtype(self, dtype: torch.dtype) -> Shared:
        """Return the design in float64, as it is, or in float32."""
        return self if dtype == torch.float64 else self._in_float32

    @cached_property
    def has_constant(self) -> bool:
        """Whether a constant lies in the span of the design, and so of any choice of its rows."""
        root, basis = self.root_weights, self.basis.whole
        rest = root - basis @ (basis.T @ root)
        norms = torch.linalg.vector_norm(torch.stack([rest, root]), dim=1).tolist()
        return bool(norms[0] <= IN_SPAN * norms[1])

    @cached_property
    def columns_by_start(self) -> tuple[Tensor, list[int], list[int]]:
        """B+ (p, r) with rows sorted by their first column that is not 0; the order; the columns.

        At full rank B+ is triangular but for the order of its rows, which saves most of the work
        on its inverse.
        """
        matrix = self.to_coef.whole
        first = (matrix != 0).to(torch.int8).argmax(1)
        order = first.argsort(stable=True)
        return matrix[order], order.tolist(), first[order].tolist()

    @cached_property
    def _in_float32(self) -> Shared:
        rounded: Shared = _rounded(self)
        return rounded


def _rounded(record: Any) -> Any:
    """Return a record with its tensors, and those of the records inside it, in float32."""
    parts = {}
    for entry in fields(record):
        value = getattr(record, entry.name)
        if isinstance(value, Tensor) and value.is_floating_point():
            parts[entry.name] = value.to(torch.float32)
        elif isinstance(value, Split | Wide):
            parts[entry.name] = _rounded(value)
    return replace(record, **parts)


def share(factor: Factor, device: torch.device) -> Shared:
    """Put a factorised design on a device."""

    def put(array: object) -> Tensor:
        return torch.as_tensor(array, dtype=torch.float64, device=device)

    def split(halves: Halves) -> Split:
        return Split(put(halves.whole), put(halves.high), put(halves.low))

    rows, basis = put(factor.rows), split(factor.basis)
    n, r = basis.whole.shape
    small = n * n <= MOST_SHARED
    few = most_missing(n, r) if small else 0
    products = rows.new_empty(0)
    if r * (r + 1) // 2 * n <= MOST_SHARED:
        low, high = cholesky.pack_order(r)
        products = (basis.whole[:, low] * basis.whole[:, high]).T.contiguous()
    wide = None
    if factor.wide is not None:
        wide = Wide(
            to_coef=put(factor.wide.to_coef),
            inverse=put(factor.wide.inverse),
            refine=factor.wide.refine,
        )
    sizes = torch.linalg.vector_norm(rows, dim=1)
    row_scale = torch.where(sizes > 0, 1.0 / sizes, 1.0)
    unit_rows = rows * row_scale[:, None]
    used = sizes[torch.as_tensor(factor.root_weights > 0, device=device)]
    spread = float(used.max() / used.min()) if used.numel() and used.min() > 0 else math.inf
    eye = torch.eye(n if few else 0, dtype=torch.float64, device=device)
    return Shared(
        plain=put(factor.plain),
        rows=rows,
        finite=torch.as_tensor(factor.finite, device=device),
        basis=basis,
        to_coef=split(factor.to_coef),
        to_fit=put(factor.to_fit),
        root_weights=put(factor.root_weights),
        plain_weights=bool((factor.root_weights == 1).all()),
        products=products,
        tau=factor.tau,
        usable=int((factor.root_weights > 0).sum()),
        complement=eye - basis.whole @ basis.whole.T if few else eye,
        most_missing=few,
        row_scale=row_scale,
        row_spread=spread,
        row_products=unit_rows @ unit_rows.T if small else rows.new_empty(0),
        wide=wide,
        single=factor.single,
    )
