"""What is asked of a solver beside coefficients, and the memory that it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["FACTS", "NOTHING", "Sandwich", "Wanted", "blank_facts"]

FACTS: dict[str, tuple[str, ...]] = {
    "residual": ("n",),
    "fitted": ("n",),
    "variance": ("p",),
    "covariance": ("p", "p"),
    "leverage": ("n",),
    "cond": (),
    "constant": (),
    "sandwich": ("p", "p"),
}
"""Axes of each fact before that of the pixels.

``residual`` is y - A x, 0 at gaps; ``fitted`` A x, also there. ``variance`` is the diagonal of
``covariance``, (A'WA)+. ``leverage`` is the diagonal of the hat matrix of the weighted rows.
``cond`` is that of the weighted rows with columns of unit norm, infinite where the rank is short.
``constant`` is the share of a constant, as a weighted sum of squares, that no x can fit.
``sandwich`` is the robust covariance of `Sandwich`.
"""
OF_INVERSE = frozenset({"variance", "covariance", "leverage", "cond", "constant", "sandwich"})
"""Facts that take the inverse of a pixel's own normal equations."""
SAFE_INVERSE = 1e-6
"""Eigenvalue of a system from which its inverse has 9 digits."""
SAFE_SANDWICH = 1e-4
"""The same for a product with two inverses, which loses twice as many."""


@dataclass(frozen=True)
class Sandwich:
    """A robust covariance (A'WA)+ M (A'WA)+ with M = sum_ij k_ij u_i u_j', u_i = w_i e_i a_i.

    Attributes
    ----------
    kind : {"HC0", "HC1", "HC2", "HC3", "HAC"}
        What the residuals e are multiplied by: 1; sqrt(nobs / dof); 1 / sqrt(1 - h); 1 / (1 - h)
        with h the leverage; 1.
    kernel : Tensor or None
        (n, n) k; None means the identity.
    """

    kind: str
    kernel: Tensor | None = None

    @property
    def power(self) -> float:
        """Power of 1 / (1 - h) by which residuals are multiplied."""
        return {"HC2": 0.5, "HC3": 1.0}.get(self.kind, 0.0)


@dataclass(frozen=True)
class Wanted:
    """What to return beside coefficients and ranks.

    Attributes
    ----------
    facts : frozenset of str
        Keys of `FACTS`.
    sandwich : Sandwich, optional
        Which, where that is one of them.
    without_dof : bool
        Whether variances are of use for pixels with no degrees of freedom, as they are where the
        variance of a sample is known.
    """

    facts: frozenset[str] = frozenset()
    sandwich: Sandwich | None = None
    without_dof: bool = False

    @property
    def fit(self) -> bool:
        """Whether fitted values or residuals are wanted, if only for other facts."""
        return bool(self.facts & {"residual", "fitted", "sandwich"})

    @property
    def least_eigenvalue(self) -> float:
        """Smallest eigenvalue of a pixel's system by which a lane may keep it.

        An inverse, unlike coefficients, is not refined: its error is eps over that eigenvalue.
        """
        if "sandwich" in self.facts:
            return SAFE_SANDWICH
        return SAFE_INVERSE if self.facts & OF_INVERSE else 0.0

    def numbers_of_a_pixel(self, n: int, p: int) -> int:
        """Return how many numbers a pixel holds for these facts, temporaries included."""
        sizes = {"n": n, "p": p}
        total = sum(math.prod(sizes[axis] for axis in FACTS[name]) for name in self.facts)
        if self.facts:
            total += n
        if self.facts & {"covariance", "sandwich", "leverage", "cond"}:
            total += 3 * p * p + 2 * n
        return total + (2 * p if "variance" in self.facts else 0)


NOTHING = Wanted()


def blank_facts(wanted: Wanted, n: int, p: int, like: Tensor) -> dict[str, Tensor]:
    """Return facts to be filled in for the (b,) pixels of `like`: residuals are 0, the rest NaN."""
    sizes = {"n": n, "p": p}
    return {
        name: like.new_full(
            (*(sizes[axis] for axis in FACTS[name]), like.shape[-1]),
            0.0 if name == "residual" else torch.nan,
        )
        for name in wanted.facts
    }
