"""What can be concluded from a fit, and whether it is right."""

from __future__ import annotations

from xr_lstsq.inference.compare import compare
from xr_lstsq.inference.contrast import contrast
from xr_lstsq.inference.cycles import amplitude, phase
from xr_lstsq.inference.fdr import fdr
from xr_lstsq.inference.predict import predict
from xr_lstsq.inference.timeseries import Undetermined, timeseries
from xr_lstsq.inference.validate import validate
from xr_lstsq.inference.validation import Difference, Validation

__all__ = [
    "Difference",
    "Undetermined",
    "Validation",
    "amplitude",
    "compare",
    "contrast",
    "fdr",
    "phase",
    "predict",
    "timeseries",
    "validate",
]
