"""Facts about solved pixels: a problem and its solution in, a tensor for each statistic out."""

from __future__ import annotations

from xr_lstsq.statistics.noise import solve_with_noise
from xr_lstsq.statistics.solved import Solved
from xr_lstsq.statistics.table import STATISTICS, wanted

__all__ = ["STATISTICS", "Solved", "solve_with_noise", "wanted"]
