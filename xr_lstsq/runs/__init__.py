"""Runs on files: a fit written chunk by chunk, said beforehand what it will take, or described."""

from __future__ import annotations

from xr_lstsq.runs.bar import bar
from xr_lstsq.runs.explain import explain_file
from xr_lstsq.runs.files import RunSummary, solve_file
from xr_lstsq.runs.info import FitInfo, info_file
from xr_lstsq.runs.inputs import Given
from xr_lstsq.runs.source import sample_path
from xr_lstsq.runs.write import write_fit

__all__ = [
    "FitInfo",
    "Given",
    "RunSummary",
    "bar",
    "explain_file",
    "info_file",
    "sample_path",
    "solve_file",
    "write_fit",
]
