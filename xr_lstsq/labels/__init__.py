"""Labels: off a cube, matched with what comes along, and back on an answer."""

from __future__ import annotations

from xr_lstsq.labels.choice import Chosen, choose, find_dim, refuse_but_radians, refuse_dtype
from xr_lstsq.labels.matching import match
from xr_lstsq.labels.record import (
    PARAM_ORIGIN,
    PARAM_UNITS,
    Labels,
    data_attrs,
    grid_mapping,
    refuse_taken,
    restore,
    shown,
    strip,
)

__all__ = [
    "PARAM_ORIGIN",
    "PARAM_UNITS",
    "Chosen",
    "Labels",
    "choose",
    "data_attrs",
    "find_dim",
    "grid_mapping",
    "match",
    "refuse_but_radians",
    "refuse_dtype",
    "refuse_taken",
    "restore",
    "shown",
    "strip",
]
