"""The shell."""

from __future__ import annotations

from xr_lstsq.cli.commands import main

__all__ = ["main"]
