"""Regressors: any series along the samples, or one for each pixel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr

from xr_lstsq.design.columns import COLUMN, Columns
from xr_lstsq.design.coordinate import is_finite
from xr_lstsq.design.data import DataTerm, one_over, source_or_data
from xr_lstsq.design.registry import register

__all__ = ["Covariate", "covariate"]


@register("covariate")
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Covariate(DataTerm):
    """A regressor; made by `covariate`. ``mean`` and ``std`` are those of a bound, 1-D one."""

    arguments: ClassVar[tuple[str, ...]] = ("source", "name", "standardize", "mean", "std")

    standardize: bool = False
    mean: float | None = None
    std: float | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        flag: object = self.standardize
        if not isinstance(flag, bool) and flag not in ("True", "False"):
            raise ValueError(f"standardize={flag!r} is neither True nor False. Pass one of them.")
        object.__setattr__(self, "standardize", flag in (True, "True"))
        mean, std = self.mean, self.std
        if mean is None and std is None:
            return
        if not (self.standardize and is_finite(mean) and is_finite(std) and std > 0):
            raise ValueError(
                f"mean={self.mean!r} and std={self.std!r} must be numbers, the second above 0, and "
                "stand beside standardize=True."
            )

    def learn(self, dim: Any) -> Self:
        """Take mean and standard deviation along the samples, unless there are some."""
        del dim
        if not self.standardize or self.mean is not None or self.data is None or self.pixel_dims:
            return self
        values = self.data.to_numpy().astype(np.float64)
        values = values[np.isfinite(values)]
        # Of a constant the rounding of its mean would be scaled up
        if not values.size or values.min() == values.max():
            raise ValueError(
                f"covariate {self.label!r} is constant and has no standard deviation. "
                "Drop standardize=True, or the term."
            )
        return replace(self, mean=float(values.mean()), std=float(values.std(ddof=1)))

    def columns(self, data: xr.DataArray, dim: Any) -> Columns:
        """Make the one column, (n, 1), or (sample dim, `COLUMN`, pixel dims)."""
        column = data.astype(np.float64)
        column = column.where(np.isfinite(column))
        if self.standardize:
            known: Any = (self.mean, self.std)
            mean, std = _scale(column, dim) if self.pixel_dims else known
            column = (column - mean) / std
        matrix: Any = column.to_numpy()[:, None] if column.ndim == 1 else None
        if matrix is None:
            matrix = column.expand_dims(COLUMN).transpose(dim, COLUMN, ...)
        own = str(data.attrs.get("units", "")).strip()
        what = f"coefficient of {data.attrs.get('long_name', self.label)}"
        return Columns(
            matrix=matrix,
            names=(self.label,),
            units=("" if self.standardize else one_over(own),),
            long_names=(f"{what}, per standard deviation" if self.standardize else what,),
            levels=(False,),
            origins=("",),
        )


def _scale(column: xr.DataArray, dim: Any) -> tuple[xr.DataArray, xr.DataArray]:
    """Return mean and standard deviation of each pixel; a constant becomes exactly 0."""
    least = column.min(dim)
    varies = column.max(dim) > least
    mean = column.mean(dim).where(varies, least)
    return mean, column.where(varies).std(dim, ddof=1).where(varies, 1.0)


def covariate(
    data: xr.DataArray | str, name: str | None = None, standardize: bool = False
) -> Covariate:
    """Make a regressor from data.

    Parameters
    ----------
    data : DataArray or str
        Real numbers along the sample dim, matched with the cube by labels; any pixel dims beside it
        give every pixel a design of its own. Or the name of a coordinate along the sample dim.
    name : str, optional
        Of the param; that of the data when not given.
    standardize : bool
        Subtract the mean along the samples and divide by the standard deviation (with n - 1), of
        all samples, also of those that a pixel lacks; pixel by pixel where the data have pixel
        dims.

    Returns
    -------
    Covariate
        A `Term` of one param, in the cube's units over the data's.

    Raises
    ------
    ValueError
        Data without a name, or constant ones to be standardised.
    DtypeError
        Data that are not real numbers.

    Notes
    -----
    A sample whose value is missing counts in no pixel where it is. A fit keeps the data as the
    variable ``design_<name>``, but not those with pixel dims.

    Examples
    --------
    >>> covariate("temperature")
    covariate(temperature)
    """
    return Covariate(**source_or_data(data), name=name, standardize=standardize)
