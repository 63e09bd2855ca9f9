"""What an error of the height model adds to interferograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr

from xr_lstsq.design.binding import check_name
from xr_lstsq.design.columns import COLUMN, Columns
from xr_lstsq.design.coordinate import Number, as_number, is_finite
from xr_lstsq.design.kept import KEPT, restore
from xr_lstsq.design.registry import register
from xr_lstsq.design.terms import Term
from xr_lstsq.errors import DtypeError, LabelError

__all__ = ["DemError", "dem_error"]

GEOMETRY = ("bperp", "slant_range", "incidence")


@register("dem_error")
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DemError(Term):
    """What an error of the height model adds to interferograms; made by `dem_error`.

    ``pixel_dims`` are those of a bound term whose column differs from pixel to pixel. A fit does
    not keep its data, so that read from a fit it has none.
    """

    arguments: ClassVar[tuple[str, ...]] = (*GEOMETRY, "name", "pixel_dims")

    bperp: xr.DataArray | str | None = None
    slant_range: xr.DataArray | float | None = None
    incidence: xr.DataArray | float | None = None
    name: str | None = None
    pixel_dims: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check the arguments, which may come from a file, and bring them to their one form."""
        check_name(self.name)
        for argument, most in (("slant_range", np.inf), ("incidence", 90)):
            value: Any = getattr(self, argument)
            if isinstance(value, xr.DataArray | np.ndarray) and value.ndim == 0:
                value = np.asarray(value)[()]
            if is_finite(value) and 0 < value < most:
                object.__setattr__(self, argument, as_number(value))
            elif not isinstance(value, xr.DataArray) and not (value is None and self.pixel_dims):
                unit = "the unit of bperp" if argument == "slant_range" else "degrees, below 90"
                raise ValueError(
                    f"{argument}={value!r} must be a number above 0, in {unit}, or a DataArray."
                )
        bperp: object = self.bperp
        if not isinstance(bperp, xr.DataArray | str) and not (bperp is None and self.pixel_dims):
            raise ValueError(
                f"bperp={bperp!r} must be the name of a coordinate along the sample dim, or a "
                "DataArray with that dim."
            )
        for argument, data in self._data().items():
            if data.dtype.kind not in "iuf":
                raise DtypeError(f"{argument} holds {data.dtype}, and must hold real numbers.")
        if self.pixel_dims is not None:
            object.__setattr__(self, "pixel_dims", tuple(map(str, self.pixel_dims)))

    def _data(self) -> dict[str, xr.DataArray]:
        """Return the arguments that are data."""
        values = {argument: getattr(self, argument) for argument in GEOMETRY}
        return {key: value for key, value in values.items() if isinstance(value, xr.DataArray)}

    def __eq__(self, other: object) -> bool:
        """Say whether two terms say the same, data and all."""
        if not isinstance(other, DemError):
            return NotImplemented
        mine, theirs = self._data(), other._data()
        return self.to_json() == other.to_json() and (
            mine.keys() == theirs.keys()
            and all(data.equals(theirs[argument]) for argument, data in mine.items())
        )

    def __hash__(self) -> int:
        """Hash what equal terms have in common, without reading data."""
        return hash((self.word, self.name, *sorted(self._data())))

    def __repr__(self) -> str:
        """Write the term in the grammar; data stand by their dims, which it cannot read back."""
        shown = {
            argument: f"<{', '.join(map(str, data.dims))}>"
            for argument, data in self._data().items()
        }
        values = [(key, shown.get(key, getattr(self, key))) for key in (*GEOMETRY, "name")]
        return f"dem_error({', '.join(f'{k}={v}' for k, v in values if v is not None)})"

    def to_json(self) -> dict[str, Any]:
        """Return the term as plain JSON data, without its data; see `Term.to_json`."""
        values = {key: v for key, v in super().to_json().items() if key not in self._data()}
        return values | ({"pixel_dims": list(self.pixel_dims)} if self.pixel_dims else {})

    @property
    def variables(self) -> dict[str, xr.DataArray]:
        """Data that a fit keeps: all, but none where the column differs from pixel to pixel."""
        kept = {} if self.pixel_dims else self._data()
        return {self._variable(argument): data for argument, data in kept.items()}

    def _variable(self, argument: str) -> str:
        return f"{KEPT}{argument}" if self.name is None else f"{KEPT}{self.name}_{argument}"

    def map_data(self, function: Callable[[xr.DataArray, str], xr.DataArray]) -> Self:
        """Change the data by a function; see `Term.map_data`."""
        data: dict[str, Any] = {
            key: function(one, f"{key} of dem_error") for key, one in self._data().items()
        }
        return replace(self, **data)

    @classmethod
    def from_object(cls, values: Mapping[str, Any], variables: Mapping[str, xr.DataArray]) -> Self:
        """Make the term from its JSON form and the variables of a fit; see `Term.from_object`."""
        found = dict(values)
        if not found.get("pixel_dims"):
            prefix = KEPT if found.get("name") is None else f"{KEPT}{found['name']}_"
            kept = {key: variables.get(prefix + key) for key in GEOMETRY if key not in found}
            found |= {key: restore(one) for key, one in kept.items() if one is not None}
        return super().from_object(found, {})

    def bind(self, coord: xr.DataArray) -> Self:
        """Resolve on which dims the column lies; see `Term.bind`.

        Raises
        ------
        LabelError
            ``bperp`` does not lie along the sample dim, or has another length.
        """
        if self.pixel_dims is not None:
            return self
        (dim,) = coord.dims
        self._baseline(coord)
        dims = dict.fromkeys(name for data in self._data().values() for name in data.dims)
        pixel_dims = tuple(str(name) for name in dims if name != dim)
        return replace(self, pixel_dims=pixel_dims) if pixel_dims else self

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Make the column, (n, 1), or (sample dim, `COLUMN`, pixel dims); see `Term.evaluate`.

        Raises
        ------
        LabelError
            As `bind`.
        ValueError
            The term was read from a fit that does not keep its data.
        """
        (dim,) = coord.dims
        if self.bperp is None or self.slant_range is None or self.incidence is None:
            raise ValueError(
                f"the column of dem_error differs along {self.pixel_dims}, and a fit does not keep "
                "it. Pass the rows of the design as a matrix."
            )
        geometry = [
            xr.DataArray(one).astype(np.float64) for one in (self.slant_range, self.incidence)
        ]
        # All are in the cube's order, to the rounding of a label
        parts = [
            one.drop_vars([name for name, c in one.coords.items() if dim in c.dims])
            for one in (self._baseline(coord), *geometry)
        ]
        bperp, slant_range, incidence = xr.align(*parts, join="override")
        across = slant_range * np.sin(np.deg2rad(incidence))
        column = bperp / across.where(across > 0)
        matrix: Any = column.to_numpy()[:, None]
        if column.ndim > 1:
            matrix = column.expand_dims(COLUMN).transpose(dim, COLUMN, ...)
        return Columns(
            matrix=matrix,
            names=("dem_error" if self.name is None else f"{self.name}_dem_error",),
            units=("",),
            long_names=("error of the height model",),
            levels=(False,),
            origins=("",),
        )

    def _baseline(self, coord: xr.DataArray) -> xr.DataArray:
        """Return the perpendicular baseline of each sample."""
        (dim,) = coord.dims
        bperp = self.bperp
        if isinstance(bperp, str):
            found = coord.coords.get(bperp)
            if found is None or found.dims != (dim,) or found.dtype.kind not in "iuf":
                raise LabelError(
                    f"bperp={bperp!r} is no coordinate of numbers along {dim!r}. Attach it with "
                    f"cube.assign_coords({bperp}=({dim!r}, baselines)), or pass a DataArray."
                )
            return xr.DataArray(found.to_numpy().astype(np.float64), dims=coord.dims)
        data = xr.DataArray(bperp)
        if dim not in data.dims or data.sizes[dim] != coord.size:
            raise LabelError(
                f"bperp has the sizes {dict(data.sizes)}, and there are {coord.size} samples along "
                f"{dim!r}. Pass one baseline a sample, along {dim!r}."
            )
        return data.astype(np.float64)


def dem_error(
    bperp: xr.DataArray | str,
    slant_range: xr.DataArray | Number,
    incidence: xr.DataArray | Number,
    name: str | None = None,
) -> DemError:
    r"""Make the error of the height model, by how the perpendicular baseline makes it seen.

    Parameters
    ----------
    bperp : DataArray or str
        Perpendicular baseline of each sample: of an interferogram, or of each date less that of
        the reference date. Name of a coordinate along the sample dim, or a DataArray along that,
        with pixel dims beside it where it differs from pixel to pixel.
    slant_range : float or DataArray
        Distance from sensor to ground, in the unit of ``bperp``: one for the scene, or with pixel
        dims.
    incidence : float or DataArray
        Incidence angle in degrees, between 0 and 90: one for the scene, or with pixel dims.
    name : str, optional
        First part of the param name: ``"x"`` gives x_dem_error.

    Returns
    -------
    DemError
        A `Term` with the param dem_error. Where no argument has pixel dims the fit keeps them;
        else it does not, and predictions take a design matrix.

    Raises
    ------
    ValueError
        An argument that is not as above.
    DtypeError
        Data that are not real numbers.

    Notes
    -----
    The column is :math:`B_\perp / (R \sin \theta)`, without dimension. A height error
    :math:`\Delta h` is seen as the displacement :math:`\Delta h B_\perp / (R \sin \theta)` along
    the line of sight [1]_, [2]_, so of a cube of displacements the coefficient is the height error,
    in the units of the cube: of a cube in m, metres. For a cube of phase in radians it is in
    radians, and the height error is that times :math:`\lambda / (4 \pi)`, with the sign by which
    the phase was made of range. Pixels whose slant range or sine is not above 0 are missing.

    Baselines of pairs close over triplets as displacements do, so that a `network` explains the
    column whole: fit it beside fewer unknowns than dates, such as ``pairs(polynomial(1))``.

    References
    ----------
    .. [1] H. Fattahi, F. Amelung, 2013. DEM error correction in InSAR time series. IEEE TGRS 51.
       https://doi.org/10.1109/TGRS.2012.2227761
    .. [2] P. Berardino et al., 2002. A new algorithm for surface deformation monitoring based on
       small baseline differential SAR interferograms. IEEE TGRS 40.
       https://doi.org/10.1109/TGRS.2002.803792

    Examples
    --------
    >>> dem_error("bperp", slant_range=850_000, incidence=34)
    dem_error(bperp=bperp, slant_range=850000, incidence=34)
    """
    return DemError(bperp=bperp, slant_range=slant_range, incidence=incidence, name=name)
