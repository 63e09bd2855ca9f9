"""Spectra of endmembers, of which the spectrum of a pixel is a mixture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr

from xr_lstsq.design.columns import Columns
from xr_lstsq.design.data import on_samples, one_over
from xr_lstsq.design.kept import KEPT, restore
from xr_lstsq.design.registry import register
from xr_lstsq.design.terms import Term
from xr_lstsq.errors import DtypeError, LabelError

__all__ = ["Endmembers", "endmembers"]

VARIABLE = f"{KEPT}endmembers"
"""Variable of a fit that keeps the spectra."""


@register("endmembers")
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Endmembers(Term):
    """Spectra, one column each; made by `endmembers`. A bound term holds them on the bands."""

    arguments: ClassVar[tuple[str, ...]] = ("param_dim", "interpolate")
    in_text: ClassVar[bool] = False

    spectra: xr.DataArray
    param_dim: str | None = None
    interpolate: bool = False

    def __post_init__(self) -> None:
        """Check the arguments, which may come from a file."""
        if self.spectra.ndim != 2:
            raise LabelError(
                f"spectra has the dims {self.spectra.dims}. Pass a DataArray with the dim of the "
                "bands and one of the endmembers."
            )
        if self.spectra.dtype.kind not in "biuf":
            raise DtypeError(f"spectra holds {self.spectra.dtype}, and needs real numbers.")
        if self.param_dim is not None and self.param_dim not in self.spectra.dims:
            raise LabelError(
                f"param_dim={self.param_dim!r} is no dim of spectra, which has "
                f"{self.spectra.dims}. Pass one of these, or leave it."
            )

    def __eq__(self, other: object) -> bool:
        """Say whether two terms say the same, spectra and all."""
        if not isinstance(other, Endmembers):
            return NotImplemented
        same: bool = self.spectra.equals(other.spectra)
        return self.to_json() == other.to_json() and same

    def __hash__(self) -> int:
        """Hash what equal terms have in common, without reading data."""
        return hash((self.word, self.spectra.dims))

    def __repr__(self) -> str:
        """Write the term; spectra stand by their sizes."""
        sizes = ", ".join(f"{dim}: {size}" for dim, size in self.spectra.sizes.items())
        told = [f"<spectra ({sizes})>"]
        told += [] if self.param_dim is None else [f"param_dim={self.param_dim}"]
        return f"endmembers({', '.join([*told, *(['interpolate=True'] * self.interpolate)])})"

    def to_json(self) -> dict[str, Any]:
        """Return the term as plain JSON data; the spectra are a variable."""
        return super().to_json() | {"variable": VARIABLE}

    @property
    def variables(self) -> dict[str, xr.DataArray]:
        """The spectra."""
        return {VARIABLE: self.spectra.rename(VARIABLE)}

    @classmethod
    def from_object(cls, values: Mapping[str, Any], variables: Mapping[str, xr.DataArray]) -> Self:
        """Make the term from its JSON form and the variables of a fit; see `Term.from_object`."""
        known = {"variable", *cls.arguments}
        if set(values) - known or values.get("variable") not in variables:
            raise ValueError(
                f"'endmembers' in JSON has {', '.join(sorted(known))}, and its spectra are the "
                f"variable {VARIABLE!r} of the fit; found {dict(values)}. Keep it with the fit."
            )
        spectra = restore(variables[str(values["variable"])]).rename(None)
        rest = {key: values[key] for key in cls.arguments if key in values}
        return cls(spectra=spectra, **rest)

    def map_data(self, function: Callable[[xr.DataArray, str], xr.DataArray]) -> Self:
        """Change the spectra by a function, unless they are to be interpolated."""
        if self.interpolate:
            return self
        try:
            return replace(self, spectra=function(self.spectra, "spectra"))
        except LabelError as error:
            # Of spectra the nearest label is no match
            found = str(error).partition(" Give ")[0]
            remedy = "Select the same bands, or interpolate on request: interpolate=True."
            raise LabelError(f"{found} {remedy}") from error

    def bind(self, coord: xr.DataArray) -> Self:
        """Bring the spectra to the bands of the cube; see `Term.bind`.

        Raises
        ------
        LabelError
            The spectra do not have the dim of the bands, or not all of the bands.
        """
        (dim,) = coord.dims
        if dim not in self.spectra.dims or dim == self.param_dim:
            told = "" if self.param_dim is None else f" and param_dim={self.param_dim!r}"
            raise LabelError(
                f"spectra has the dims {self.spectra.dims}{told}, and the bands lie along {dim!r}. "
                "Rename its dims, or pass dim=."
            )
        own = next(str(name) for name in self.spectra.dims if name != dim)
        spectra = self.spectra.transpose(dim, own)
        if self.interpolate:
            spectra = _interpolated(spectra, coord)
        spectra = on_samples(spectra, coord, "spectra")
        if f"{KEPT}{own}" == VARIABLE:
            # The variable that keeps them would be called like its own dim
            spectra, own = spectra.rename({own: "endmember"}), "endmember"
        # Once on the bands of a cube they are matched: to interpolate again would say too much
        return replace(self, spectra=spectra, param_dim=own, interpolate=False)

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Make one column a spectrum, (bands, endmembers); see `Term.evaluate`."""
        bound = self.bind(coord)
        own = str(bound.param_dim)
        labels = bound.spectra.coords.get(own)
        count = bound.spectra.sizes[own]
        names = [str(k) for k in (range(count) if labels is None else labels.values.tolist())]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise LabelError(
                f"spectra has the endmembers {twice} more than once, and each param needs its own "
                f"name. Rename them with assign_coords({own}=...)."
            )
        units = one_over(str(self.spectra.attrs.get("units", "")).strip())
        return Columns(
            matrix=bound.spectra.to_numpy().astype(np.float64),
            names=tuple(names),
            units=(units,) * count,
            long_names=tuple(f"abundance of {name}" for name in names),
            levels=(False,) * count,
            origins=("",) * count,
        )


