"""A solved batch with what its statistics share, each made once and only when asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from xr_lstsq.method import Method
from xr_lstsq.solvers.problem import Problem, Solution
from xr_lstsq.solvers.shared import IN_SPAN, Shared
from xr_lstsq.statistics import autocorrelation
from xr_lstsq.statistics.whitened import Whitened

__all__ = ["Solved"]

NO_DIGITS_LOST = 1e-2
"""Share of a sum of squares that may be left of it, with as many digits but two."""
ROUNDING = 16.0
"""Multiple of eps up to which what is left of samples is their rounding; sums add sqrt(n)."""


@dataclass(frozen=True)
class Solved:
    """A batch of pixels and its solution.

    Attributes
    ----------
    problem : Problem
        What was solved; a whitened one where the noise was modelled.
    solution : Solution
        Its solution.
    method : Method
        How statistics are made.
    whitened : Whitened, optional
        Where the noise was modelled: what it was made of.
    to_coef : Tensor, optional
        (p, p) what turns the coefficients of the solution into those of the params.
    """

    problem: Problem
    solution: Solution
    method: Method
    whitened: Whitened | None = None
    to_coef: Tensor | None = None

    @cached_property
    def coef(self) -> Tensor:
        """(p, b) coefficients of the params."""
        coef = self.solution.coef
        return coef if self.to_coef is None else self.to_coef @ coef

    @cached_property
    def variance(self) -> Tensor:
        """(p, b) diagonal of `covariance`."""
        if self.to_coef is None:
            return self.solution.facts["variance"]
        return torch.diagonal(self.covariance, dim1=0, dim2=1).T.clamp(min=0.0)

    @cached_property
    def covariance(self) -> Tensor:
        """(p, p, b) covariance of the params for samples of variance 1 over weight."""
        return self._of_params("covariance")

    @cached_property
    def sandwich(self) -> Tensor:
        """(p, p, b) robust covariance of the params."""
        return self._of_params("sandwich")

    def _of_params(self, fact: str) -> Tensor:
        """Return a covariance (p, p, b) of the params."""
        inner = self.solution.facts[fact]
        if self.to_coef is None:
            return inner
        half = torch.einsum("ij,jkb->ikb", self.to_coef, inner)
        return torch.einsum("ikb,lk->ilb", half, self.to_coef)

    @cached_property
    def counts(self) -> Tensor:
        """(n, b) 1 for samples that count, else 0."""
        problem = self.problem if self.whitened is None else self.whitened.problem
        return (problem.full_weights > 0).to(problem.y.dtype)

    @cached_property
    def weights(self) -> Tensor:
        """(n, b) weights with the shared ones in."""
        return self.problem.full_weights

    @cached_property
    def plain(self) -> bool:
        """Whether the weights that count are all 1."""
        design = self.problem.design
        return self.problem.flags and not (isinstance(design, Shared) and not design.plain_weights)

    @cached_property
    def rss(self) -> Tensor:
        """(b,) sum of w (y - A x)^2 over the samples that count.

        From the residuals themselves, never as ||y||^2 - ||A x||^2, which loses all digits of a
        close fit.
        """
        return self.sum_of_squares(self.solution.facts["residual"])

    @cached_property
    def dof(self) -> Tensor:
        """(b,) degrees of freedom: int64, or float of an effective sample size."""
        if self.method.real_dof:
            return self.n_eff - self.solution.rank
        return self.problem.nobs - self.solution.rank

    @cached_property
    def scale(self) -> Tensor:
        """(b,) variance of a sample of weight 1: rss / dof; NaN without degrees of freedom."""
        return self.rss / torch.where(self.dof > 0, self.dof, torch.nan)

    @cached_property
    def rounding(self) -> Tensor:
        """(b,) sum of squares up to which it is rounding of the samples."""
        eps = torch.finfo(self.problem.y.dtype).eps
        multiple = ROUNDING + math.sqrt(self.problem.y.shape[0])
        return (multiple * eps) ** 2 * self.square

    @cached_property
    def square(self) -> Tensor:
        """(b,) weighted sum of the squares of the samples."""
        return self.problem.square if self.plain else self.sum_of_squares(self.problem.y)

    @cached_property
    def centred(self) -> Tensor:
        """(b,) bool, whether a constant lies in the span of the pixel's rows that count."""
        left = self.solution.facts.get("constant")
        if left is None:  # it lies in the span of the design that all pixels share
            return torch.ones_like(self.problem.nobs, dtype=torch.bool)
        return left <= IN_SPAN**2

    @cached_property
    def total(self) -> Tensor:
        """(b,) weighted sum of squares about the pixel's own weighted mean, or about 0.

        NaN where it is rounding.
        """
        if not self.centred.any():
            # About 0, as in a network: no pass over the samples, and none over the constant
            return torch.where(self.square > self.rounding, self.square, torch.nan)
        y, out = self.problem.y, self._scratch
        one = self.problem.constant
        if one is None:
            if self.plain:
                mean = y.sum(0) / self.problem.nobs
                about = (
                    self.square - torch.where(self.centred, mean, 0.0) * mean * self.problem.nobs
                )
                if not (about < NO_DIGITS_LOST * self.square).any():
                    # Saves four passes over the samples; not where there are none
                    return torch.where(about > 0, about, torch.nan)
            else:
                mean = torch.mul(self.weights, y, out=out).sum(0) / self.weights.sum(0)
            torch.sub(y, torch.where(self.centred, mean, 0.0), out=out)
        else:
            mean = torch.mul(one, y, out=out).sum(0) / one.square().sum(0)
            torch.mul(one, torch.where(self.centred, mean, 0.0), out=out)
            torch.sub(y, out, out=out)
        if self.plain:
            out.mul_(self.problem.weights)
        total = self.sum_of_squares(out)
        return torch.where(total > self.rounding, total, torch.nan)

    @cached_property
    def rho(self) -> Tensor:
        """(b,) autocorrelation of residuals one step of time apart; NaN where pairs are few."""
        if self.whitened is not None:
            return self.whitened.rho
        return autocorrelation.rho(self.problem, self.solution.facts["residual"], self.method)

    @cached_property
    def n_eff(self) -> Tensor:
        """(b,) effective number of samples (see `autocorrelation`)."""
        return autocorrelation.effective(self.problem.nobs, self.rho)

    @cached_property
    def loglik(self) -> Tensor:
        """(b,) logarithm of the likelihood, at the variance that makes it largest, rss / nobs."""
        nobs = self.problem.nobs
        value = -nobs / 2 * (math.log(2 * math.pi) + (self.rss / nobs).log() + 1)
        if self.whitened is not None:
            return value + self.whitened.log_determinant
        if self.plain:
            return value
        return value + torch.where(self.weights > 0, self.weights, 1.0).log().sum(0) / 2

    @cached_property
    def stderr(self) -> Tensor:
        """(p, b) standard errors; NaN without degrees of freedom."""
        if self.method.absolute_sigma:
            return self.variance.sqrt()
        if self.method.robust:
            diagonal = torch.diagonal(self.sandwich, dim1=0, dim2=1).T
            return torch.where(self.dof > 0, diagonal, torch.nan).clamp(min=0.0).sqrt()
        return (self.variance * self.scale).sqrt_()

    @cached_property
    def tvalue(self) -> Tensor:
        """(p, b) coefficients over standard errors; NaN where both are rounding of the samples."""
        ratio = self.coef / self.stderr
        if self.method.absolute_sigma:
            return ratio
        exact = self.rss <= self.rounding
        if exact.any():
            noise = self.coef.square() <= self.variance * self.rounding
            ratio = ratio.masked_fill(exact & noise, torch.nan)
        return ratio

    def sum_of_squares(self, values: Tensor) -> Tensor:
        """Return the weighted sum of squares of (n, b) values that are 0 at gaps, (b,)."""
        squares = torch.mul(values, values, out=self._scratch)
        return (squares if self.plain else squares.mul_(self.weights)).sum(0)

    @cached_property
    def _scratch(self) -> Tensor:
        """Memory of the shape of the samples; what it holds is of use for one sum only."""
        return self.problem.workspace.empty(*self.problem.y.shape, dtype=self.problem.y.dtype)
