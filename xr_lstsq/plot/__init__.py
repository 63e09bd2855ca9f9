"""Pictures of a fit; needs matplotlib, which is imported when a picture is drawn."""

from __future__ import annotations

from xr_lstsq.plot.figure import overview, require_matplotlib, save
from xr_lstsq.plot.series import curve

__all__ = ["curve", "overview", "require_matplotlib", "save"]
