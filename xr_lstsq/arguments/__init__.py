"""Read and check the arguments of a fit, before any work."""

from __future__ import annotations

from xr_lstsq.arguments.inputs import Job, names_used, read_design, read_samples, shared_dims
from xr_lstsq.arguments.options import Options, nodata_values, read_options, refuse_foreign

__all__ = [
    "Job",
    "Options",
    "names_used",
    "nodata_values",
    "read_design",
    "read_options",
    "read_samples",
    "refuse_foreign",
    "shared_dims",
]
