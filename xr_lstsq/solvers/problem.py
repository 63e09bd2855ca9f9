"""The records that every solver shares, and the one place where a gap becomes weight zero."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from xr_lstsq.solvers.powers import power_of_two, shift
from xr_lstsq.solvers.precision import DOUBLE, Precision
from xr_lstsq.solvers.shared import Shared
from xr_lstsq.solvers.workspace import Workspace

__all__ = ["Problem", "Solution", "Weighed", "weigh"]


MOST_EXPONENT = 1000
"""Power of two up to which a float64 can be scaled by a power of two that is one as well."""


@dataclass(frozen=True)
class Weighed:
    """Samples after gaps have become weight zero; from here on there is no mask.

    Attributes
    ----------
    y : Tensor
        (n, b) in the dtype asked for, 0 where the weight is 0.
    weights : Tensor
        (n, b), 0 at every missing sample; float64, or 0 and 1 in the dtype of `y`.
    nobs : Tensor
        (b,) int64, number of samples with a weight.
    square : Tensor
        (b,) sum of the squares of `y`; infinite where its dtype cannot hold it.
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
    dtype: torch.dtype = torch.float64,
    workspace: Workspace | None = None,
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
        (n, 1) or (n, b) float64; not finite or 0 means missing.
    dtype : torch.dtype
        Dtype of the samples that are returned.
    workspace : Workspace, optional
        Memory for what is returned.

    Returns
    -------
    Weighed
        The samples, where missing ones are 0 with weight 0, so that no number that stood in a gap
        (not even NaN or 1e30) can reach an answer.

    Notes
    -----
    Flags are floats throughout, which a processor turns over several times faster than bools.
    """
    n, b = y.shape
    workspace = Workspace(0, y.device) if workspace is None else workspace
    broken = torch.zeros(b, dtype=torch.bool, device=y.device)
    masked = nodata or usable is not None or valid is not None or weights is not None
    if not masked and n and torch.isfinite(y.sum(0)).all():
        # No gap at all: one pass over the samples has shown it, and saves four
        filled = y if y.dtype == dtype else workspace.empty(n, b, dtype=dtype).copy_(y)
        spare = torch.mul(filled, filled, out=workspace.empty(n, b, dtype=dtype))
        flags = filled.new_ones(1, 1).expand(n, b)
        return Weighed(
            filled, flags, torch.full_like(broken, n, dtype=torch.int64), spare.sum(0), broken
        )
    filled, flags = workspace.empty(n, b, dtype=dtype), workspace.empty(n, b, dtype=dtype)
    spare = workspace.empty(n, b, dtype=dtype)
    own = filled.copy_(y) if y.dtype.itemsize <= dtype.itemsize else y
    torch.sub(own, own, out=flags)  # 0 where finite, else NaN
    torch.eq(flags, 0.0, out=flags)
    if own is y:  # what is too large for the dtype is no gap
        filled.copy_(torch.nan_to_num(y, 0.0, 0.0, 0.0))
    else:
        filled.nan_to_num_(0.0, 0.0, 0.0)
    for value in nodata:
        flags.mul_(torch.ne(y, value, out=spare))
    if usable is not None:
        flags.mul_(usable)
    if valid is not None:
        flags.mul_(torch.eq(valid.expand(n, b), 1, out=spare))
        broken |= ((valid != 0) & (valid != 1)).any(0)
    weight = flags
    if weights is not None:
        given = torch.nan_to_num(weights, 0.0, 0.0, -1.0)
        broken |= given.amin(0) < 0 if n else broken
        flags.mul_(torch.gt(given.expand(n, b), 0.0, out=spare))
        weight = torch.mul(given, flags, out=workspace.empty(n, b))
    if masked:
        filled.masked_fill_(flags == 0, 0.0)  # not times 0: what is too large is infinite
    nobs = flags.sum(0).to(torch.int64)
    square = torch.mul(filled, filled, out=spare).sum(0)
    return Weighed(filled, weight, nobs, square, broken)


@dataclass(frozen=True)
class Problem:
    """A batch of pixels: minimise sum_i w_i (y_i - a_i x)^2 for each.

    Attributes
    ----------
    y : Tensor
        (n, b) in the dtype of `precision`, 0 where the weight is 0.
    weights : Tensor
        (n, b), at least 0; apart from the shared weights inside a `Shared` design. 0 and 1 in the
        dtype of `y` where `flags` is True, else float64.
    nobs : Tensor
        (b,) int64, number of samples with a weight.
    square : Tensor
        (b,) sum of the squares of `y`, whatever the weights.
    flags : bool
        True when `weights` holds only 0 and 1.
    design : Shared or Tensor
        One design for all, or (n, p, b) rows in the dtype of `precision`, 0 where they cannot be
        used.
    rcond : float, optional
        Cut-off of the rank on unit-norm columns; None means eps * max(nobs, p).
    precision : Precision
        Number types to work in.
    constant : Tensor, optional
        (n, b) what a constant of 1 is in the samples, 0 at gaps; None where it is 1.
    workspace : Workspace
        Memory for temporaries and the answer.
    """

    y: Tensor
    weights: Tensor
    nobs: Tensor
    square: Tensor
    flags: bool
    design: Shared | Tensor
    rcond: float | None = None
    precision: Precision = DOUBLE
    constant: Tensor | None = None
    workspace: Workspace = field(default_factory=Workspace)

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
        """The design of a problem whose pixels share it, in float64."""
        assert isinstance(self.design, Shared)
        return self.design

    @property
    def shared_samples(self) -> Shared:
        """The shared design in the dtype of the samples."""
        return self.shared.in_dtype(self.precision.samples)

    @property
    def shared_systems(self) -> Shared:
        """The shared design in the dtype of the systems."""
        return self.shared.in_dtype(self.precision.systems)

    @property
    def missing(self) -> Tensor:
        """(b,) number of samples that are missing out of the rows of a shared design."""
        return self.shared.usable - self.nobs

    def scaled_samples(self) -> Tensor:
        """Return samples (n, b) times the root of the weights of a shared design."""
        design = self.shared_samples
        return self.y if design.plain_weights else self.y * design.root_weights[:, None]

    def project(self, samples: Tensor) -> Tensor:
        """Return Q' times samples (n, b)."""
        basis = self.shared_samples.basis.whole
        out = self.workspace.empty(basis.shape[1], samples.shape[1], dtype=basis.dtype)
        return torch.mm(basis.T, samples, out=out)

    def normalised_weights(self) -> Tensor:
        """Return weights (n, b), divided by a power of two near each pixel's largest."""
        exponent = self.weight_exponent()
        if exponent is None:
            return self.weights
        out = self.workspace.empty(*self.y.shape, dtype=self.y.dtype)
        return torch.mul(self.weights, power_of_two(-exponent, self.weights.dtype), out=out)

    def weight_exponent(self) -> Tensor | None:
        """Return the exponent of the power of two near each pixel's largest weight, (b,).

        None where weights are 0 and 1. A float64 can be divided by that power.
        """
        if self.flags:
            return None
        largest = self.weights.amax(0)
        exponent = torch.frexp(torch.where(largest > 0, largest, 1.0)).exponent
        return exponent.clamp(min=-MOST_EXPONENT)

    def unnormalised(self, inverse: Tensor) -> Tensor:
        """Return what an inverse by `normalised_weights`, (..., b), is for weights as they are."""
        exponent = self.weight_exponent()
        return inverse if exponent is None else shift(inverse, -exponent)

    def one(self) -> Tensor:
        """Return what a constant of 1 is in the samples, (n, b), 0 at gaps."""
        if self.constant is not None:
            return self.constant
        return self.weights if self.flags else (self.weights > 0).to(self.y.dtype)

    def evaluate(self, coef: Tensor) -> Tensor:
        """Return A x, (n, b)."""
        if isinstance(self.design, Shared):
            return self.shared_samples.plain @ coef
        return (self.design * coef).sum(1)

    def cutoffs(self) -> Tensor:
        """Return the cut-off of the rank of each pixel, (b,)."""
        if self.rcond is not None:
            return torch.full_like(self.nobs, self.rcond, dtype=torch.float64)
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
            self.precision,
            None if self.constant is None else self.constant.index_select(1, pixels),
            self.workspace,
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
    facts : dict of str to Tensor
        What else was asked for (see `wanted.FACTS`). Fitted values are meaningless where the row of
        the design is not finite.
    """

    coef: Tensor
    rank: Tensor
    left: Tensor
    facts: dict[str, Tensor] = field(default_factory=dict)

    def not_finite(self) -> Tensor:
        """Return the pixels, (b,) bool, with a coefficient that is NaN or infinite."""
        return (self.coef * 0.0).sum(0) != 0  # a sum of zeros, or NaN