def endmembers(
    spectra: xr.DataArray, param_dim: str | None = None, interpolate: bool = False
) -> Endmembers:
    """Make a mixture of spectra.

    Parameters
    ----------
    spectra : DataArray, shape (bands, endmembers)
        In any order, with the cube's dim of bands, matched with the cube by labels.
    param_dim : str, optional
        Dim of the endmembers, whose labels become the names of the params; the other dim of
        `spectra` when not given.
    interpolate : bool
        Interpolate linearly to the labels of the cube's bands, such as wavelengths, instead of
        matching them.

    Returns
    -------
    Endmembers
        A `Term` with one param for each endmember, in the cube's units over those of the spectra.

    Raises
    ------
    LabelError
        Dims or bands that do not fit; with `interpolate` bands outside of those of the spectra.
    DtypeError
        Spectra that are not real numbers.

    Notes
    -----
    A band where a spectrum is NaN counts in no pixel. A fit keeps the spectra, on the bands of the
    cube, as the variable ``design_endmembers``.
    """
    if not isinstance(spectra, xr.DataArray):
        raise TypeError(
            f"spectra is a {type(spectra).__name__}. Pass a DataArray with the dims of the bands "
            "and of the endmembers."
        )
    if not isinstance(interpolate, bool):
        raise TypeError(f"interpolate={interpolate!r} is neither True nor False. Pass one of them.")
    return Endmembers(spectra=spectra, param_dim=param_dim, interpolate=interpolate)


def _interpolated(spectra: xr.DataArray, coord: xr.DataArray) -> xr.DataArray:
    """Return spectra (bands, endmembers) at the labels of the cube's bands."""
    dim, own = spectra.dims
    if dim not in spectra.coords or dim not in coord.coords:
        raise LabelError(
            f"interpolate=True needs labels along {dim!r} in both cube and spectra. Assign "
            f"wavelengths with assign_coords({dim}=...)."
        )
    mine, theirs = spectra.coords[dim].values, coord.values
    if mine.dtype.kind not in "iuf" or theirs.dtype.kind not in "iuf":
        raise LabelError(
            f"interpolate=True needs numbers along {dim!r}, and found {mine.dtype} in the spectra "
            f"and {theirs.dtype} in the cube. Match the labels instead: interpolate=False."
        )
    order = np.argsort(mine, kind="stable")
    mine = mine[order].astype(np.float64)
    if not np.isfinite(mine).all() or (np.diff(mine) == 0).any():
        raise LabelError(
            f"interpolate=True needs each label along {dim!r} of the spectra once, and some are "
            f"missing or stand there twice. Average them with spectra.groupby({dim!r}).mean()."
        )
    if not (theirs.min() >= mine[0] and theirs.max() <= mine[-1]):
        raise LabelError(
            f"the bands of the cube run from {theirs.min():g} to {theirs.max():g}, and those of "
            f"the spectra from {mine[0]:g} to {mine[-1]:g}. Select the bands within."
        )
    values = spectra.to_numpy().astype(np.float64)[order]
    found = [np.interp(theirs, mine, column) for column in values.T]
    coords = {dim: coord.variable} | ({own: spectra.coords[own]} if own in spectra.coords else {})
    return xr.DataArray(np.stack(found, axis=1), coords, (dim, own), attrs=spectra.attrs)
