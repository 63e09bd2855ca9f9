"""Where a block of pixels runs: device, batches, threads, and the retreat when memory is short."""

from __future__ import annotations

from xr_lstsq.device.block import solve_block
from xr_lstsq.device.lease import check_name, resolve
from xr_lstsq.device.plan import Plan
from xr_lstsq.device.survey import Survey, survey

__all__ = ["Plan", "Survey", "check_name", "resolve", "solve_block", "survey"]
