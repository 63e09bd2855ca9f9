"""Facts of a network of interferograms: closure of its triplets, and what hangs together."""

from __future__ import annotations

from xr_lstsq.networks.connections import connectivity
from xr_lstsq.networks.triplets import closure

__all__ = ["closure", "connectivity"]
