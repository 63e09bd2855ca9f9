"""Designs: terms that make the columns of a least-squares problem from a sample coordinate."""

from __future__ import annotations

from xr_lstsq.design.columns import Columns
from xr_lstsq.design.registry import from_json, parse
from xr_lstsq.design.terms import Term
from xr_lstsq.design.time import harmonics, polynomial

__all__ = ["Columns", "Term", "from_json", "harmonics", "parse", "polynomial"]
