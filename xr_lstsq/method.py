"""How the statistics of a fit are made: the arguments that choose among the ways, as one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COV_TYPES", "HAC", "ROBUST", "Method", "check_level"]

HAC = "HAC"
ROBUST = ("HC0", "HC1", "HC2", "HC3", HAC)
COV_TYPES = ("nonrobust", *ROBUST, "ar1")


@dataclass(frozen=True, eq=False)
class Method:
    """How the statistics of a fit are made.

    Attributes
    ----------
    cov_type : str
        One of `COV_TYPES`.
    maxlags : int, optional
        Of ``"HAC"``, in steps of time.
    absolute_sigma : bool
        Whether weights are true inverse variances.
    noise : {None, "ar1"}
        Model of the noise by which the fit itself is made.
    level : float
        Of confidence intervals.
    position : array of (n,), optional
        Time of each sample in steps, where a method needs it.
    regular : bool
        Whether these are whole steps.
    """

    cov_type: str = "nonrobust"
    maxlags: int | None = None
    absolute_sigma: bool = False
    noise: str | None = None
    level: float = 0.95
    position: NDArray[np.float64] | None = None
    regular: bool = True

    @property
    def robust(self) -> bool:
        """Whether covariances are sandwiches."""
        return self.cov_type in ROBUST

    @property
    def autocorrelated(self) -> bool:
        """Whether the autocorrelation of residuals is estimated."""
        return "ar1" in (self.cov_type, self.noise)

    @property
    def real_dof(self) -> bool:
        """Whether degrees of freedom are those of an effective sample size, and no whole number."""
        return self.cov_type == "ar1"

    @property
    def needs_time(self) -> str | None:
        """The argument that asks for samples along one time axis, as it was typed; or None."""
        if self.noise is not None:
            return f"noise={self.noise!r}"
        return f"cov_type={self.cov_type!r}" if self.cov_type in (HAC, "ar1") else None

    def to_json(self) -> dict[str, Any]:
        """Return the arguments as JSON data."""
        return {
            "cov_type": self.cov_type,
            "maxlags": self.maxlags,
            "absolute_sigma": self.absolute_sigma,
            "noise": self.noise,
            "level": self.level,
        }


def check_level(level: object) -> float:
    """Return the level of an interval.

    Raises
    ------
    ValueError
        When it is not between 0 and 1.
    """
    if isinstance(level, int | float | np.number) and 0 < float(level) < 1:
        return float(level)
    msg = f"level={level!r} is not between 0 and 1. Pass for example level=0.95."
    raise ValueError(msg)
