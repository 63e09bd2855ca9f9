"""What a solve will do and take, said before it is done."""

from __future__ import annotations

from xr_lstsq.preview.explain import explain
from xr_lstsq.preview.explanation import Explanation, Explanations

__all__ = ["Explanation", "Explanations", "explain"]
