"""The table of statistics: what each needs of a solver, and the function that makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from xr_lstsq.method import HAC, Method
from xr_lstsq.solvers.wanted import Sandwich, Wanted
from xr_lstsq.statistics import likelihood, parameters, residuals, totals
from xr_lstsq.statistics.autocorrelation import positions
from xr_lstsq.statistics.solved import Solved

__all__ = ["STATISTICS", "Statistic", "wanted"]


@dataclass(frozen=True)
class Statistic:
    """One row of the table.

    Attributes
    ----------
    function : callable
        Takes a `Solved` batch; returns (b,), or the axes of the statistic's `Output` and b.
    needs : tuple of str
        What the solver has to return: keys of `xr_lstsq.solvers.wanted.FACTS`.
    """

    function: Callable[[Solved], Tensor]
    needs: tuple[str, ...] = ()


_SPREAD = ("residual", "variance")
_TOTAL = ("residual", "constant")

STATISTICS: dict[str, Statistic] = {
    "dof": Statistic(residuals.dof),
    "rss": Statistic(residuals.rss, ("residual",)),
    "rmse": Statistic(residuals.rmse, ("residual",)),
    "resid_std": Statistic(residuals.resid_std, ("residual",)),
    "rsquared": Statistic(totals.rsquared, _TOTAL),
    "rsquared_adj": Statistic(totals.rsquared_adj, _TOTAL),
    "stderr": Statistic(parameters.stderr, _SPREAD),
    "tvalue": Statistic(parameters.tvalue, _SPREAD),
    "pvalue": Statistic(parameters.pvalue, _SPREAD),
    "conf_int": Statistic(parameters.conf_int, _SPREAD),
    "cov": Statistic(parameters.cov, ("residual", "covariance")),
    "cond": Statistic(residuals.cond, ("cond",)),
    "leverage": Statistic(residuals.leverage, ("leverage",)),
    "residual": Statistic(residuals.residual, ("residual",)),
    "fitted": Statistic(residuals.fitted, ("fitted",)),
    "fvalue": Statistic(totals.fvalue, _TOTAL),
    "f_pvalue": Statistic(totals.f_pvalue, _TOTAL),
    "aic": Statistic(likelihood.aic, ("residual",)),
    "bic": Statistic(likelihood.bic, ("residual",)),
    "loglik": Statistic(likelihood.loglik, ("residual",)),
    "temporal_coherence": Statistic(residuals.temporal_coherence, ("residual",)),
    "rho": Statistic(residuals.rho, ("residual",)),
    "n_eff": Statistic(residuals.n_eff, ("residual",)),
}
"""The row of each statistic, by the name of its `Output`."""


def wanted(
    names: Iterable[str], method: Method, device: torch.device, *, has_constant: bool = False
) -> Wanted:
    """Return what a solver has to return for the statistics with these names.

    Parameters
    ----------
    names : iterable of str
        Names of outputs; those that are no statistics are always there.
    method : Method
        How they are made.
    device : torch.device
        Where.
    has_constant : bool
        Whether a constant is known to lie in the span of the rows of every pixel.
    """
    facts: set[str] = set()
    for name in names:
        needs = set(STATISTICS[name].needs) if name in STATISTICS else set()
        if method.absolute_sigma and needs & {"variance", "covariance"}:
            needs.discard("residual")
        facts |= needs
    if has_constant:
        facts.discard("constant")
    if method.noise is not None:
        facts.discard("fitted")  # those of whitened samples are of no use
    if method.autocorrelated:
        facts.add("residual")
    sandwich = None
    if method.robust and facts & {"variance", "covariance"}:
        # Unscaled variances tell an estimate of rounding noise from one that is certain
        facts = (facts - {"covariance"}) | {"sandwich"}
        sandwich = Sandwich(method.cov_type, _kernel(method, device))
    return Wanted(frozenset(facts), sandwich, without_dof=method.absolute_sigma)


def _kernel(method: Method, device: torch.device) -> Tensor | None:
    """Return the kernel of Bartlett for each two samples, (n, n)."""
    if method.cov_type != HAC:
        return None
    position = positions(method, device)
    assert method.maxlags is not None
    lag = (position[:, None] - position).abs()
    return (1.0 - lag / (method.maxlags + 1)).clamp(min=0.0)
