"""What lanes return: a first answer in the basis Q, and what may be kept of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from xr_lstsq.solvers.problem import Problem
from xr_lstsq.solvers.wanted import Sandwich, Wanted

__all__ = ["Begun", "Inverse", "Kept", "System"]


class Inverse(Protocol):
    """The inverse of the normal equations of a batch, (A'WA)+, as far as its lane is asked."""

    def variance(self) -> Tensor:
        """Return its diagonal, (p, b)."""

    def covariance(self) -> Tensor:
        """Return it, (p, p, b)."""

    def leverage(self) -> Tensor:
        """Return the diagonal of the hat matrix, (n, b); anything at gaps."""

    def cond(self) -> Tensor:
        """Return the condition of the weighted rows with columns of unit norm, (b,)."""

    def constant(self) -> Tensor:
        """Return the share of a constant, as a weighted sum of squares, that no x can fit, (b,)."""

    def sandwich(self, sandwich: Sandwich, residual: Tensor) -> Tensor:
        """Return the robust covariance (p, p, b) by residuals (n, b), 0 at gaps."""


class System(Inverse, Protocol):
    """The factorised systems of a batch, by which a lane solves for basis coefficients."""

    def solve(self, weighted: Tensor) -> Tensor:
        """Return z (r, b) for weighted samples (n, b), 0 at gaps."""

    def take(self, pixels: Tensor) -> System:
        """Return the systems of some pixels."""


@dataclass(frozen=True)
class Begun:
    """What a lane that works in the basis Q found at first, before any refinement.

    Attributes
    ----------
    system : System
        Its factorised systems.
    z : Tensor
        (r, b) argmin ||W^(1/2) (Q z - y)||.
    projected : Tensor
        (r, b) Q'Wy.
    smallest : Tensor
        (b,) estimate of the smallest eigenvalue of S = Q'WQ; NaN where it is not positive.
    """

    system: System
    z: Tensor
    projected: Tensor
    smallest: Tensor


@dataclass(frozen=True)
class Kept:
    """What a lane found, and which of its pixels may keep it.

    Attributes
    ----------
    coef : Tensor
        (p, b); meaningless where `keep` is False.
    rank : Tensor
        (b,) int64.
    keep : Tensor
        (b,) bool.
    inverse : Inverse
        Of the normal equations.
    product : (Tensor, Tensor) or None
        (n, k) and (k, b), whose product are the fitted values; None where `evaluate` returns them.
    evaluate : callable, optional
        Returns the fitted values (n, b).
    bounded : bool
        Whether fitted values at gaps are no larger than those elsewhere might be.
    """

    coef: Tensor
    rank: Tensor
    keep: Tensor
    inverse: Inverse
    product: tuple[Tensor, Tensor] | None = None
    evaluate: Callable[[], Tensor] | None = None
    bounded: bool = False

    def fitted(self) -> Tensor:
        """Return A x, (n, b)."""
        if self.product is not None:
            return torch.mm(*self.product)
        assert self.evaluate is not None
        return self.evaluate()

    def residual(self, problem: Problem) -> Tensor:
        """Return y - A x, (n, b), 0 at missing samples."""
        out = problem.workspace.empty(*problem.y.shape, dtype=problem.y.dtype)
        if self.product is not None:
            torch.addmm(problem.y, *self.product, alpha=-1, out=out)
        else:
            torch.sub(problem.y, self.fitted(), out=out)
        if self.bounded and problem.flags:
            return out.mul_(problem.weights)
        # What is evaluated at a gap may be infinite, and 0 times that is no 0
        return out.masked_fill_(problem.weights == 0, 0.0)

    def facts(self, problem: Problem, wanted: Wanted) -> dict[str, Tensor]:
        """Return what is wanted, for all pixels."""
        found: dict[str, Tensor] = {}
        for name in wanted.facts:
            if name == "residual":
                found[name] = self.residual(problem)
            elif name == "fitted":
                found[name] = self.fitted()
            elif name == "sandwich":
                assert wanted.sandwich is not None
                residual = found.get("residual")
                residual = self.residual(problem) if residual is None else residual
                found[name] = self.inverse.sandwich(wanted.sandwich, residual)
            else:
                found[name] = getattr(self.inverse, name)()
        return found
