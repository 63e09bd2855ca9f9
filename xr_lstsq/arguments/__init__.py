"""Read and check the arguments of a fit, before any work."""

from __future__ import annotations

from xr_lstsq.arguments.inputs import Job, shared_dims
from xr_lstsq.arguments.options import nodata_values, refuse_foreign
from xr_lstsq.arguments.request import Request, read_request

__all__ = [
    "Job",
    "Request",
    "nodata_values",
    "read_request",
    "refuse_foreign",
    "shared_dims",
]
