"""Methods of `.lstsq` for a cube."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import xarray as xr

from xr_lstsq import pipeline, preview
from xr_lstsq.arguments import refuse_foreign

if TYPE_CHECKING:
    from xr_lstsq.design import Term
    from xr_lstsq.preview import Explanation, Explanations

__all__ = ["CubeMethods"]


class CubeMethods:
    """What can be done with a cube."""

    _obj: xr.DataArray | xr.Dataset

    @refuse_foreign
    def solve(
        self,
        design: xr.DataArray | Term | str | Any,
        dim: Hashable | None = None,
        *,
        data: Hashable | Iterable[Hashable] | None = None,
        weights: xr.DataArray | str | Any | None = None,
        valid: xr.DataArray | str | Any | None = None,
        nodata: float | Iterable[float] | None = None,
        min_obs: int = 1,
        deficient: str = "min_norm",
        rcond: float | None = None,
        stats: str | Iterable[str] = (),
        cov_type: str = "nonrobust",
        maxlags: int | None = None,
        absolute_sigma: bool = False,
        noise: str | None = None,
        level: float = 0.95,
        dtype: str = "float64",
        device: str = "auto",
        max_memory: int | str | None = None,
        rechunk: bool = False,
        param_dim: str = "param",
    ) -> xr.Dataset:
        """Fit one linear model to every pixel of this cube: see `xr_lstsq.solve`."""
        return pipeline.solve(
            self._obj,
            design,
            dim,
            data=data,
            weights=weights,
            valid=valid,
            nodata=nodata,
            min_obs=min_obs,
            deficient=deficient,
            rcond=rcond,
            stats=stats,
            cov_type=cov_type,
            maxlags=maxlags,
            absolute_sigma=absolute_sigma,
            noise=noise,
            level=level,
            dtype=dtype,
            device=device,
            max_memory=max_memory,
            rechunk=rechunk,
            param_dim=param_dim,
        )

    @refuse_foreign
    def explain(
        self,
        design: xr.DataArray | Term | str | Any,
        dim: Hashable | None = None,
        *,
        data: Hashable | Iterable[Hashable] | None = None,
        weights: xr.DataArray | str | Any | None = None,
        valid: xr.DataArray | str | Any | None = None,
        nodata: float | Iterable[float] | None = None,
        min_obs: int = 1,
        deficient: str = "min_norm",
        rcond: float | None = None,
        stats: str | Iterable[str] = (),
        cov_type: str = "nonrobust",
        maxlags: int | None = None,
        absolute_sigma: bool = False,
        noise: str | None = None,
        level: float = 0.95,
        dtype: str = "float64",
        device: str = "auto",
        max_memory: int | str | None = None,
        rechunk: bool = False,
        param_dim: str = "param",
    ) -> Explanation | Explanations:
        """Say what `solve` would do with the same arguments: see `xr_lstsq.explain`."""
        return preview.explain(
            self._obj,
            design,
            dim,
            data=data,
            weights=weights,
            valid=valid,
            nodata=nodata,
            min_obs=min_obs,
            deficient=deficient,
            rcond=rcond,
            stats=stats,
            cov_type=cov_type,
            maxlags=maxlags,
            absolute_sigma=absolute_sigma,
            noise=noise,
            level=level,
            dtype=dtype,
            device=device,
            max_memory=max_memory,
            rechunk=rechunk,
            param_dim=param_dim,
        )
