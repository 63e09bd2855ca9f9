"""Least squares for every pixel of a labelled cube, each with its own gaps and weights."""

from __future__ import annotations

from importlib.metadata import version as _version

from xr_lstsq import design, recipes, weights
from xr_lstsq.accessor import LstsqAccessor as _LstsqAccessor  # noqa: F401 - registers .lstsq
from xr_lstsq.errors import (
    ChunkError,
    DeviceError,
    DtypeError,
    LabelError,
    ValidationError,
    WriteError,
)
from xr_lstsq.inference import Difference, Validation, fdr
from xr_lstsq.networks import closure, connectivity
from xr_lstsq.pipeline import solve
from xr_lstsq.preview import Explanation, Explanations, explain

__version__ = _version("xr_lstsq")

__all__ = [
    "ChunkError",
    "DeviceError",
    "Difference",
    "DtypeError",
    "Explanation",
    "Explanations",
    "LabelError",
    "Validation",
    "ValidationError",
    "WriteError",
    "__version__",
    "closure",
    "connectivity",
    "design",
    "explain",
    "fdr",
    "recipes",
    "solve",
    "weights",
]
