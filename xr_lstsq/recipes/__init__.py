"""Recipes: a question of the field, asked in one call and answered by its own names."""

from __future__ import annotations

from xr_lstsq.recipes.detrend import detrend
from xr_lstsq.recipes.sbas import sbas
from xr_lstsq.recipes.seasonal import seasonal
from xr_lstsq.recipes.trend import trend
from xr_lstsq.recipes.unmix import unmix
from xr_lstsq.recipes.velocity import velocity

__all__ = ["detrend", "sbas", "seasonal", "trend", "unmix", "velocity"]
