"""Powers of two, by which numbers are scaled without rounding."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["power_of_two", "shift"]


def power_of_two(exponent: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 2^exponent of whole numbers, exactly.

    Not `torch.ldexp`, which in some releases takes the power in float32 whatever it multiplies.
    """
    return torch.exp2(exponent.to(dtype))


def shift(values: Tensor, exponent: Tensor) -> Tensor:
    """Return values times 2^exponent, in their own dtype."""
    return values * power_of_two(exponent, values.dtype)
