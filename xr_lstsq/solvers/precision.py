"""In which number types pixels are solved, and how far each may be trusted.

Ranks and statuses are always those of float64: a pixel that a cheaper precision cannot solve as
well as it promises is left, and solved again in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["DOUBLE", "MIXED", "SINGLE", "Precision"]


@dataclass(frozen=True)
class Precision:
    """Number types of a solver.

    Attributes
    ----------
    name : str
        What a user reads.
    samples : torch.dtype
        Of samples, residuals and coefficients.
    systems : torch.dtype
        Of the small systems that are factorised for each pixel.
    trusted : float
        Smallest eigenvalue of such a system, whose largest is about 1, above which the answer is
        as good as promised.
    steps : int
        Refinement steps that every pixel needs.
    """

    name: str
    samples: torch.dtype
    systems: torch.dtype
    trusted: float
    steps: int

    @property
    def last(self) -> bool:
        """Whether what it leaves is for the rank-revealing lane, not for another precision."""
        return self.trusted == 0


DOUBLE = Precision("float64", torch.float64, torch.float64, 0.0, 0)
MIXED = Precision("float32 systems, float64 refinement", torch.float64, torch.float32, 1e-3, 2)
"""As good as float64, for devices on which that is slow: each step gains about four digits."""
SINGLE = Precision("float32", torch.float32, torch.float32, 1e-3, 0)
"""Off by about the rounding of float32 relative to the samples, over the smallest eigenvalue."""
