"""Where a block of pixels runs: device, batches, threads, and the retreat when memory is short."""

from __future__ import annotations

from xr_lstsq.device.block import Plan, solve_block
from xr_lstsq.device.lease import check_name, resolve

__all__ = ["Plan", "check_name", "resolve", "solve_block"]
