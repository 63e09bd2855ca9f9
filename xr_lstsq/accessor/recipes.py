"""Methods of `.lstsq` for a cube that answer a question of a field."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import xarray as xr

from xr_lstsq import recipes

if TYPE_CHECKING:
    from xr_lstsq.design.network import Constraint, Unknown
    from xr_lstsq.design.time import Period
    from xr_lstsq.inference import Undetermined
    from xr_lstsq.recipes.referencing import Area
    from xr_lstsq.recipes.velocity import ErrorOf

__all__ = ["RecipeMethods"]


class RecipeMethods:
    """Recipes for a cube; each hands over to the function of its name in `xr_lstsq.recipes`."""

    _obj: xr.DataArray | xr.Dataset

    def trend(
        self,
        *,
        unit: str = "year",
        degree: int = 1,
        seasons: int = 0,
        dim: Hashable | None = None,
        level: float = 0.95,
        **options: Any,
    ) -> xr.Dataset:
        """Return the trend of every pixel with its error and test: `xr_lstsq.recipes.trend`."""
        return recipes.trend(
            self._obj, unit=unit, degree=degree, seasons=seasons, dim=dim, level=level, **options
        )

    def seasonal(
        self,
        *,
        n: int = 2,
        period: Period = 1,
        unit: str = "year",
        trend: bool = True,
        dim: Hashable | None = None,
        **options: Any,
    ) -> xr.Dataset:
        """Return amplitude, phase and maximum of a cycle: see `xr_lstsq.recipes.seasonal`."""
        return recipes.seasonal(
            self._obj, n=n, period=period, unit=unit, trend=trend, dim=dim, **options
        )

    def detrend(
        self,
        *,
        degree: int = 1,
        seasons: int = 0,
        keep_mean: bool = True,
        dim: Hashable | None = None,
        **options: Any,
    ) -> xr.DataArray | xr.Dataset:
        """Return this cube without the trend of each pixel: see `xr_lstsq.recipes.detrend`."""
        return recipes.detrend(
            self._obj, degree=degree, seasons=seasons, keep_mean=keep_mean, dim=dim, **options
        )

    def sbas(
        self,
        *,
        reference: Hashable | xr.DataArray | Any = "reference",
        secondary: Hashable | xr.DataArray | Any = "secondary",
        wavelength: float | None = None,
        phase_sign: int = 1,
        reference_area: Area | None = None,
        weights: xr.DataArray | Any | None = None,
        valid: xr.DataArray | Any | None = None,
        nodata: float | Any | None = None,
        unknown: Unknown = "velocity",
        reference_date: Any = None,
        min_redundancy: int = 1,
        constraint: Constraint | None = None,
        undetermined: Undetermined = "nan",
        error: ErrorOf = "fit",
        dim: Hashable | None = None,
        **options: Any,
    ) -> xr.Dataset:
        """Return displacements and velocity from interferograms: see `xr_lstsq.recipes.sbas`."""
        return recipes.sbas(
            self._cube("sbas"),
            reference=reference,
            secondary=secondary,
            wavelength=wavelength,
            phase_sign=phase_sign,
            reference_area=reference_area,
            weights=weights,
            valid=valid,
            nodata=nodata,
            unknown=unknown,
            reference_date=reference_date,
            min_redundancy=min_redundancy,
            constraint=constraint,
            undetermined=undetermined,
            error=error,
            dim=dim,
            **options,
        )

    def unmix(
        self,
        endmembers: xr.DataArray,
        *,
        method: str,
        dim: Hashable | None = None,
        interpolate: bool = False,
        **options: Any,
    ) -> xr.Dataset:
        """Return how much of each endmember makes up a pixel: see `xr_lstsq.recipes.unmix`."""
        return recipes.unmix(
            self._obj, endmembers, method=method, dim=dim, interpolate=interpolate, **options
        )

    def _cube(self, method: str) -> xr.DataArray:
        """Return the DataArray of a cube."""
        if isinstance(self._obj, xr.Dataset):
            msg = (
                f".lstsq.{method} is for one cube, and this is a Dataset with the variables "
                f"{list(self._obj.data_vars)}. Call it on one of them."
            )
            raise TypeError(msg)
        return self._obj
