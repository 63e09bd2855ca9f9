"""What can be concluded from a fit, and whether it is right."""

from __future__ import annotations

from xr_lstsq.inference.compare import compare
from xr_lstsq.inference.contrast import contrast
from xr_lstsq.inference.predict import predict

__all__ = ["compare", "contrast", "predict"]
