"""The records that every solver shares, and the one place where a gap becomes weight zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.solvers.shared import Shared

__all__ = ["Problem", "Solution", "Weighed", "weigh"]

CACHED_NUMBERS = 2**15
"""Numbers of which a few arrays stay in a processor's cache together (256 KiB of float64 each)."""


@dataclass(frozen=True)
class Weighed:
    """Samples after gaps have become weight zero; from here on there is no mask.

    Attributes
    ----------
    y : Tensor
        (n, b) float64, 0 where the weight is 0.
    weights : Tensor
        (n, b) float64, 0 at every missing sample.
    nobs : Tensor
        (b,) int64, number of samples with a weight.
    square : Tensor
        (b,) float64, sum of the squares of `y`.
    broken : Tensor
        (b,) bool, True where a weight was negative or a flag neither 0 nor 1.
    """

    y: Tensor
    weights: Tensor
    nobs: Tensor
    square: Tensor
    broken: Tensor


def weigh(
    y: Tensor,
    *,
    nodata: tuple[float, ...] = (),
    usable: Tensor | None = None,
    valid: Tensor | None = None,
    weights: Tensor | None = None,
) -> Weighed:
    """Turn everything that makes a sample missing into weight zero.

    Parameters
    ----------
    y : Tensor
        (n, b) samples in float32 or float64; NaN and infinities are missing. Not written to.
    nodata : tuple of float
        Values of `y` that mean missing.
    usable : Tensor, optional
        (n, 1) or (n, b) bool, False where the row of the design cannot be used.
    valid : Tensor, optional
        (n, 1) or (n, b), 1 where a sample counts and 0 where it does not.
    weights : Tensor, optional
        (n, b) float64; not finite or 0 means missing.

    Returns
    -------
    Weighed
        The samples, where missing ones are 0 with weight 0, so that no number that stood in a gap
        (not even NaN or 1e30) can reach an answer.
    """
    n, b = y.shape
    filled, weight = y.new_empty(n, b, dtype=torch.float64), y.new_empty(n, b, dtype=torch.float64)
    nobs, square = weight.new_zeros(b), weight.new_zeros(b)
    broken = torch.zeros(b, dtype=torch.bool, device=y.device)
    # On a CPU by so many rows as stay in cache: memory is read and written once, not once a step
    rows = max(1, CACHED_NUMBERS // max(1, b)) if y.device.type == "cpu" else n
    for start in range(0, n, max(1, rows)):
        here = slice(start, start + rows)
        part, flags = filled[here], weight[here]
        part.copy_(y[here])
        # 0 y is 0 where y is finite and else NaN; in floats, where the processor is quickest
        torch.mul(part, 0.0, out=flags)
        flags.add_(1.0).nan_to_num_(0.0, 0.0, 0.0)
        if weights is None and valid is None and usable is None and not nodata:
            part.nan_to_num_(0.0, 0.0, 0.0)
            nobs += flags.sum(0)
        else:
            counts = flags > 0
            for value in nodata:
                counts &= y[here] != value
            if usable is not None:
                counts &= usable[here]
            if valid is not None:
                given = valid[here]
                counts &= given == 1
                broken |= ((given != 0) & (given != 1)).any(0)
            if weights is not None:
                given = weights[here]
                broken |= (given < 0).any(0)
                counts &= (given > 0) & (given < torch.inf)
                flags.copy_(given.expand_as(flags)).masked_fill_(~counts, 0.0)
            else:
                flags.copy_(counts)
            part.masked_fill_(~counts, 0.0)
            nobs += counts.sum(0)
        square += part.square().sum(0)
    return Weighed(filled, weight, nobs.to(torch.int64), square, broken)


@dataclass(frozen=True)
class Problem:
    """A batch of pixels: minimise sum_i w_i (y_i - a_i x)^2 for each.

    Attributes
    ----------
    y : Tensor
        (n, b) float64, 0 where the weight is 0.
    weights : Tensor
        (n, b) float64, at least 0; apart from the shared weights inside a `Shared` design.
    nobs : Tensor
        (b,) int64, number of samples with a weight.
    square : Tensor
        (b,) sum of the squares of `y`, whatever the weights.
    flags : bool
        True when `weights` holds only 0 and 1.
    design : Shared or Tensor
        One design for all, or (n, p, b) float64 rows, 0 where they cannot be used.
    rcond : float, optional
        Cut-off of the rank on unit-norm columns; None means eps * max(nobs, p).
    """

    y: Tensor
    weights: Tensor
    nobs: Tensor
    square: Tensor
    flags: bool
    design: Shared | Tensor
    rcond: float | None = None

    @property
    def p(self) -> int:
        """Number of params."""
        rows = self.design.rows if isinstance(self.design, Shared) else self.design
        return rows.shape[1]

    @property
    def full_weights(self) -> Tensor:
        """(n, b) weights with the shared ones in."""
        if isinstance(self.design, Shared):
            return self.weights * self.design.root_weights.square()[:, None]
        return self.weights

    @property
    def shared(self) -> Shared:
        """The design of a problem whose pixels share it."""
        assert isinstance(self.design, Shared)
        return self.design

    @property
    def missing(self) -> Tensor:
        """(b,) number of samples that are missing out of the rows of a shared design."""
        return self.shared.usable - self.nobs

    def scaled_samples(self) -> Tensor:
        """Return samples (n, b) times the root of the weights of a shared design."""
        design = self.shared
        return self.y if design.plain_weights else self.y * design.root_weights[:, None]

    def normalised_weights(self) -> Tensor:
        """Return weights (n, b) divided by a power of two near each pixel's largest."""
        if self.flags:
            return self.weights
        largest = self.weights.amax(0)
        exponent = torch.frexp(torch.where(largest > 0, largest, 1.0)).exponent
        return torch.ldexp(self.weights, -exponent)

    def cutoffs(self) -> Tensor:
        """Return the cut-off of the rank of each pixel, (b,)."""
        if self.rcond is not None:
            return torch.full_like(self.y[0], self.rcond)
        eps = torch.finfo(torch.float64).eps
        return eps * self.nobs.clamp(min=self.p).to(torch.float64)

    def take(self, pixels: Tensor) -> Problem:
        """Return the problem of the pixels with these (k,) indices."""
        design = self.design
        if not isinstance(design, Shared):
            design = design.index_select(2, pixels)
        return Problem(
            self.y.index_select(1, pixels),
            self.weights.index_select(1, pixels),
            self.nobs.index_select(0, pixels),
            self.square.index_select(0, pixels),
            self.flags,
            design,
            self.rcond,
        )


@dataclass(frozen=True)
class Solution:
    """What a solver knows of each pixel of a `Problem`.

    Attributes
    ----------
    coef : Tensor
        (p, b) the unique least-squares or else the minimum-norm coefficients.
    rank : Tensor
        (b,) int64, rank of the weighted rows that count.
    left : Tensor
        (b,) bool, pixels that are still to be solved.
    residual : Tensor or None
        (n, b) y - A x, 0 at missing samples; only when asked for.
    fitted : Tensor or None
        (n, b) A x, also at missing samples; only when asked for. Meaningless where the row of the
        design is not finite.
    """

    coef: Tensor
    rank: Tensor
    left: Tensor
    residual: Tensor | None = None
    fitted: Tensor | None = None
