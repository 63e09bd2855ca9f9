"""The `.lstsq` accessor on DataArray and Dataset: signatures that hand over."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import xarray as xr

from xr_lstsq import fits, pipeline, preview, runs
from xr_lstsq.arguments import refuse_foreign

if TYPE_CHECKING:
    from xr_lstsq.design import Term
    from xr_lstsq.preview import Explanation, Explanations

__all__ = ["LstsqAccessor"]


@xr.register_dataarray_accessor("lstsq")
@xr.register_dataset_accessor("lstsq")
class LstsqAccessor:
    """Least squares for every pixel of a labelled cube, and what can be made of a fit."""

    def __init__(self, obj: xr.DataArray | xr.Dataset) -> None:
        self._obj = obj

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
            dtype=dtype,
            device=device,
            max_memory=max_memory,
            rechunk=rechunk,
            param_dim=param_dim,
        )

    def params(self) -> xr.Dataset:
        """Return one variable per param of this fit, with its own units and long_name.

        Raises
        ------
        ValueError
            When this is no fit.
        """
        return fits.params(self._fit("params"))

    def to_netcdf(
        self, path: str | PathLike[str], *, store: Literal["float32", "float64"] | None = None
    ) -> None:
        """Write this fit to a netCDF file; a lazy one chunk by chunk, in bounded memory.

        The file appears under its name when it is complete.

        Parameters
        ----------
        path : str or path-like
            File to write.
        store : {"float32", "float64"}, optional
            Type of the floats in the file; None keeps theirs.

        Raises
        ------
        WriteError
            For a file that cannot be written; nothing of it is left.
        ValueError
            When this is no fit, `path` is read by it, netCDF cannot hold it, or dask's process
            scheduler is in force.
        """
        fit = self._fit("to_netcdf")
        fits.coefficients(fit)
        runs.write_fit(fit, path, store=store)

    def _fit(self, method: str) -> xr.Dataset:
        """Return the Dataset of a fit."""
        if isinstance(self._obj, xr.DataArray):
            msg = (
                f".lstsq.{method} is for a fit, which is a Dataset, and {self._obj.name!r} is a "
                "DataArray. Call it on what .lstsq.solve returned."
            )
            raise ValueError(msg)  # noqa: TRY004 - the same error as for a Dataset that is no fit
        return self._obj
