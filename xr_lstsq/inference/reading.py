"""A fit as inference reads it: its coefficients, what it says of them, and its statistics."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq import design, fits, labels
from xr_lstsq.design import Term
from xr_lstsq.errors import LabelError
from xr_lstsq.outputs import ALWAYS

__all__ = ["Model", "ask_for", "names_along", "read"]

OF_PARAMS = ("stderr", "cov")
"""Statistics of each param that are read here."""


@dataclass(frozen=True, eq=False)
class Model:
    """One variable that was fitted.

    Attributes
    ----------
    fit : Dataset
        The fit, with its grid mapping as a coordinate.
    prefix : str
        What the names of its variables begin with; ``""`` for the fit of a DataArray.
    coef : DataArray
        The coefficients, (param dim, pixel dims) in any order.
    spec : dict
        The specification of the fit.
    """

    fit: xr.Dataset
    prefix: str
    coef: xr.DataArray
    spec: dict[str, Any]

    @property
    def param_dim(self) -> str:
        """Name of the dim of the params."""
        return str(self.spec["param_dim"])

    @property
    def title(self) -> str:
        """What to call the fitted variable in a text."""
        return str(self.spec["variable"] or self.prefix.removesuffix("_") or "the cube")

    @property
    def pixel_dims(self) -> tuple[Hashable, ...]:
        """Dims of the pixels, as they stand in the fit."""
        return tuple(dim for dim in self.coef.dims if dim != self.param_dim)

    @property
    def names(self) -> list[Any]:
        """Names of the params that the fit holds, in its order."""
        return names_along(self.coef, self.param_dim)

    @property
    def terms(self) -> Term | None:
        """The terms of the design, bound; None for a design given as a matrix."""
        data = self.spec["terms"]
        if data["term"] == "matrix":
            return None
        kept = {str(name): variable for name, variable in self.fit.data_vars.items()}
        return design.from_json(data, kept)

    @property
    def units(self) -> dict[Any, str]:
        """Units of each param that the design has; empty where they are not known."""
        found = self._told(labels.PARAM_UNITS)
        joined = found is not None and set(found.dims) - {self.param_dim}
        if self.spec["names"] is None or self.spec["units"] is None or joined:
            return {}
        return dict(zip(self.spec["names"], self.spec["units"], strict=True))

    @property
    def absolute_sigma(self) -> bool:
        """Whether the weights are taken for true inverse variances."""
        return bool(self.spec["arguments"]["absolute_sigma"])

    def get(self, stat: str) -> xr.DataArray | None:
        """Return a variable of the fit, with its dim of params even where one was selected."""
        variable = self.fit.data_vars.get(self.prefix + stat)
        if variable is None or stat not in OF_PARAMS:
            return variable
        return _with_params(variable, self.param_dim)

    def need(self, stats: Iterable[str], purpose: str) -> list[xr.DataArray]:
        """Return variables of the fit.

        Raises
        ------
        ValueError
            When one is not there; it says with which `stats` to solve.
        """
        found = {stat: self.get(stat) for stat in stats}
        absent = [stat for stat, variable in found.items() if variable is None]
        if absent:
            names = [self.prefix + stat for stat in absent]
            ask = [stat for stat in absent if stat not in ALWAYS]
            remedy = f"Solve with stats={ask_for(ask)}." if ask else "Keep it with the fit."
            msg = (
                f"{purpose} needs {', '.join(map(repr, names))}, which the fit does not have. "
                f"{remedy}"
            )
            raise ValueError(msg)
        return [variable for variable in found.values() if variable is not None]

    def dof(self) -> xr.DataArray | None:
        """Return the degrees of freedom of the noise; None where its variance is known.

        nobs - rank, or n_eff - rank where the autocorrelation of the residuals makes the
        covariance. NaN or up to 0 where nothing is left to measure the noise by.
        """
        if self.absolute_sigma:
            return None
        count = "n_eff" if self.spec["arguments"]["cov_type"] == "ar1" else "nobs"
        samples, rank = self.need((count, "rank"), "a test or an interval")
        return samples - rank

    def refuse_joined(self) -> None:
        """Refuse a fit put together from fits by different terms.

        Raises
        ------
        ValueError
            When what the fit carries along its params differs from pixel to pixel, or tells of
            other origins than its terms do.
        """
        found = {name: self._told(name) for name in (labels.PARAM_UNITS, labels.PARAM_ORIGIN)}
        joined = "fits by different terms have been joined. Solve them with the same design"
        for name, coord in found.items():
            if coord is not None and set(coord.dims) - {self.param_dim}:
                msg = f"{name!r} of the fit has the dims {coord.dims}: {joined} and origin."
                raise ValueError(msg)
        if self.spec["names"] is None:
            return
        own = dict(zip(self.spec["names"], self.spec["origins"], strict=True))
        coord = found[labels.PARAM_ORIGIN]
        if coord is None:
            # Arithmetic drops it where that of the two fits differs
            msg = (
                f"the fit has lost its coordinate {labels.PARAM_ORIGIN!r}, which tells from where "
                "its params count. Keep it, and combine fits of equal designs only."
            )
            raise ValueError(msg)
        held = np.atleast_1d(coord.values).tolist()
        for name, origin in zip(self.names, held, strict=True):
            if name in own and str(origin) != own[name]:
                msg = (
                    f"{name!r} counts from {own[name]} by the terms of the fit, and from {origin} "
                    f"by its coordinate {labels.PARAM_ORIGIN!r}: {joined} and origin."
                )
                raise ValueError(msg)

    def _told(self, name: str) -> xr.DataArray | None:
        """Return the coordinate of a name that tells something of each param."""
        coords = self.coef.coords
        found: xr.DataArray | None = coords.get(self.prefix + name, coords.get(name))
        return found

    def finish(self, array: xr.DataArray, attrs: dict[str, Any]) -> xr.DataArray:
        """Return an answer with the dtype and the coordinates of the fit, and `attrs`."""
        mapping = labels.grid_mapping(_labels(self.coef))
        gone = [labels.PARAM_UNITS, labels.PARAM_ORIGIN, self.param_dim]
        kept = self.coef.isel({self.param_dim: 0}, drop=True, missing_dims="ignore")
        kept = kept.drop_vars(gone, errors="ignore")
        # Sums and tests drop the attributes of coordinates, a grid mapping's among them
        array = array.drop_vars(gone, errors="ignore").assign_coords(kept.coords)
        array = array.astype(self.coef.dtype, copy=False)
        array.attrs = attrs
        array.encoding = {}
        if mapping is not None and mapping in array.coords:
            array.encoding["grid_mapping"] = mapping
        return array

    def refuse_taken(self, names: Iterable[Hashable]) -> None:
        """Refuse coordinates of the fit with names that the answer needs for itself.

        Raises
        ------
        LabelError
            With what to type.
        """
        taken = [n for n in names if n in self.coef.coords or n in self.coef.dims]
        if taken:
            msg = (
                f"the fit has coordinates or dims called {taken}, which the answer needs for "
                "itself. Rename them with fit.rename, or leave them out with fit.drop_vars."
            )
            raise LabelError(msg)


def read(fit: xr.Dataset) -> list[Model]:
    """Return each variable that was fitted.

    Parameters
    ----------
    fit : Dataset
        A fit, also one read from a file, a part of one, or several joined.

    Raises
    ------
    ValueError
        When the Dataset is no fit.
    """
    found = fits.coefficients(fit)
    mappings = {labels.grid_mapping(_labels(coef)) for _, coef, _ in found}
    aside = [name for name in mappings if name is not None and name in fit.data_vars]
    if aside:
        # Read from a file in the plain way, a grid mapping is a variable among the others.
        fit = fit.set_coords(aside)
    models = []
    for name, _, spec in found:
        prefix = name.removesuffix("coef") if name.endswith("coef") else f"{name}_"
        coef = _with_params(fit[name], spec["param_dim"])
        models.append(Model(fit, prefix, coef, spec))
    return models


def ask_for(stats: Iterable[str]) -> str:
    """Return what to type after ``stats=``."""
    return repr(tuple(stats)).replace("'", '"')


def _with_params(variable: xr.DataArray, param_dim: str) -> xr.DataArray:
    """Give a variable of which one param was selected its dim of params back."""
    if param_dim in variable.dims or param_dim not in variable.coords:
        return variable
    return variable.expand_dims(param_dim)


def names_along(array: xr.DataArray, dim: str) -> list[Any]:
    """Return the labels of params along a dim, numbers from 0 where there are none."""
    if dim in array.coords:
        return list(np.atleast_1d(array.coords[dim].values).tolist())
    return list(range(array.sizes.get(dim, 0)))


def _labels(array: xr.DataArray) -> labels.Labels:
    """Return the labels of an array without touching its values, which may lie in a file."""
    return labels.Labels(array.name, array.dims, array.coords, array.attrs, array.encoding)
