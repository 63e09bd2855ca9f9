"""What lanes return: a first answer in the basis Q, and what may be kept of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from xr_lstsq.solvers.problem import Problem

__all__ = ["Begun", "Kept", "System"]


class System(Protocol):
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
    fit : Tensor or None
        (n, b) fitted values, when asked for.
    """

    coef: Tensor
    rank: Tensor
    keep: Tensor
    fit: Tensor | None

    def given_fit(self) -> Tensor:
        """Return the fitted values of a lane that was asked for them."""
        assert self.fit is not None
        return self.fit

    def residual(self, problem: Problem) -> Tensor:
        """Return y - A x, 0 at missing samples."""
        return torch.where(problem.weights > 0, problem.y - self.given_fit(), 0.0)
