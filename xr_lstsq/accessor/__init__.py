"""The `.lstsq` accessor on DataArray and Dataset: signatures that hand over."""

from __future__ import annotations

import xarray as xr

from xr_lstsq.accessor.cube import CubeMethods
from xr_lstsq.accessor.fit import FitMethods
from xr_lstsq.accessor.recipes import RecipeMethods

__all__ = ["LstsqAccessor"]


@xr.register_dataarray_accessor("lstsq")
@xr.register_dataset_accessor("lstsq")
class LstsqAccessor(CubeMethods, RecipeMethods, FitMethods):
    """Least squares for every pixel of a labelled cube, and what can be made of a fit."""

    def __init__(self, obj: xr.DataArray | xr.Dataset) -> None:
        self._obj = obj
