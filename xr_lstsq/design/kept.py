"""Data of terms as variables of a fit, along dims of their own: a fit has no sample dim."""

from __future__ import annotations

import xarray as xr

__all__ = ["KEPT", "keep", "restore"]

KEPT = "design_"
"""How the names of variables, dims and coordinates of a fit begin that hold data of terms."""


def keep(data: xr.DataArray) -> xr.DataArray:
    """Return data with the prefix before the names of their dims, and of the labels along these."""
    data = data.drop_vars([name for name in data.coords if name not in data.dims])
    found = data.rename({name: f"{KEPT}{name}" for name in {*data.dims, *data.coords}})
    found.encoding = {}
    return found


def restore(data: xr.DataArray) -> xr.DataArray:
    """Return data that `keep` made, perhaps read from a file, as they were; others as they are."""
    own = {*data.dims, *data.coords}
    names = {name: str(name).removeprefix(KEPT) for name in own if str(name).startswith(KEPT)}
    if not names:
        return data
    others = [name for name in data.coords if name not in names]
    return data.drop_vars(others).rename(names)
