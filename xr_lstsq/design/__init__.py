"""Designs: terms that make the columns of a least-squares problem from the labels of samples."""

from __future__ import annotations

from xr_lstsq.design.columns import Columns
from xr_lstsq.design.dem_error import dem_error
from xr_lstsq.design.events import decay, ramp, step
from xr_lstsq.design.factors import indicator
from xr_lstsq.design.formula import formula
from xr_lstsq.design.network import network
from xr_lstsq.design.pairs import pairs
from xr_lstsq.design.pieces import constant, piecewise
from xr_lstsq.design.registry import from_json, parse
from xr_lstsq.design.regressors import covariate
from xr_lstsq.design.spectra import endmembers
from xr_lstsq.design.splines import spline
from xr_lstsq.design.terms import Term
from xr_lstsq.design.time import harmonics, polynomial

__all__ = [
    "Columns",
    "Term",
    "constant",
    "covariate",
    "decay",
    "dem_error",
    "endmembers",
    "formula",
    "from_json",
    "harmonics",
    "indicator",
    "network",
    "pairs",
    "parse",
    "piecewise",
    "polynomial",
    "ramp",
    "spline",
    "step",
]
